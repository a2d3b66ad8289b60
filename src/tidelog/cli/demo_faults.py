"""The demo's fault: the leader of partition 0 dies in mid-stream and comes back.

A small state machine that the stream drives by telling how far it is:

    steady --(a third produced)--> killed --(failed over)--> going on with two nodes
           --(two thirds produced)--> restarting --(every ISR complete)--> restored

Waiting happens in a worker thread, so that the stream goes on meanwhile.
"""

import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tidelog.cli.demo_stream import Stream
from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.errors import UsageError
from tidelog.testing.local_cluster import LocalCluster
from tidelog.testing.waiting import wait_until

KILL_AT: Final = 1 / 3
RESTART_AT: Final = 2 / 3
WATCHED_PARTITION: Final = 0
_RESTORE_TIMEOUT_S: Final = 60.0
_TRUNCATED: Final = re.compile(r" (\S+-\d+) \w+: truncated")


class LeaderFault:
    """One death and return of a node."""

    def __init__(
        self,
        cluster: LocalCluster,
        topic: str,
        stream: Stream,
        *,
        report: Callable[[str], None],
        workers: ThreadPoolExecutor,
    ) -> None:
        # The cluster whose leader is killed.
        self._cluster = cluster
        self._topic = topic
        # Measures the failover; goes on producing all the time.
        self._stream = stream
        # Takes a line of what happened.
        self._report = report
        # Runs the restart beside the stream.
        self._workers = workers
        # The node that leads the watched partition at the kill; `None` before.
        self.victim: int | None = None
        # Whether the new leader's first acknowledgement was reported.
        self._failover_reported = False
        # The restart, once begun; gives the milliseconds until every ISR was complete.
        self._restart: Future[int] | None = None
        # Size of the victim's log file at the kill: what is written later is of its second life.
        self._log_size_bytes = 0

    @property
    def failed_over(self) -> bool:
        """A record was acknowledged by the new leader."""
        return self.victim is not None and self._stream.failover_ms is not None

    def on_progress(self, fraction: float) -> None:
        """Takes the next step when its time has come."""
        if self.victim is None:
            if fraction >= KILL_AT:
                self._kill()
        elif self.failed_over and not self._failover_reported:
            self._report_failover()
        elif self._restart is None and self._failover_reported and fraction >= RESTART_AT:
            self._begin_restart()

    def finish(self) -> int:
        """Takes the steps that the stream was too short for, waits for the node to be back in
        every ISR, and returns after how many milliseconds it was.

        Raises `TimeoutError`.
        """
        if self.victim is None:
            self._kill()
        if self.failed_over and not self._failover_reported:
            self._report_failover()
        if self._restart is None:
            self._begin_restart()
        assert self._restart is not None, "the restart has just begun"
        return self._restart.result()

    def truncated_partitions(self) -> list[str]:
        """The partitions whose log the returned node had to cut before it could follow."""
        assert self.victim is not None, "no node was killed yet"
        with self._cluster.node(self.victim).log_file.open("rb") as file:
            file.seek(self._log_size_bytes)
            text = file.read().decode(errors="replace")
        return sorted(set(_TRUNCATED.findall(text)))

    def _kill(self) -> None:
        described = self._cluster.describe_topic(self._topic).partitions[WATCHED_PARTITION]
        node = self._cluster.node(described.leader)
        self._log_size_bytes = node.log_file.stat().st_size
        killed_at = time.monotonic()
        self._cluster.kill(node.node_id)
        self._stream.watch(WATCHED_PARTITION, killed_at)
        self.victim = node.node_id
        self._report(
            f"SIGKILL to node {node.node_id}, leader of partition {WATCHED_PARTITION} "
            f"in epoch {described.leader_epoch}"
        )

    def _report_failover(self) -> None:
        self._failover_reported = True
        now = self._cluster.describe_topic(self._topic).partitions[WATCHED_PARTITION]
        self._report(
            f"node {now.leader} leads partition {WATCHED_PARTITION} in epoch {now.leader_epoch}; "
            f"next acknowledged record {self._stream.failover_ms} ms after the kill"
        )

    def _begin_restart(self) -> None:
        self._report(f"node {self.victim} is started again")
        self._restart = self._workers.submit(self._restart_and_wait)

    def _restart_and_wait(self) -> int:
        assert self.victim is not None, "no node was killed yet"
        begun = time.monotonic()
        self._cluster.start_node(self.victim)
        wait_until(self._is_restored, _RESTORE_TIMEOUT_S, "complete ISR of every partition")
        restored_ms = round((time.monotonic() - begun) * 1000)
        truncated = self.truncated_partitions()
        cut = f"truncated {', '.join(truncated)}, " if truncated else "had nothing to truncate, "
        self._report(
            f"node {self.victim} {cut}caught up, and is back in every ISR after {restored_ms} ms"
        )
        return restored_ms

    def _is_restored(self) -> bool:
        addresses = [node.address for node in self._cluster.processes.alive()]
        if not addresses:
            raise UsageError("all nodes were stopped", "run the demo again")
        try:
            with AdminClient(addresses, timeout_s=2.0) as admin:
                partitions = admin.describe_topic(self._topic).partitions
        except (AdminError, Unreachable):
            return False
        return all(set(p.isr) == set(p.replicas) for p in partitions)
