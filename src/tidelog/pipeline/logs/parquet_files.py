"""What a task of an export does: the records of some segment files into one Parquet file.

Records go from the log's bytes to Arrow to Parquet within one process. Spark's own writer would get
them row by row instead: from Arrow to Spark's rows to columns again, several times the work.

The file has a name that no other attempt of the task has. It counts when the driver has heard of
it (`jobs/export.py`); a task that fails takes its file away, one that is killed leaves it.

No Spark import.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.errors import UsageError
from tidelog.pipeline.logs.layout import SegmentPlace
from tidelog.pipeline.logs.scan import SEGMENT_RECORD_SCHEMA, scan_records

COMPRESSION: Final = "snappy"
"""As Spark's own files have it."""
_ROW_GROUP_BYTES: Final = 32 << 20
_ROW_GROUP_ROWS: Final = 1 << 17
# Nearly every value of the others is one of its own.
_DICTIONARY_COLUMNS: Final = [
    name
    for name in SEGMENT_RECORD_SCHEMA.names
    if name not in ("offset", "timestamp", "value", "headers")
]


@dataclass(frozen=True, slots=True)
class Portion:
    """A segment file and the offsets that are wanted of it."""

    place: SegmentPlace
    start_offset: int
    end_offset: int
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a file has of one partition."""

    file: str
    """Its name in the directory."""
    size_bytes: int
    """Of the whole file."""
    topic: str
    partition: int
    records: int


WRITTEN_SCHEMA: Final = pa.schema(
    [
        ("file", pa.string()),
        ("size_bytes", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
    ]
)
"""A row per `Written`."""


def require_new(out: Path) -> None:
    """Raises `UsageError` when the directory is there: files of two exports are never mixed."""
    if out.exists():
        raise UsageError(f"`{out}` is there already", "name a new directory with `--out`")


def write_file(directory: Path, portions: Sequence[Portion]) -> list[Written]:
    """Writes the records of the portions, in their order, with the columns of
    `SEGMENT_RECORD_SCHEMA`, to a new file in `directory`, which is there; to none when there are no
    records.

    Raises `CorruptBatch`, `StorageError`, `OSError`; then there is no file.
    """
    path = directory / f"part-{uuid4()}.parquet"
    counts: dict[tuple[str, int], int] = {}
    try:
        with _RowGroups(path) as groups:
            for one in portions:
                key = one.place.topic, one.place.partition
                for batch in scan_records(
                    one.place,
                    SEGMENT_RECORD_SCHEMA.names,
                    start_offset=one.start_offset,
                    end_offset=one.end_offset,
                ):
                    groups.add(batch)
                    counts[key] = counts.get(key, 0) + len(batch)
        size_bytes = path.stat().st_size
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if not counts:
        path.unlink()
    return [Written(path.name, size_bytes, *key, records) for key, records in counts.items()]


class _RowGroups:
    """A Parquet file to which batches are added; large row groups make it quick to read."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(
            path,
            SEGMENT_RECORD_SCHEMA,
            compression=COMPRESSION,
            use_dictionary=_DICTIONARY_COLUMNS,
        )
        # The batches of the row group to come, and their size.
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._waiting_rows = 0

    def __enter__(self) -> "_RowGroups":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._write()
        finally:
            self._writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        self._waiting.append(batch)
        self._waiting_rows += len(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= _ROW_GROUP_BYTES or self._waiting_rows >= _ROW_GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting.clear()
        self._waiting_bytes = self._waiting_rows = 0
