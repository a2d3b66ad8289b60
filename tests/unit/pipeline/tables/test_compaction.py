"""Compaction: fewer files, the same rows, beside a running ingest; and what it refuses."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.unit.pipeline.bronze_rows import open_table, rows, written
from tidelog.errors import UsageError
from tidelog.pipeline.errors import TableConflict
from tidelog.pipeline.tables import compaction
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.compaction import compact
from tidelog.pipeline.tables.data_files import OpenFile
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.typed.schema_text import parse_schema


def _rows(directory):
    table = DeltaTable(str(directory)).to_pyarrow_table()
    return sorted(
        table.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"])
    )


@pytest.fixture
def table(tmp_path):
    table = open_table(tmp_path)
    for batch in range(4):
        start = 5 * batch
        table.commit(written(table, batch, rows(start, start + 5), rows(0, 1, partition=batch + 1)))
        table.sync_continuity()
    return table


def test_small_files_become_one_and_the_rows_stay(table, tmp_path):
    before = _rows(tmp_path)
    done = compact(tmp_path)
    assert (done.files_before, done.files_after, done.rewritten, done.rows) == (4, 1, 4, 24)
    assert _rows(tmp_path) == before
    assert len({row["ingest_file"] for row in before}) == 4
    assert len(DeltaTable(str(tmp_path / "_continuity")).file_uris()) == 1
    again = compact(tmp_path)
    assert (again.files_before, again.files_after, again.rewritten) == (1, 1, 0)


def test_rows_are_clustered_by_columns_and_stay(table, tmp_path):
    before = _rows(tmp_path)
    done = compact(tmp_path, cluster_by=["offset"])
    assert _rows(tmp_path) == before
    (file,) = DeltaTable(str(tmp_path)).file_uris()
    offsets = pq.read_table(file, partitioning=None).column("offset").to_pylist()
    assert offsets == sorted(offsets) and done.rows == len(offsets)
    for wrong in ("topic", "headers", "nothing"):
        with pytest.raises(UsageError, match=f"names `{wrong}`, which is not a column") as caught:
            compact(tmp_path, cluster_by=[wrong])
        assert "timestamp" in caught.value.hint and "topic" not in caught.value.hint


def test_the_ingest_goes_on_over_a_compaction(table, tmp_path):
    waiting = written(table, 4, rows(20, 25))
    compact(tmp_path)
    table.commit(waiting)
    assert [row["offset"] for row in _rows(tmp_path) if row["partition"] == 0] == list(range(25))
    reopened = open_table(tmp_path)
    assert reopened.positions == table.positions
    assert reopened.has("app", 4)


@pytest.mark.parametrize("columns", [(), ("offset",)])
def test_a_compaction_that_would_lose_rows_is_taken_back(table, tmp_path, monkeypatch, columns):
    before = _rows(tmp_path)
    whole = compaction._optimize

    def losing(address, delta, *how):
        known = set(delta.file_uris())
        whole(address, delta, *how)
        for path in set(DeltaTable(str(tmp_path)).file_uris()) - known:
            pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)

    monkeypatch.setattr(compaction, "_optimize", losing)
    with pytest.raises(TableConflict, match=r"24 rows before, 23 after.*as it was before"):
        compact(tmp_path, cluster_by=columns)
    assert _rows(tmp_path) == before


def test_rows_that_came_meanwhile_are_not_taken_back_with_a_bad_compaction(
    table, tmp_path, monkeypatch
):
    whole = compaction._check

    def after_an_append(delta, directory, before):
        table.commit(written(table, 4, rows(20, 25)))
        (path,) = set(delta.file_uris())
        pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)
        return whole(DeltaTable(str(tmp_path)), directory, before)

    monkeypatch.setattr(compaction, "_check", after_an_append)
    with pytest.raises(TableConflict, match="was right, and an ingest has written since"):
        compact(tmp_path)
    files = DeltaTable(str(tmp_path)).file_uris()
    assert [path for path in files if "/batch-00000004-" in path]


def test_vacuum_takes_only_what_is_old(table, tmp_path, monkeypatch):
    compact(tmp_path)
    (tmp_path / "_checkpoints").mkdir()
    (tmp_path / "_checkpoints" / "kept").write_text("x")
    assert compact(tmp_path, vacuum_hours=1).vacuumed == 0
    monkeypatch.setattr(compaction, "MIN_VACUUM_HOURS", 0)
    assert compact(tmp_path, vacuum_hours=0).vacuumed >= 4
    assert len(_rows(tmp_path)) == 24
    assert (tmp_path / "_checkpoints" / "kept").exists()
    assert open_table(tmp_path).positions == table.positions


def test_other_directories_and_young_files_are_refused(table, tmp_path):
    with pytest.raises(UsageError, match="is not a Delta table"):
        compact(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="another kind"):
        compact(tmp_path / "_continuity")
    with pytest.raises(UsageError, match="`--vacuum-hours` is `0`"):
        compact(tmp_path, vacuum_hours=0)


def test_vacuum_leaves_the_quarantine_also_what_only_a_commit_names(tmp_path, monkeypatch):
    layout = Layout(Format.JSON, parse_schema("id bigint"))
    table = open_table(tmp_path, value=layout)
    table.commit(written(table, 0, rows(0, 5), value=layout))
    monkeypatch.setattr(compaction, "MIN_VACUUM_HOURS", 0)
    compact(tmp_path, vacuum_hours=0)
    open_table(tmp_path, value=layout).sync_continuity()
    compact(tmp_path, vacuum_hours=0)
    found = DeltaTable(str(tmp_path / "_quarantine")).to_pyarrow_table()
    assert found.column("offset").to_pylist() == [0, 1, 2, 3, 4]


def _age(*files, hours=500):
    """The clock jumped forward since these were written."""
    for file in files:
        at = file.stat().st_mtime - 3600 * hours
        os.utime(file, (at, at))


def test_a_clock_that_jumped_forward_takes_no_file_of_a_batch_under_way(table, tmp_path):
    waiting = written(table, 4, rows(20, 25))
    (file,) = (tmp_path / one.path for one in waiting.files)
    killed = written(table, 3, rows(20, 25))
    (orphan,) = (tmp_path / one.path for one in killed.files)
    _age(file, orphan)
    assert compact(tmp_path, vacuum_hours=168).vacuumed == 1
    assert file.exists() and not orphan.exists()
    table.commit(waiting)
    assert len(_rows(tmp_path)) == 29


def test_files_of_a_topic_that_the_table_does_not_have_yet_stay(table, tmp_path):
    (waiting,) = written(open_table(tmp_path, "u"), 0, rows(0, 2, topic="u")).files
    _age(tmp_path / waiting.path)
    assert compact(tmp_path, vacuum_hours=168).vacuumed == 0
    assert (tmp_path / waiting.path).exists()


def test_files_of_further_partitions_are_vacuumed_by_their_names(tmp_path):
    place = TableAddress.of(tmp_path)
    schema = pa.schema([("offset", pa.int64())])
    values = {"kind": "a/b c%é"}
    table = open_table(tmp_path)
    for batch in (0, 1):
        file = OpenFile(place, "t", batch, schema, values)
        file.write(rows(0, 2))
        _age(tmp_path / file.finish().path)
    table.commit(written(table, 0, rows(0, 5)))
    assert compact(tmp_path, vacuum_hours=168).vacuumed == 1
    (left,) = (file for file in tmp_path.rglob("batch-*") if "kind" in str(file))
    assert left.name.startswith("batch-00000001-")
