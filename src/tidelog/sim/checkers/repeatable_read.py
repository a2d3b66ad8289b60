"""RepeatableRead (I10): what a consumer once read at an offset is there for ever.

Also for records without a promise that they stay: a reader who acted on one must not find it gone
(R28), so nothing above what is committed may ever be served.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.report.violation import Violation


class RepeatableRead:
    """Compares every poll of the run with the last read."""

    name = "RepeatableRead"

    def at_end(self, evidence: Evidence) -> None:
        """Looks up each polled offset."""
        final = {
            key: {polled.offset: polled.value for polled in values}
            for key, values in evidence.final.items()
        }
        for op in evidence.history.ops:
            for key, values in op.polled.items():
                if key.topic in evidence.history.abandoned:
                    continue
                for offset, value in values:
                    now = final.get(key, {}).get(offset)
                    if now != value:
                        raise Violation(
                            self.name,
                            f"{key} {offset}: {op.process} read `{value}` at {op.completed_at} ms, "
                            f"in the end it is `{now}`",
                        )
