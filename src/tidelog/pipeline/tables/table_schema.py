"""The columns of an ingest's table as they are, and fields that are added to them.

Adding fields is a commit of its own, before the first batch that has them; rows that are there have
nulls. So is a wider type, for which the table is rewritten (`widening.py`). `merging.py` says which
change can be merged.
"""

import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from tidelog.errors import UsageError
from tidelog.pipeline.errors import OtherWriter
from tidelog.pipeline.tables.addresses import AnyTable, TableAddress
from tidelog.pipeline.tables.table_files import PARTITION_COLUMN, RAW, table_schema
from tidelog.pipeline.tables.upserts import BUCKET_COLUMN, Upsert
from tidelog.pipeline.tables.widening import widen
from tidelog.pipeline.typed.merging import is_extended, merged_type

_TYPED: Final = ("key", "value")
"""Columns whose types are the user's choice."""
_UPSERT_KEY: Final = "tidelog.upsert.key"
"""A property of the table: the fields of the key that name a row, as JSON."""
FENCE: Final = "tidelog-topic-{}"
"""The name of the transaction that every writer of a topic moves."""
WHOLE_KEY: Final = "key"
"""What `--key` says of a key without fields."""


def found_schema(delta: DeltaTable) -> pa.Schema:
    """The table's columns with their Arrow types."""
    return pa.schema(delta.schema().to_arrow())


def existing_schema(table: AnyTable) -> pa.Schema | None:
    """The columns of the table; `None` where there is none. Raises as `open_existing` does."""
    address = TableAddress.of(table)
    with address.reached():
        return found_schema(_opened(address)) if address.is_table else None


def open_existing(table: AnyTable) -> DeltaTable:
    """A table that an ingest has made. Raises `UsageError` for any other place,
    `StoreUnavailable`."""
    address = TableAddress.of(table)
    with address.reached():
        if not address.is_table:
            raise UsageError(
                f"`{address}` is not a Delta table", "give the `--table` of `tidelog spark ingest`"
            )
        return _opened(address)


def _opened(address: TableAddress) -> DeltaTable:
    delta = address.delta()
    check_kind(delta, address)
    return delta


def check_kind(delta: DeltaTable, address: TableAddress) -> None:
    """Raises `UsageError` for a table that the ingest has not made. Its keys and values may have
    any types, and a transform may have added columns."""
    schema = table_schema(RAW, RAW, mode_of(delta))
    wanted = {one.name: one.type for one in Schema.from_arrow(schema).fields}
    found = {one.name: one.type for one in delta.schema().fields}
    free = {name for name in _TYPED if name in found}
    differing = [name for name in wanted if wanted[name] != found.get(name)]
    differing = [name for name in differing if name not in free]
    partitioned = delta.metadata().partition_columns
    first = _partition_columns(mode_of(delta))
    if differing or partitioned[: len(first)] != first:
        what = f"the column `{differing[0]}`" if differing else f"partitioned by {partitioned}"
        raise UsageError(
            f"`{address}` is a table of another kind: {what} is not what the ingest writes",
            "give a new place with `--table`; the ingest makes its tables itself",
        )


def create_table(
    address: TableAddress, schema: pa.Schema, upsert: Upsert | None, partition_by: Sequence[str]
) -> DeltaTable:
    """Makes the table; one of upserts knows how its rows are named."""
    how = None if upsert is None else {_UPSERT_KEY: json.dumps(upsert.fields)}
    return address.create(
        schema,
        partition_by=[*_partition_columns(upsert), *partition_by],
        name="bronze",
        configuration=how,
        raise_if_key_not_exists=False,
    )


def mode_of(delta: DeltaTable) -> Upsert | None:
    """How the rows of a table of upserts are named; `None` for a table of records."""
    fields = delta.metadata().configuration.get(_UPSERT_KEY)
    return None if fields is None else Upsert(tuple(json.loads(fields)))


def check_mode(
    delta: DeltaTable, address: TableAddress, upsert: Upsert | None, partition_by: Sequence[str]
) -> None:
    """Raises `UsageError` where the rows of the table are of another kind, or named otherwise, or
    partitioned by other columns."""
    there = mode_of(delta)
    modes = [
        "append" if one is None else f"upsert` and `--key {','.join(one.fields) or WHOLE_KEY}"
        for one in (there, upsert)
    ]
    if modes[0] != modes[1]:
        raise UsageError(
            f"`{address}` was made with `--mode {modes[0]}`, not with `--mode {modes[1]}`",
            "give the options with which it was made, or a new `--table`",
        )

    columns = delta.metadata().partition_columns[len(_partition_columns(upsert)) :]
    if columns != list(partition_by):
        made = (
            f"with `--partition-by {','.join(columns)}`" if columns else "without `--partition-by`"
        )
        raise UsageError(
            f"`{address}` was made {made}", "give the option as it was then, or a new `--table`"
        )


def _partition_columns(upsert: Upsert | None) -> list[str]:
    return [PARTITION_COLUMN] if upsert is None else [PARTITION_COLUMN, BUCKET_COLUMN]


def add_fields(address: TableAddress, delta: DeltaTable, schema: pa.Schema) -> None:
    """Adds columns, and fields of structs, that the table does not have, and gives numbers wider
    types. Raises `UsageError` where the types differ otherwise, `OtherWriter`."""
    there = pa.struct(found_schema(delta))
    wanted = merged_type(there, pa.struct(schema), "")
    if wanted == there:
        return
    try:
        if is_extended(there, wanted):
            delta.alter.add_columns(Schema.from_arrow(pa.schema(list(wanted))).fields)
        else:
            widen(address, delta, pa.schema(list(wanted)), PARTITION_COLUMN)
            delta.update_incremental()
    except CommitFailedError as error:
        raise OtherWriter(f"another writer changes `{address}`: {error}") from error
