"""What a task of the table sink does: rows to Parquet files, and a report of both.

A task writes files with unique names under the table's directory. Readers see a file once the
driver names it in a commit. A record whose key or value does not parse goes to the quarantine
(`quarantine.py`) in the place of the table. A task that dies, is killed, or runs twice leaves
*orphans*: files that no commit names, which `tidelog spark compact --vacuum-hours` removes. Rows
keep the order in which they come, which is by partition and offset. Control records are observed
and not written. For a table of upserts the rows are changes, which `upserts.py` folds.
No Spark import: a task is a function from Arrow batches to one report.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.pipeline.errors import RegistryUnavailable
from tidelog.pipeline.spark_columns import SOURCE_TYPES, arrow_schema, types_of
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.continuity import Observer, Piece
from tidelog.pipeline.tables.data_files import DataFile, OpenFile, partition_text
from tidelog.pipeline.tables.quarantine import QuarantineFile, quarantined_rows
from tidelog.pipeline.tables.upserts import BUCKET_COLUMN, NO_KEY, ChangeFile, Upsert, identities
from tidelog.pipeline.typed.parsing import Layout, parse
from tidelog.pipeline.typed.transforms import Transform

BRONZE_SCHEMA: Final = arrow_schema(
    {name: type_name for name, type_name in SOURCE_TYPES.items() if name != "is_control"}
    | types_of("ingest_batch bigint, ingest_file string")
)
"""A row of the table: the record, its place in the topic, and its batch and file of the ingest.
`ingest_file` is the file into which it was first written; compaction does not change it."""
PARTITION_COLUMN: Final = "topic"
DATE_COLUMN: Final = "date"
"""The day of a record's timestamp, in UTC."""
MAX_OPEN_FILES: Final = 32

RAW: Final = Layout()

TARGET_FILE_BYTES: Final = 128 << 20
REPORT_SCHEMA: Final = "report string"


def table_schema(
    key: Layout,
    value: Layout,
    upsert: Upsert | None = None,
    transform: Transform | None = None,
    partition_by: Sequence[str] = (),
) -> pa.Schema:
    """The table's columns: those of `BRONZE_SCHEMA`, keys and values with their types; for upserts
    the number of the key's bucket too; those that a transform adds; and the date, if the table is
    partitioned by it."""
    types = {"key": key.type, "value": value.type}
    fields = [field.with_type(types.get(field.name, field.type)) for field in BRONZE_SCHEMA]
    if upsert is not None:
        fields.append(pa.field(BUCKET_COLUMN, pa.int32()))
    fields += () if transform is None else transform.added
    if DATE_COLUMN in partition_by and DATE_COLUMN not in {one.name for one in fields}:
        fields.append(pa.field(DATE_COLUMN, pa.date32()))
    return pa.schema(fields)


def parsed_schema(key: Layout, value: Layout) -> pa.Schema:
    """The columns of rows that were parsed, as a transform takes them."""
    types = {"key": key.type, "value": value.type}
    source = arrow_schema(SOURCE_TYPES)
    return pa.schema([field.with_type(types.get(field.name, field.type)) for field in source])


def file_schema(schema: pa.Schema, partition_by: Sequence[str] = ()) -> pa.Schema:
    """The columns of a file of such a table: the others are in its path."""
    in_path = (PARTITION_COLUMN, BUCKET_COLUMN, *partition_by)
    return pa.schema([field for field in schema if field.name not in in_path])


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
    """What every task of a batch does with its records."""

    table: TableAddress
    """The same on every machine."""
    batch: int
    file_bytes: int = TARGET_FILE_BYTES
    key: Layout = RAW
    value: Layout = RAW
    upsert: Upsert | None = None
    """How changes name the rows of a table of upserts; `None` for a table of records."""
    transform: Transform | None = None
    partition_by: tuple[str, ...] = ()
    """The columns by which the table is partitioned besides `topic`."""

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of a file."""
        schema = table_schema(self.key, self.value, None, self.transform, self.partition_by)
        return file_schema(schema, self.partition_by)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes all records, returns one row, the report."""
        with self.table.reached():
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
    """The files of one task; a bounded number is open."""

    def __init__(self, task: TableTask) -> None:
        # Where and for which batch.
        self._task = task
        # The files being written, by topic and partition values; the one opened first comes first.
        self._open: dict[tuple[str | None, ...], OpenFile] = {}
        # The one of a table of upserts.
        self._changes: ChangeFile | None = None
        if task.upsert is not None:
            self._changes = ChangeFile(task.table, task.upsert)
        # Finished ones, in order.
        self._done: list[DataFile] = []
        # What does not parse.
        self._bad = QuarantineFile(task.table, task.batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        for open_file in self._open.values():
            open_file.discard()
        for file in self._done:
            self._task.table.remove(file.path)
        if self._changes is not None:
            self._changes.discard()
        self._bad.discard()

    def parse(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray]:
        """The rows with keys and values of their types, without those that do not parse; and which
        those are, a boolean for each of the given rows. They are in the quarantine's file."""
        is_bad = np.zeros(len(rows), bool)
        reasons: dict[int, tuple[str, str]] = {}
        parsed = rows
        for name, layout in (("key", self._task.key), ("value", self._task.value)):
            try:
                column, why = parse(layout, rows.column(name))
            except RegistryUnavailable as error:
                text, row = error.args
                place = (
                    f"the {name} at `{rows.column('topic')[row]}-{rows.column('partition')[row]}`"
                )
                where = f"{place} offset {rows.column('offset')[row]}"
                raise RegistryUnavailable(text, where) from error
            index = rows.schema.get_field_index(name)
            parsed = parsed.set_column(index, pa.field(name, layout.type), column)
            reasons |= {row: (name, reason) for row, reason in why.items()}
        for row in np.flatnonzero(self._unnamed(parsed)).tolist():
            reasons.setdefault(row, ("key", NO_KEY))
        if reasons:
            self._bad.add(quarantined_rows(rows, reasons, self._task.batch))
            is_bad[list(reasons)] = True
            parsed = parsed.filter(pa.array(~is_bad))
        if self._task.transform is not None and len(parsed):
            parsed = self._task.transform(parsed)
            if self._unnamed(parsed).any():
                raise ValueError(
                    f"`--transform {self._task.transform.name}` makes keys null, which name rows\n"
                    "hint: leave the fields of `--key` as they are, or give each another value"
                )
        return parsed, is_bad

    def _unnamed(self, rows: pa.RecordBatch) -> np.ndarray:
        """Which rows are changes without a key: none where rows are records."""
        if self._task.upsert is None:
            return np.zeros(len(rows), bool)
        names = identities(rows.column("key"), self._task.upsert)
        unnamed: np.ndarray = ~names.is_valid().to_numpy(zero_copy_only=False)
        return unnamed

    def write(self, topic: str, rows: pa.RecordBatch) -> None:
        """Appends rows of one topic to the files of their partition values."""
        if self._changes is not None:
            self._changes.write(rows)
            return
        if DATE_COLUMN in self._task.partition_by and DATE_COLUMN not in rows.schema.names:
            rows = rows.append_column(DATE_COLUMN, rows.column("timestamp").cast(pa.date32()))
        for values, part in _by_values(rows, self._task.partition_by):
            self._file(topic, values).write(part)

    def _file(self, topic: str, values: tuple[str | None, ...]) -> OpenFile:
        """The open file of these values; a full one is finished, and the oldest of too many."""
        place = (topic, *values)
        found = self._open.get(place)
        if found is not None and found.written_bytes >= self._task.file_bytes:
            self._end(place)
            found = None
        if found is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._end(next(iter(self._open)))
            task = self._task
            partition = dict(zip(task.partition_by, values, strict=True))
            found = OpenFile(task.table, topic, task.batch, task.file_schema, partition)
            self._open[place] = found
        return found

    def _end(self, place: tuple[str | None, ...]) -> None:
        # One that cannot be finished stays among the open ones, which are discarded.
        self._done.append(self._open[place].finish())
        del self._open[place]

    def finish(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """The files, or that of the changes, and that of the quarantine."""
        for place in list(self._open):
            self._end(place)
        done = self._done if self._changes is None else self._changes.finish()
        return tuple(done), self._bad.finish()


def _by_values(
    rows: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """The rows of each combination of values of some columns, in their order."""
    if not columns:
        yield (), rows
        return
    found = pa.Table.from_batches([rows.select(list(columns))])
    for combination in found.group_by(list(columns), use_threads=False).aggregate([]).to_pylist():
        is_one = pa.array(np.ones(len(rows), bool))
        for name, value in combination.items():
            column = rows.column(name)
            same = column.is_null() if value is None else pc.equal(column, value).fill_null(False)
            is_one = pc.and_(is_one, same)
        yield tuple(map(partition_text, combination.values())), rows.filter(is_one)
