"""CommittedNeverTruncated (I13): a replica never cuts below a high watermark that it has known.

Within one life of a replica: a new process may know less, and what it then may do is the matter of
`LeaderCompleteness`.
"""

from tidelog.replication.partition import Partition
from tidelog.sim.checkers.base import Evidence
from tidelog.sim.evidence.oracle import partition_id
from tidelog.sim.report.violation import Violation


class CommittedNeverTruncated:
    """Remembers the highest high watermark of each replica."""

    name = "CommittedNeverTruncated"

    def __init__(self) -> None:
        self._known: dict[Partition, int] = {}

    def sweep(self, evidence: Evidence) -> None:
        """Compares each log end with it."""
        live: dict[Partition, int] = {}
        for host, partition in evidence.replicas():
            if partition.offline is not None:
                continue
            log = partition.log
            known = self._known.get(partition, 0)
            if log.log_end_offset < known:
                raise Violation(
                    self.name,
                    f"{host.name} {partition_id(partition)} ends at {log.log_end_offset}, "
                    f"its high watermark was {known}",
                )
            live[partition] = max(known, log.high_watermark)
        self._known = live
