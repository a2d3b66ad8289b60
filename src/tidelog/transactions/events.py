"""What a transaction coordinator decides by itself, as events: aborts that no client asked for, and
transactional ids that are forgotten.

What a client asked for leaves no event.
"""

from enum import StrEnum

from tidelog.env.event import Event, Level, event


class FenceReason(StrEnum):
    """Why an open transaction is aborted."""

    NEW_PRODUCER = "a new producer has begun"
    TIMED_OUT = "open for longer than its timeout"


@event(about=("transactional_id",), noun="transaction")
class TransactionEvent(Event):
    """An event about one transactional id."""

    transactional_id: str


@event("fence", "aborts")
class TransactionFenced(TransactionEvent):
    """An open transaction is aborted, and its producer can do nothing more."""

    reason: FenceReason
    producer_id: int
    producer_epoch: int
    """That of the markers, one more than the producer's."""
    partitions: int


@event("forget", "forgotten")
class TransactionalIdExpired(TransactionEvent):
    """A transactional id was not used for `transactional.id.expiration.ms`."""


@event("on_written", "given up", level=Level.WARN)
class MarkerRefused(TransactionEvent):
    """A partition knows a newer producer epoch or coordinator than that of the marker: what the
    marker should end has ended."""

    partition: str
    reason: str
