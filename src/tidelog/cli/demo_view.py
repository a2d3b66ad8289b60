"""What the demo shows while it works: a live table on a terminal, nothing when piped.

The table has a row per partition: leader, epoch, ISR, and for every node the log end offset and
the high watermark that this replica has by its own account. So one sees the high watermark follow
the slowest in-sync replica, a dead node's column stand still, and the node come back, cut its
log, catch up and re-enter the ISR. Above it what happened so far.

The table is drawn by a thread with an administrator's client of its own; a cluster that does not
answer for a moment leaves the last picture standing.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.client.core.descriptions import PartitionDescription, TopicDescription
from tidelog.testing.local_cluster import LocalCluster

_REFRESH_S: Final = 0.4
_ASK_TIMEOUT_S: Final = 2.0


class DemoView:
    """The demo's screen. Without a terminal it does nothing."""

    def __init__(self, cluster: LocalCluster, topic: str, status: Callable[[], str]) -> None:
        # The cluster that has the topic.
        self._cluster = cluster
        self._topic = topic
        # The line below the table: how far the work is.
        self._status = status
        # What happened, with the seconds since the start.
        self._happened: list[str] = []
        # The last picture of the topic.
        self._described: TopicDescription | None = None
        self._begun = time.monotonic()
        self._console = Console(file=sys.stderr, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
            self._thread = threading.Thread(target=self._draw_until_stopped, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._live.stop()

    def report(self, what: str) -> None:
        """Adds a line to what happened."""
        self._happened.append(f"{time.monotonic() - self._begun:6.1f} s  {what}")

    def _draw_until_stopped(self) -> None:
        while not self._stop.wait(_REFRESH_S):
            self._look()
            self._live.update(self._picture(), refresh=True)
        # The picture that stays on the screen is of the end.
        self._look()
        self._live.update(self._picture(), refresh=True)

    def _look(self) -> None:
        addresses = [node.address for node in self._cluster.processes.alive()]
        if not addresses:
            return
        try:
            with AdminClient(addresses, timeout_s=_ASK_TIMEOUT_S) as admin:
                self._described = admin.describe_topic(self._topic, replica_logs=True)
        except (AdminError, Unreachable):
            # The picture stays as it was: a node has just been killed, or is starting.
            return

    def _picture(self) -> Group:
        happened = Text("\n".join(self._happened))
        status = Text(self._status())
        if self._described is None:
            return Group(happened, status)
        node_ids = [node.node_id for node in self._cluster.nodes]
        return Group(happened, partition_table(self._described, node_ids), status)


def partition_table(topic: TopicDescription, node_ids: list[int]) -> Table:
    """A row per partition; `end / hw` for every node, `-` where it does not answer."""
    table = Table(title=f"topic {topic.name}", title_justify="left")
    for name in ("partition", "leader", "epoch", "ISR"):
        table.add_column(name, justify="right")
    for node_id in node_ids:
        table.add_column(f"node {node_id}: end / hw", justify="right")
    for partition in topic.partitions:
        leader = "none" if partition.leader < 0 else str(partition.leader)
        isr = ",".join(str(node_id) for node_id in sorted(partition.isr))
        if len(partition.isr) < len(partition.replicas):
            isr = f"[yellow]{isr}[/yellow]"
        cells = [_replica_cell(partition, node_id) for node_id in node_ids]
        table.add_row(str(partition.partition), leader, str(partition.leader_epoch), isr, *cells)
    return table


def _replica_cell(partition: PartitionDescription, node_id: int) -> str:
    for replica in partition.replica_logs:
        if replica.node_id == node_id and replica.log_end_offset >= 0:
            text = f"{replica.log_end_offset} / {max(replica.high_watermark, 0)}"
            return f"[bold]{text}[/bold]" if partition.leader == node_id else text
    return "[dim]-[/dim]"
