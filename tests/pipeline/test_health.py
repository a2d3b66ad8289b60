"""The figures of replication's health, from events by hand; the batch form is the oracle of all."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.testing import assertDataFrameEqual

from tests.pipeline.health_samples import FIRST_US, event, sample_events, state
from tidelog.errors import UsageError
from tidelog.pipeline.health import transforms as health
from tidelog.pipeline.health.events import (
    EVENT,
    each_once,
    find_event_files,
    parsed,
    read_event_files,
    since,
)

pytestmark = pytest.mark.spark


def at(ms):
    """The wall time of `ms` in the sample."""
    return datetime.fromtimestamp(FIRST_US / 1e6, UTC).replace(tzinfo=None) + timedelta(
        milliseconds=ms
    )


def frame(spark, events):
    """Events as a node would have written them."""
    lines = spark.createDataFrame([(json.dumps(one),) for one in events], "value string")
    return each_once(parsed(lines))


@pytest.fixture(scope="module")
def found(spark):
    """The sample events, with one event copied and a torn line."""
    events = sample_events()
    lines = [json.dumps(one) for one in [*events, events[5]]] + ['{"ts_us": 17', ""]
    return each_once(
        parsed(spark.createDataFrame([(line,) for line in lines], "value string"))
    ).cache()


def test_conditions_begin_and_end_with_their_causes(spark, found):
    expected = [
        ("orders", 0, "under_replicated", 1, at(1500), at(7500), 6000.0,
         "broker 1 fenced: silent", 3),
        ("orders", 0, "hw_stalled", 1, at(1600), at(1800), 200.0, "replicas lack records: 3", 2),
        ("orders", 1, "leaderless", 4, at(8000), at(9000), 1000.0, "broker 2 fenced: silent", 3),
        ("orders", 1, "under_min_isr", 4, at(8000), None, None, "broker 2 fenced: silent", 3),
        ("orders", 1, "under_replicated", 4, at(8000), None, None, "broker 2 fenced: silent", 3),
    ]  # fmt: skip
    assertDataFrameEqual(health.intervals(found), spark.createDataFrame(expected, health.INTERVAL))


def test_an_election_is_timed_on_one_clock_or_not_at_all(spark, found):
    expected = [
        ("orders", 0, 1, 1, 2, at(1500), "broker 1 fenced: silent", "from isr", 3,
         500.0, 20.0, 280.0, 300.0, False),
        ("orders", 1, 4, 2, -1, at(8000), "broker 2 fenced: silent", "no valid leader", 3,
         None, None, None, None, False),
        ("orders", 1, 5, -1, 1, at(9000), "broker 1 unfenced", "from elr", 3,
         None, None, None, None, False),
    ]  # fmt: skip
    changes = health.leader_changes(found)
    assertDataFrameEqual(
        health.elections(changes), spark.createDataFrame(expected, health.ELECTION)
    )


def test_a_partition_is_unavailable_until_the_next_leader_serves(spark, found):
    """Partition 0: until the high watermark has reached the epoch's start. Partition 1: a term
    without a leader belongs to the window, and the other machine's clock measures nothing."""
    expected = [
        ("orders", 0, "unavailable", 1, at(1000), at(1800), 800.0, "broker 1 fenced: silent", 1),
        ("orders", 1, "unavailable", 4, at(8000), at(50_000), None, "broker 2 fenced: silent", 2),
    ]
    assertDataFrameEqual(
        health.unavailability(health.leader_changes(found)),
        spark.createDataFrame(expected, health.INTERVAL),
    )


def test_commits_are_pairs_of_one_leader(spark, found):
    """The append that died with its leader is not a commit."""
    expected = [("orders", 0, 1, 0, 5, at(100), 4.0)]
    assertDataFrameEqual(health.commits(found), spark.createDataFrame(expected, health.COMMIT))


def test_quantiles_by_leader(spark):
    rows = [("t", 0, 1, 0, n, at(n), float(n)) for n in range(1001)]
    answer = health.latency_by_leader(spark.createDataFrame(rows, health.COMMIT))
    assert [tuple(row) for row in answer.collect()] == [(1, 1001, 500.0, 990.0, 999.0, 1000.0)]


def test_the_worst_follower_comes_first(found):
    rows = [tuple(row) for row in health.followers(found).collect()]
    # follower, samples, held back, longest lag in records, longest time not level
    assert rows == [(1, 1, 0, 13, 2000), (2, 1, 1, 4, None), (3, 2, 0, 0, None)]


def test_flaps_are_exits_over_the_hours_of_the_events(found):
    rows = {
        (row.partition, row.replica): (row.left, row.returned)
        for row in health.flaps(found).collect()
    }
    assert rows == {(0, 1): (1, 1), (1, 2): (1, 0), (1, 1): (0, 1)}


def test_a_deleted_topic_ends_what_was_open(spark):
    events = [
        event(3, 1, "isr_change", 1000, epoch=0, leader=1, cause="x", **state([1], [1, 2, 3], 2)),
        {**event(3, 2, "topic_deleted", 1500, partition=None, topic_id="T"), "topic": "orders"},
    ]
    spans = health.intervals(frame(spark, events)).collect()
    assert {(row.kind, row.duration_ms) for row in spans} == {
        ("under_replicated", 500.0),
        ("under_min_isr", 500.0),
    }


def test_another_controller_is_another_clock(spark):
    """The order comes from the partition's epoch, though its wall clock is behind."""
    events = [
        event(3, 1, "isr_change", 1000, epoch=0, leader=1, cause="x", **state([1, 2], [], 2)),
        event(
            2, 9, "isr_change", 900, epoch=0, leader=1, cause="y", clock="two",
            **state([1, 2, 3], [1, 2], 3)
        ),
    ]  # fmt: skip
    (row,) = health.intervals(frame(spark, events)).collect()
    assert (row.kind, row.start, row.end, row.duration_ms) == (
        "under_replicated",
        at(1000),
        at(900),
        None,
    )


def test_files_are_found_in_a_cluster_directory_and_read_with_one_schema(spark, tmp_path):
    for node in (1, 2):
        directory = tmp_path / f"node-{node}" / "data"
        directory.mkdir(parents=True)
        line = json.dumps(event(node, 1, "leading", 5, epoch=0))
        (directory / "events.jsonl").write_text(f"{line}\n{line[:40]}")
        (directory / "events.jsonl.1").write_text(line + "\n")
    files = find_event_files([tmp_path])
    assert len(files) == 4
    events = read_event_files(spark, files)
    assert events.schema == spark.createDataFrame([], EVENT).schema
    assert sorted(row.broker for row in events.collect()) == [1, 2]


def test_a_directory_without_events_is_refused_with_a_hint(tmp_path):
    with pytest.raises(UsageError, match=r"no `events.jsonl`") as refused:
        find_event_files([tmp_path])
    assert "tidelog.events.enable=true" in refused.value.hint


def test_since_is_a_span_or_a_time():
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert since("90m", now) == now - timedelta(minutes=90)
    assert since("2026-11-21T09:00:00", now) == now - timedelta(hours=3)
    assert since("2026-11-21T09:00:00+02:00", now) == now - timedelta(hours=5)
    with pytest.raises(UsageError, match="`--since` is `soon`"):
        since("soon", now)
