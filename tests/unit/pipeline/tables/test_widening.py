"""Wider types: the table is rewritten by one commit, and writers from before it do not commit."""

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.unit.pipeline.bronze_rows import open_table, rows, written
from tidelog.pipeline.errors import OtherWriter
from tidelog.pipeline.tables import table_schema
from tidelog.pipeline.tables.table_schema import existing_schema
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.typed.schema_text import parse_schema

_NARROW = Layout(Format.JSON, parse_schema("id int, at struct<x: float, d: decimal(5,2)>"))
_WIDE = Layout(
    Format.JSON, parse_schema("id bigint, at struct<x: double, d: decimal(9,2)>, more string")
)
_VALUE = '{"id": %d, "at": {"x": 0.5, "d": "1.25"}}'


def _table(directory, value, topic="t"):
    return open_table(directory, topic, value=value)


def _batch(table, number, value, text=_VALUE, topic="t", app="app"):
    batch = rows(number, number + 1, value=text, topic=topic)
    return written(table, number, batch, value=value, app=app)


def _values(directory):
    found = DeltaTable(str(directory)).to_pyarrow_table().to_pylist()
    return {(row["topic"], row["offset"]): row["value"]["id"] for row in found}


def test_rows_positions_and_lineage_outlive_a_wider_type(tmp_path):
    table = _table(tmp_path, _NARROW)
    for number in range(2):
        table.commit(_batch(table, number, _NARROW))
    other = _table(tmp_path, _NARROW, topic="u")
    other.commit(_batch(other, 0, _NARROW, topic="u", app="other"))
    before = DeltaTable(str(tmp_path)).to_pyarrow_table(columns=["offset", "ingest_file", "key"])
    wide = _table(tmp_path, _WIDE)
    assert existing_schema(tmp_path).field("value").type == _WIDE.type
    assert wide.positions == table.positions
    wide.commit(_batch(wide, 2, _WIDE, _VALUE.replace("%d", "%d00000000000")))
    assert _values(tmp_path) == {("t", 0): 0, ("t", 1): 1, ("t", 2): 2 * 10**11, ("u", 0): 0}
    after = DeltaTable(str(tmp_path)).to_pyarrow_table(columns=["offset", "ingest_file", "key"])
    old = [row for row in after.to_pylist() if row["offset"] < 2]
    assert sorted(map(str, old)) == sorted(map(str, before.to_pylist()))
    types = {
        pq.read_schema(path).field("value").type for path in DeltaTable(str(tmp_path)).file_uris()
    }
    assert types == {_WIDE.type}
    version = DeltaTable(str(tmp_path)).version()
    _table(tmp_path, _NARROW)
    assert DeltaTable(str(tmp_path)).version() == version, "the narrower type changes nothing"


def test_a_writer_from_before_a_wider_type_does_not_commit(tmp_path):
    old = _table(tmp_path, _NARROW)
    old.commit(_batch(old, 0, _NARROW))
    batch = _batch(old, 1, _NARROW)
    _table(tmp_path, _WIDE)
    with pytest.raises(OtherWriter, match="it has given columns other types"):
        old.commit(batch)
    assert _values(tmp_path) == {("t", 0): 0}


def test_a_batch_that_comes_between_ends_the_rewriting_and_leaves_the_table(tmp_path, monkeypatch):
    old = _table(tmp_path, _NARROW)
    old.commit(_batch(old, 0, _NARROW))
    whole = table_schema.widen

    def late(delta, *arguments):
        old.commit(_batch(old, 1, _NARROW))
        whole(delta, *arguments)

    monkeypatch.setattr(table_schema, "widen", late)
    with pytest.raises(OtherWriter, match="another writer changes"):
        _table(tmp_path, _WIDE)
    assert existing_schema(tmp_path).field("value").type == _NARROW.type
    assert _values(tmp_path) == {("t", 0): 0, ("t", 1): 1}
    assert len(list(tmp_path.glob("topic=t/*.parquet"))) == 2
