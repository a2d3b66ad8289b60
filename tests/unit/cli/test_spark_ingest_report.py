"""What an ingest shows while it runs and at its end."""

import json
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from tidelog.cli.spark_ingest_report import (
    Done,
    print_done,
    progress_line,
    show_topic,
    shown_progress,
)
from tidelog.cli.terminal import TABLE, OutputFormat
from tidelog.errors import UsageError
from tidelog.pipeline.jobs.ingest import IngestResult, Progress
from tidelog.pipeline.jobs.table import Fault
from tidelog.pipeline.tables.checkpoint import Identity
from tidelog.pipeline.typed.formats import Format
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.typed.schema_text import parse_schema

_FAR = Progress("t", 3, 12_000, 80, 7, 4_000, 2_000.0, 0.84)
_NEW = Identity(
    *("app", "t", "00", "x", "id", "earliest"), {}, {"isolation.level": "read_committed"}
)


def _result(topic, violations=()):
    return IngestResult(1, 0, 5, 0, 0, 1.0, {f"{topic}:0": 5}, violations)


def test_progress_says_rows_lag_rate_and_age():
    assert progress_line(_FAR) == (
        "t: 12,000 rows in 3 batches, 80 behind, 2,000 rows/s, newest record 0.8 s old"
    )
    assert progress_line(Progress("t", 0, 0)) == "t: 0 rows in 0 batches, 0 rows/s"


@pytest.mark.parametrize("is_endless", [True, False])
def test_without_a_terminal_a_run_without_an_end_writes_a_line_of_json_a_batch(capsys, is_endless):
    with shown_progress(is_endless=is_endless) as on_progress:
        on_progress(_FAR)
        on_progress(_FAR)
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.err.splitlines()]
    assert printed.out == ""
    assert len(lines) == (2 if is_endless else 0)
    for line in lines:
        assert (line["topic"], line["batch"], line["batch_rows"], line["lag"]) == ("t", 7, 4000, 80)
        assert (line["rows_per_s"], line["newest_age_s"]) == (2000.0, 0.84)


@pytest.mark.parametrize(
    ("faults", "verdict"),
    [
        (None, ""),
        ([], "the whole table `x`, verified: rows and accounts agree\n"),
        ([Fault("t", 0, "DUPLICATE", 2, 5)], "the whole table `x`, verified: 1 fault\n"),
    ],
)
def test_a_verified_table_has_a_verdict_on_a_terminal_too(capsys, faults, verdict):
    done = Done("t", "x", _result("t"), faults)
    print_done([done], TABLE)
    printed = capsys.readouterr().out
    assert printed.endswith(verdict)
    assert ("verified" in printed) == (faults is not None)
    assert done.is_good == (not faults)


def test_one_topic_is_one_object_and_several_are_an_object_by_topic(capsys):
    one = Done("t", "x", _result("t"), [])
    other = Done("u", "x", _result("u", ("GAP",)), [])
    print_done([one], OutputFormat.JSON)
    print_done([one, other], OutputFormat.JSON)
    alone, both = map(json.loads, capsys.readouterr().out.splitlines())
    assert (alone["table"], alone["clean"], alone["rows"], alone["faults"]) == ("x", True, 5, [])
    assert (both["clean"], both["topics"]["t"]) == (False, alone)
    print_done([one, other], TABLE)
    printed = capsys.readouterr().out
    assert "t: 5 rows in 1 batch" in printed
    assert "u: 5 rows in 1 batch" in printed
    assert printed.count("verified") == 1


def test_types_of_a_topic_and_why_it_waits_are_lines_of_json(capsys):
    layouts = {
        "key": Layout(Format.STRING, pa.string()),
        "value": Layout(Format.JSON, parse_schema("id bigint, at date")),
    }
    show_topic("t", _Prepared(**layouts))
    show_topic("raw", _Prepared(Layout(), Layout()))
    show_topic("u", UsageError("no value", "wait"))
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first == {"topic": "t", "schemas": {"key": "string", "value": "id bigint, at date"}}
    assert second == {"topic": "u", "waits": "no value", "hint": "wait"}


def test_a_terminal_gets_them_as_text(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show_topic("t", _Prepared(Layout(), Layout(Format.JSON, parse_schema("id bigint"))))
    show_topic("u", UsageError("no value", "wait"))
    assert capsys.readouterr().err == (
        "values of `t`: id bigint\n`u` has to wait: no value\nhint: wait\n"
    )


@dataclass
class _Prepared:
    """What is shown of a topic that is prepared."""

    key: Layout
    value: Layout
    identity: Identity = _NEW


def test_an_old_checkpoint_that_goes_on_uncommitted_is_named(capsys, monkeypatch):
    old = replace(_NEW, options={})
    show_topic("t", _Prepared(Layout(), Layout(), old))
    assert json.loads(capsys.readouterr().err) == {
        "topic": "t",
        "isolation_level": "read_uncommitted",
    }
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show_topic("t", _Prepared(Layout(), Layout(), old))
    shown = capsys.readouterr().err
    assert shown.startswith(
        "`t` goes on with `isolation.level=read_uncommitted`, as its checkpoint"
    )


def test_quarantined_records_are_shown(capsys):
    assert ", 3 quarantined, newest" in progress_line(replace(_FAR, quarantined_rows=3))
    result = replace(_result("t"), quarantined_rows=2)
    print_done([Done("t", "x", result, None)], TABLE)
    assert "2 records in the quarantine, 0 offsets missing" in capsys.readouterr().out
