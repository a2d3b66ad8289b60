"""The quarantine of a table: records whose key or value does not parse, with address and reason.

It is the Delta table `_quarantine` inside the table's directory. A task writes the bad records of
its rows to a file of their own there. The commit of the batch names the files, and its account
counts their rows, so that rows and quarantined records are one step; `table.py` adds the files to
`_quarantine` afterwards, from the commits, as often as a crash makes it begin.
"""

from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from tidelog.pipeline.row_groups import RowGroup
from tidelog.pipeline.spark_columns import RECORD_TYPES, arrow_schema, types_of
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.data_files import DataFile, NewFile

QUARANTINE_DIRECTORY: Final = "_quarantine"
QUARANTINE_SCHEMA: Final = arrow_schema(
    types_of("topic string, partition int")
    | RECORD_TYPES
    | types_of("part string, reason string, ingest_batch bigint")
)
"""The record with its bytes as they came; `part` is what did not parse, `key` or `value`."""


def quarantined_rows(
    rows: pa.RecordBatch, reasons: dict[int, tuple[str, str]], batch: int
) -> pa.RecordBatch:
    """The bad ones among rows of the source; `reasons` has part and reason by the row's number."""
    numbers = np.array(sorted(reasons))
    bad = rows.take(pa.array(numbers))
    added = {
        "part": pa.array([reasons[number][0] for number in numbers.tolist()]),
        "reason": pa.array([reasons[number][1] for number in numbers.tolist()]),
        "ingest_batch": pa.repeat(pa.scalar(batch, pa.int64()), len(numbers)),
    }
    columns = [
        added[field.name] if field.name in added else bad.column(field.name).cast(field.type)
        for field in QUARANTINE_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=QUARANTINE_SCHEMA)


class QuarantineFile:
    """The bad records of one task, in one file, which is there from the first of them on."""

    def __init__(self, table: TableAddress, batch: int) -> None:
        # Where the file is to be, and its name there.
        self._quarantine = table / QUARANTINE_DIRECTORY
        self._name = f"batch-{batch:08}-{uuid4()}.parquet"
        # How many records it has.
        self._rows = 0
        # Those that are not in the file yet, and the file.
        self._row_group = RowGroup()
        self._file: NewFile | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows of `QUARANTINE_SCHEMA`."""
        if self._file is None:
            self._file = NewFile(self._quarantine, self._name, QUARANTINE_SCHEMA)
        self._rows += len(rows)
        self._row_group.add(rows)
        if self._row_group.is_full:
            self._write_row_group()

    def finish(self) -> tuple[DataFile, ...]:
        """Ends the file, if there is one."""
        if self._file is None:
            return ()
        self._write_row_group()
        return (self._file.finish("", {"numRecords": self._rows}),)

    def discard(self) -> None:
        """Deletes the file if it can."""
        if self._file is not None:
            self._file.discard()

    def _write_row_group(self) -> None:
        rows = self._row_group.take()
        if rows is not None and self._file is not None:
            self._file.write(rows)
