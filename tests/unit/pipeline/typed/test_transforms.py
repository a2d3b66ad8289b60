"""Transforms: what they may do, and how one that does something else is refused."""

import pickle
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.pipeline.bronze_rows import change_rows, open_table, rows
from tidelog.errors import UsageError
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.table import BronzeTable
from tidelog.pipeline.tables.table_files import (
    RAW,
    TableTask,
    parsed_schema,
    table_schema,
    write_files,
)
from tidelog.pipeline.tables.table_schema import existing_schema
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.typed.transforms import Transform, load_transform

_SCHEMA = parsed_schema(RAW, RAW)


def _replaced(rows, name, column):
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def _with_double(rows):
    masked = pa.array([b"***"] * len(rows), pa.binary())
    doubled = pa.array([2 * one for one in rows.column("offset").to_pylist()], pa.int64())
    return _replaced(rows, "value", masked).append_column("double", doubled)


def _planned(function, schema=_SCHEMA):
    return Transform("m:f", function).planned(schema)


def test_added_columns_are_in_the_table_and_lineage_stays(tmp_path):
    transform = _planned(_with_double)
    assert transform.added == (pa.field("double", pa.int64()),)
    task = TableTask(TableAddress.of(tmp_path), 3, transform=transform)
    report = write_files(task, iter([rows(5, 9, control=True)]))
    table = pq.read_table(tmp_path / report.files[0].path, partitioning=None)
    assert table.column("double").to_pylist() == [10, 12, 14]
    assert table.column("offset").to_pylist() == [5, 6, 7]
    assert set(table.column("value").to_pylist()) == {b"***"}
    assert (report.pieces[0].rows, report.pieces[0].control_rows) == (3, 1)


def test_a_column_that_is_added_later_is_null_in_older_rows(tmp_path):
    open_table(tmp_path)
    schema = table_schema(RAW, RAW, None, _planned(_with_double))
    BronzeTable.open(tmp_path, "t", "00" * 16, schema=schema)
    assert existing_schema(tmp_path).field("double").type == pa.int64()
    with pytest.raises(UsageError, match="`double` is `bigint` in the table and would become"):
        as_text = _planned(lambda rows: rows.append_column("double", rows.column("topic")))
        other = table_schema(RAW, RAW, None, as_text)
        BronzeTable.open(tmp_path, "t", "00" * 16, schema=other)


def _raises(rows):
    raise KeyError("no such column")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_raises, "it raises KeyError: 'no such column'"),
        (lambda rows: None, "it returns a `NoneType`"),
        (lambda rows: rows.drop_columns(["offset"]), "it drops the column `offset`"),
        (lambda rows: rows.drop_columns(["value"]), "it drops the column `value`"),
        (
            lambda rows: _replaced(rows, "value", rows.column("value").cast(pa.string())),
            "`value` was `binary` and becomes `string`",
        ),
        (lambda rows: rows.append_column("Offset", rows.column("offset")), "a name that the table"),
        (lambda rows: rows.append_column("key_bucket", rows.column("offset")), "a name that the"),
        (
            lambda rows: rows.append_column("x", rows.column("topic").cast(pa.large_string())),
            "its column `x` has the Arrow type `large_string`",
        ),
    ],
)
def test_what_breaks_the_rules_is_refused_before_the_run(function, message):
    with pytest.raises(UsageError, match="called with a table without rows: ") as refused:
        _planned(function)
    assert message in refused.value.message and refused.value.hint


def _only_with_rows(broken):
    return lambda rows: broken(rows) if len(rows) else _with_double(rows)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_raises, "it raises KeyError"),
        (lambda rows: _with_double(rows.slice(1)), "it makes 3 rows of 4"),
        (
            lambda rows: _with_double(rows.take(pa.array([1, 0, 2, 3]))),
            "it changes the lineage column `offset`",
        ),
        (
            lambda rows: rows.append_column("double", rows.column("partition")),
            "column `double` is not the `bigint` that it was",
        ),
        (
            lambda rows: _with_double(rows).append_column("late", rows.column("offset")),
            "it adds a column `late` that it did not add",
        ),
    ],
)
def test_what_breaks_them_in_a_task_ends_it_with_the_address(tmp_path, function, message):
    task = TableTask(TableAddress.of(tmp_path), 0, transform=_planned(_only_with_rows(function)))
    with pytest.raises(ValueError, match=r"`--transform m:f` in `t-0`, the rows from .* 5 on") as e:
        write_files(task, iter([rows(5, 9)]))
    assert message in str(e.value) and "\nhint: " in str(e.value)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_key_that_names_a_row_stays_one(tmp_path):
    nulled = _planned(lambda rows: _replaced(rows, "key", pa.nulls(len(rows), pa.binary())))
    task = TableTask(TableAddress.of(tmp_path), 0, upsert=Upsert(app="app"), transform=nulled)
    with pytest.raises(ValueError, match="makes keys null"):
        write_files(task, iter([change_rows((0, b"a", b"1"))]))


def test_a_module_of_the_working_directory_is_found_and_carried_to_workers(tmp_path, monkeypatch):
    from pyspark import cloudpickle

    (tmp_path / "its_own_transforms.py").write_text(
        "def f(rows):\n    return rows.append_column('o', rows.column('offset'))\nx = 1\n"
    )
    monkeypatch.chdir(tmp_path)
    text = cloudpickle.dumps(load_transform("its_own_transforms:f"))
    del sys.modules["its_own_transforms"]
    monkeypatch.chdir("/")
    assert pickle.loads(text).planned(_SCHEMA).added == (pa.field("o", pa.int64()),)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("json", "names no function"),
        ("json:", "names no function"),
        ("no_such_module:f", "the module `no_such_module` cannot be imported"),
        ("json:nix", "`json` has no function `nix`"),
    ],
)
def test_a_function_that_is_not_there_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        load_transform(name)
