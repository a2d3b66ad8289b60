"""Parquet files of a table: one while rows are added to it, and what a commit says of it.

A file has a unique name below the directories of its partition values. Readers see it once a
commit names it.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction

from tidelog.pipeline.row_groups import RowGroup, parquet_writer
from tidelog.pipeline.tables.addresses import TableAddress, disk_full, is_full

_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


def partition_text(value: Any) -> str | None:
    """A value of a partition column as the Delta log writes it, where an empty text is a null."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None or value == "" else str(value)


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
    partition: dict[str, str | None] = field(default_factory=dict)
    """The values of the table's partition columns besides `topic`, as the Delta log writes them."""

    def add_action(self, topic_column: str | None = None) -> AddAction:
        """What a commit says of the file; without `topic_column` it has no partition values."""
        values: dict[str, str | None]
        values = {} if topic_column is None else {topic_column: self.topic, **self.partition}
        stats = json.dumps(self.stats)
        return AddAction(self.path, self.size_bytes, values, self.modified_ms, True, stats)


class NewFile:
    """A Parquet file while it is written. Making it, `write` and `finish` raise `DiskFull`, with
    its path."""

    def __init__(self, table: TableAddress, name: str, schema: pa.Schema) -> None:
        # Where it is, by its name in the table.
        self._table = table
        self.name = name
        with self._named():
            self._file = table.new_file(name)
            self._writer = parquet_writer(self._file, schema, "zstd")

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if is_full(error):
                raise disk_full(f"`{self._table / self.name}`", error) from error
            raise

    @property
    def size_bytes(self) -> int:
        """What is in it so far."""
        return int(self._file.tell())

    def write(self, rows: pa.Table) -> None:
        """Adds a row group."""
        with self._named():
            self._writer.write_table(rows)

    def finish(
        self, topic: str, stats: dict[str, Any], partition: Mapping[str, str | None] | None = None
    ) -> DataFile:
        """Ends the file."""
        with self._named():
            self._writer.close()
            size = self.size_bytes
            self._file.close()
        now_ms = time.time_ns() // 1_000_000
        return DataFile(self.name, topic, size, now_ms, stats, dict(partition or {}))

    def discard(self) -> None:
        """Deletes the file if it can."""
        for one in (self._writer, self._file):
            with suppress(OSError):  # The disk may be full.
                one.close()
        self._table.remove(self.name)


class OpenFile:
    """One file of rows of a table while rows are added."""

    def __init__(
        self,
        table: TableAddress,
        topic: str,
        batch: int,
        schema: pa.Schema,
        partition: Mapping[str, str | None] | None = None,
    ) -> None:
        self.topic = topic
        # Bytes in the file so far, without the rows that wait for their row group.
        self.written_bytes = 0
        # The values of further partition columns.
        self._partition = dict(partition or {})
        # The batch of the ingest that writes it.
        self._batch = batch
        # The columns of the file: the table's without those of its partitions.
        self._schema = schema
        places = "".join(
            f"{quote(name)}={_NO_VALUE if value is None else quote(value, safe='')}/"
            for name, value in self._partition.items()
        )
        name = f"topic={topic}/{places}batch-{batch:08}-{uuid4()}.parquet"
        self._file = NewFile(table, name, schema)
        # Rows that are not in the file yet.
        self._row_group = RowGroup()
        # Rows in all, and the smallest and largest value of some columns.
        self.rows = 0
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}

    def write(self, rows: pa.RecordBatch) -> None:
        """Adds rows. They have all columns of the file, but for the two `ingest_` columns: rows
        without these are of this batch. Columns that they lack otherwise are null."""
        if not len(rows):
            return
        self._row_group.add(rows)
        self.rows += len(rows)
        for name in ("partition", "offset", "leader_epoch", "ingest_batch"):
            if name not in rows.schema.names:
                self._widen(name, self._batch, self._batch)
                continue
            edges = pc.min_max(rows.column(name)).as_py()
            self._widen(name, edges["min"], edges["max"])
        if self._row_group.is_full:
            self.end_row_group()

    def _widen(self, name: str, low: int, high: int) -> None:
        self._low[name] = min(self._low.get(name, low), low)
        self._high[name] = max(self._high.get(name, high), high)

    def finish(self) -> DataFile:
        """Ends the file."""
        self.end_row_group()
        stats = {"numRecords": self.rows, "minValues": self._low, "maxValues": self._high}
        return self._file.finish(self.topic, stats, self._partition)

    def discard(self) -> None:
        """Deletes the file if it can."""
        self._file.discard()

    def end_row_group(self) -> None:
        """Writes the rows that wait; all of them have the same columns."""
        rows = self._row_group.take()
        if rows is None:
            return
        count = len(rows)
        added = {
            "ingest_batch": pa.scalar(self._batch, pa.int64()),
            "ingest_file": pa.scalar(self._file.name),
        }
        columns = [
            rows.column(field.name).cast(field.type)
            if field.name in rows.schema.names
            else pa.repeat(added.get(field.name, pa.scalar(None, field.type)), count)
            for field in self._schema
        ]
        self._file.write(pa.Table.from_arrays(columns, schema=self._schema))
        self.written_bytes = self._file.size_bytes
