"""MinIsrGuard (I8): no high watermark advances while the committed ISR is smaller than the min ISR.

The committed ISR is the controller's. Where the newest metadata is of the partition epoch that the
leader has, it is read there; a leader that is ahead, by an answer, or behind is taken at its word.
A proposed member does not count: only the controller's consent makes it one that must be elected
before a replica that lacks what is committed.

Looked at within each leadership, and at its first sight where its high watermark is above all that
any leader had: then it advanced in this very event. One event may both advance and change the ISR,
so it is enough that the ISR sufficed before or after.
"""

from typing import NamedTuple

from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.oracle import PartitionId
from tidelog.sim.report.violation import Violation


class _Look(NamedTuple):
    """A leadership after some event."""

    leadership: LeaderState
    high_watermark: int
    isr: tuple[int, ...]
    min_isr: int

    @property
    def suffices(self) -> bool:
        """Whether it may advance."""
        return len(self.isr) >= self.min_isr


class MinIsrGuard:
    """Looks at each advance."""

    name = "MinIsrGuard"

    def __init__(self) -> None:
        # The last look at each leader.
        self._seen: dict[Partition, _Look] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """Counts whom the controller has in the ISR."""
        leadership = partition.leadership
        assert leadership is not None, f"{host.name} does not lead {pid}"
        isr = _committed_isr(evidence, pid, partition, leadership)
        look = _Look(leadership, partition.log.high_watermark, isr, leadership.min_isr)
        last = self._seen.get(partition)
        self._seen[partition] = look
        if last is None or last.leadership is not leadership:
            last = look._replace(high_watermark=evidence.oracle.highest(pid))
        if look.high_watermark > last.high_watermark and not (last.suffices or look.suffices):
            raise Violation(
                self.name,
                f"{host.name} commits {pid} from {last.high_watermark} to {look.high_watermark}, "
                f"in sync are {isr}, the min ISR is {look.min_isr}",
            )


def _committed_isr(
    evidence: Evidence, pid: PartitionId, partition: Partition, leadership: LeaderState
) -> tuple[int, ...]:
    newest = evidence.newest_image.partition(pid.topic_id, pid.partition)
    if (
        newest is not None
        and newest.leader_epoch == partition.leader_epoch
        and newest.partition_epoch == partition.partition_epoch
    ):
        return newest.isr
    return leadership.isr
