"""NoDuplicates (I23): a value is in the log once.

Every producer of the workload either sends a value in one attempt or is idempotent, so a value at
two offsets means that a retry was appended again.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.report.violation import Violation


class NoDuplicates:
    """Counts values."""

    name = "NoDuplicates"

    def at_end(self, evidence: Evidence) -> None:
        """Looks for a value that the last read shows twice."""
        for key, values in evidence.final.items():
            seen: dict[str, int] = {}
            for offset, value in values:
                if value in seen:
                    raise Violation(self.name, f"{key}: `{value}` is at {seen[value]} and {offset}")
                seen[value] = offset
