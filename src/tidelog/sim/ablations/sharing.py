"""Safeguards of share groups, and what their members get without them."""

from typing import Final

from tidelog.shares import decisions
from tidelog.sharing.in_flight import Part
from tidelog.sharing.values import RecordState
from tidelog.sim.ablations.safeguard import guard_of_cluster


def _may_be_taken(part: Part) -> bool:
    """What a member has is there for the next one too."""
    free = (RecordState.AVAILABLE, RecordState.ACQUIRED)
    return part.state in free and part.change is None


SAFEGUARDS: Final = (
    guard_of_cluster(
        "sharers", "locks-keep-others-out", "two members that have the same record"
    ).replaced(Part, "is_available", property(_may_be_taken)),
    guard_of_cluster(
        "sharers", "deliveries-are-limited", "a record that is delivered without end"
    ).replaced(Part, "_limited", lambda _self, state, _limit: state),
    guard_of_cluster(
        "sharers", "share-states-are-fenced", "a deposed leader's state over that of the next"
    ).replaced(decisions, "_fenced", lambda *_args, **_epochs: None),
)
"""Of locks, deliveries and states."""
