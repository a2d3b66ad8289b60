"""Values of share partitions: states of records, acknowledgements, what is acquired and written.

Offsets of ranges are inclusive at both ends here, as in the requests and records that carry them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.model import TopicId


class RecordState(IntEnum):
    """What becomes of a record, with the numbers of `WriteShareGroupState`."""

    AVAILABLE = 0
    """To be delivered, or delivered again."""
    ACQUIRED = 1
    """A member has it, until it acknowledges it or its lock times out. Never written."""
    ACKNOWLEDGED = 2
    """Processed."""
    ARCHIVED = 4
    """Not to be delivered any more: rejected, delivered too often, or not there."""


TERMINAL: Final = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))
"""States that no record leaves."""

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
"""Types of acknowledgements; `GAP` is an offset at which the member found no record."""

STATE_OF_TYPE: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
"""What becomes of a record with an acknowledgement; one that renews changes no state."""

BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1
"""Acquire modes: the limit of records is rounded up to whole record batches, or is strict."""

UNINITIALIZED: Final = -1
"""The start offset of a share partition that has none yet: `share.auto.offset.reset` decides."""


class ShareKey(NamedTuple):
    """One partition as one group shares it."""

    group_id: str
    topic_id: TopicId
    partition: int


class Acknowledgement(NamedTuple):
    """What a member says of a range of offsets: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Acquired(NamedTuple):
    """Offsets that a member has got, all delivered equally often."""

    first: int
    last: int
    delivery_count: int


class Span(NamedTuple):
    """The offsets of one record batch."""

    first: int
    last: int


class StateBatch(NamedTuple):
    """Offsets that are in one state, as the share coordinator keeps them."""

    first: int
    last: int
    state: int
    delivery_count: int


class ShareState(NamedTuple):
    """What the share coordinator knows of a share partition."""

    state_epoch: int
    start: int
    """`UNINITIALIZED` before the group has begun with the partition."""
    batches: Sequence[StateBatch] = ()


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """What a share partition obeys: the group's configuration, or else the broker's."""

    delivery_count_limit: int = 5
    """Deliveries of a record, after which it is archived."""
    lock_ms: int = 30_000
    """How long a member may have a record without saying anything."""
    max_locks: int = 2000
    """Records between start and end of a share partition, after which nothing new is acquired."""
    renewable: bool = True
    """Whether a member may begin its lock anew."""
    committed_only: bool = False
    """`share.isolation.level`: whether records of aborted transactions are left out."""
    offset_reset: str = "latest"
    """Where a group begins: `earliest`, `latest` or `by_duration:` and a duration."""

    @property
    def throttled_from(self) -> int:
        """Records that were delivered so often come in smaller groups, so that one that members
        cannot process does not take the others along."""
        return max(2, -(-self.delivery_count_limit // 2))


class AcquireRequest(NamedTuple):
    """What a member wants of one partition."""

    member_id: str
    max_records: int
    batch_size: int
    """Offsets after which a new range of acquired records begins, at the next record batch."""
    strict: bool
    """Whether `max_records` holds to the record (`RECORD_LIMIT`)."""
