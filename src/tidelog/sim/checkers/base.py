"""What checkers are given, and how they speak."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.errors import LogDamaged
from tidelog.log.log import Log
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.replication.partition import Partition
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.history import History, Key, Polled
from tidelog.sim.evidence.oracle import Oracle, PartitionId


def waits_for_a_read(host: Host, log: Log) -> bool:
    """Whether a fault damaged something in this log that is not read yet, and that a read would
    find: so far P4 promises."""
    if not host.disk.was_damaged:
        return False
    try:
        log.verify()
    except LogDamaged:
        return True
    return False


@dataclass(slots=True)
class Evidence:
    """All that there is to look at."""

    world: World
    oracle: Oracle
    history: History
    final: Mapping[Key, tuple[Polled, ...]] = field(default_factory=dict)
    """What a new consumer read from the beginning, at the end of the run."""
    after_restart: Mapping[Key, tuple[Polled, ...]] = field(default_factory=dict)
    """What another one read after the last restart of all nodes, where there was one."""
    newest_image: MetadataImage = EMPTY_IMAGE
    """The newest committed metadata that any node ever had, also one that is dead by now."""

    def replicas(self) -> Iterator[tuple[Host, Partition]]:
        """Every replica of every node that runs, with its host."""
        for host in self.world.hosts.values():
            if host.node is not None:
                for partition in host.node.broker.replicas.partitions.values():
                    yield host, partition


class LeaderChecker(Protocol):
    """Looks at a leader after each event that began its term, moved its high watermark or changed
    its ISR."""

    name: str

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """Raises `Violation`."""


class ImageChecker(Protocol):
    """Looks at each metadata image that a node comes to."""

    name: str

    def on_image(self, host: Host, image: MetadataImage) -> None:
        """Raises `Violation`."""


class NewestChecker(Protocol):
    """Looks at each metadata image that is newer than all before."""

    name: str

    def on_newest(self, image: MetadataImage) -> None:
        """Raises `Violation`."""


class SweepChecker(Protocol):
    """Looks at everything every so often."""

    name: str

    def sweep(self, evidence: Evidence) -> None:
        """Raises `Violation`."""


class EndChecker(Protocol):
    """Looks at everything once, after the end of the faults."""

    name: str

    def at_end(self, evidence: Evidence) -> None:
        """Raises `Violation`."""
