"""Row groups of Parquet files: Arrow batches wait until they are enough for a large one.

Large row groups make a file quick to read; a bound on rows and bytes keeps a task's memory flat.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_ROW_GROUP_BYTES: Final = 32 << 20
_ROW_GROUP_ROWS: Final = 1 << 17
_UNIQUE_VALUES: Final = frozenset(("offset", "timestamp", "value", "headers"))


def dictionary_columns(schema: pa.Schema) -> list[str]:
    """The columns of records that a dictionary makes smaller: in the others nearly every value is
    unique."""
    return [name for name in schema.names if name not in _UNIQUE_VALUES]


def parquet_writer(where: Any, schema: pa.Schema, compression: str) -> pq.ParquetWriter:
    """Writes to a path or an open file, with dictionaries where they pay."""
    repeated = dictionary_columns(schema)
    return pq.ParquetWriter(where, schema, compression=compression, use_dictionary=repeated)


class RowGroup:
    """The rows of the next row group."""

    def __init__(self) -> None:
        # In the order in which they came, and their size.
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to write it."""
        return self._bytes >= _ROW_GROUP_BYTES or self._rows >= _ROW_GROUP_ROWS

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows, all of one schema."""
        self._batches.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes

    def take(self) -> pa.Table | None:
        """All rows, if there are any; a new row group begins."""
        rows = pa.Table.from_batches(self._batches) if self._batches else None
        self._batches.clear()
        self._bytes = self._rows = 0
        return rows
