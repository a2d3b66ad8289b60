"""`tidelog spark ingest`, `compact` and `checkpoint show`: what needs no Spark."""

import json

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.bronze_rows import open_table, rows, written
from tests.unit.pipeline.log_directories import batches
from tidelog.cli.spark_ingest import _interval, _reported_failures
from tidelog.cli.terminal import BadAnswer
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import ClusterUnavailable, JobFailed, TableConflict
from tidelog.pipeline.tables.checkpoint import Identity, write_identity


@pytest.fixture
def brokers():
    with ScriptedCluster({TopicPartition("t", 0): ScriptedPartition(batches(1))}) as started:
        yield started


@pytest.mark.parametrize(
    ("trigger", "continuous", "interval_s"),
    [
        (None, False, None),
        ("availableNow", False, None),
        (None, True, 0.0),
        ("5s", False, 5.0),
        ("250ms", True, 0.25),
        ("2m", False, 120.0),
    ],
)
def test_triggers_say_how_long_a_run_waits_between_batches(trigger, continuous, interval_s):
    assert _interval(trigger, continuous) == interval_s


@pytest.mark.parametrize(
    ("trigger", "continuous"), [("5", False), ("", False), ("-1s", False), ("availableNow", True)]
)
def test_triggers_that_are_none_are_refused(trigger, continuous):
    with pytest.raises(UsageError, match=r"--trigger|--continuous"):
        _interval(trigger, continuous)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "nix"], "topic `nix` does not exist"),
        (["--topic", "t", "--option", "x=y"], "has no option `x`"),
        (["--topic", "t", "--starting-offsets", "soon"], "`startingOffsets` is not"),
        (["--topic", "t", "--option", "assign=x"], "sets the source's `assign` itself"),
        (["--topic", "t", "--trigger", "soon"], "`--trigger` is `soon`"),
        (["--topic", "t", "--conf", "x"], "`x`"),
    ],
)
def test_wrong_use_is_reported_before_spark_starts(capsys, tmp_path, brokers, arguments, message):
    place = ["--bootstrap-server", brokers.bootstrap_servers, "--table", tmp_path / "table"]
    done = tidelog(capsys, "spark", "ingest", *place, *arguments)
    assert done.code == 2
    assert message in done.err
    assert "hint: " in done.err


def test_a_table_that_cannot_be_is_reported_before_spark_starts(capsys, tmp_path, brokers):
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "notes.txt").write_text("mine")
    place = ["--bootstrap-server", brokers.bootstrap_servers, "--table", tmp_path / "table"]
    done = tidelog(capsys, "spark", "ingest", "--topic", "t", *place)
    assert (done.code, "is not a Delta table and not empty" in done.err) == (2, True)


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


@pytest.mark.parametrize(
    ("failure", "message", "hint"),
    [
        (ConnectionRefusedError(111, "refused"), "Spark's Java process ended", "run it again"),
        (JobFailed("DataLoss: gone\nhint: begin anew"), "ended: DataLoss: gone\n", "begin anew"),
        (JobFailed("a reason"), "ended: a reason", "usable as they are"),
        (TableConflict("DUPLICATE"), "DUPLICATE", "give a new `--checkpoint`"),
        (ClusterUnavailable("no answer"), "no answer", "check `--bootstrap-server`"),
    ],
)
def test_what_ends_an_ingest_is_one_message_and_one_hint(capsys, tmp_path, failure, message, hint):
    with pytest.raises(BadAnswer), _reported_failures("t", tmp_path):
        raise failure
    printed = capsys.readouterr().err
    assert message in printed
    assert hint in printed
    assert printed.count("hint: ") == 1


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
