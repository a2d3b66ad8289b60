"""What a cleaning keeps of one batch.

A record stays when it is the newest of its key, or lies beyond what the map knows. A tombstone (a
record without a value) stays until the *delete horizon* of its batch: `delete.retention.ms` after
the first cleaning that met it. So a reader that began before the value was removed sees the
tombstone, unless it takes longer than that. The horizon stands in the batch's header, in place of
the base timestamp, and replicas that clean at other times have other horizons.

What happens to a batch as a whole:

| batch | outcome |
| --- | --- |
| beyond the decided part | the same bytes |
| of an aborted transaction | all records go |
| marker of a transaction of which nothing is left | goes after its delete horizon |
| any other marker | stays |
| last one of a producer that the log remembers, or of the log | stays, without records if need be |
| first one of a leader epoch; first or last one of a segment | the same |
| nothing of it stays | goes |
| all of it stays | the same bytes |

Base offset, last offset, sequences and epochs of a batch never change, so that offsets keep their
meaning and a producer's next sequence still follows.

A follower of a cleaned log learns from batches where leader epochs began. Once it leads, it knows
by that which records of an older epoch were never committed (KIP-101). So the first batch of an
epoch stays; Kafka's may go. These are no more than the entries of `leader-epoch-checkpoint`. After
a deletion the log begins with a segment, and the epoch of its first batch begins there.

Source: Kafka's `Cleaner.cleanInto`, `MemoryRecords.filterTo`; KIP-534.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import le
from typing import Final, NamedTuple

from tidelog.config import LONG_MAX
from tidelog.limits import RECORDS_CLEANED_PER_STEP, RECORDS_OF_RUNS_PER_WORK
from tidelog.log.batch_file import ScannedBatch
from tidelog.log.cleaning.offset_map import NEWEST, TOMBSTONE, OffsetMap
from tidelog.log.cleaning.transactions import SeenTransactions
from tidelog.model import NO_TIMESTAMP
from tidelog.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    BatchHeader,
    rebuild,
)
from tidelog.records.compression import Codec, decompress
from tidelog.records.compression import compress as compress_body
from tidelog.records.record_runs import (
    Irregular,
    RecordRun,
    keys_of,
    offsets_of,
    runs_of,
    timestamps_of,
)
from tidelog.records.walking import timestamp_delta_of, walk_records, with_timestamp_delta

_NEWEST_ONLY: Final = bytes(mark & NEWEST for mark in range(256))


@dataclass(frozen=True, slots=True)
class Rules:
    """By what one round of cleaning judges batches."""

    newest: OffsetMap
    decided_end: int
    """Exclusive: where the part ends that may be cleaned. A segment may reach further."""
    wall_ms: int
    """When the round began."""
    delete_retention_ms: int
    kept_ends: frozenset[int]
    """Ends (exclusive) of batches that stay, if need be without records."""
    last_batches: dict[int, tuple[int, int]]
    """Of each producer that the log remembers: last offset of its data, -1 for none, and epoch."""

    def is_last(self, header: BatchHeader) -> bool:
        """Whether the batch stays for what its header says."""
        if header.last_offset + 1 in self.kept_ends:
            return True
        known = self.last_batches.get(header.producer_id)
        if known is None:
            return False
        last_offset, epoch = known
        if last_offset >= 0:
            return last_offset == header.last_offset
        return header.is_control and header.producer_epoch == epoch


def records_in(batch: ScannedBatch) -> tuple[bytes, int]:
    """Bytes that end with the records of a batch, and where these begin. Raises `CorruptBatch`."""
    codec = batch.header.codec
    if codec == Codec.NONE:
        return batch.data, HEADER_BYTES
    return decompress(codec, batch.data[HEADER_BYTES:]), 0


def rewritten(batch: ScannedBatch, rules: Rules, seen: SeenTransactions) -> Iterator[bytes | int]:
    """Yields the work of each part after it is done, and last what takes the batch's place: empty
    bytes for nothing. Raises `CorruptBatch` for records that cannot be read."""
    header = batch.header
    if header.base_offset >= rules.decided_end:
        seen.on_undecided(header)
        yield batch.data
    elif header.is_control:
        yield _control(batch, rules, is_spent=seen.on_control(header, batch.data))
    elif seen.on_data(header):
        yield _emptied(header, rules)
    else:
        yield from _filtered(batch, rules)


def _control(batch: ScannedBatch, rules: Rules, *, is_spent: bool) -> bytes:
    header = batch.header
    if not is_spent or not header.record_count:
        is_kept = header.record_count or rules.is_last(header)
        return batch.data if is_kept else b""
    horizon_ms = header.delete_horizon_ms
    if horizon_ms is None:
        return _with_horizon(header, batch.data[HEADER_BYTES:], rules)
    return _emptied(header, rules) if horizon_ms <= rules.wall_ms else batch.data


def _emptied(header: BatchHeader, rules: Rules) -> bytes:
    if not rules.is_last(header):
        return b""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    changed = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0)
    return rebuild(changed, b"")


class _Kept:
    """What stays of the records of a batch: pieces of its body."""

    __slots__ = ("count", "has_tombstones", "pieces")

    def __init__(self) -> None:
        # (first byte, byte after the last, bytes of each record in between).
        self.pieces: list[tuple[int, int, int]] = []
        self.count = 0
        self.has_tombstones = False

    def add(self, start: int, stop: int) -> None:
        """One record."""
        self.pieces.append((start, stop, stop - start))
        self.count += 1

    def add_some(self, run: RecordRun, flags: Sequence[int]) -> None:
        """Those records of a run that have a flag."""
        size_bytes, count = run.size_bytes, flags.count(1)
        self.count += count
        if count == len(flags):
            self.pieces.append((run.start, run.end, size_bytes))
            return
        pieces, end = self.pieces, -1
        begin = end
        for start in compress(range(run.start, run.end, size_bytes), flags):
            if start != end:
                if end >= 0:
                    pieces.append((begin, end, size_bytes))
                begin = start
            end = start + size_bytes
        if end >= 0:
            pieces.append((begin, end, size_bytes))


def _filtered(batch: ScannedBatch, rules: Rules) -> Iterator[bytes | int]:
    header, marks = batch.header, rules.newest.marks_of(batch.header)
    if marks is not None:
        stays = marks.count(NEWEST)
        if stays == header.record_count and stays:
            yield batch.data
            return
        if not stays and NEWEST | TOMBSTONE not in marks:
            yield _emptied(header, rules)
            return
    body, at = records_in(batch)
    horizon_ms = header.delete_horizon_ms
    tombstones_stay = horizon_ms is None or rules.wall_ms < horizon_ms
    judge = _Judge(header, body, at, rules.newest, marks, tombstones_stay)
    kept = _Kept()
    try:
        yield from judge.look_at(kept)
    except Irregular:
        kept = _Kept()
        yield from judge.walk(kept)
    needs_horizon = kept.has_tombstones and horizon_ms is None
    if kept.count == header.record_count and kept.count and not needs_horizon:
        yield batch.data
    elif not kept.count:
        yield _emptied(header, rules)
    else:
        yield from _with_records(header, body, kept, rules if needs_horizon else None)


class _Judge(NamedTuple):
    """Which records of one batch stay."""

    header: BatchHeader
    body: bytes
    at: int
    """Where its records begin."""
    newest: OffsetMap
    marks: bytearray | None
    """Of the batch; without them the keys are looked up."""
    tombstones_stay: bool

    def walk(self, kept: _Kept) -> Iterator[int]:
        """Looks at one record after the other."""
        base_offset, end = self.header.base_offset, self.newest.end_offset
        marks, number = self.marks or b"", 0
        records = walk_records(self.body, self.header.record_count, self.at)
        for number, (start, stop, delta, key, has_value) in enumerate(records, start=1):
            offset = base_offset + delta
            if 0 <= delta < len(marks):
                stays = marks[delta] & NEWEST
            else:
                stays = key is not None and offset >= self.newest.newest(key)
            if offset >= end or (stays and (has_value or self.tombstones_stay)):
                kept.add(start, stop)
                kept.has_tombstones |= not has_value
            if number % RECORDS_CLEANED_PER_STEP == 0:
                yield RECORDS_CLEANED_PER_STEP
        yield number % RECORDS_CLEANED_PER_STEP

    def look_at(self, kept: _Kept) -> Iterator[int]:
        """The same for records of few layouts, all below what the map knows. Raises `Irregular` for
        others, when some may have been kept already."""
        if self.header.last_offset >= self.newest.end_offset:
            raise Irregular
        count, most = self.header.record_count, RECORDS_CLEANED_PER_STEP
        for run in runs_of(self.body, count, most, self.at):
            if run.has_keys and (run.has_values or self.tombstones_stay):
                flags = self._flags_of(run)
                kept.has_tombstones |= not run.has_values and 1 in flags
                kept.add_some(run, flags)
            yield len(run.deltas) // RECORDS_OF_RUNS_PER_WORK

    def _flags_of(self, run: RecordRun) -> Sequence[int]:
        """1 for each record that is the newest of its key."""
        deltas, marks = run.deltas, self.marks
        if marks is not None and isinstance(deltas, range) and deltas.stop <= len(marks):
            return marks[deltas.start : deltas.stop].translate(_NEWEST_ONLY)
        offsets = offsets_of(run, self.header.base_offset)
        return list(map(le, self.newest.newest_of(keys_of(run, self.body)), offsets))


def _with_records(
    header: BatchHeader, body: bytes, kept: _Kept, rules: Rules | None
) -> Iterator[bytes | int]:
    """The batch with these records; with rules it gets a delete horizon."""
    base = header.base_timestamp
    new_base = base if rules is None else rules.wall_ms + rules.delete_retention_ms
    parts: list[bytes] = []
    largest = -(1 << 63)
    for first, end, size_bytes in kept.pieces:
        deltas = timestamps_of(body, first, end, size_bytes)
        largest = max(largest, *deltas)
        if rules is None:
            parts.append(body[first:end])
        else:
            for start, delta in zip(range(first, end, size_bytes), deltas, strict=True):
                stop = start + size_bytes
                parts.append(with_timestamp_delta(body, start, stop, base + delta - new_base))
    yield kept.count // (RECORDS_OF_RUNS_PER_WORK if rules is None else 1)
    attributes = header.attributes | (DELETE_HORIZON_FLAG if rules is not None else 0)
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        # A client's records may have a sum that no header has a place for.
        max_timestamp = max(-LONG_MAX, min(base + largest, LONG_MAX))
    changed = header._replace(
        attributes=attributes,
        base_timestamp=new_base,
        max_timestamp=max_timestamp,
        record_count=kept.count,
    )
    yield rebuild(changed, compress_body(Codec(header.codec), b"".join(parts)))


def _with_horizon(header: BatchHeader, body: bytes, rules: Rules) -> bytes:
    """A control batch with a delete horizon: it has one record and is not compressed."""
    horizon_ms = rules.wall_ms + rules.delete_retention_ms
    delta = header.base_timestamp + timestamp_delta_of(body, 0) - horizon_ms
    changed = header._replace(
        attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=horizon_ms
    )
    return rebuild(changed, with_timestamp_delta(body, 0, len(body), delta))
