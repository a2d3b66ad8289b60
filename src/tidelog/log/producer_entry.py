"""What a log remembers of one producer id, and whether a batch may follow it.

A producer has its epoch and its last five batches. A batch that repeats one of the five is answered
with the offsets of the first time; anything but the next sequence is refused. Five is what clients
keep in flight, so a retry is always among them.

Source: KIP-98, KIP-360; Kafka's `ProducerStateEntry`, `ProducerAppendInfo`.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import NO_OFFSET, NO_TIMESTAMP
from tidelog.records.batch import SEQUENCE_COUNT, BatchHeader

_NO_SEQUENCE: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NEVER_CHECKED: Final = -2


class ProducerBatch(NamedTuple):
    """One remembered batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record, wrapped back."""
        return (self.last_sequence - self.offset_delta) % SEQUENCE_COUNT


@dataclass(slots=True)
class ProducerEntry:
    """What is known of one producer id."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    batches: list[ProducerBatch] = field(default_factory=list)
    """Up to five of the current epoch, oldest first; empty after a marker that bumped the epoch."""
    coordinator_epoch: int = -1
    """Of the transaction coordinator that wrote the last marker."""
    last_timestamp: int = NO_TIMESTAMP
    """Of the last batch or marker; expiry counts from it."""
    txn_first_offset: int = NO_OFFSET
    """First offset of the open transaction; -1 without one."""
    offset_at_check: int = field(default=NEVER_CHECKED, compare=False)
    """Its last offset when expiry was last checked; shows whether it has written since."""

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the current epoch; -1 without batches."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 without batches."""
        return self.batches[-1].last_sequence if self.batches else _NO_SEQUENCE

    def find(self, header: BatchHeader) -> ProducerBatch | None:
        """The remembered batch with the same epoch and the same sequences."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            ends_alike = batch.last_sequence == last_sequence
            if ends_alike and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def enter_epoch(self, producer_epoch: int) -> None:
        """Forgets the batches of an earlier epoch."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


def check_epoch(known: int, header: BatchHeader) -> None:
    """Raises `ProtocolError` when a batch or marker comes from a producer of an epoch below the
    known one, which was deposed."""
    sent = header.producer_epoch
    if sent < known:
        detail = f"producer `{header.producer_id}` sent epoch `{sent}`, known is `{known}`"
        raise ProtocolError(ErrorCode.INVALID_PRODUCER_EPOCH, detail)


def check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    """Raises `ProtocolError` when the batch does not begin with the next sequence."""
    if header.producer_epoch != entry.producer_epoch:
        if header.base_sequence == 0 or entry.producer_epoch == NO_PRODUCER_EPOCH:
            return
        expected = 0
    else:
        expected = (entry.last_sequence + 1) % SEQUENCE_COUNT
        if header.base_sequence == expected:
            return
    raise ProtocolError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer `{entry.producer_id}` epoch `{header.producer_epoch}` sent sequence "
        f"`{header.base_sequence}`, expected `{expected}`",
    )
