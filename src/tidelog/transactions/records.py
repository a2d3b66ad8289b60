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
from dataclasses import dataclass, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.model import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from tidelog.rsm.log_records import RawRecord
from tidelog.wire.layouts import (
    CLASSIC,
    FLEXIBLE,
    INT8,
    INT16,
    INT32,
    INT64,
    Tag,
    read_version,
    written,
)
from tidelog.wire.notation import MALFORMED
from tidelog.wire.primitives import Codec

NO_PRODUCER_EPOCH: Final = -1

_KEY_VERSION: Final = 0
_KEY: Final = CLASSIC.layout(tuple, CLASSIC.text)


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


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


# The layouts of values -----------------------------------------------------------------------

_WRITTEN: Final = tuple(each.name for each in fields(Transaction))[:-1]
_elements_of = attrgetter(*_WRITTEN)


def _row_of(transaction: Transaction) -> list[Any]:
    """What is written, in order; of an empty transaction a null in place of its topics."""
    row = list(_elements_of(transaction))
    is_empty = transaction.state is TransactionState.EMPTY
    topics = None if is_empty else by_topic(transaction.partitions).items()
    row[_WRITTEN.index("partitions")] = topics
    return row


def _transaction_of(row: list[Any]) -> Transaction:
    values = dict(zip(_WRITTEN, row, strict=True))
    values["state"] = TransactionState(values["state"])
    values["partitions"] = frozenset(
        TopicPartition(topic, number)
        for topic, numbers in values["partitions"] or ()
        for number in numbers
    )
    return Transaction(**values)


def _layout_of(version: int) -> Codec:
    forms = FLEXIBLE if version >= 1 else CLASSIC
    return forms.layout(
        _transaction_of,
        INT64,
        INT16,
        INT32,
        INT8,
        forms.nullable_array(forms.layout(tuple, forms.text, forms.numbers)),
        INT64,
        INT64,
        tags=[
            Tag(INT64, NO_PRODUCER_ID),
            Tag(INT64, NO_PRODUCER_ID),
            Tag(INT16, 0),
            Tag(INT16, NO_PRODUCER_EPOCH),
        ],
    )


_LAYOUTS: Final = {version: _layout_of(version) for version in range(2)}


def encode(record: TransactionRecord, version: int) -> RawRecord:
    """Key and value, the value in this version."""
    transactional_id, value = record
    key = written(_KEY, (transactional_id,), _KEY_VERSION)
    return key, None if value is None else written(_LAYOUTS[version], _row_of(value), version)


def decode(raw: RawRecord) -> TransactionRecord | None:
    """The record of a key and a value; `None` for a kind of record that is not known.

    Raises `MalformedFrame`.
    """
    key, value = raw
    try:
        kind, position = INT16.read(key, 0)
        if kind != _KEY_VERSION:
            return None
        (transactional_id,), _ = _KEY.read(key, position)
        known = None if value is None else read_version("a transaction", _LAYOUTS, value)
        return TransactionRecord(transactional_id, known)
    except (*MALFORMED, ValueError) as cause:
        raise MalformedFrame(f"no record of a transaction: {cause}") from cause
