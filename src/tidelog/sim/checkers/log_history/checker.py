"""All checks of a history together, and which anomalies are none."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.sim.checkers.log_history import anomalies, session_order
from tidelog.sim.checkers.log_history.cycles import cycles
from tidelog.sim.checkers.log_history.index import Anomaly, LogIndex
from tidelog.sim.evidence.history import Op

CHECKS = (
    anomalies.inconsistent_offsets,
    anomalies.duplicates,
    anomalies.aborted_reads,
    anomalies.precommitted_reads,
    anomalies.lost_writes,
    anomalies.unseen,
    session_order.internal_polls,
    session_order.internal_sends,
    session_order.external_polls,
    session_order.external_sends,
    session_order.append_order,
    cycles,
)

WITHOUT_ISOLATION = frozenset(
    ("int-send-skip", "G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime")
)
"""Legal where one operation sends to several keys: Kafka isolates no writes, so ww edges may form
cycles. What remains forbidden is "G1c-wr", the cycle of reads alone."""

SUBSCRIBED = frozenset(("poll-skip", "nonmonotonic-poll"))
"""Legal besides where consumers subscribe: partitions come and go between polls."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the log checker has to say."""

    anomalies: tuple[Anomaly, ...]
    """Illegal ones."""
    allowed: tuple[Anomaly, ...]
    """Those that are legal here."""
    consume_counts: dict[int, int]
    realtime_lag_ms: int

    @property
    def names(self) -> frozenset[str]:
        """The kinds of illegal anomalies."""
        return frozenset(anomaly.name for anomaly in self.anomalies)


def check_history(ops: Sequence[Op], allowed: frozenset[str] = WITHOUT_ISOLATION) -> Report:
    """Looks for every anomaly; `ops` are in the order of their completion."""
    index = LogIndex(ops)
    found = list(index.unknown)
    for check in CHECKS:
        found += check(index)
    return Report(
        tuple(one for one in found if one.name not in allowed),
        tuple(one for one in found if one.name in allowed),
        anomalies.consume_counts(index),
        anomalies.realtime_lag_ms(index),
    )
