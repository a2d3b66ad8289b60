"""`tidelog spark compact` and `checkpoint show`."""

import json

from tests.s3_server import SECRET, Rule
from tests.unit.cli.command import tidelog
from tests.unit.pipeline.bronze_rows import open_table, rows, written
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.checkpoint import Identity, write_identity


def test_a_checkpoint_is_shown_in_both_ways(capsys, tmp_path):
    birth = {"t:0": 5}
    write_identity(tmp_path, Identity("app", "t", "00", "tables/t", "id", "earliest", birth, {}))
    (tmp_path / "offsets").mkdir()
    conf = {"conf": {"spark.sql.shuffle.partitions": "4"}}
    (tmp_path / "offsets" / "0").write_text(f'v1\n{json.dumps(conf)}\n{{"t:0": 9}}')
    done = tidelog(capsys, "spark", "checkpoint", "show", tmp_path, "--output", "json")
    assert done.code == 0
    assert done.json["identity"]["birth"] == birth
    assert done.json["batches"] == [{"batch": 0, "committed": False, "ranges": {"t:0": [5, 9]}}]
    shown = tidelog(capsys, "spark", "checkpoint", "show", tmp_path)
    for text in ("t:0@5", "t:0 [5, 9)", "planned", "tables/t", "spark.sql.shuffle.partitions"):
        assert text in shown.out


def test_what_is_not_a_checkpoint_is_reported(capsys, tmp_path):
    done = tidelog(capsys, "spark", "checkpoint", "show", tmp_path)
    assert (done.code, "is not a checkpoint" in done.err) == (2, True)


def test_a_table_is_compacted_without_spark(capsys, tmp_path):
    table = open_table(tmp_path)
    for batch in range(3):
        table.commit(written(table, batch, rows(batch, batch + 1)))
    done = tidelog(capsys, "spark", "compact", "--table", tmp_path, "--output", "json")
    assert done.code == 0
    assert (done.json["files_before"], done.json["files_after"], done.json["rows"]) == (3, 1, 3)
    assert "1 files became 1" in tidelog(capsys, "spark", "compact", "--table", tmp_path).out
    nothing = tidelog(capsys, "spark", "compact", "--table", tmp_path / "nowhere")
    assert (nothing.code, "is not a Delta table" in nothing.err) == (2, True)


def test_a_table_in_an_object_store_is_compacted_too(capsys, object_store):
    place = object_store.place()
    table = open_table(TableAddress.of(place, object_store.options))
    for batch in range(2):
        table.commit(written(table, batch, rows(batch, batch + 1)))
    given = [f"--table-option={name}={text}" for name, text in object_store.options.items()]
    command = ["spark", "compact", "--table", place, *given]
    with object_store.obeying(Rule(".*", "ExpiredToken", 403)):
        refused = tidelog(capsys, *command)
    assert (refused.code, f"`{place}` cannot be reached: " in refused.err) == (3, True)
    assert SECRET not in refused.err
    done = tidelog(capsys, *command, "--output", "json")
    assert (done.json["files_before"], done.json["files_after"], done.json["rows"]) == (2, 1, 2)
