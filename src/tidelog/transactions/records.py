"""The records of `__transaction_state`: keys and values, in Kafka's formats.

A key is a 16-bit 0 and a transactional id; the value is what is known about the last transaction of
that id. A record without a value (a tombstone) removes the id. Both begin with the version of their
schema. Version 1 of the value is flexible (KIP-482) and has, as tagged fields, what transactions of
version 2 (KIP-890) need; it is written from level 1 of the feature `transaction.version` on.

The epoch of the producer before the last one is not in the log: a coordinator that took over cannot
recognise the repetition of an InitProducerId, and answers PRODUCER_FENCED.

Invariant: what `encode` makes of what `decode` returned is the same record, in its version.

Source: KIP-98, KIP-890, KIP-915; Kafka's `TransactionLogKey` and `TransactionLogValue`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.model import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from tidelog.rsm.log_records import RawRecord
from tidelog.wire.notation import CLASSIC, FLEXIBLE, MALFORMED, Notation, read_tags, write_tags

NO_PRODUCER_EPOCH: Final = -1

_VERSION: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_HEAD: Final = Struct(">qhib")
"""Producer id, producer epoch, timeout, state."""
_TIMES: Final = Struct(">qq")
_KEY_VERSION: Final = 0
_NEWEST_VALUE: Final = 1
_MIN_TOPIC_BYTES: Final = 2
_MIN_PARTITION_BYTES: Final = 4
_PREVIOUS_ID_TAG, _NEXT_ID_TAG, _CLIENT_VERSION_TAG, _NEXT_EPOCH_TAG = range(4)


class TransactionState(IntEnum):
    """Where the last transaction of a transactional id is, in the numbers of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """Its name for administrators."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether its outcome is decided, and not all partitions know it."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is under way."""
        return self in _IDLE


_IDLE: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What is known about a transactional id: its producer, and the last transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """How long a transaction may be open."""
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """Those with records of the transaction; none once it is complete."""
    last_update_ms: int = NO_TIMESTAMP
    """Wall time of the last change."""
    start_ms: int = NO_TIMESTAMP
    """Wall time at which the transaction began."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change, mostly the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """While a transaction ends that used up the epochs: the producer id of the next one."""
    client_version: int = 0
    """The protocol of the transaction; with 2 each transaction has an epoch of its own."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """Of a prepared transaction that outlives its producer (KIP-939), which only Kafka writes."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before a change that the client asked for with it; not in the log."""


class TransactionRecord(NamedTuple):
    """A transactional id has changed, or with `None` is forgotten."""

    transactional_id: str
    value: Transaction | None


def encode(record: TransactionRecord, version: int) -> RawRecord:
    """Key and value, the value in this version."""
    key = bytearray(_VERSION.pack(_KEY_VERSION))
    CLASSIC.write_text(key, record.transactional_id)
    value = record.value
    return bytes(key), None if value is None else _encode_value(value, version)


def decode(raw: RawRecord) -> TransactionRecord | None:
    """The record of a key and a value; `None` for a kind of record that is not known.

    Raises `MalformedFrame`.
    """
    key, value = raw
    try:
        if _VERSION.unpack_from(key)[0] != _KEY_VERSION:
            return None
        transactional_id, _ = CLASSIC.read_text(key, 2)
        return TransactionRecord(transactional_id, None if value is None else _decode_value(value))
    except (*MALFORMED, ValueError) as cause:
        raise MalformedFrame(f"no record of a transaction: {cause}") from cause


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _encode_value(value: Transaction, version: int) -> bytes:
    notation = FLEXIBLE if version >= 1 else CLASSIC
    out = bytearray(_VERSION.pack(version))
    out += _HEAD.pack(value.producer_id, value.producer_epoch, value.timeout_ms, value.state)
    if value.state is TransactionState.EMPTY:
        notation.write_length(out, -1)
    else:
        topics = by_topic(value.partitions)
        notation.write_length(out, len(topics))
        for topic, numbers in topics.items():
            notation.write_text(out, topic)
            notation.write_length(out, len(numbers))
            for number in numbers:
                out += _INT32.pack(number)
            notation.write_no_tags(out)
    out += _TIMES.pack(value.last_update_ms, value.start_ms)
    if version >= 1:
        write_tags(out, _tags(value))
    return bytes(out)


def _tags(value: Transaction) -> list[tuple[int, bytes]]:
    tags = []
    if value.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS_ID_TAG, _INT64.pack(value.previous_producer_id)))
    if value.next_producer_id != NO_PRODUCER_ID:
        tags.append((_NEXT_ID_TAG, _INT64.pack(value.next_producer_id)))
    if value.client_version:
        tags.append((_CLIENT_VERSION_TAG, _VERSION.pack(value.client_version)))
    if value.next_producer_epoch != NO_PRODUCER_EPOCH:
        tags.append((_NEXT_EPOCH_TAG, _VERSION.pack(value.next_producer_epoch)))
    return tags


def _decode_value(value: bytes) -> Transaction:
    version: int = _VERSION.unpack_from(value)[0]
    if not 0 <= version <= _NEWEST_VALUE:
        raise MalformedFrame(f"version `{version}` of a value of `__transaction_state`")
    notation = FLEXIBLE if version >= 1 else CLASSIC
    producer_id, producer_epoch, timeout_ms, state = _HEAD.unpack_from(value, 2)
    partitions, position = _decode_partitions(notation, value, 2 + _HEAD.size)
    last_update_ms, start_ms = _TIMES.unpack_from(value, position)
    tagged: dict[int, int] = {}
    if notation.flexible:
        for tag, start, end in read_tags(value, position + _TIMES.size)[0]:
            if tag <= _NEXT_EPOCH_TAG:
                tagged[tag] = int.from_bytes(value[start:end], "big", signed=True)
    return Transaction(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState(state),
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        previous_producer_id=tagged.get(_PREVIOUS_ID_TAG, NO_PRODUCER_ID),
        next_producer_id=tagged.get(_NEXT_ID_TAG, NO_PRODUCER_ID),
        client_version=tagged.get(_CLIENT_VERSION_TAG, 0),
        next_producer_epoch=tagged.get(_NEXT_EPOCH_TAG, NO_PRODUCER_EPOCH),
    )


def _decode_partitions(
    notation: Notation, value: bytes, position: int
) -> tuple[frozenset[TopicPartition], int]:
    count, position = notation.read_nullable_count(value, position, _MIN_TOPIC_BYTES)
    found = []
    for _ in range(count):
        topic, position = notation.read_text(value, position)
        size, position = notation.read_count(value, position, _MIN_PARTITION_BYTES)
        for _ in range(size):
            found.append(TopicPartition(topic, _INT32.unpack_from(value, position)[0]))
            position += 4
        position = notation.skip_tags(value, position)
    return frozenset(found), position
