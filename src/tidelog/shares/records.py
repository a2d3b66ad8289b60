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

from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.model import NO_OFFSET, NO_TIMESTAMP, TopicId, uuid_to_text
from tidelog.rsm.log_records import RawRecord
from tidelog.shares.batches import StateBatch
from tidelog.wire.notation import CLASSIC, FLEXIBLE, MALFORMED, UUID_BYTES, read_tags, write_tags

NO_COUNT: Final = -1
"""How many deliveries are complete is not known."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_SNAPSHOT: Final = Struct(">iiiqqq")
"""Snapshot epoch, state epoch, leader epoch, start offset, times of creation and of writing."""
_UPDATE: Final = Struct(">iiq")
"""Snapshot epoch, leader epoch, start offset."""
_BATCH: Final = Struct(">qqbh")
_SNAPSHOT_KIND, _UPDATE_KIND = range(2)
_MIN_BATCH_BYTES: Final = _BATCH.size + 1
_COUNT_TAG: Final = 0


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
    complete: int = NO_COUNT
    """How many records from the start offset on are settled."""
    batches: tuple[StateBatch, ...] = ()


class Update(NamedTuple):
    """What has changed of a share partition."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    """-1 is unchanged."""
    complete: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()


class ShareRecord(NamedTuple):
    """A share partition has changed, or with `None` is gone."""

    partition: SharePartition
    value: Snapshot | Update | None


def encode(record: ShareRecord) -> RawRecord:
    """Key and value."""
    partition, value = record
    kind = _UPDATE_KIND if isinstance(value, Update) else _SNAPSHOT_KIND
    key = bytearray(_INT16.pack(kind))
    CLASSIC.write_text(key, partition.group_id)
    key += partition.topic_id + _INT32.pack(partition.partition)
    return bytes(key), None if value is None else _encode_value(value)


def decode(raw: RawRecord) -> ShareRecord | None:
    """The record of a key and a value; `None` for what no share coordinator knows.

    Raises `MalformedFrame`.
    """
    key, value = raw
    try:
        kind = _INT16.unpack_from(key)[0]
        if kind not in (_SNAPSHOT_KIND, _UPDATE_KIND) or (kind == _UPDATE_KIND and value is None):
            return None
        group_id, position = CLASSIC.read_text(key, 2)
        topic_id = TopicId(bytes(key[position : position + UUID_BYTES]))
        number = _INT32.unpack_from(key, position + UUID_BYTES)[0]
        partition = SharePartition(group_id, topic_id, number)
        return ShareRecord(partition, None if value is None else _decode_value(kind, value))
    except MALFORMED as cause:
        raise MalformedFrame(f"no record of a share partition: {cause}") from cause


def _encode_value(value: Snapshot | Update) -> bytes:
    out = bytearray(_INT16.pack(0))
    if isinstance(value, Snapshot):
        out += _SNAPSHOT.pack(*value[:6])
    else:
        out += _UPDATE.pack(value.snapshot_epoch, value.leader_epoch, value.start_offset)
    FLEXIBLE.write_length(out, len(value.batches))
    for batch in value.batches:
        out += _BATCH.pack(*batch)
        FLEXIBLE.write_no_tags(out)
    known = value.complete != NO_COUNT
    write_tags(out, [(_COUNT_TAG, _INT32.pack(value.complete))] if known else [])
    return bytes(out)


def _decode_value(kind: int, value: bytes) -> Snapshot | Update:
    version = _INT16.unpack_from(value)[0]
    if version != 0:
        raise MalformedFrame(f"version `{version}` of a value of `__share_group_state`")
    head = _SNAPSHOT if kind == _SNAPSHOT_KIND else _UPDATE
    fields: tuple[Any, ...] = head.unpack_from(value, _INT16.size)
    batches, position = _decode_batches(value, _INT16.size + head.size)
    complete = NO_COUNT
    for tag, start, _ in read_tags(value, position)[0]:
        if tag == _COUNT_TAG:
            complete = _INT32.unpack_from(value, start)[0]
    if kind == _SNAPSHOT_KIND:
        return Snapshot._make((*fields, complete, batches))
    return Update._make((*fields, complete, batches))


def _decode_batches(value: Any, position: int) -> tuple[tuple[StateBatch, ...], int]:
    count, position = FLEXIBLE.read_count(value, position, _MIN_BATCH_BYTES)
    batches = []
    for _ in range(count):
        batches.append(StateBatch(*_BATCH.unpack_from(value, position)))
        position = FLEXIBLE.skip_tags(value, position + _BATCH.size)
    return tuple(batches), position
