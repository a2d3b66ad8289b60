"""Segment files as runs of batches: what an audit compares instead of single batches.

A *run* is a sequence of batches of one file in which each batch follows the one before it: the
next offset, an epoch that is not lower, no fault in either. A batch with a possible fault is a run
of its own. So the task that reads the file compares all neighbours, in numpy. Only the borders
between runs are left to compare, which may be in two files. There is one run in some megabytes,
instead of one batch in some hundred bytes.

Each broker rolls its segments by itself, so runs of two replicas do not begin at the same places.
What can be compared is their sum over a *bucket* of offsets: a digest of every batch's header,
added up. Runs therefore end at the borders of buckets, and at the borders of *zones*: a zone ends
at every offset where some replica of the partition begins or ends to be judged, or was cleaned up
to. All batches of a bucket's zone count on a replica, or none does.

Where two brokers' sums differ, `read_single_batches` reads the runs of that bucket again, a row
per batch. A digest has 64 bits, and equal sums also need equal numbers of batches and of bytes.

Invariants: the runs of a file hold all its whole batches, each one once, in order; all batches of
a run have the same bucket and zone, and the same answers to whether they are judged and cleaned.
No Spark import here.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.pipeline.batches import BatchTable, computed_crcs, read_batches
from tidelog.pipeline.logs.index_check import SegmentIndexes
from tidelog.pipeline.logs.layout import Replica, SegmentPlace
from tidelog.pipeline.logs.scan import is_sampled, place_column, scan_windows, trailing_bytes
from tidelog.pipeline.logs.segments import Span
from tidelog.pipeline.spark_columns import PLACE_TYPES, arrow_schema, types_of
from tidelog.pipeline.varints import Int64s

BATCH_RUN_SCHEMA: Final = arrow_schema(
    PLACE_TYPES
    | types_of(
        "position bigint, size bigint, batches int, base_offset bigint, first_last_offset bigint, "
        "last_offset bigint, first_epoch int, last_epoch int, bucket bigint, zone int, "
        "is_judged boolean, cleaned_to bigint, digest bigint, crc bigint, computed_crc bigint, "
        "index_fault string, trailing_bytes bigint"
    )
)
"""A row per run. `first_last_offset` is the last offset of its first batch; `crc` and
`computed_crc` are null unless they differ."""

SINGLE_BATCH_SCHEMA: Final = arrow_schema(
    PLACE_TYPES
    | types_of(
        "position bigint, size int, base_offset bigint, last_offset bigint, is_compared boolean, "
        "digest bigint"
    )
)
"""A row per batch; `is_compared` when it is judged, not cleaned and undamaged."""

BUCKET_BITS: Final = 16
"""A bucket is 65,536 offsets: few rows, and little to read again where replicas differ."""

_DIGESTED: Final = (
    "base_offset", "last_offset_delta", "leader_epoch", "magic", "crc", "batch_length",
    "record_count",
)  # fmt: skip
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
_HALF: Final = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which batches of a replica count, and where that changes on any replica of its partition."""

    log_start: int
    """Batches that end below are not judged."""
    high_watermark: int
    """Batches that do not end below are not judged."""
    cleaned_to: int
    """Offsets below may be missing; batches that begin there are not compared."""
    judged_borders: tuple[int, ...]
    """All replicas' log starts and high watermarks, ascending."""
    cleaned_borders: tuple[int, ...]
    """All replicas' `cleaned_to`, ascending."""


def bounds_of(replicas: Sequence[Replica]) -> dict[tuple[str, int, int], Bounds]:
    """The bounds of each replica by topic, partition and broker; all of a partition at once."""
    judged: dict[tuple[str, int], set[int]] = defaultdict(set)
    cleaned: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in replicas:
        judged[one.topic, one.partition] |= {one.log_start, one.high_watermark}
        cleaned[one.topic, one.partition].add(one.cleaned_to)
    return {
        (one.topic, one.partition, one.broker): Bounds(
            one.log_start,
            one.high_watermark,
            one.cleaned_to,
            tuple(sorted(judged[one.topic, one.partition])),
            tuple(sorted(cleaned[one.topic, one.partition])),
        )
        for one in replicas
    }


def scan_batch_runs(
    place: SegmentPlace, bounds: Bounds, sample: int = 1
) -> Iterator[pa.RecordBatch]:
    """The runs of a segment, by `BATCH_RUN_SCHEMA`. With `sample` k one batch in k, the same ones
    on every replica, gets its CRC recomputed. A file that retention deleted meanwhile has no rows.
    Raises `StorageError`, which names the file."""
    path = Path(place.path)
    indexes = SegmentIndexes.read(path)
    for table, span, is_last in scan_windows(place):
        faults = indexes.faults(table, span.position, is_last)
        trailing = trailing_bytes(path, span.end) if is_last else None
        columns = _runs(table, span, bounds, _computed(table, sample), faults, trailing)
        yield _rows(BATCH_RUN_SCHEMA, place, columns)


def _computed(table: BatchTable, sample: int) -> Int64s:
    """The recomputed CRC of each batch; the stored one where the sample leaves it out."""
    if sample == 1:
        return computed_crcs(table)
    sampled = is_sampled(table.base_offsets, sample)
    values = table.field("crc")
    values[sampled] = computed_crcs(table.select(sampled))
    return values


def _runs(
    table: BatchTable,
    span: Span,
    bounds: Bounds,
    computed: Int64s,
    faults: Sequence[str | None],
    trailing: int | None,
) -> dict[str, pa.Array]:
    bases, lasts, epochs = table.base_offsets, table.last_offsets, table.field("leader_epoch")
    stored = table.field("crc")
    alone = (computed != stored) | (lasts < bases)
    alone[[row for row, fault in enumerate(faults) if fault]] = True
    alone[-1] |= trailing is not None
    traits = {
        "bucket": bases >> BUCKET_BITS,
        "zone": _zones(bounds, bases, lasts),
        "is_judged": (lasts >= bounds.log_start) & (lasts < bounds.high_watermark),
    }
    begins = alone.copy()
    begins[0] = True
    begins[1:] |= alone[:-1]
    begins[1:] |= bases[1:] <= lasts[:-1]
    begins[1:] |= (bases[1:] != lasts[:-1] + 1) & (bases[1:] > bounds.cleaned_to)
    begins[1:] |= epochs[1:] < epochs[:-1]
    for values in traits.values():
        begins[1:] |= values[1:] != values[:-1]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(table)) - 1
    is_sound = (computed == stored)[first]
    return {
        "position": pa.array(table.positions[first] + span.position),
        "size": pa.array(np.add.reduceat(table.sizes, first)),
        "batches": pa.array((last - first + 1).astype(np.int32)),
        "base_offset": pa.array(bases[first]),
        "first_last_offset": pa.array(lasts[first]),
        "last_offset": pa.array(lasts[last]),
        "first_epoch": pa.array(epochs[first].astype(np.int32)),
        "last_epoch": pa.array(epochs[last].astype(np.int32)),
        "cleaned_to": pa.repeat(pa.scalar(bounds.cleaned_to), len(first)),
        "digest": pa.array(np.add.reduceat(_digests(table), first).view(np.int64)),
        "crc": pa.array(stored[first], mask=is_sound),
        "computed_crc": pa.array(computed[first], mask=is_sound),
        "index_fault": pa.array([faults[row] for row in first.tolist()], pa.string()),
        "trailing_bytes": pa.array([None] * (len(first) - 1) + [trailing], pa.int64()),
        **{name: pa.array(values[first]) for name, values in traits.items()},
    }


def _zones(bounds: Bounds, bases: Int64s, lasts: Int64s) -> npt.NDArray[np.int32]:
    """The zone of each batch: how many borders lie at or below it, of both kinds."""
    judged = np.searchsorted(np.array(bounds.judged_borders), lasts, side="right")
    cleaned = np.searchsorted(np.array(bounds.cleaned_borders), bases, side="right")
    return (judged * (len(bounds.cleaned_borders) + 1) + cleaned).astype(np.int32)


def _digests(table: BatchTable) -> npt.NDArray[np.uint64]:
    """64 well mixed bits of what must be equal on all replicas of a batch; callers compare sums."""
    mixed = np.zeros(len(table), dtype=np.uint64)
    for name in _DIGESTED:
        mixed = (mixed ^ table.field(name).view(np.uint64)) * _MIX[0]
        mixed ^= mixed >> _HALF
    mixed *= _MIX[1]
    return np.asarray(mixed ^ (mixed >> _HALF))


def read_single_batches(runs: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batches of each run, read again, by `SINGLE_BATCH_SCHEMA`; a file that was deleted
    meanwhile has none."""
    for row in runs.to_pylist():
        place = SegmentPlace(row["broker"], row["topic"], row["partition"], row["segment"], 0)
        try:
            with Path(place.path).open("rb") as file:
                file.seek(row["position"])
                table = read_batches(file.read(row["size"]), stop_at_damage=True)
        except FileNotFoundError:
            continue
        is_compared = (
            row["is_judged"]
            and row["base_offset"] >= row["cleaned_to"]
            and row["computed_crc"] is None
        )
        columns = {
            "position": pa.array(table.positions + row["position"]),
            "size": pa.array(table.sizes.astype(np.int32)),
            "base_offset": pa.array(table.base_offsets),
            "last_offset": pa.array(table.last_offsets),
            "is_compared": pa.repeat(pa.scalar(is_compared), len(table)),
            "digest": pa.array(_digests(table).view(np.int64)),
        }
        yield _rows(SINGLE_BATCH_SCHEMA, place, columns)


def _rows(schema: pa.Schema, place: SegmentPlace, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    length = len(columns["position"])
    of_file = {name: place_column(place, name, length) for name in PLACE_TYPES}
    return pa.RecordBatch.from_arrays(
        [(of_file | columns)[name] for name in schema.names], schema=schema
    )
