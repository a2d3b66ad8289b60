"""What both Spark sources need: columns with their types in Spark, and errors with hints.

Imported in several short-lived Python processes, so nothing heavy is imported here.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tidelog.errors import UsageError

RECORD_TYPES: Final = {
    "offset": "bigint",
    "leader_epoch": "int",
    "timestamp": "timestamp",
    "timestamp_type": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""What a record has by itself, in Spark's type names; `decode.py` makes these columns."""

LINEAGE_TYPES: Final = {
    "producer_id": "bigint",
    "producer_epoch": "smallint",
    "base_offset": "bigint",
    "is_control": "boolean",
}
"""What a record has from its batch. With `is_control` control records are rows too, and so are
those of aborted transactions for `read_committed`."""

DEFAULT_TYPES: Final = {"topic": "string", "partition": "int", **RECORD_TYPES}
"""The columns of the topic source, unless the user names some."""

SOURCE_TYPES: Final = {**DEFAULT_TYPES, **LINEAGE_TYPES}
"""All columns of the topic source; `topics/source.py` makes them."""


def ddl(types: Mapping[str, str]) -> str:
    """Columns as Spark takes a schema in text."""
    return ", ".join(f"{name} {type_name}" for name, type_name in types.items())


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
    """Whether this process plans a scan for which Spark (4.1 and later) offers filters.

    While `spark.sql.python.filterPushdown.enabled` is off, Spark refuses a reader that so much as
    has a `pushFilters` of its own; while it is on, it makes the reader in a process for that
    purpose. So a source gives a reader with that method only there.
    """
    return _PUSHING_PROCESS in sys.modules or (
        getattr(sys.modules["__main__"].__spec__, "name", "") == _PUSHING_PROCESS
    )
