"""How events of replication show absent fields and answers."""

from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, event

Shown = tuple[tuple[str, object], ...]
"""(key, value) pairs of a line."""


class NoAnswer(StrEnum):
    """Why a request has no answer at all."""

    NO_CONTROLLER = "no controller"
    NO_ANSWER = "no answer"


def present(pairs: Shown) -> Shown:
    """The pairs that have a value."""
    return tuple(pair for pair in pairs if pair[1] is not None)


@event()
class ReplicasEvent(Event):
    """An event about all replicas of this node."""

    subject: ClassVar = "replicas"
