"""RestartLosesNothing (V7): after all nodes restarted at once everything promised is there.

With group commit all machines lose power and start from their durable images; without it all
processes are killed. What a new consumer read before it reads again, record by record.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.report.violation import Violation


class RestartLosesNothing:
    """Compares what was read before the restart with what is read after it."""

    name = "RestartLosesNothing"

    def at_end(self, evidence: Evidence) -> None:
        """Compares the two readings; the first may not be ahead of the second."""
        for key, before in evidence.final.items():
            after = evidence.after_restart.get(key, ())
            if after[: len(before)] != before:
                differ = next(
                    (pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]),
                    (before[len(after) :][:1], "nothing"),
                )
                raise Violation(
                    self.name, f"{key}: {differ[0]} was read before the restart, {differ[1]} after"
                )
