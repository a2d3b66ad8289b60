"""HistoryIsALog (V1, V2): the clients' own history has no illegal anomaly.

The operations of the run and the last read of everything go through the log checker. Keys of
topics that were deleted are left out: nothing is promised about them.
"""

from dataclasses import replace

from tidelog.sim.checkers.base import Evidence
from tidelog.sim.checkers.log_history.checker import check_history
from tidelog.sim.evidence.history import Key, Kind, Op, Outcome, Polled
from tidelog.sim.report.violation import Violation


class HistoryIsALog:
    """Runs the log checker."""

    name = "HistoryIsALog"

    def at_end(self, evidence: Evidence) -> None:
        """Looks at everything that any client did."""
        history = evidence.history
        ops = [_without(op, history.abandoned) for op in history.ops]
        last = Op(
            len(ops),
            "final",
            Kind.POLL,
            Outcome.OK,
            polled=_polls(evidence),
            invoked_at=evidence.world.now,
            completed_at=evidence.world.now,
        )
        report = check_history([*ops, last])
        if report.anomalies:
            raise Violation(self.name, "; ".join(map(str, report.anomalies[:3])))


def _polls(evidence: Evidence) -> dict[Key, tuple[Polled, ...]]:
    abandoned = evidence.history.abandoned
    return {key: values for key, values in evidence.final.items() if key.topic not in abandoned}


def _names_any(op: Op, topics: set[str]) -> bool:
    return (
        any(sent.key.topic in topics for sent in op.sent)
        or any(key.topic in topics for key in op.polled)
        or any(key.topic in topics for key in op.assigned)
    )


def _without(op: Op, abandoned: set[str]) -> Op:
    if not (abandoned and _names_any(op, abandoned)):
        return op
    return replace(
        op,
        sent=tuple(sent for sent in op.sent if sent.key.topic not in abandoned),
        polled={key: values for key, values in op.polled.items() if key.topic not in abandoned},
        assigned=tuple(key for key in op.assigned if key.topic not in abandoned),
    )
