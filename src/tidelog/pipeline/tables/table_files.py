"""What a task of the table sink does: rows to Parquet files, and a report of both.

A task writes files with unique names under the table's directory. Readers see a file once the
driver names it in a commit. A record whose key or value does not parse goes to the quarantine
(`quarantine.py`) in the place of the table. A task that dies, is killed, or runs twice leaves
*orphans*: files that no commit names, which `tidelog spark compact --vacuum-hours` removes. Rows
keep the order in which they come, which is by partition and offset. Control records are observed
and not written.
No Spark import: a task is a function from Arrow batches to one report.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.pipeline.row_groups import RowGroup, parquet_writer
from tidelog.pipeline.spark_columns import SOURCE_TYPES, arrow_schema, types_of
from tidelog.pipeline.tables.continuity import Observer, Piece
from tidelog.pipeline.tables.quarantine import QuarantineFile, quarantined_rows
from tidelog.pipeline.typed.parsing import Layout, parse

BRONZE_SCHEMA: Final = arrow_schema(
    {name: type_name for name, type_name in SOURCE_TYPES.items() if name != "is_control"}
    | types_of("ingest_batch bigint, ingest_file string")
)
"""A row of the table: the record, its place in the topic, and its batch and file of the ingest.
`ingest_file` is the file into which it was first written; compaction does not change it."""
PARTITION_COLUMN: Final = "topic"

RAW: Final = Layout()

TARGET_FILE_BYTES: Final = 128 << 20
REPORT_SCHEMA: Final = "report string"


def table_schema(key: Layout, value: Layout) -> pa.Schema:
    """The table's columns: those of `BRONZE_SCHEMA`, keys and values with their types."""
    types = {"key": key.type, "value": value.type}
    return pa.schema(
        [field.with_type(types.get(field.name, field.type)) for field in BRONZE_SCHEMA]
    )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished Parquet file."""

    path: str
    """Relative to the table."""
    topic: str
    size_bytes: int
    modified_ms: int
    stats: dict[str, Any]
    """Delta's statistics: `numRecords`, `minValues`, `maxValues`."""

    @classmethod
    def of(cls, path: Path, name: str, topic: str, stats: dict[str, Any]) -> "DataFile":
        """The file at `path`, which the table knows by `name`."""
        status = path.stat()
        return cls(name, topic, status.st_size, status.st_mtime_ns // 1_000_000, stats)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Everything that the driver needs of a task."""

    files: tuple[DataFile, ...]
    pieces: tuple[Piece, ...]
    newest_ms: int = -1
    """The latest timestamp of its records; -1 when it had none."""
    quarantine: tuple[DataFile, ...] = ()
    """Relative to the quarantine's directory; without a topic."""

    def to_text(self) -> str:
        """The report as Spark carries it to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "TaskReport":
        """The inverse of `to_text`."""
        fields = json.loads(text)
        files = tuple(DataFile(**one) for one in fields["files"])
        pieces = tuple(Piece(**one) for one in fields["pieces"])
        quarantine = tuple(DataFile(**one) for one in fields["quarantine"])
        return cls(files, pieces, fields["newest_ms"], quarantine)


@dataclass(frozen=True, slots=True)
class TableTask:
    """The work of every task of a batch, as Spark carries it to the executors."""

    table: str
    """The table's directory, absolute; the same on every machine."""
    batch: int
    file_bytes: int = TARGET_FILE_BYTES
    key: Layout = RAW
    value: Layout = RAW

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of a file."""
        schema = table_schema(self.key, self.value)
        return schema.remove(schema.get_field_index(PARTITION_COLUMN))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `DataFrame.mapInArrow`: takes all rows, returns one row, the report."""
        report = write_files(self, batches)
        yield pa.RecordBatch.from_pylist([{"report": report.to_text()}])


def write_files(task: TableTask, batches: Iterator[pa.RecordBatch]) -> TaskReport:
    """Writes the rows of a task. Raises `OSError`; then it has deleted its files."""
    observer, newest_ms = Observer(), -1
    with _Files(task) as files:
        for batch in batches:
            newest_ms = max(newest_ms, _newest_ms(batch))
            is_record = pc.invert(batch.column("is_control"))
            rows, is_bad = files.parse(batch.filter(is_record))
            quarantined = np.zeros(len(batch), bool)
            quarantined[np.flatnonzero(is_record.to_numpy(zero_copy_only=False))] = is_bad
            observer.observe(batch, quarantined)
            for topic in pc.unique(rows.column("topic")).to_pylist():
                files.write(topic, rows.filter(pc.equal(rows.column("topic"), topic)))
        done, bad = files.finish()
        return TaskReport(done, tuple(observer.pieces()), newest_ms, bad)


def _newest_ms(batch: pa.RecordBatch) -> int:
    newest = pc.max(batch.column("timestamp"))
    return int(newest.value) // 1000 if newest.is_valid else -1


class _Files:
    """The files of one task; at most one is open."""

    def __init__(self, task: TableTask) -> None:
        # Where and for which batch.
        self._task = task
        # The file being written.
        self._open: _OpenFile | None = None
        # Finished ones, in order.
        self._done: list[DataFile] = []
        # What does not parse.
        self._bad = QuarantineFile(Path(task.table), task.batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        if self._open is not None:
            self._open.discard()
        for file in self._done:
            (Path(self._task.table) / file.path).unlink(missing_ok=True)
        self._bad.discard()

    def parse(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows with keys and values of their types, without those that do not parse; and which
        those are, a boolean for each of the given rows. They are in the quarantine's file."""
        is_bad = np.zeros(len(rows), bool)
        reasons: dict[int, tuple[str, str]] = {}
        parsed = rows
        for name, layout in (("key", self._task.key), ("value", self._task.value)):
            column, why = parse(layout, rows.column(name))
            index = rows.schema.get_field_index(name)
            parsed = parsed.set_column(index, pa.field(name, layout.type), column)
            reasons |= {row: (name, reason) for row, reason in why.items()}
        if not reasons:
            return parsed, is_bad
        self._bad.add(quarantined_rows(rows, reasons, self._task.batch))
        is_bad[list(reasons)] = True
        return parsed.filter(pa.array(~is_bad)), is_bad

    def write(self, topic: str, rows: pa.RecordBatch) -> None:
        """Appends rows of one topic; a full file, or one of another topic, is finished first."""
        current = self._open
        if current is not None and (
            current.topic != topic or current.written_bytes >= self._task.file_bytes
        ):
            self._finish_open()
        if self._open is None:
            self._open = _OpenFile(self._task, topic)
        self._open.write(rows)

    def finish(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """The files, and that of the quarantine."""
        self._finish_open()
        if not self._bad.finish():
            return tuple(self._done), ()
        stats = {"numRecords": self._bad.rows}
        return tuple(self._done), (DataFile.of(self._bad.path, self._bad.name, "", stats),)

    def _finish_open(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None


class _OpenFile:
    """One Parquet file while rows are added."""

    def __init__(self, task: TableTask, topic: str) -> None:
        self.topic = topic
        # Bytes in the file so far; what waits for its row group is not among them.
        self.written_bytes = 0
        # The batch of the ingest, the same for every row.
        self._batch = task.batch
        self._schema = task.file_schema
        # Relative to the table.
        self._name = f"topic={topic}/batch-{task.batch:08}-{uuid4()}.parquet"
        self._path = Path(task.table) / self._name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Rows that are not in the file yet.
        self._row_group = RowGroup()
        # Rows in all, and the smallest and largest value of some columns.
        self._rows = 0
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._file = self._path.open("wb")
        self._writer = parquet_writer(self._file, self._schema, "zstd")

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows of the table's columns but for the two `ingest_` columns."""
        self._row_group.add(rows)
        self._rows += len(rows)
        for name in ("partition", "offset", "leader_epoch"):
            edges = pc.min_max(rows.column(name)).as_py()
            self._low[name] = min(self._low.get(name, edges["min"]), edges["min"])
            self._high[name] = max(self._high.get(name, edges["max"]), edges["max"])
        if self._row_group.is_full:
            self._write_row_group()

    def finish(self) -> DataFile:
        self._write_row_group()
        self._writer.close()
        self._file.close()
        stats = {
            "numRecords": self._rows,
            "minValues": {**self._low, "ingest_batch": self._batch},
            "maxValues": {**self._high, "ingest_batch": self._batch},
        }
        return DataFile.of(self._path, self._name, self.topic, stats)

    def discard(self) -> None:
        with suppress(OSError):  # The disk may be full.
            self._writer.close()
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _write_row_group(self) -> None:
        rows = self._row_group.take()
        if rows is None:
            return
        count = len(rows)
        added = {
            "ingest_batch": pa.repeat(pa.scalar(self._batch, pa.int64()), count),
            "ingest_file": pa.repeat(pa.scalar(self._name), count),
        }
        columns = [
            added[field.name] if field.name in added else rows.column(field.name).cast(field.type)
            for field in self._schema
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self.written_bytes = self._file.tell()
