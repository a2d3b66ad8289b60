"""What a task of an export does: the records of some segment files into one Parquet file.

Records go from the log's bytes to Arrow to Parquet within one process. Spark's own writer would get
them row by row instead: from Arrow to Spark's rows to columns again, several times the work.

A segment's offsets begin at the offset in its file name, and end at that of the next segment. So
each task can check by itself that batches hold all of them. If not, records are missing that no
cleaner removed: the task fails and names them.

The file's name is that of no other attempt. It counts when the driver has its report
(`jobs/export.py`); a task that fails deletes it, one that is killed leaves it. No Spark import.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np

from tidelog.errors import CorruptBatch, UsageError
from tidelog.pipeline.batches import BatchTable
from tidelog.pipeline.logs.layout import Replica, SegmentPlace
from tidelog.pipeline.logs.scan import SEGMENT_RECORD_SCHEMA, scan_records
from tidelog.pipeline.row_groups import RowGroup, parquet_writer
from tidelog.pipeline.spark_columns import arrow_schema

COMPRESSION: Final = "snappy"
"""As Spark's own files have it."""


@dataclass(frozen=True, slots=True)
class Portion:
    """A segment file and the offsets that are wanted of it."""

    place: SegmentPlace
    start_offset: int
    end_offset: int
    """Exclusive."""
    gaps_to: int
    """Up to this offset some may be missing, because the log was compacted."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a file has of one partition."""

    file: str
    size_bytes: int
    """Of the whole file."""
    topic: str
    partition: int
    records: int


WRITTEN_SCHEMA: Final = arrow_schema(
    "file string, size_bytes bigint, topic string, partition int, records bigint"
)


def portions_of(replica: Replica, *, allow_gaps: bool = False) -> dict[SegmentPlace, Portion]:
    """The committed offsets that each segment of a replica must hold; segments without any are left
    out. `allow_gaps` takes what there is. Raises `UsageError` when it has committed offsets and no
    segment."""
    if not (replica.segments or allow_gaps) and replica.log_start < replica.high_watermark:
        raise UsageError(
            f"broker {replica.broker} has no segment of `{replica.topic}-{replica.partition}`, "
            f"which has committed offsets up to {replica.high_watermark}",
            "name other brokers' directories, or take what there is with `--allow-gaps`",
        )
    bases = [place.base_offset for place in replica.segments]
    gaps_to = replica.high_watermark if allow_gaps else replica.cleaned_to
    portions = {}
    for place, begin, end in zip(
        replica.segments, bases, [*bases[1:], replica.high_watermark], strict=False
    ):
        start, end = max(begin, replica.log_start), min(end, replica.high_watermark)
        if start < end:
            portions[place] = Portion(place, start, end, gaps_to)
    return portions


def require_new(out: Path) -> None:
    """Raises `UsageError` when the directory exists: files of two exports are never mixed."""
    if out.exists():
        raise UsageError(f"`{out}` exists already", "name a new directory with `--out`")


def write_file(directory: Path, portions: Sequence[Portion]) -> list[Written]:
    """Writes the records of the portions, in their order, with the columns of
    `SEGMENT_RECORD_SCHEMA`, to a new file in the existing `directory`; to none when there are no
    records. Raises `CorruptBatch`, also for offsets that are missing, `StorageError`, `OSError`;
    then it has deleted the file."""
    path = directory / f"part-{uuid4()}.parquet"
    counts: dict[tuple[str, int], int] = {}
    try:
        with parquet_writer(path, SEGMENT_RECORD_SCHEMA, COMPRESSION) as writer:
            row_group = RowGroup()
            for one in portions:
                key = one.place.topic, one.place.partition
                continuity = _Continuity(one)
                for batch in scan_records(
                    one.place,
                    SEGMENT_RECORD_SCHEMA.names,
                    start_offset=one.start_offset,
                    end_offset=one.end_offset,
                    on_batches=continuity.on_batches,
                ):
                    row_group.add(batch)
                    counts[key] = counts.get(key, 0) + len(batch)
                    if row_group.is_full:
                        writer.write_table(row_group.take())
                continuity.on_end()
            rest = row_group.take()
            if rest is not None:
                writer.write_table(rest)
        size_bytes = path.stat().st_size
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if not counts:
        path.unlink()
    return [Written(path.name, size_bytes, *key, records) for key, records in counts.items()]


class _Continuity:
    """Follows the batches of a portion: each begins where the one before it ended."""

    def __init__(self, portion: Portion) -> None:
        self._portion = portion
        # Where the next batch must begin; `None` before the first one, which may begin below.
        self._next_offset: int | None = None

    def on_batches(self, table: BatchTable) -> None:
        """Raises `CorruptBatch` for a gap before or among them, and for offsets that come twice."""
        bases, lasts = table.base_offsets, table.last_offsets
        if self._next_offset is None:
            self._next_offset = min(self._portion.start_offset, int(bases[0]))
        wanted = np.append(self._next_offset, lasts[:-1] + 1)
        for row in np.flatnonzero(bases != wanted).tolist():
            self._judge(int(wanted[row]), int(bases[row]))
        self._next_offset = int(lasts[-1]) + 1

    def on_end(self) -> None:
        """Raises `CorruptBatch` when they end before the portion does."""
        end = self._portion.end_offset
        reached = self._portion.start_offset if self._next_offset is None else self._next_offset
        self._judge(min(reached, end), end)

    def _judge(self, wanted: int, base: int) -> None:
        one = self._portion
        if base < wanted and base < one.end_offset and wanted > one.start_offset:
            raise CorruptBatch(f"{one.place}: offset {base} follows offset {wanted - 1}")
        first, end = max(wanted, one.start_offset), min(base, one.end_offset)
        if first < end and end > one.gaps_to:
            raise CorruptBatch(f"{one.place}: no batch holds the offsets [{first}, {end})")
