"""What a cleaning keeps of one batch.

A record stays when it is the newest of its key, or lies beyond what the map knows. A tombstone (a
record without a value) stays until the *delete horizon* of its batch: `delete.retention.ms` after
the first cleaning that met it. So a reader that began before the value was removed sees the
tombstone, unless it takes longer than that. The horizon stands in the batch's header, in place of
the base timestamp, and replicas that clean at other times have other horizons.

What happens to a batch as a whole:

| batch | outcome |
| --- | --- |
| of an aborted transaction | all records go |
| marker of a transaction of which nothing is left | goes after its delete horizon |
| any other marker | stays |
| last one of a producer that the log remembers, or of the log | stays, without records if need be |
| nothing of it stays | goes |
| all of it stays | the same bytes |

Base offset, last offset, sequences and epochs of a batch never change, so that offsets keep their
meaning and a producer's next sequence still follows.

Source: Kafka's `Cleaner.cleanInto`, `MemoryRecords.filterTo`; KIP-534.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.limits import RECORDS_CLEANED_PER_STEP
from tidelog.log.batch_file import ScannedBatch
from tidelog.log.cleaning.offset_map import OffsetMap
from tidelog.log.cleaning.transactions import SeenTransactions
from tidelog.model import NO_TIMESTAMP
from tidelog.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    BatchHeader,
    rebuild,
)
from tidelog.records.compression import Codec, compress, decompress
from tidelog.records.walking import timestamp_delta_of, walk_records, with_timestamp_delta


@dataclass(frozen=True, slots=True)
class Rules:
    """By what one round of cleaning judges batches."""

    newest: OffsetMap
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


def rewritten(batch: ScannedBatch, rules: Rules, seen: SeenTransactions) -> Iterator[bytes | None]:
    """Yields `None` after each part of the work, and last what takes the batch's place: empty bytes
    for nothing. Raises `CorruptBatch` for records that cannot be read."""
    header = batch.header
    if header.is_control:
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


def _filtered(batch: ScannedBatch, rules: Rules) -> Iterator[bytes | None]:
    header = batch.header
    body = decompress(header.codec, batch.data[HEADER_BYTES:])
    base_offset, newest, end = header.base_offset, rules.newest.newest, rules.newest.end_offset
    horizon_ms = header.delete_horizon_ms
    tombstones_stay = horizon_ms is None or rules.wall_ms < horizon_ms
    kept: list[tuple[int, int]] = []
    has_tombstones = False
    for number, record in enumerate(walk_records(body, header.record_count), start=1):
        start, stop, delta, key, has_value = record
        offset = base_offset + delta
        if offset >= end or (
            key is not None and offset >= newest(key) and (has_value or tombstones_stay)
        ):
            kept.append((start, stop))
            has_tombstones |= not has_value
        if number % RECORDS_CLEANED_PER_STEP == 0:
            yield None
    needs_horizon = has_tombstones and horizon_ms is None
    if len(kept) == header.record_count and kept and not needs_horizon:
        yield batch.data
    elif not kept:
        yield _emptied(header, rules)
    else:
        yield from _with_records(header, body, kept, rules if needs_horizon else None)


def _with_records(
    header: BatchHeader, body: bytes, kept: list[tuple[int, int]], rules: Rules | None
) -> Iterator[bytes | None]:
    """The batch with these records; with rules it gets a delete horizon."""
    base = header.base_timestamp
    new_base = base if rules is None else rules.wall_ms + rules.delete_retention_ms
    parts: list[bytes] = []
    largest = -(1 << 63)
    for number, (start, stop) in enumerate(kept, start=1):
        delta = timestamp_delta_of(body, start)
        largest = max(largest, delta)
        if new_base == base:
            parts.append(body[start:stop])
        else:
            parts.append(with_timestamp_delta(body, start, stop, base + delta - new_base))
        if number % RECORDS_CLEANED_PER_STEP == 0:
            yield None
    attributes = header.attributes | (DELETE_HORIZON_FLAG if rules is not None else 0)
    max_timestamp = header.max_timestamp if header.is_log_append_time else base + largest
    changed = header._replace(
        attributes=attributes,
        base_timestamp=new_base,
        max_timestamp=max_timestamp,
        record_count=len(kept),
    )
    yield rebuild(changed, compress(Codec(header.codec), b"".join(parts)))


def _with_horizon(header: BatchHeader, body: bytes, rules: Rules) -> bytes:
    """A control batch with a delete horizon: it has one record and is not compressed."""
    horizon_ms = rules.wall_ms + rules.delete_retention_ms
    delta = header.base_timestamp + timestamp_delta_of(body, 0) - horizon_ms
    changed = header._replace(
        attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=horizon_ms
    )
    return rebuild(changed, with_timestamp_delta(body, 0, len(body), delta))
