"""Loading: all that the log of a coordinator holds, from its beginning to where a leadership began.

What comes behind that is the coordinator's own. Records of transactions and their markers are
handed out as they stand; what they mean is the coordinator's.

Most records of a log are overwritten by later ones. Where the coordinator says that only the last
one of each key counts (`rsm/last_values.py`), the loader *holds* records until others may have
taken their place, and hands out those that are left: in pieces, before anything of a transaction,
when it holds too many, and when there is nothing more to read.

Invariants
- SameAsOneByOne: the state after what was handed out is that after all records in their order. A
  batch of a transaction and a marker come behind all that stands before them.
- An offset is handed out once: what is held claims one offset for each piece, of those between
  what was handed out and what was read, and the last piece the rest. There are enough, because
  each record that is held had an offset of its own.
- A load that is cut short leaves nothing: what is held belongs to the loader, which goes with the
  leadership, as does the coordinator with what it had replayed.

A value that cannot be decoded leaves its partition without a coordinator only if it is the last one
of its key: of one that was overwritten nothing depends.

Source: KIP-98 (transactions); Kafka's cleaner, which leaves what a load replays.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.limits import COORDINATOR_HELD_BYTES_PER_BYTE
from tidelog.records.batch import BatchHeader, iter_headers
from tidelog.records.control import read_end_txn_marker
from tidelog.records.pairs import decode_pairs
from tidelog.rsm.last_values import LastValues
from tidelog.rsm.log_records import InTransaction, LogRecord, RawRecord, TransactionEnd


class LoadedBatches(NamedTuple):
    """A run of batches as one (`rsm.kernel.Committed`), or a piece of what was held."""

    base_offset: int
    last_offset: int
    epoch: int
    records: Sequence[LogRecord]
    size_bytes: int
    """What it counts for in a turn that replays so many bytes."""
    is_control: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether all that was read is held: then there is nothing to replay."""
        return self.last_offset < self.base_offset


class LogLoader:
    """Reads one partition from its beginning to where the leadership began."""

    __slots__ = ("_epoch", "_handed_out", "_held", "_must_hand_out", "end", "position")

    def __init__(self, start: int, end: int) -> None:
        # The next offset to read.
        self.position = start
        # Exclusive.
        self.end = end
        # Records below `position` that were not handed out, and the next offset for them.
        self._held = LastValues()
        self._handed_out = start
        # Whether what is held has to go before anything is read.
        self._must_hand_out = False
        # The leader epoch of the last batch that was read.
        self._epoch = 0

    @property
    def is_done(self) -> bool:
        """Whether everything was read and handed out."""
        return self.position >= self.end and not self._held

    def begin_at(self, log_start: int) -> None:
        """The log has nothing below this offset, or not any more: retention went on meanwhile."""
        self.position = max(self.position, log_start)

    def has_more(self, upper: int) -> bool:
        """Whether there is something to hand out or to read, if reading may go up to there."""
        return bool(self._held) or self.position < upper

    def reads(self, upper: int) -> bool:
        """Whether to `take` next; else `take_held`."""
        return not self._must_hand_out and self.position < min(upper, self.end)

    def take(self, data: bytes, upper: int, *, only_last_counts: bool = False) -> LoadedBatches:
        """Takes batches in; reading goes on behind them. They are what there is first below
        `upper`: none, when compaction has left nothing up to there. Records are held while
        `only_last_counts` of those of one key. Raises `CorruptBatch`."""
        records: list[LogRecord] = []
        size_bytes = 0
        for place, header in iter_headers(data):
            # The log may begin in the middle of a batch, all of which is read.
            self._handed_out = min(self._handed_out, header.base_offset)
            if only_last_counts and not header.is_transactional and not header.is_control:
                self._held.hold(decode_pairs(data, place, header), header.size_bytes)
                size_bytes += header.size_bytes // COORDINATOR_HELD_BYTES_PER_BYTE
            else:
                # What follows a transaction's records may not be held: it may be open.
                only_last_counts = False
                if self._held:
                    # No more than the bytes that were held of this turn's.
                    before, before_bytes = self._held.take(place)
                    records += before
                    size_bytes += before_bytes
                    if self._held:
                        self._must_hand_out = True
                        break
                records += _records_at(data, place, header)
                size_bytes += header.size_bytes
            self.position, self._epoch = header.last_offset + 1, header.leader_epoch
        if not data:
            self.position = upper
        self._must_hand_out |= self._held.is_full
        return self._found(records, size_bytes)

    def take_held(self, most_bytes: int) -> LoadedBatches:
        """A piece of what is held, of about so many bytes."""
        found = self._found(*self._held.take(most_bytes))
        self._must_hand_out = self._must_hand_out and bool(self._held)
        return found

    def _found(self, records: Sequence[LogRecord], size_bytes: int) -> LoadedBatches:
        base = self._handed_out
        if not self._held:
            self._handed_out = self.position
        elif records:
            self._handed_out += 1
        last = self._handed_out - 1
        assert last < self.position, f"offset {last} was not read, {self.position} is next"
        return LoadedBatches(base, last, self._epoch, records, size_bytes)


def _records_at(data: bytes, place: int, header: BatchHeader) -> Sequence[LogRecord]:
    """What one batch holds."""
    producer_id, producer_epoch = header.producer_id, header.producer_epoch
    if header.is_control:
        marker = read_end_txn_marker(data, place)
        return [] if marker is None else [TransactionEnd(producer_id, producer_epoch, marker)]
    pairs = decode_pairs(data, place, header)
    found: list[RawRecord] = [(key, value) for key, value in pairs if key is not None]
    if not header.is_transactional:
        return found
    return [InTransaction(raw, producer_id, producer_epoch) for raw in found]
