"""OffsetsInOrder (I12): log start <= last stable offset <= high watermark <= log end."""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.evidence.oracle import partition_id
from tidelog.sim.report.violation import Violation


class OffsetsInOrder:
    """Looks at every replica."""

    name = "OffsetsInOrder"

    def sweep(self, evidence: Evidence) -> None:
        """Compares the four."""
        for host, partition in evidence.replicas():
            log = partition.log
            offsets = (
                log.log_start_offset,
                log.last_stable_offset,
                log.high_watermark,
                log.log_end_offset,
            )
            if list(offsets) != sorted(offsets):
                raise Violation(self.name, f"{host.name} {partition_id(partition)}: {offsets}")
