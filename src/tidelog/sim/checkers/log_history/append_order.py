"""realtime-append: an append that began after another had been acknowledged lies before it.

A partition is a register of appends: its order must agree with real time, whichever process sent
(V2). For one key this is checkable in one pass: going down the version order, the earliest
acknowledgement above an append must not be before the append began.
"""

from collections.abc import Iterator

from tidelog.sim.checkers.log_history.index import Anomaly, LogIndex
from tidelog.sim.evidence.history import Op, Outcome


def append_order(index: LogIndex) -> Iterator[Anomaly]:
    """Compares the version order of each key with beginnings and ends of its sends."""
    for key, one in index.keys.items():
        earliest: Op | None = None
        for value in reversed(one.order):
            op = one.writers.get(value)
            if op is None:
                continue
            if earliest is not None and earliest.completed_at < op.invoked_at:
                message = (
                    f"`{value}` of op {op.index}, begun at {op.invoked_at}, lies before something "
                    f"of op {earliest.index}, acknowledged at {earliest.completed_at}"
                )
                yield Anomaly("realtime-append", key, message)
            if op.outcome is Outcome.OK and (
                earliest is None or op.completed_at < earliest.completed_at
            ):
                earliest = op
