"""How events of replication show codes and absent fields."""

from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, event
from tidelog.errors import ErrorCode

Shown = tuple[tuple[str, object], ...]
"""(key, value) pairs of a line."""


class NoAnswer(StrEnum):
    """Why a request has no answer at all."""

    NO_CONTROLLER = "no controller"
    NO_ANSWER = "no answer"


def present(pairs: Shown) -> Shown:
    """The pairs that have a value."""
    return tuple(pair for pair in pairs if pair[1] is not None)


def reason_name(reason: StrEnum | ErrorCode) -> str:
    """How a line shows a reason: an error code by its name."""
    return reason.name if isinstance(reason, ErrorCode) else str(reason)


@event()
class ReplicasEvent(Event):
    """An event about all replicas of this node."""

    subject: ClassVar = "replicas"
