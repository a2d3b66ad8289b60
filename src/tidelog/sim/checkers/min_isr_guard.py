"""MinIsrGuard (I8): no high watermark advances while fewer than the min ISR hold the records.

Counted are the members of the maximal ISR: the committed ISR may have shrunk, by the answer to a
proposal, after the advance and within the same step.
"""

from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence, Violation
from tidelog.sim.host import Host
from tidelog.sim.oracle import PartitionId


class MinIsrGuard:
    """Looks at each advance within a term."""

    name = "MinIsrGuard"

    def __init__(self) -> None:
        # Epoch, high watermark and ISR of each leader when it was looked at last.
        self._seen: dict[Partition, tuple[int, int, tuple[int, ...]]] = {}

    def on_leader(
        self, evidence: Evidence, host: Host, pid: PartitionId, partition: Partition
    ) -> None:
        """Counts who holds what is newly committed."""
        leadership = partition.leadership
        assert leadership is not None, f"{host.name} does not lead {pid}"
        epoch, before, isr = self._seen.get(partition, (-1, 0, ()))
        high_watermark = partition.log.high_watermark
        self._seen[partition] = (partition.leader_epoch, high_watermark, leadership.isr)
        if epoch != partition.leader_epoch or high_watermark <= before:
            return
        held = {*leadership.maximal_isr, *isr}
        if len(held) < leadership.min_isr:
            raise Violation(
                self.name,
                f"{host.name} commits {pid} from {before} to {high_watermark} with {sorted(held)}, "
                f"the min ISR is {leadership.min_isr}",
            )
