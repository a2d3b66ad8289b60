"""The records of share groups (KIP-932) in `__consumer_offsets`, in Kafka's formats.

| kind | key | value |
| --- | --- | --- |
| 10 | group, member | what the member is and wants |
| 11 | group | the group's epoch, and a hash of the topics it is subscribed to |
| 12 | group | the epoch of the target assignment |
| 13 | group, member | the target: what the member shall have |
| 14 | group, member | what the member has |
| 15 | group | how far the state of its share partitions is initialised or deleted |

Keys are in the classic notation, values in the flexible one, with version 0 (`SHARE_LAYOUTS`).
Kinds 12 and 13 have the values of kinds 6 and 7 (`consumer_records.py`).

Source: KIP-932, KIP-1263.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from tidelog.groups.consumer_records import (
    LAYOUTS,
    TARGET_LAYOUT,
    GroupEpoch,
    Kind,
    Target,
    TargetEpoch,
)
from tidelog.model import TopicId
from tidelog.wire.layouts import FLEXIBLE, INT8, INT32, INT64, UUID, converted
from tidelog.wire.primitives import Codec

_STABLE: Final = 0
"""The one state of members of share groups."""


class ShareMember(NamedTuple):
    """Kind 10: a member, and what it asks for."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Sorted."""


class ShareCurrent(NamedTuple):
    """Kind 14: what a member has."""

    epoch: int = 0
    previous_epoch: int = 0
    """The epoch before; a member may not have received the newest one yet."""
    assigned: Target = ()


class TopicPartitions(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: frozenset[int]


States = Mapping[TopicId, TopicPartitions]


class ShareStates(NamedTuple):
    """Kind 15: for which partitions the share coordinators have a state; never changed."""

    initializing: States = {}
    """Asked for, and not answered yet."""
    initialized: States = {}
    """Only these are assigned to members."""
    deleting: Mapping[TopicId, str] = {}
    """Names of topics whose states are being deleted."""


ShareValue = ShareMember | GroupEpoch | TargetEpoch | Target | ShareCurrent | ShareStates


class ShareKind(IntEnum):
    """The number that a key begins with."""

    MEMBER = 10
    EPOCH = 11
    TARGET_EPOCH = 12
    TARGET = 13
    CURRENT = 14
    STATES = 15


class ShareGroupRecord(NamedTuple):
    """Something of a share group has changed, or with `None` is gone."""

    kind: ShareKind
    group_id: str
    member_id: str
    """Empty where the key has the group alone."""
    value: ShareValue | None


OF_SHARE_GROUPS: Final = frozenset((ShareKind.EPOCH, ShareKind.TARGET_EPOCH, ShareKind.STATES))
"""The kinds whose key has the group alone."""


# The layout of each kind ---------------------------------------------------------------------


def _states_of(rows: Iterable[Any]) -> States:
    return {
        TopicId(topic_id): TopicPartitions(name, frozenset(numbers))
        for topic_id, name, numbers in rows
    }


def _rows_of_states(states: States) -> list[tuple[TopicId, str, list[int]]]:
    return [
        (topic_id, name, sorted(partitions))
        for topic_id, (name, partitions) in sorted(states.items())
    ]


_STATES: Final = converted(
    FLEXIBLE.array(FLEXIBLE.layout(tuple, UUID, FLEXIBLE.text, FLEXIBLE.numbers)),
    _states_of,
    _rows_of_states,
)
_DELETING: Final = converted(
    FLEXIBLE.array(FLEXIBLE.layout(tuple, UUID, FLEXIBLE.text)),
    dict,
    lambda topics: sorted(topics.items()),
)

SHARE_LAYOUTS: Final[Mapping[int, Codec]] = {
    ShareKind.MEMBER: FLEXIBLE.layout(
        ShareMember._make,
        FLEXIBLE.nullable_text,
        FLEXIBLE.text,
        FLEXIBLE.text,
        FLEXIBLE.array(FLEXIBLE.text),
    ),
    ShareKind.EPOCH: FLEXIBLE.layout(GroupEpoch._make, INT32, INT64),
    ShareKind.TARGET_EPOCH: LAYOUTS[Kind.TARGET_EPOCH],
    ShareKind.TARGET: LAYOUTS[Kind.TARGET],
    ShareKind.CURRENT: converted(
        FLEXIBLE.layout(tuple, INT32, INT32, INT8, TARGET_LAYOUT),
        lambda row: ShareCurrent(row[0], row[1], row[3]),
        lambda current: (current.epoch, current.previous_epoch, _STABLE, current.assigned),
    ),
    ShareKind.STATES: FLEXIBLE.layout(ShareStates._make, _STATES, _STATES, _DELETING),
}
