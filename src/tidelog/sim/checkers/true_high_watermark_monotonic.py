"""TrueHighWatermarkMonotonic (I1): what is committed stays committed.

The oracle only ever adds. This looks at it from outside, so that a mistake in the oracle itself is
noticed too.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.evidence.oracle import BatchMark, PartitionId
from tidelog.sim.report.violation import Violation


class TrueHighWatermarkMonotonic:
    """Remembers the end of each true log, and its last batch."""

    name = "TrueHighWatermarkMonotonic"

    def __init__(self) -> None:
        # The number of batches and the last of them.
        self._seen: dict[PartitionId, tuple[int, BatchMark]] = {}

    def sweep(self, evidence: Evidence) -> None:
        """Compares each true log with what it was."""
        for pid, log in evidence.oracle.logs.items():
            if not log.batches:
                continue
            known = self._seen.get(pid)
            if known is not None:
                count, last = known
                if len(log.batches) < count or log.batches[count - 1] != last:
                    raise Violation(self.name, f"{pid}: {last} was committed, and is no more")
            if log.end_offset != log.batches[-1].last_offset + 1:
                raise Violation(
                    self.name, f"{pid}: committed to {log.end_offset}, known {log.batches[-1]}"
                )
            self._seen[pid] = (len(log.batches), log.batches[-1])
