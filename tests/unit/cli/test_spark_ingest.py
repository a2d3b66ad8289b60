"""`tidelog spark ingest`, `compact` and `checkpoint show`: what needs no Spark."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.cli.command import tidelog
from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.bronze_rows import open_table, rows, written
from tests.unit.pipeline.log_directories import batches
from tidelog.cli.spark_ingest import _interval, _named_failures, _of, _topics
from tidelog.cli.terminal import NoAnswer, WorkFailed
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import ClusterUnavailable, JobFailed, OtherWriter, TableConflict
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
        ("250ms", False, 0.25),
        ("2m", False, 120.0),
    ],
)
def test_triggers_say_how_long_a_run_waits_between_batches(trigger, continuous, interval_s):
    assert _interval(trigger, continuous) == interval_s


@pytest.mark.parametrize(
    ("trigger", "continuous"),
    [("5", False), ("", False), ("-1s", False), ("availableNow", True), ("5s", True)],
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
        (["--topic", "t", "--topic", "nix"], "topic `nix` does not exist"),
        (["--topic-pattern", "n.*"], "no topic matches `--topic-pattern n.*`"),
        (["--topic-pattern", "n["], "n["),
        (["--topic-pattern", "t", "--topic", "t"], "both say what is read"),
        ([], "what is read is not said"),
        (["--topic", "t", "--topic", "t"], "names a topic twice"),
        (["--topic", "t", "--master", "local", "--master", "yarn"], "`--master` is given twice"),
        (["--topic", "t", "--option", "columns=offset"], "sets the source's `columns` itself"),
        (["--topic", "t", "--option", "includeHeaders=false"], "`includeHeaders` itself"),
        (["--topic", "t", "--option", "maxTriggerDelay=5s"], "`maxTriggerDelay` has no effect"),
        (["--topic", "t", "--option", "a=1", "--option", "a=2"], "`a` is given twice"),
        (
            ["--topic", "t", "--option", "startingTimestamp=1", "--starting-offsets", "latest"],
            "both say where",
        ),
        (["--topic", "t", "--continuous", "--trigger", "5s"], "`--continuous` has no pause"),
        (["--topic", "t", "--master", "nowhere:7077"], "not an address of a Spark cluster"),
        (["--topic", "t", "--conf", "spark.master=local"], "would be another master"),
        (["--topic", "t", "--checkpoint", "gs://b/x"], "`gs:`, which is not served"),
        (["--topic", "t", "--value-format", "csv"], "the fields of CSV values have no names"),
        (["--topic", "t", "--value-format", "json"], "no value to infer a schema from"),
        (["--topic", "t", "--value-format", "xml"], "xml"),
        (["--topic", "t", "--value-format", "avro"], "have no fields without their schema"),
        (["--topic", "t", "--partition-by", "x"], "there is no column `x` to partition by"),
        (
            ["--topic", "t", "--mode", "upsert", "--partition-by", "date"],
            "`--partition-by date` does not go with `--mode upsert`",
        ),
        (["--topic", "t", "--registry", "http://r:1"], "`--registry http://r:1` has no effect"),
        (["--topic", "t", "--transform", "json"], "`--transform json` names no function"),
        (["--topic", "t", "--key", "id"], "`--key id` has no effect with `--mode append`"),
        (["--topic", "t", "--mode", "upsert", "--key", "id"], "keys of format `raw` have none"),
        (["--topic", "t", "--value-schema", "nix.ddl"], "`nix.ddl` cannot be read"),
        (["--topic", "t", "--key-schema", "{topic}.ddl"], "`t.ddl` cannot be read"),
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
    ("failure", "kind", "message", "hint"),
    [
        (JobFailed("DataLoss: gone\nhint: begin"), WorkFailed, "`t` into `.*`: gone", "begin"),
        (JobFailed("a reason"), NoAnswer, "ended: a reason", "usable as they are"),
        (
            JobFailed("ValueError: no topic\nhint: name one"),
            UsageError,
            "ended: no topic",
            "name one",
        ),
        (TableConflict("DUPLICATE"), WorkFailed, "DUPLICATE", "give a new `--checkpoint`"),
        (OtherWriter("another"), NoAnswer, "another", "end the other ingest"),
        (ClusterUnavailable("no answer\nhint: look"), NoAnswer, "^no answer$", "look"),
    ],
)
def test_what_ends_an_ingest_is_one_message_one_hint_and_a_code(
    tmp_path, failure, kind, message, hint
):
    with pytest.raises((UsageError, WorkFailed)) as caught, _named_failures(["t"], tmp_path):
        raise failure
    assert type(caught.value) is kind
    assert re.search(message.replace("into `.*`:", "into `.*` ended:"), caught.value.message)
    assert hint in caught.value.hint


def test_brokers_that_do_not_answer_are_try_again(capsys, tmp_path):
    place = ["--bootstrap-server", "127.0.0.1:1", "--table", tmp_path / "table"]
    done = tidelog(capsys, "spark", "ingest", "--topic", "t", *place)
    assert (done.code, "`127.0.0.1:1`" in done.err) == (3, True)
    assert "hint: check the addresses" in done.err
    assert not (tmp_path / "table").exists()


def test_a_file_address_is_a_path_and_another_address_makes_no_directory(
    capsys, tmp_path, brokers, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = tidelog(capsys, "spark", "ingest", "--topic", "t", "--table", "s3://b/x")
    assert (done.code, "`s3:`, which is not served" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []
    served = ["--table", f"file://{tmp_path}/x", "--option", "y=z"]
    where = ["--bootstrap-server", brokers.bootstrap_servers]
    assert (
        "has no option `y`"
        in tidelog(capsys, "spark", "ingest", "--topic", "t", *served, *where).err
    )


def test_topics_share_a_table_or_have_one_each():
    assert _of("a", Path("tables/all")) == Path("tables/all")
    assert _of("a", Path("tables/{topic}")) == Path("tables/a")
    assert _topics(["a", "b"], None, Path("c/{topic}")) == ["a", "b"]
    assert _topics(["a"], None, Path("c")) == ["a"]
    assert _topics(None, "a.*", None) is None
    for topics, pattern in ((["a", "b"], None), (None, "a.*")):
        with pytest.raises(UsageError, match="checkpoint of several topics"):
            _topics(topics, pattern, Path("c"))


@pytest.mark.parametrize(
    ("topics", "pattern", "message"),
    [(None, None, "what is read is not said"), (["a"], "a", "both say what is read")],
)
def test_topics_are_named_or_match(topics, pattern, message):
    with pytest.raises(UsageError, match=message):
        _topics(topics, pattern, None)


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
