"""What a log remembers of its producers: duplicates, sequences, open and aborted transactions.

For idempotence every producer id has its epoch and its last batches (`producer_entry.py`).

For transactions the log knows the first offset of every open transaction. A read_committed reader
may go only to the *first unstable offset*: the first offset of an open transaction, or of one
whose marker is written but not yet below the high watermark. The second half matters: a marker
that could still be lost must not make data visible, so the last stable offset moves when the
marker is replicated, not when it is written.

The state is a pure function of the log. A snapshot file at some offset (`producer_snapshots.py`)
saves replaying from the beginning.

Which transactions may be opened at all is the business of `producer_verification.py`.

Source: KIP-98, KIP-360, KIP-447, KIP-890; Kafka's `ProducerStateManager`, `ProducerAppendInfo`.
"""

from collections.abc import Sequence

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_CACHED_PRODUCER_BATCHES
from tidelog.log.producer_entry import (
    NEVER_CHECKED,
    NO_PRODUCER_EPOCH,
    ProducerBatch,
    ProducerEntry,
    check_epoch,
    check_sequence,
)
from tidelog.log.producer_snapshots import check_entries, decode_snapshot, encode_snapshot
from tidelog.log.producer_verification import Guards
from tidelog.log.txn_index import AbortedTxn
from tidelog.log.values import AppendOrigin
from tidelog.model import NO_OFFSET
from tidelog.records.batch import SEQUENCE_COUNT, BatchHeader
from tidelog.records.control import EndTxnMarker


class ProducerStates:
    """All producers of one log."""

    __slots__ = ("_completed", "_expired_end", "_open", "by_id", "guards", "map_end_offset")

    def __init__(self) -> None:
        # By producer id, in order of first appearance.
        self.by_id: dict[int, ProducerEntry] = {}
        # First offsets of open transactions, ascending, as a set with an order.
        self._open: dict[int, None] = {}
        # Of ended transactions whose marker is not yet below the high watermark: first offset, and
        # that of the marker.
        self._completed: dict[int, int] = {}
        # Transactions that the coordinator is being asked about; not part of snapshots.
        self.guards = Guards()
        # Exclusive: every batch below it is reflected here.
        self.map_end_offset = 0
        # Exclusive: below it there may be batches and markers of producers that were forgotten.
        self._expired_end = 0

    @property
    def first_unstable_offset(self) -> int | None:
        """Where read_committed must stop; `None` when nothing is undecided."""
        if not self._open and not self._completed:
            return None
        return min((*self._open, *self._completed))

    # Before an append ------------------------------------------------------------------------

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a transaction of the producer's epoch is open here."""
        entry = self.by_id.get(producer_id)
        is_open = entry is not None and entry.txn_first_offset != NO_OFFSET
        return is_open and entry is not None and entry.producer_epoch == producer_epoch

    def admit(self, header: BatchHeader, origin: AppendOrigin) -> ProducerBatch | None:
        """Lets a data batch pass, or returns the earlier append of the very same client batch.
        Raises `ProtocolError` when it may not follow what is known."""
        entry = self.by_id.get(header.producer_id)
        if entry is None:
            check_epoch(NO_PRODUCER_EPOCH, header)
            if self.guards.by_id and origin is AppendOrigin.CLIENT:
                self.guards.check_sequence(header, is_known=False)
            return None
        if origin is AppendOrigin.CLIENT:
            if not self._follows(entry, header):
                duplicate = entry.find(header)
                if duplicate is not None:
                    return duplicate
                check_epoch(entry.producer_epoch, header)
                check_sequence(entry, header)
            if self.guards.by_id:
                self.guards.check_sequence(header, is_known=True)
        else:
            check_epoch(entry.producer_epoch, header)
        if entry.txn_first_offset != NO_OFFSET and not header.is_transactional:
            what = f"has an open transaction from offset `{entry.txn_first_offset}`"
            detail = f"producer `{entry.producer_id}` {what} and sent a batch outside of it"
            raise ProtocolError(ErrorCode.INVALID_TXN_STATE, detail)
        return None

    @staticmethod
    def _follows(entry: ProducerEntry, header: BatchHeader) -> bool:
        """The usual case, decided first: the next sequence of the same epoch."""
        batches = entry.batches
        return (
            header.producer_epoch == entry.producer_epoch
            and len(batches) > 0
            and header.base_sequence == batches[-1].last_sequence + 1
        )

    def check_marker(
        self, header: BatchHeader, marker: EndTxnMarker, *, bumps_epoch: bool = False
    ) -> None:
        """Raises `ProtocolError` when a marker comes from a deposed producer or coordinator. One
        that brings the epoch of the next transaction must be above what is known, unless it is a
        repetition: a late marker of the transaction before would have the present epoch
        (OneEndPerTransaction)."""
        entry = self.by_id.get(header.producer_id)
        if entry is None:
            return
        check_epoch(entry.producer_epoch, header)
        is_open = entry.txn_first_offset != NO_OFFSET
        if bumps_epoch and is_open and header.producer_epoch == entry.producer_epoch:
            epoch = header.producer_epoch
            detail = f"a marker of epoch `{epoch}` for a transaction of the same epoch"
            raise ProtocolError(ErrorCode.INVALID_PRODUCER_EPOCH, detail)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            epoch, known = marker.coordinator_epoch, entry.coordinator_epoch
            detail = f"coordinator epoch `{epoch}` is below the known `{known}`"
            raise ProtocolError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, detail)

    # After an append, and in replay: never fails ---------------------------------------------

    def replay(
        self, header: BatchHeader, base_offset: int, timestamp: int, marker: EndTxnMarker | None
    ) -> AbortedTxn | None:
        """Takes in a batch that is in the log; returns the transaction that it aborted. Offset and
        timestamp are those of the log, which a leader stamps over the header's. `marker` is the
        marker of a control batch, `None` for data."""
        delta = header.last_offset_delta
        last_offset = base_offset + delta
        self.map_end_offset = last_offset + 1
        if header.producer_id < 0:
            return None
        if self.guards.by_id and header.is_transactional:
            self.guards.on_batch(header)
        if header.is_control:
            return marker and self._replay_marker(header, last_offset, timestamp, marker)
        entry = self.by_id.get(header.producer_id) or self._new_entry(header.producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.enter_epoch(header.producer_epoch)
        last_sequence = (header.base_sequence + delta) % SEQUENCE_COUNT
        entry.batches.append(ProducerBatch(last_sequence, last_offset, delta, timestamp))
        if len(entry.batches) > MAX_CACHED_PRODUCER_BATCHES:
            del entry.batches[0]
        entry.last_timestamp = timestamp
        if entry.txn_first_offset == NO_OFFSET and header.is_transactional:
            entry.txn_first_offset = base_offset
            self._open[base_offset] = None
        return None

    def _replay_marker(
        self, header: BatchHeader, marker_offset: int, timestamp: int, marker: EndTxnMarker
    ) -> AbortedTxn | None:
        entry = self.by_id.get(header.producer_id) or self._new_entry(header.producer_id)
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.txn_first_offset
        if first_offset == NO_OFFSET:
            return None
        entry.txn_first_offset = NO_OFFSET
        self._open.pop(first_offset, None)
        self._completed[first_offset] = marker_offset
        if marker.is_commit:
            return None
        stable = min(self._open, default=marker_offset + 1)
        return AbortedTxn(entry.producer_id, first_offset, marker_offset, stable)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forgets ended transactions whose marker is now replicated."""
        if self._completed:
            ended = self._completed.items()
            self._completed = {first: last for first, last in ended if last >= high_watermark}

    def expire(self, wall_ms: int, expiration_ms: int) -> int:
        """Forgets producers that were idle too long and have no open transaction. Timestamps alone
        do not show which producer is idle: one that copies old records has old timestamps. If the
        log forgot it meanwhile, its next retry would be appended twice. So a producer stays that is
        new here or has written since the last call."""
        expired = []
        for entry in self.by_id.values():
            last_offset = entry.last_offset
            is_idle = last_offset == entry.offset_at_check and entry.txn_first_offset == NO_OFFSET
            if is_idle and wall_ms - entry.last_timestamp >= expiration_ms:
                expired.append(entry.producer_id)
            entry.offset_at_check = last_offset
        for producer_id in expired:
            del self.by_id[producer_id]
            self._expired_end = self.map_end_offset
        self.guards.expire(wall_ms, expiration_ms)
        return len(expired)

    def maybe_rewind_to(self, log_end_offset: int) -> bool:
        """Becomes the state as of an earlier log end if it can; else changes nothing. After an
        election a log is cut by the last few batches, while replaying its newest segment may take
        seconds. Of each producer the batches that remain are enough: those that were cut are the
        newest of the five that its client may have in flight. Of a producer that was forgotten
        nothing shows whether its transaction is open again."""
        if self._open or self._completed or log_end_offset < self._expired_end:
            return False
        self.guards.by_id.clear()
        kept: list[tuple[ProducerEntry, int]] = []
        for entry in self.by_id.values():
            count = sum(1 for batch in entry.batches if batch.last_offset < log_end_offset)
            if not count or entry.coordinator_epoch >= 0:
                return False
            if count < len(entry.batches):
                kept.append((entry, count))
        for entry, count in kept:
            del entry.batches[count:]
            entry.last_timestamp = entry.batches[-1].timestamp
            # The batches that come instead may end at the same offset.
            entry.offset_at_check = NEVER_CHECKED
        self.map_end_offset = log_end_offset
        return True

    def clear(self, map_end_offset: int) -> None:
        """Forgets everything; the state is that of an empty log at `map_end_offset`."""
        self.by_id.clear()
        self._open.clear()
        self._completed.clear()
        self.guards.by_id.clear()
        self.map_end_offset = map_end_offset
        self._expired_end = 0

    def _new_entry(self, producer_id: int) -> ProducerEntry:
        entry = self.by_id[producer_id] = ProducerEntry(producer_id)
        return entry

    # Snapshots -------------------------------------------------------------------------------

    def encode_snapshot(self) -> bytes:
        """The snapshot file of the state at `map_end_offset`."""
        return encode_snapshot(self.by_id.values())

    def load_snapshot(self, data: bytes, offset: int) -> None:
        """Becomes the state in a snapshot file taken at `offset`. No producer is forgotten here,
        however old its timestamps: the next two calls of `expire` find out which are idle. Raises
        `SnapshotDamaged` and leaves the state empty."""
        self.clear(offset)
        # Who was forgotten before the snapshot was taken is not in it either.
        self._expired_end = offset
        entries = decode_snapshot(data)
        check_entries(entries, offset)
        self.by_id.update((entry.producer_id, entry) for entry in entries)
        firsts = sorted(entry.txn_first_offset for entry in entries)
        self._open = dict.fromkeys(first for first in firsts if first != NO_OFFSET)

    def complete_windows(self, headers: Sequence[BatchHeader]) -> None:
        """Puts the batches that a snapshot left out before the one it holds. `headers` are batches
        of the log in order, up to the snapshot's offset. Those of another epoch than the producer's
        present one do not count, and neither does anything when the snapshot's own batch is not
        among them."""
        windows: dict[int, list[ProducerBatch]] = {}
        for header in headers:
            entry = self.by_id.get(header.producer_id)
            same_epoch = entry is not None and header.producer_epoch == entry.producer_epoch
            if same_epoch and not header.is_control:
                sequence, offset = header.last_sequence, header.last_offset
                delta, timestamp = header.last_offset_delta, header.max_timestamp
                batch = ProducerBatch(sequence, offset, delta, timestamp)
                windows.setdefault(header.producer_id, []).append(batch)
        for producer_id, window in windows.items():
            known = self.by_id[producer_id].batches
            if known and known[-1].last_offset == window[-1].last_offset:
                known[:-1] = window[-MAX_CACHED_PRODUCER_BATCHES:-1]

    def check(self, log_end_offset: int) -> None:
        """Asserts that transactions and entries agree."""
        assert self.map_end_offset <= log_end_offset, f"{self.map_end_offset} > {log_end_offset}"
        firsts = list(self._open)
        assert firsts == sorted(firsts), f"open transactions out of order: {firsts}"
        for entry in self.by_id.values():
            count = len(entry.batches)
            assert count <= MAX_CACHED_PRODUCER_BATCHES, f"{count} batches cached"
        known = [entry.txn_first_offset for entry in self.by_id.values()]
        begun = sorted(first for first in known if first != NO_OFFSET)
        assert begun == firsts, f"OpenIsNeverForgotten: {begun} of {firsts}"
