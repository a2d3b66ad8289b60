"""What both Spark sources need at Spark's border: columns of a user's schema, errors with hints.

Imported in several short-lived Python processes, so nothing heavy is imported here.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tidelog.errors import UsageError


@contextmanager
def spoken_hint() -> Iterator[None]:
    """Spark shows only the text of an error, so the hint must be in it."""
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
            known = ", ".join(f"{name} {type_name}" for name, type_name in types.items())
            raise UsageError(
                f"this source has no column `{field.name} {given}`", f"the columns are {known}"
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
