"""Kinds of nodes: of Tidelog, or of Apache Kafka 4.3.1 on the same properties file and directory.

A cluster with kinds is the local cluster of Tidelog, some of whose processes are Kafka's: they
stand in the cluster's state file like the others, and are killed, paused and stopped like them.
Every directory is formatted by Tidelog. A node of Kafka is not waited for when it starts, because
its ports open when the quorum has a leader, and that may need nodes that start later.

The timers are those of a JVM on a busy machine: with sessions of half a second, the start of one
node of Kafka would fence all others.
"""

import shutil
import subprocess
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from tests.interop.java_tools import SHORT_LIVED
from tests.interop.kafka_node import start_node
from tidelog.runtime.formatting import format_node
from tidelog.runtime.node_file import read_node_config
from tidelog.testing.cluster_state import LocalNode
from tidelog.testing.processes import ProcessId

_MARKERS: Final = "kafka.coordinator.transaction.TransactionMarkerChannelManager"
OPTIONS: Final = (
    *(option for option in SHORT_LIVED if not option.startswith("-Xmx")),
    "-Xmx512m",
    # It says which markers it leaves out, which the judge wants to know.
    f"-Dorg.slf4j.simpleLogger.log.{_MARKERS}=info",
)

TIMERS: Final = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "6000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}


class Kind(Enum):
    """Whose program a node runs."""

    TIDELOG = "tidelog"
    KAFKA = "kafka"

    @property
    def other(self) -> "Kind":
        """The one that takes over the disk when a node changes its kind."""
        return Kind.KAFKA if self is Kind.TIDELOG else Kind.TIDELOG


Kinds = tuple[Kind, ...]
"""The kind of each node, in the order of their ids."""


def parse_kinds(text: str) -> Kinds:
    """`tidelog,kafka,tidelog`; raises `ValueError` for another word."""
    return tuple(Kind(word) for word in text.split(","))


def mixed_kinds(seed: int) -> Kinds:
    """Three nodes, one or two of Kafka, by turns; which ones differs from seed to seed."""
    lone = Kind.KAFKA if seed % 2 else Kind.TIDELOG
    kinds = [lone.other] * 3
    kinds[seed // 2 % 3] = lone
    return tuple(kinds)


def command_of(kinds: Kinds) -> str:
    """`kinds` as the command line has them."""
    return ",".join(kind.value for kind in kinds)


_BOUND: Final[Sequence[str]] = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""Ends the node with this process, however that ends, as nodes of Tidelog do."""


class KafkaProcesses:
    """Starts nodes of Kafka in place of nodes of Tidelog."""

    def __init__(self) -> None:
        # What was started here; an ended process goes when it is asked.
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, node: LocalNode, cluster_id: str) -> ProcessId:
        """Starts a node on its directory, which is formatted first if it never was."""
        self._started = [process for process in self._started if process.poll() is None]
        format_node(read_node_config(node.properties_file), cluster_id, ignore_formatted=True)
        process = start_node(node.properties_file, Path(node.log_file), OPTIONS, prefix=_BOUND)
        self._started.append(process)
        found = ProcessId.of(process.pid)
        assert found is not None, f"node {node.node_id} of Apache Kafka ended at once"
        return found
