"""One segment file as Arrow rows: a row per record batch, or a row per record.

*Batches* is for auditors: every header field, where the bytes are, the CRC-32C recomputed from
them, and what is wrong with the index entries that point there. *Records* is for users; damaged
batches raise `CorruptBatch` there.

A segment is read up to its last whole batch. Bytes behind it that are not zeros are a torn append,
or damage; `trailing_bytes` is their number, on the last row of the file. A file without any whole
batch has no row. An audit then finds that the replica does not reach the file's offsets.

Only the wanted columns are computed; the CRC costs most. No Spark import here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import CorruptBatch, StorageError
from tidelog.pipeline.batches import HEADER_FIELDS, BatchTable, check_crcs, computed_crcs
from tidelog.pipeline.decode import decode_table
from tidelog.pipeline.logs.index_check import SegmentIndexes
from tidelog.pipeline.logs.layout import SegmentPlace
from tidelog.pipeline.logs.segments import Span, segment_windows
from tidelog.pipeline.spark_columns import BATCH_TYPES, PLACE_TYPES, RECORD_TYPES, arrow_schema
from tidelog.pipeline.varints import Int64s

BATCH_SCHEMA: Final = arrow_schema(BATCH_TYPES)
SEGMENT_RECORD_SCHEMA: Final = arrow_schema(PLACE_TYPES | RECORD_TYPES)

_MAX_OFFSET: Final = 2**63 - 1
_FIELD_OF: Final = {name: name for name in HEADER_FIELDS.names or ()} | {
    "base_timestamp_ms": "base_timestamp",
    "max_timestamp_ms": "max_timestamp",
    "records": "record_count",
}
"""The columns that are fields of the batch header as they are."""


def scan_batches(
    place: SegmentPlace, columns: Sequence[str], sample: int = 1
) -> Iterator[pa.RecordBatch]:
    """The batches of a segment with the chosen columns of `BATCH_SCHEMA`. With `sample` k only one
    batch in k, the same ones on every replica, gets a `computed_crc`; it is null on the others. A
    file that retention deleted meanwhile has no rows."""
    schema = pa.schema([BATCH_SCHEMA.field(name) for name in columns])
    path = Path(place.path)
    indexes = SegmentIndexes.read(path) if "index_fault" in columns else None
    for table, span, is_last in scan_windows(place):
        view = _Window(place, table, span, is_last, indexes, sample)
        yield pa.RecordBatch.from_arrays([view.column(name) for name in columns], schema=schema)


def scan_records(
    place: SegmentPlace,
    columns: Sequence[str],
    *,
    start_offset: int = 0,
    end_offset: int = _MAX_OFFSET,
    on_batches: Callable[[BatchTable], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """The records of a segment from `start_offset` up to `end_offset` exclusive, with the chosen
    columns of `SEGMENT_RECORD_SCHEMA`. `on_batches` gets all batches, before their records. Raises
    `CorruptBatch`, which names the file; also for bytes that are not a batch in any file but the
    replica's last."""
    schema = pa.schema([SEGMENT_RECORD_SCHEMA.field(name) for name in columns])
    own = [name for name in columns if name in RECORD_TYPES]
    position = 0
    for table, span in _existing(place):
        position = span.end
        try:
            check_crcs(table)
            on_batches(table)
            for batch in decode_table(
                table, start_offset=start_offset, end_offset=end_offset, columns=own or ["offset"]
            ):
                arrays = [
                    batch.column(name) if name in own else place_column(place, name, len(batch))
                    for name in columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except CorruptBatch as error:
            raise CorruptBatch(f"{place}: {error.message}", error.code) from error
    _check_end(place, position)


def is_sampled(base_offsets: Int64s, sample: int) -> npt.NDArray[np.bool_]:
    """Which batches are in a sample of one in `sample`: a hash of the base offset decides."""
    mixed = base_offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(33)) % np.uint64(sample) == 0)


def scan_windows(place: SegmentPlace) -> Iterator[tuple[BatchTable, Span, bool]]:
    """The whole batches of a segment, some megabytes at a time: where their bytes are, and whether
    they are the last ones. None when the file was deleted. Raises `StorageError`, which names
    it."""
    windows = _existing(place)
    held = next(windows, None)
    while held is not None:
        following = next(windows, None)
        yield *held, following is None
        held = following


def _existing(place: SegmentPlace) -> Iterator[tuple[BatchTable, Span]]:
    """The windows of a file; none when it was deleted. Raises `StorageError`, which names it."""
    try:
        yield from segment_windows(Path(place.path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(
            place.path,
            f"{error.strerror} (broker {place.broker}, `{place.topic}-{place.partition}`)",
        ) from error


def _check_end(place: SegmentPlace, position: int) -> None:
    """Raises `CorruptBatch` for bytes that are not a batch, unless the broker may be writing them:
    nothing follows a torn append, so only the last file of a replica may end in one."""
    path = Path(place.path)
    if not path.is_file():
        return
    following = [other for other in path.parent.glob("*.log") if other.name > path.name]
    trailing = trailing_bytes(path, position) if following else None
    if trailing is not None:
        raise CorruptBatch(
            f"{place}: {trailing} bytes from position {position} on are not a whole batch"
        )


@dataclass(frozen=True, slots=True)
class _Window:
    """Some consecutive batches, column by column."""

    place: SegmentPlace
    table: BatchTable
    span: Span
    is_last: bool
    indexes: SegmentIndexes | None
    sample: int

    def column(self, name: str) -> pa.Array:
        if name in PLACE_TYPES:
            return place_column(self.place, name, len(self.table))
        if name == "computed_crc":
            return self._computed_crcs()
        made: dict[str, Callable[[], Any]] = {
            "position": lambda: self.table.positions + self.span.position,
            "size": lambda: self.table.sizes,
            "last_offset": lambda: self.table.last_offsets,
            "index_fault": self._index_faults,
            "trailing_bytes": self._trailing_bytes,
        }
        values = made[name]() if name in made else self.table.field(_FIELD_OF[name])
        return pa.array(values, BATCH_SCHEMA.field(name).type)

    def _computed_crcs(self) -> pa.Array:
        sampled = is_sampled(self.table.base_offsets, self.sample)
        values = np.zeros(len(self.table), dtype=np.int64)
        values[sampled] = computed_crcs(self.table.select(sampled))
        return pa.array(values, mask=~sampled)

    def _index_faults(self) -> list[str | None]:
        assert self.indexes is not None, "the column was asked for"
        return self.indexes.faults(self.table, self.span.position, self.is_last)

    def _trailing_bytes(self) -> list[int | None]:
        last = trailing_bytes(Path(self.place.path), self.span.end) if self.is_last else None
        return [*[None] * (len(self.table) - 1), last]


def trailing_bytes(path: Path, position: int) -> int | None:
    """How many bytes follow `position`; `None` when they are none or all zeros (preallocated)."""
    size = 0
    is_torn = False
    with path.open("rb") as file:
        file.seek(position)
        while chunk := file.read(1 << 20):
            size += len(chunk)
            is_torn = is_torn or chunk.count(0) != len(chunk)
    return size if is_torn else None


def place_column(place: SegmentPlace, name: str, length: int) -> pa.Array:
    """A column of `PLACE_TYPES` for `length` rows of one file."""
    value = place.path if name == "segment" else getattr(place, name)
    return pa.repeat(pa.scalar(value, BATCH_SCHEMA.field(name).type), length)
