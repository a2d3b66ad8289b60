"""The columns of an ingest's table as they are, and fields that are added to them.

Adding fields is a commit of its own, before the first batch that has them; rows that are there have
nulls. `merging.py` says which change can be merged.
"""

from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from tidelog.errors import UsageError
from tidelog.pipeline.errors import OtherWriter
from tidelog.pipeline.tables.table_files import BRONZE_SCHEMA, PARTITION_COLUMN
from tidelog.pipeline.typed.merging import merged_type

_TYPED: Final = ("key", "value")
"""Columns whose types are the user's choice."""


def found_schema(delta: DeltaTable) -> pa.Schema:
    """The table's columns with their Arrow types."""
    return pa.schema(delta.schema().to_arrow())


def existing_schema(directory: Path) -> pa.Schema | None:
    """The columns of the table in `directory`; `None` where there is none."""
    if not DeltaTable.is_deltatable(str(directory)):
        return None
    return found_schema(open_existing(directory))


def open_existing(directory: Path) -> DeltaTable:
    """A table that an ingest has made. Raises `UsageError` for any other directory."""
    if not DeltaTable.is_deltatable(str(directory)):
        raise UsageError(
            f"`{directory}` is not a Delta table", "give the `--table` of `tidelog spark ingest`"
        )
    delta = DeltaTable(str(directory))
    check_kind(delta, directory)
    return delta


def check_kind(delta: DeltaTable, directory: Path) -> None:
    """Raises `UsageError` for a table that the ingest has not made; its keys and values may have
    any types."""
    wanted = {one.name: one.type for one in Schema.from_arrow(BRONZE_SCHEMA).fields}
    found = {one.name: one.type for one in delta.schema().fields}
    free = {name for name in _TYPED if name in found}
    differing = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
    differing = [name for name in differing if name not in free]
    partitioned = delta.metadata().partition_columns
    if differing or partitioned != [PARTITION_COLUMN]:
        what = f"the column `{differing[0]}`" if differing else f"partitioned by {partitioned}"
        raise UsageError(
            f"`{directory}` is a table of another kind: {what} is not what the ingest writes",
            "give a new directory with `--table`; the ingest makes its tables itself",
        )


def add_fields(delta: DeltaTable, schema: pa.Schema) -> None:
    """Adds columns, and fields of structs, that the table does not have. Raises `UsageError` where
    the types differ otherwise, `OtherWriter`."""
    there = pa.struct(found_schema(delta))
    if merged_type(there, pa.struct(schema), "") == there:
        return
    try:
        delta.alter.add_columns(Schema.from_arrow(schema).fields)
    except CommitFailedError as error:
        raise OtherWriter(f"another writer changes `{delta.table_uri}`: {error}") from error
