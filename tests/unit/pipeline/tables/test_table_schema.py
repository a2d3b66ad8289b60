"""The columns of a table: what it was made with, what is added, and what is refused."""

from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.unit.pipeline.bronze_rows import TOPIC_ID, open_table, rows, written
from tidelog.errors import UsageError
from tidelog.pipeline.tables.compaction import compact
from tidelog.pipeline.tables.table import BronzeTable
from tidelog.pipeline.tables.table_files import BRONZE_SCHEMA, RAW, table_schema
from tidelog.pipeline.tables.table_schema import existing_schema, mode_of, open_existing
from tidelog.pipeline.tables.upserts import Upsert
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.typed.schema_text import parse_schema


def _json(text):
    return Layout(Format.JSON, parse_schema(text))


_FIRST = _json("id bigint, at struct<x: int>")
_MORE = _json("id bigint, at struct<x: int, y: string>, lines array<struct<n: int>>")
_VALUE = '{"id": %d, "at": {"x": 1, "y": "z"}, "lines": [{"n": 2}]}'


def test_a_directory_without_a_table_has_no_columns(tmp_path):
    assert existing_schema(tmp_path) is None
    with pytest.raises(UsageError, match="is not a Delta table"):
        open_existing(tmp_path)


def test_a_table_has_the_columns_that_it_was_made_with(tmp_path):
    open_table(tmp_path)
    assert existing_schema(tmp_path) == BRONZE_SCHEMA


def test_fields_are_added_before_the_batch_that_has_them(tmp_path):
    table = open_table(tmp_path, value=_FIRST)
    table.commit(written(table, 0, rows(0, 1, value=_VALUE), value=_FIRST))
    table = open_table(tmp_path, value=_MORE)
    table.commit(written(table, 1, rows(1, 2, value=_VALUE), value=_MORE))
    assert existing_schema(tmp_path).field("value").type == _MORE.type
    version = DeltaTable(str(tmp_path)).version()
    open_table(tmp_path, value=_FIRST)
    assert DeltaTable(str(tmp_path)).version() == version, "a commit without a new field"
    found = {
        row["offset"]: row["value"]
        for row in DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist()
    }
    assert found == {
        0: {"id": 0, "at": {"x": 1, "y": None}, "lines": None},
        1: {"id": 1, "at": {"x": 1, "y": "z"}, "lines": [{"n": 2}]},
    }


def test_a_table_keeps_the_mode_that_it_was_made_with(tmp_path):
    modes = {"append": None, "whole": Upsert(), "fields": Upsert(("id",))}
    for name, made in modes.items():
        for upsert in modes.values():
            schema = table_schema(RAW, RAW, upsert)
            open_it = partial(BronzeTable.open, tmp_path / name, "t", TOPIC_ID, upsert=upsert)
            if not (tmp_path / name).exists():
                BronzeTable.open(
                    *(tmp_path / name, "t", TOPIC_ID),
                    schema=table_schema(RAW, RAW, made),
                    upsert=made,
                )
            if upsert == made:
                open_it(schema=schema)
                assert mode_of(DeltaTable(str(tmp_path / name))) == made
                continue
            with pytest.raises(UsageError, match="was made with `--mode "):
                open_it(schema=schema)


def test_a_change_that_cannot_be_merged_leaves_the_table_as_it_was(tmp_path):
    open_table(tmp_path, value=_FIRST)
    for other in (_json("id string"), Layout(), Layout(Format.STRING, pa.string())):
        with pytest.raises(UsageError, match="in the table and would become"):
            open_table(tmp_path, value=other)
    assert DeltaTable(str(tmp_path)).version() == 0


def test_a_table_with_types_is_compacted_and_compared(tmp_path):
    table = open_table(tmp_path, value=_FIRST)
    for number, layout in enumerate((_FIRST, _FIRST, _MORE, _MORE)):
        table = open_table(tmp_path, value=layout)
        table.commit(written(table, number, rows(number, number + 1, value=_VALUE), value=layout))
    done = compact(tmp_path)
    assert (done.files_before, done.files_after, done.rows) == (4, 1, 4)
