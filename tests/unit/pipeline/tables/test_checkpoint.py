"""Checkpoints: what one is about, what it planned, and which runs it refuses."""

import json
from dataclasses import replace

import pytest

from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.tables.checkpoint import (
    Identity,
    check_same,
    describe,
    planned_ranges,
    read_identity,
    starting_json,
    write_identity,
)
from tidelog.pipeline.topics.stream_offsets import ranges_to_text

KNOWN = Identity(
    app="app",
    topic="t",
    topic_id="00",
    table="tables/t",
    table_id="the-table",
    starting_offsets="earliest",
    birth={"t:0": 0, "t:1": 4},
    options={"isolation": "x"},
)


def _plan(directory, batch, offsets, *, committed=True):
    for log in ("offsets", "commits"):
        (directory / log).mkdir(exist_ok=True)
    conf = {"conf": {"spark.sql.shuffle.partitions": "4"}}
    lines = ["v1", json.dumps(conf), json.dumps(offsets)]
    (directory / "offsets" / str(batch)).write_text("\n".join(lines))
    if committed:
        (directory / "commits" / str(batch)).write_text("v1\n{}")


def test_an_identity_is_written_once_and_read_again(tmp_path):
    checkpoint = tmp_path / "new" / "checkpoint"
    assert read_identity(checkpoint) is None
    write_identity(checkpoint, KNOWN)
    assert read_identity(checkpoint) == KNOWN
    check_same(checkpoint, KNOWN, replace(KNOWN, app="of this run", birth={}), asked=None)
    check_same(checkpoint, KNOWN, KNOWN, asked="earliest")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": "u"}, "checkpoint of the topic `t`, not of `u`"),
        ({"topic_id": "11"}, "checkpoint of the topic id `00`, not of `11`"),
        ({"table_id": "b"}, "checkpoint of the table `the-table` (`tables/t`), not of `b`"),
        ({"options": {}}, "begun with `isolation` = `x`, not `unset`"),
        ({"options": {"isolation": "y"}}, "begun with `isolation` = `x`, not `y`"),
        ({"options": {"isolation": "x", "more": "z"}}, "begun with `more` = `unset`, not `z`"),
    ],
)
def test_a_run_of_something_else_is_refused_with_the_reason(tmp_path, change, message):
    with pytest.raises(UsageError) as caught:
        check_same(tmp_path, KNOWN, replace(KNOWN, **change), asked=None)
    assert message in caught.value.message
    assert "--checkpoint" in caught.value.hint


def test_another_start_is_refused_because_it_would_do_nothing(tmp_path):
    with pytest.raises(UsageError, match=r"began with `--starting-offsets earliest`; `latest`"):
        check_same(tmp_path, KNOWN, KNOWN, asked="latest")


def test_a_checkpoint_of_another_query_is_refused(tmp_path):
    _plan(tmp_path, 0, {})
    with pytest.raises(UsageError, match="checkpoint of another Spark query"):
        read_identity(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 9}', '{"version": 1, "app": "a"}'])
def test_a_damaged_identity_is_refused(tmp_path, text):
    (tmp_path / "tidelog-ingest.json").write_text(text)
    with pytest.raises(UsageError, match="cannot be read"):
        read_identity(tmp_path)


def test_a_checkpoint_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_identity(tmp_path / "file" / "checkpoint", KNOWN)


def test_ranges_begin_at_the_birth_and_then_where_the_batch_before_ended(tmp_path):
    _plan(tmp_path, 0, {"t:0": 5, "t:1": 4})
    _plan(tmp_path, 1, {"t:0": 5, "t:1": 9, "t:2": 3}, committed=False)
    assert ranges_to_text(planned_ranges(tmp_path, KNOWN.birth, 0)) == {"t:0": [0, 5]}
    second = planned_ranges(tmp_path, KNOWN.birth, 1)
    assert ranges_to_text(second) == {"t:1": [4, 9], "t:2": [-1, 3]}


def test_ranges_of_what_is_not_ours_are_refused(tmp_path):
    with pytest.raises(UsageError, match="has no batch 0"):
        planned_ranges(tmp_path, {}, 0)
    _plan(tmp_path, 0, {})
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"t":1}\n{"u":2}')
    with pytest.raises(UsageError, match="not an offset log of a tidelog stream: 2 sources"):
        planned_ranges(tmp_path, {}, 0)
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"logOffset": "x"}')
    with pytest.raises(UsageError, match="not an offset log of a tidelog stream"):
        planned_ranges(tmp_path, {}, 0)


def test_a_description_has_everything(tmp_path):
    with pytest.raises(UsageError, match="is not a checkpoint"):
        describe(tmp_path)
    write_identity(tmp_path, KNOWN)
    assert describe(tmp_path)["batches"] == []
    _plan(tmp_path, 0, {"t:0": 5, "t:1": 4})
    _plan(tmp_path, 1, {"t:0": 6, "t:1": 4}, committed=False)
    found = describe(tmp_path)
    assert found["identity"]["topic"] == "t"
    assert found["identity"]["birth"] == {"t:0": 0, "t:1": 4}
    assert found["batches"] == [
        {"batch": 0, "committed": True, "ranges": {"t:0": [0, 5]}},
        {"batch": 1, "committed": False, "ranges": {"t:0": [5, 6]}},
    ]
    assert found["conf"] == {"spark.sql.shuffle.partitions": "4"}
    json.dumps(found)


def test_offsets_are_written_as_the_source_reads_them():
    offsets = {TopicPartition("t", 1): 4, TopicPartition("t", 0): -2}
    assert json.loads(starting_json(offsets)) == {"t": {"0": -2, "1": 4}}
