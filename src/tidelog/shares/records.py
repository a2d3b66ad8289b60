"""The records of `__share_group_state`: keys and values, in Kafka's formats.

| kind | key | value |
| --- | --- | --- |
| 0, ShareSnapshot | group, topic id, partition | all that is known about a share partition |
| 1, ShareUpdate | the same | what has changed since |

A *share partition* is a partition as one share group reads it. A snapshot without a value (a
tombstone) removes it. Keys are in the classic notation, values in the flexible one with version 0.
The number of records whose delivery is complete came with Kafka 4.2 (KIP-1226) as a tagged field.

Invariant: what `encode` makes of what `decode` returned is the same record.

Source: KIP-932, KIP-1226; Kafka's `ShareSnapshotValue` and `ShareUpdateValue`.
"""

from typing import Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.model import NO_OFFSET, NO_TIMESTAMP, TopicId, uuid_to_text
from tidelog.rsm.log_records import RawRecord
from tidelog.shares.batches import StateBatch
from tidelog.wire.layouts import (
    CLASSIC,
    FLEXIBLE,
    INT8,
    INT16,
    INT32,
    INT64,
    UUID,
    Tag,
    read_version,
    written,
)
from tidelog.wire.notation import MALFORMED

NO_COUNT: Final = -1
"""How many deliveries are complete is not known."""

_SNAPSHOT_KIND, _UPDATE_KIND = range(2)
_ONLY_VERSION: Final = 0


class SharePartition(NamedTuple):
    """A partition as one share group reads it."""

    group_id: str
    topic_id: TopicId
    partition: int

    @property
    def key(self) -> str:
        """Its name in FindCoordinator, whose hash names the partition of its coordinator."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


class Snapshot(NamedTuple):
    """All that is known about a share partition."""

    snapshot_epoch: int = 0
    """How many snapshots came before."""
    state_epoch: int = 0
    """Grows when the state begins anew."""
    leader_epoch: int = 0
    """Of the leader that has read the state."""
    start_offset: int = NO_OFFSET
    """Everything before it is settled; -1 before the group has read anything."""
    create_ms: int = NO_TIMESTAMP
    """Wall time at which this state was written for the first time."""
    write_ms: int = NO_TIMESTAMP
    """Wall time at which it was written again, only to be near the end of the log."""
    batches: tuple[StateBatch, ...] = ()
    complete: int = NO_COUNT
    """How many records from the start offset on are settled."""


class Update(NamedTuple):
    """What has changed of a share partition."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    """-1 is unchanged."""
    batches: tuple[StateBatch, ...] = ()
    complete: int = NO_COUNT


class ShareRecord(NamedTuple):
    """A share partition has changed, or with `None` is gone."""

    partition: SharePartition
    value: Snapshot | Update | None


_BATCHES: Final = FLEXIBLE.array(FLEXIBLE.layout(StateBatch._make, INT64, INT64, INT8, INT16))
_COMPLETE: Final = Tag(INT32, NO_COUNT)
_LAYOUTS: Final = (
    FLEXIBLE.layout(
        Snapshot._make, INT32, INT32, INT32, INT64, INT64, INT64, _BATCHES, tags=[_COMPLETE]
    ),
    FLEXIBLE.layout(Update._make, INT32, INT32, INT64, _BATCHES, tags=[_COMPLETE]),
)
"""By the kind."""
_KEY: Final = CLASSIC.layout(SharePartition._make, CLASSIC.text, UUID, INT32)


def encode(record: ShareRecord) -> RawRecord:
    """Key and value."""
    partition, value = record
    kind = _UPDATE_KIND if isinstance(value, Update) else _SNAPSHOT_KIND
    key = written(_KEY, partition, kind)
    return key, None if value is None else written(_LAYOUTS[kind], value, _ONLY_VERSION)


def decode(raw: RawRecord) -> ShareRecord | None:
    """The record of a key and a value; `None` for what no share coordinator knows.

    Raises `MalformedFrame`.
    """
    key, value = raw
    try:
        kind, position = INT16.read(key, 0)
        if kind not in (_SNAPSHOT_KIND, _UPDATE_KIND) or (kind == _UPDATE_KIND and value is None):
            return None
        partition, _ = _KEY.read(key, position)
        if value is None:
            return ShareRecord(partition, None)
        layouts = {_ONLY_VERSION: _LAYOUTS[kind]}
        return ShareRecord(partition, read_version("a share partition", layouts, value))
    except MALFORMED as cause:
        raise MalformedFrame(f"no record of a share partition: {cause}") from cause
