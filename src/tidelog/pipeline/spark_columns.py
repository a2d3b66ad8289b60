"""Columns with their types, in Spark's names: what sources declare is what Arrow batches have.

Errors with hints and pushed filters too, which both Spark sources need. Imported in several
short-lived Python processes, so nothing heavy is imported here.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tidelog.errors import UsageError


def types_of(columns: str) -> dict[str, str]:
    """The types by name of columns in Spark's notation: `offset bigint, key binary`."""
    return dict(column.split(" ", 1) for column in columns.split(", "))


def ddl(types: Mapping[str, str]) -> str:
    """The inverse: columns as Spark takes a schema in text."""
    return ", ".join(f"{name} {type_name}" for name, type_name in types.items())


RECORD_TYPES: Final = types_of(
    "offset bigint, leader_epoch int, timestamp timestamp, timestamp_type int, key binary, "
    "value binary, headers array<struct<key:string,value:binary>>"
)
"""What a record has by itself; `decode.py` makes these columns. `timestamp_type` is 0 for
CreateTime and 1 for LogAppendTime."""

LINEAGE_TYPES: Final = types_of(
    "producer_id bigint, producer_epoch smallint, base_offset bigint, is_control boolean"
)
"""What a record has from its batch: the producer (-1 where it was not idempotent), the batch's
first offset. With `is_control` control records are rows too, and so are those of aborted
transactions for `read_committed`."""

DEFAULT_TYPES: Final = {"topic": "string", "partition": "int", **RECORD_TYPES}
"""The columns of the topic source, unless the user names some."""

SOURCE_TYPES: Final = {**DEFAULT_TYPES, **LINEAGE_TYPES}
"""All columns of the topic source; `topics/source.py` makes them."""

PLAN_TYPES: Final = types_of(
    "topic string, partition int, start_offset bigint, end_offset bigint, topic_id binary"
)
"""What a query of the topic source gets if it asks for exactly these: a row per range that a task
is to read, in the place of its records. A job that reads them itself, with `read_ranges`, spares
its records the way through the JVM."""

PLACE_TYPES: Final = types_of("broker int, topic string, partition int, segment string")
"""The file that a row of the segment source comes from; `segment` is its path."""

BATCH_TYPES: Final = PLACE_TYPES | types_of(
    "position bigint, size int, base_offset bigint, last_offset bigint, leader_epoch int, "
    "magic int, crc bigint, computed_crc bigint, attributes int, base_timestamp_ms bigint, "
    "max_timestamp_ms bigint, producer_id bigint, producer_epoch int, base_sequence int, "
    "records int, index_fault string, trailing_bytes bigint"
)
"""A record batch in the segment source; `logs/scan.py` makes these columns."""


def arrow_schema(columns: str | Mapping[str, str]) -> Any:
    """The `pyarrow.Schema` of columns, in text or as types by name."""
    import pyarrow as pa

    arrow_types = {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    }
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    elements = {"string": pa.string(), "bigint": pa.int64()} | {
        "struct<key:string,value:binary>": header
    }
    for name, element in elements.items():
        arrow_types[f"array<{name}>"] = pa.list_(pa.field("element", element))
    types = types_of(columns) if isinstance(columns, str) else columns
    return pa.schema([(name, arrow_types[type_name]) for name, type_name in types.items()])


@contextmanager
def hint_in_message() -> Iterator[None]:
    """Puts the hint of a `UsageError` into its message: Spark shows only the text of an error."""
    try:
        yield
    except UsageError as error:
        raise ValueError(f"{error.message}\nhint: {error.hint}") from None


def chosen_columns(schema: Any, types: Mapping[str, str]) -> list[str]:
    """The column names of Spark's `StructType`, after checking that each has the type it must
    have by `types`. Raises `UsageError`."""
    for field in schema.fields:
        given = field.dataType.simpleString()
        if types.get(field.name) != given:
            raise UsageError(
                f"this source has no column `{field.name} {given}`", f"the columns are {ddl(types)}"
            )
    return [field.name for field in schema.fields]


_PUSHING_PROCESS: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def filters_are_pushed() -> bool:
    """Whether this process plans a scan for which Spark (4.1 and later) offers filters. While
    `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a reader that so much as has a
    `pushFilters` of its own; while it is on, it makes the reader in a process for that purpose. So
    a source gives a reader with that method only there."""
    return _PUSHING_PROCESS in sys.modules or (
        getattr(sys.modules["__main__"].__spec__, "name", "") == _PUSHING_PROCESS
    )
