"""A function of the user between parsing and writing: rows in, the same rows and more columns out.

The tasks parse records into Arrow tables, so the function is one from an Arrow table to an Arrow
table, called in the tasks, a batch of rows at a time. It may add columns, and change what is in
`key`, `value` and `headers` without changing their types. It may not add, drop or reorder rows, and
not touch the *lineage*, the columns that say where a record is in the topic: then rows and
quarantined records would no longer be the offsets that were read. Each call is checked, and one
that breaks this ends the run before the commit.

Which columns it adds is found out before Spark starts, by a call with a table of no rows.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from tidelog.errors import UsageError
from tidelog.pipeline.spark_columns import SOURCE_TYPES, types_of
from tidelog.pipeline.typed.schema_text import check_stored, type_text

_CONTENT: Final = ("key", "value", "headers")
LINEAGE: Final = tuple(name for name in SOURCE_TYPES if name not in _CONTENT)
_RULES: Final = (
    "return all columns that it was given, with the same rows in the same order, `key`, `value` "
    "and `headers` with the same types, and further columns behind them"
)

Function = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Transform:
    """The function, by its name, and what it adds."""

    name: str
    """`module:function`."""
    function: Function
    added: tuple[Any, ...] = ()
    """The Arrow fields of the columns that it adds."""

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the further columns. Raises `ValueError` with a hint."""
        try:
            found = self._checked(rows)
            for name in found.schema.names:
                if name not in rows.schema.names and name not in {one.name for one in self.added}:
                    raise UsageError(
                        f"it adds a column `{name}` that it did not add to a table without rows",
                        "add the same columns at each call",
                    )
            for field in self.added:
                if field.name not in found.schema.names or found.field(field.name) != field:
                    raise UsageError(
                        f"column `{field.name}` is not the `{type_text(field.type)}` that it was "
                        "for a table without rows",
                        "give each column the same type for all rows: `cast` it",
                    )
        except UsageError as error:
            place = f"`{rows.column('topic')[0]}-{rows.column('partition')[0]}`"
            first = f"{place}, the rows from offset {rows.column('offset')[0]} on"
            raise ValueError(
                f"`--transform {self.name}` in {first}: {error.message}\nhint: {error.hint}"
            ) from error
        (whole,) = found.combine_chunks().to_batches()
        return whole

    def planned(self, schema: pa.Schema) -> "Transform":
        """The same with the columns that it adds to rows of `schema`. Raises `UsageError`."""
        try:
            found = self._checked(pa.RecordBatch.from_pylist([], schema=schema))
            added = [field for field in found.schema if field.name not in schema.names]
            _check_added(added)
        except UsageError as error:
            raise UsageError(
                f"`--transform {self.name}`, called with a table without rows: {error.message}",
                error.hint,
            ) from error
        return Transform(self.name, self.function, tuple(added))

    def _checked(self, rows: pa.RecordBatch) -> pa.Table:
        """What the function returns, if it keeps the rules. Raises `UsageError`."""
        given = pa.Table.from_batches([rows])
        try:
            found = self.function(given)
        except Exception as error:
            text = str(error).partition("\n")[0]
            raise UsageError(
                f"it raises {type(error).__name__}: {text}",
                "correct the function; the table is as it was, and the same command goes on",
            ) from error
        if isinstance(found, pa.RecordBatch):
            found = pa.Table.from_batches([found])
        if not isinstance(found, pa.Table):
            raise UsageError(f"it returns a `{type(found).__name__}`", f"it must {_RULES}")
        for field in rows.schema:
            if found.schema.names.count(field.name) != 1:
                raise UsageError(f"it drops the column `{field.name}`", f"it must {_RULES}")
            if found.field(field.name).type != field.type:
                was, became = type_text(field.type), type_text(found.field(field.name).type)
                raise UsageError(
                    f"`{field.name}` was `{was}` and becomes `{became}`", f"it must {_RULES}"
                )
        if len(found) != len(rows):
            raise UsageError(f"it makes {len(found)} rows of {len(rows)}", f"it must {_RULES}")
        for name in LINEAGE:
            if name in rows.schema.names and not found.column(name).equals(given.column(name)):
                raise UsageError(f"it changes the lineage column `{name}`", f"it must {_RULES}")
        return found


_TAKEN: Final = frozenset((*SOURCE_TYPES, *types_of("ingest_batch x, ingest_file x, key_bucket x")))


def _check_added(fields: list[Any]) -> None:
    seen: set[str] = set()
    for field in fields:
        name = field.name.lower()
        if not name or name in _TAKEN or name in seen:
            raise UsageError(
                f"it adds a column `{field.name}`, a name that the table has",
                "give it another name; names that differ in case alone are the same",
            )
        seen.add(name)
        check_stored(field.type, f"its column `{field.name}`")


def load_transform(name: str) -> Transform:
    """The function by `module:function`; the module is looked for in the working directory too, and
    Spark carries it to the workers. Raises `UsageError`."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise UsageError(
            f"`--transform {name}` names no function", "give `module:function`, say `clean:mask`"
        )
    try:
        with _working_directory_importable():
            module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"`--transform {name}`: the module `{module_name}` cannot be imported: "
            f"{type(error).__name__}: {error}",
            "run the command in the directory of its file, or install its package",
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(
            f"`--transform {name}`: `{module_name}` has no function `{function_name}`",
            "give `module:function`",
        )
    _carry_to_workers(module)
    return Transform(name, function)


def _carry_to_workers(module: Any) -> None:
    """Makes Spark pickle what is in a module of the working directory, and not its name alone,
    which says nothing on another machine."""
    from pyspark import cloudpickle

    path = getattr(module, "__file__", None) or ""
    if os.path.dirname(os.path.abspath(path)) == os.getcwd():  # noqa: PTH100, PTH109, PTH120
        cloudpickle.register_pickle_by_value(module)


@contextmanager
def _working_directory_importable() -> Iterator[None]:
    here = os.getcwd()  # noqa: PTH109
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
