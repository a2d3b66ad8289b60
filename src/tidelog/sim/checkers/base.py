"""What checkers are given, and what they have in common."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from tidelog.env.instant import NEVER
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from tidelog.replication.partition import Partition
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.history import History, Key, Polled
from tidelog.sim.evidence.oracle import Oracle, PartitionId
from tidelog.sim.report.violation import Violation


@dataclass(slots=True)
class Evidence:
    """All that there is to look at."""

    world: World
    oracle: Oracle
    history: History
    final: Mapping[Key, tuple[Polled, ...]] = field(default_factory=dict)
    """What a new consumer read from the beginning, at the end of the run."""
    final_at: int = NEVER
    """When that reading had ended. Records for which no producer waits may come later."""
    after_restart: Mapping[Key, tuple[Polled, ...]] = field(default_factory=dict)
    """What another one read after the last restart of all nodes, where there was one."""
    newest_image: MetadataImage = EMPTY_IMAGE
    """The newest committed metadata that any node ever had, also one that is dead by now."""
    latest_wall_ms: int = 0
    """What the wall clock of some machine has shown, the latest of all."""

    def replicas(self) -> Iterator[tuple[Host, Partition]]:
        """Every replica of every node that runs, with its host."""
        for host in self.world.hosts.values():
            if host.node is not None:
                for partition in host.node.broker.replicas.partitions.values():
                    yield host, partition

    def newest(self, pid: PartitionId) -> PartitionImage | None:
        """A partition by the newest metadata."""
        return self.newest_image.partition(pid.topic_id, pid.partition)


def replica_on(host: Host, pid: PartitionId) -> Partition | None:
    """A node's replica of a partition, unless the process or the replica is out of service."""
    if host.node is None:
        return None
    for key, one in host.node.broker.replicas.partitions.items():
        if one.topic_id == pid.topic_id and key.partition == pid.partition:
            return one if one.offline is None else None
    return None


class Checker:
    """One property, under its class's name. Each hook is called when there is something to look at,
    and raises `Violation` for what must not be; those that a property does not need do nothing."""

    def reject(self, text: str) -> NoReturn:
        """Raises `Violation` with the values that show it."""
        raise Violation(type(self).__name__, text)

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """An event began a leader's term, moved its high watermark or changed its ISR."""

    def on_image(self, host: Host, image: MetadataImage) -> None:
        """A node came to a metadata image."""

    def on_newest(self, image: MetadataImage) -> None:
        """It is newer than all before."""

    def sweep(self, evidence: Evidence) -> None:
        """Every so often, at everything."""

    def at_end(self, evidence: Evidence) -> None:
        """All faults are over, all nodes run, and everything has been read once more."""
