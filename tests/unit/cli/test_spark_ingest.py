"""`tidelog spark ingest`: what needs no Spark."""

import re
from pathlib import Path

import pytest

from tests.s3_server import SECRET, Rule
from tests.unit.cli.command import tidelog
from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batches
from tidelog.cli.spark_ingest import _interval, _named_failures, _of, _topics
from tidelog.cli.terminal import NoAnswer, WorkFailed
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import (
    ClusterUnavailable,
    JobFailed,
    OtherWriter,
    TableConflict,
    TableDamaged,
)


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
        (TableDamaged("gone\nhint: bring"), WorkFailed, "^gone$", "bring"),
        (JobFailed("TableDamaged: gone\nhint: bring"), WorkFailed, "`t` into `.*`: gone", "bring"),
        (TableConflict("DUPLICATE"), WorkFailed, "DUPLICATE", "give a new `--checkpoint`"),
        (OtherWriter("another"), NoAnswer, "another", "end the other ingest"),
        (ClusterUnavailable("no answer\nhint: look"), NoAnswer, "^no answer$", "look"),
    ],
)
def test_what_ends_an_ingest_is_one_message_one_hint_and_a_code(
    tmp_path, failure, kind, message, hint
):
    with pytest.raises((UsageError, WorkFailed)) as caught, _named_failures(["t"], str(tmp_path)):
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
    done = tidelog(capsys, "spark", "ingest", "--topic", "t", "--table", "hdfs://b/x")
    assert (done.code, "`hdfs:`, which is not served" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []
    served = ["--table", f"file://{tmp_path}/x", "--option", "y=z"]
    where = ["--bootstrap-server", brokers.bootstrap_servers]
    assert (
        "has no option `y`"
        in tidelog(capsys, "spark", "ingest", "--topic", "t", *served, *where).err
    )


def test_a_table_in_an_object_store_wants_a_checkpoint_and_options_of_stores(
    capsys, tmp_path, brokers, object_store
):
    place = object_store.place()
    given = [f"--table-option={name}={text}" for name, text in object_store.options.items()]
    where = ["--bootstrap-server", brokers.bootstrap_servers, "--table", place, *given]
    command = ["spark", "ingest", "--topic", "t", *where]
    done = tidelog(capsys, *command)
    assert (done.code, "give a directory with `--checkpoint`" in done.err) == (2, True)
    checks = ["--checkpoint", tmp_path / "checks"]
    done = tidelog(capsys, *command, *checks, "--table-option", "aws_regoin=eu")
    assert (done.code, "aws_regoin` is not known" in done.err) == (2, True)
    with object_store.obeying(Rule(".*", "ExpiredToken", 403)):
        done = tidelog(capsys, *command, *checks)
    assert (done.code, f"`{place}` cannot be reached: " in done.err) == (3, True)
    assert "`--table-option`, or AWS_" in done.err and SECRET not in done.err
    assert list(tmp_path.iterdir()) == []


def test_topics_share_a_table_or_have_one_each():
    assert _of("a", "tables/all") == "tables/all"
    assert _of("a", "s3://lake/{topic}") == "s3://lake/a"
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
