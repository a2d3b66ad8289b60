"""The Delta table: one commit a batch, once; its metadata; what it refuses."""

import json
import os
import shutil

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.unit.pipeline.bronze_rows import (
    TOPIC_ID,
    change_rows,
    merged,
    open_table,
    open_upserts,
    rows,
    written,
)
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import FilesGone, FilesReplaced, TableConflict, TableDamaged
from tidelog.pipeline.tables.compaction import compact
from tidelog.pipeline.tables.continuity import TablePosition
from tidelog.pipeline.tables.table import BronzeTable, ingest_commits
from tidelog.pipeline.tables.upserts import Upsert

P0 = TopicPartition("t", 0)


def _places(directory):
    table = DeltaTable(str(directory)).to_pyarrow_table(columns=["topic", "partition", "offset"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def _accounts(directory):
    table = DeltaTable(str(directory / "_continuity")).to_pyarrow_table()
    names = ("topic", "start", "end", "rows", "batch", "status")
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


def test_a_batch_enters_as_a_whole_with_its_metadata(tmp_path):
    table = open_table(tmp_path)
    table.commit(written(table, 0, rows(0, 5), rows(3, 4, partition=1)))
    assert _places(tmp_path) == [("t", 0, o) for o in range(5)] + [("t", 1, 3)]
    (metadata,) = ingest_commits(tmp_path, DeltaTable(str(tmp_path)).version())
    assert metadata["offsets"] == {"t:0": [0, 5], "t:1": [3, 4]}
    assert metadata["positions"] == {"t:0": [5, 1], "t:1": [4, 1]}
    assert (metadata["app"], metadata["batch"], metadata["topic"]) == ("app", 0, "t")
    assert [line["status"] for line in metadata["continuity"]] == ["ok", "ok"]


def test_files_without_a_commit_are_invisible(tmp_path):
    table = open_table(tmp_path)
    table.commit(written(table, 0, rows(0, 5)))
    written(table, 1, rows(5, 9))
    assert len(list((tmp_path / "topic=t").iterdir())) == 2
    assert _places(tmp_path) == [("t", 0, o) for o in range(5)]
    files = DeltaTable(str(tmp_path)).file_uris()
    assert sum(pq.read_metadata(path).num_rows for path in files) == 5


def test_other_engines_read_what_is_committed(tmp_path):
    """Polars by its own reader; DuckDB by delta-rs's data set: its extension is a download."""
    table = open_table(tmp_path)
    table.commit(written(table, 0, rows(0, 5), rows(3, 4, partition=1)))
    written(table, 1, rows(5, 9))
    frame = polars.read_delta(str(tmp_path)).select("topic", "partition", "offset", "value")
    assert sorted(frame.rows()) == [
        *(("t", 0, o, b"v%d" % o) for o in range(5)),
        ("t", 1, 3, b"v3"),
    ]
    data_set = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    query = 'select partition, count(*), max("offset") from data_set group by 1 order by 1'
    with duckdb.connect() as engine:
        engine.register("data_set", data_set)
        assert engine.sql(query).fetchall() == [(0, 5, 4), (1, 1, 3)]


_UPSERT = Upsert(app="app")


def _rows_by_key(directory):
    found = DeltaTable(str(directory)).to_pyarrow_table().to_pylist()
    return {row["key"]: (row["offset"], row["value"]) for row in found}


def test_a_batch_of_changes_puts_files_in_the_place_of_others(tmp_path):
    table = open_upserts(tmp_path, _UPSERT)
    table.commit(merged(table, 0, _UPSERT, change_rows((0, b"a", b"1"), (1, b"b", b"1"))))
    table.commit(merged(table, 1, _UPSERT, change_rows((2, b"a", b"2"), (3, b"b", None))))
    assert _rows_by_key(tmp_path) == {b"a": (2, b"2")}
    assert table.positions == open_upserts(tmp_path, _UPSERT).positions == {P0: TablePosition(4, 1)}
    assert DeltaTable(str(tmp_path)).version() == 2
    assert len(DeltaTable(str(tmp_path)).file_uris()) == 1
    table.commit(merged(table, 2, _UPSERT, change_rows((4, None, b"no key"))))
    assert table.has("app", 2) and _rows_by_key(tmp_path) == {b"a": (2, b"2")}


def test_files_that_were_replaced_meanwhile_are_not_replaced_again(tmp_path):
    table = open_upserts(tmp_path, _UPSERT)
    table.commit(merged(table, 0, _UPSERT, change_rows((0, b"a", b"1"), (1, b"b", b"1"))))
    late = merged(table, 1, _UPSERT, change_rows((2, b"a", b"2")))
    DeltaTable(str(tmp_path)).optimize.z_order(["offset"])
    with pytest.raises(FilesReplaced, match="were replaced meanwhile"):
        table.commit(late)
    assert _rows_by_key(tmp_path) == {b"a": (0, b"1"), b"b": (1, b"1")}
    table.commit(merged(table, 1, _UPSERT, change_rows((2, b"a", b"2"))))
    assert _rows_by_key(tmp_path) == {b"a": (2, b"2"), b"b": (1, b"1")}


def test_a_rewriting_during_the_commit_is_seen_and_doubles_no_row(tmp_path, monkeypatch):
    """An `OPTIMIZE` of another program, between the last look at the table and the commit."""
    table, whole = open_upserts(tmp_path, _UPSERT), BronzeTable._write
    table.commit(merged(table, 0, _UPSERT, change_rows((0, b"a", b"1"), (1, b"b", b"1"))))
    late = merged(table, 1, _UPSERT, change_rows((2, b"a", b"2")))

    def write(self, *arguments):
        DeltaTable(str(tmp_path)).optimize.z_order(["offset"])
        whole(self, *arguments)

    with monkeypatch.context() as rewriting:
        rewriting.setattr(BronzeTable, "_write", write)
        with pytest.raises(FilesReplaced, match="was changed meanwhile"):
            table.commit(late)
    assert _rows_by_key(tmp_path) == {b"a": (0, b"1"), b"b": (1, b"1")}
    table.commit(merged(table, 1, _UPSERT, change_rows((2, b"a", b"2"))))
    assert _rows_by_key(tmp_path) == {b"a": (2, b"2"), b"b": (1, b"1")}


def test_a_table_of_upserts_is_compacted_and_keeps_its_rows(tmp_path):
    table = open_upserts(tmp_path, _UPSERT)
    for number in range(3):
        changes = change_rows(*((10 * number + o, b"k%d" % o, b"v") for o in range(10)))
        table.commit(merged(table, number, _UPSERT, changes))
    before = _rows_by_key(tmp_path)
    done = compact(tmp_path)
    assert done.files_before == done.files_after
    assert _rows_by_key(tmp_path) == before and len(before) == 10


def test_a_batch_is_known_by_its_app_and_number(tmp_path):
    table = open_table(tmp_path)
    table.commit(written(table, 0, rows(0, 5)))
    table.commit(written(table, 1, rows(5, 6)))
    for seen in (table, open_table(tmp_path)):
        assert [seen.has("app", batch) for batch in range(3)] == [True, True, False]
        assert not seen.has("other", 0)


def test_a_table_knows_how_far_it_is(tmp_path):
    table = open_table(tmp_path)
    assert table.positions == {}
    table.commit(written(table, 0, rows(0, 5)))
    other = open_table(tmp_path, topic="u")
    assert other.positions == {}
    other.commit(written(other, 0, rows(7, 9, topic="u"), app="another"))
    assert table.positions == open_table(tmp_path).positions == {P0: TablePosition(5, 1)}
    assert other.positions == {TopicPartition("u", 0): TablePosition(9, 1)}


def test_a_table_whose_log_was_cleaned_up_looks_at_its_rows(tmp_path):
    table = open_table(tmp_path)
    table.commit(written(table, 0, rows(0, 5), rows(3, 4, partition=1)))
    table.commit(written(table, 1, rows(5, 6)))
    DeltaTable(str(tmp_path)).create_checkpoint()
    for path in (tmp_path / "_delta_log").glob("*.json"):
        path.unlink()
    found = open_table(tmp_path).positions
    assert found == {P0: TablePosition(6, 1), TopicPartition("t", 1): TablePosition(4, 1)}


def test_offsets_that_the_table_has_are_refused_from_any_writer(tmp_path):
    table = open_table(tmp_path)
    table.commit(written(table, 0, rows(0, 5)))
    with pytest.raises(TableConflict, match=r"DUPLICATE `t-0` \[4, 6\).*nothing .* was written"):
        table.commit(written(table, 0, rows(4, 6), app="another"))
    assert _places(tmp_path) == [("t", 0, o) for o in range(5)]


def test_of_two_writers_of_a_topic_one_loses_and_the_table_stays_right(tmp_path):
    first = open_table(tmp_path)
    first.commit(written(first, 0, rows(0, 5)))
    second = open_table(tmp_path)
    late = written(second, 0, rows(5, 9), app="another")
    first.commit(written(first, 1, rows(5, 8)))
    with pytest.raises(TableConflict, match="another writer writes topic `t`"):
        second.commit(late)
    assert _places(tmp_path) == [("t", 0, o) for o in range(8)]
    assert open_table(tmp_path).has("another", 0) is False


def test_writers_of_two_topics_do_not_disturb_each_other(tmp_path):
    first, second = open_table(tmp_path), open_table(tmp_path, topic="u")
    for batch in range(3):
        first.commit(written(first, batch, rows(batch, batch + 1)))
        second.commit(written(second, batch, rows(batch, batch + 1, topic="u"), app="another"))
    first.sync_continuity()
    second.sync_continuity()
    assert len(_places(tmp_path)) == 6
    assert len(_accounts(tmp_path)) == 6


def test_accounts_follow_the_commits_also_after_a_crash_in_between(tmp_path):
    table = open_table(tmp_path)
    table.sync_continuity()
    table.commit(written(table, 0, rows(0, 5)))
    table.sync_continuity()
    table.sync_continuity()
    table.commit(written(table, 1, rows(5, 6)))
    table.commit(written(table, 2, rows(7, 8)))
    reopened = open_table(tmp_path)
    reopened.sync_continuity()
    assert _accounts(tmp_path) == [
        ("t", 0, 5, 5, 0, "ok"),
        ("t", 5, 6, 1, 1, "ok"),
        ("t", 7, 8, 1, 2, "GAP"),
    ]
    assert len(_places(tmp_path)) == 7


def test_a_topic_made_anew_is_another_topic(tmp_path):
    table = open_table(tmp_path)
    table.commit(written(table, 0, rows(0, 5)))
    with pytest.raises(UsageError, match="holds another topic `t`"):
        open_table(tmp_path, topic_id="11" * 16)


def test_a_table_that_must_be_there_is_not_made(tmp_path):
    with pytest.raises(UsageError, match="is not a Delta table, but the checkpoint belongs to one"):
        BronzeTable.open(tmp_path / "gone", "t", TOPIC_ID, create=False)
    assert list(tmp_path.iterdir()) == []


def _a_file(place):
    place.write_text("a file")
    return "cannot be opened and written"


def _other_files(place):
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    return "not a Delta table and not empty: there is `notes.txt`"


def _other_schema(place):
    write_deltalake(str(place), pa.table({"name": ["x"]}))
    return "another kind: the column `topic`"


def _other_layout(place):
    open_table(place)
    log = place / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["partitionColumns"] = []
    log.write_text("\n".join(json.dumps(line) for line in lines))
    return "another kind: partitioned by"


@pytest.mark.parametrize(
    ("spoil", "below"),
    [
        (_a_file, ""),
        (_a_file, "table"),
        (_other_files, ""),
        (_other_schema, ""),
        (_other_layout, ""),
    ],
)
def test_other_directories_and_tables_are_refused_and_left_alone(tmp_path, spoil, below):
    place = tmp_path / "place"
    message = spoil(place)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        open_table(place / below)
    assert message in caught.value.message
    assert "--table" in caught.value.hint
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_writer_that_looked_at_the_table_meanwhile_still_loses(tmp_path):
    """Looking at the log (for `_continuity`, for `has`) must not hide that another writer has
    written."""
    first = open_table(tmp_path)
    first.commit(written(first, 0, rows(0, 5)))
    second = open_table(tmp_path)
    late = written(second, 0, rows(5, 9), app="another")
    first.commit(written(first, 1, rows(5, 8)))
    second.sync_continuity()
    assert second.has("another", 0) is False
    with pytest.raises(TableConflict, match="another writer writes topic `t`"):
        second.commit(late)
    assert _places(tmp_path) == [("t", 0, o) for o in range(8)]


def test_of_two_first_writers_one_loses(tmp_path):
    first, second = open_table(tmp_path), open_table(tmp_path)
    late = written(second, 0, rows(0, 9), app="another")
    first.commit(written(first, 0, rows(0, 5)))
    with pytest.raises(TableConflict, match="another writer writes topic `t`"):
        second.commit(late)


def test_a_table_that_looks_again_knows_what_others_wrote(tmp_path):
    first, second = open_table(tmp_path), open_table(tmp_path)
    first.commit(written(first, 0, rows(0, 5)))
    second.reload()
    assert second.positions == {P0: TablePosition(5, 1)}
    second.commit(written(second, 0, rows(5, 9), app="another"))
    assert len(_places(tmp_path)) == 9


def test_a_table_that_was_deleted_is_damage_at_each_step_and_is_not_made_anew(tmp_path):
    place = tmp_path / "table"
    table = open_table(place)
    table.commit(written(table, 0, rows(0, 5)))
    new = written(table, 1, rows(5, 10))
    shutil.rmtree(place / "_delta_log")
    for step in (table.check_there, table.reload, table.sync_continuity, lambda: table.commit(new)):
        with pytest.raises(TableDamaged, match="its log `_delta_log` is gone\nhint: bring back"):
            step()
    with pytest.raises(TableDamaged):
        table.has("app", 1)
    assert sorted(one.name for one in place.iterdir()) == ["topic=t"]


def test_a_batch_whose_files_were_deleted_is_not_committed(tmp_path):
    table = open_table(tmp_path)
    new = written(table, 0, rows(0, 5))
    (tmp_path / new.files[0].path).unlink()
    with pytest.raises(FilesGone, match=r"batch-00000000-.* was deleted before batch 0 was comm"):
        table.commit(new)
    assert not table.has("app", 0)
    table.commit(written(table, 0, rows(0, 5)))
    assert table.has("app", 0)


def test_the_log_of_a_table_does_not_grow_for_ever_and_the_ingest_goes_on(tmp_path):
    """delta-rs deletes what is older than the retention whenever it has written a checkpoint. The
    properties are those of Delta; a user sets them as this test does."""
    table = open_table(tmp_path)
    DeltaTable(tmp_path).alter.set_table_properties(
        {"delta.checkpointInterval": "4", "delta.logRetentionDuration": "interval 7 days"}
    )
    log = tmp_path / "_delta_log"
    for batch in range(6):
        table.commit(written(table, batch, rows(5 * batch, 5 * batch + 5)))
    table.sync_continuity()
    commits = sorted(log.glob("*.json"))
    for file in log.iterdir():
        at = file.stat().st_mtime - 8 * 24 * 3600
        os.utime(file, (at, at))
    for batch in range(6, 12):
        table.commit(written(table, batch, rows(5 * batch, 5 * batch + 5)))
    table.sync_continuity()
    assert not any(file.exists() for file in commits[:6])
    again = open_table(tmp_path)
    assert (again.positions, again.has("app", 11)) == (table.positions, True)
    assert [offset for _, _, offset in _places(tmp_path)] == list(range(60))
    assert [batch for *_, batch, _ in _accounts(tmp_path)] == list(range(12))
