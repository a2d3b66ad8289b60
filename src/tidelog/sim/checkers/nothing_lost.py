"""NothingLost (V1): every record acknowledged with acks=all is read at the end, at its offset."""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.report.violation import Violation


class NothingLost:
    """Compares what was promised with what a new consumer reads."""

    name = "NothingLost"

    def at_end(self, evidence: Evidence) -> None:
        """Looks for every acknowledged value."""
        history = evidence.history
        for key, values in history.acknowledged.items():
            if key.topic in history.abandoned:
                continue
            found = {polled.value: polled.offset for polled in evidence.final.get(key, ())}
            for value, offset in values.items():
                if value not in found:
                    raise Violation(
                        self.name, f"{key}: `{value}`, acknowledged at {offset}, is nowhere"
                    )
                if offset >= 0 and found[value] != offset:
                    raise Violation(
                        self.name,
                        f"{key}: `{value}`, acknowledged at {offset}, is at {found[value]}",
                    )
