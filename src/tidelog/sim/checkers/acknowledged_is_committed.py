"""AcknowledgedIsCommitted (I4): what acks=all acknowledged is below the true high watermark.

Looked at every so often: an acknowledgement that reaches a client may only speak of offsets that
some leader had committed before.
"""

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.evidence.history import Kind, Outcome
from tidelog.sim.report.violation import Violation


class AcknowledgedIsCommitted:
    """Goes through the operations that are new since the last look."""

    name = "AcknowledgedIsCommitted"

    def __init__(self) -> None:
        self._looked_at = 0

    def sweep(self, evidence: Evidence) -> None:
        """Compares acknowledged offsets with the true logs."""
        ends = {str(pid): log.end_offset for pid, log in evidence.oracle.logs.items()}
        ops = evidence.history.ops
        for op in ops[self._looked_at :]:
            if op.kind is not Kind.SEND or op.outcome is not Outcome.OK:
                continue
            for key, offset, value in op.sent:
                end = ends.get(str(key), 0)
                if offset >= end:
                    raise Violation(
                        self.name,
                        f"{op.process} got `{value}` acknowledged at {key} {offset}, committed is "
                        f"everything below {end}",
                    )
        self._looked_at = len(ops)
