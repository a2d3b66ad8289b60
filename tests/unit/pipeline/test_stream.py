"""How far the next batch of a stream goes, and which ranges that makes."""

import pytest

from tests.unit.pipeline.log_directories import batches
from tests.unit.pipeline.scripted_cluster import ScriptedCluster, ScriptedPartition
from tidelog.env.prng import Prng
from tidelog.model import TopicPartition
from tidelog.pipeline import stream
from tidelog.pipeline.client import Client
from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.values import OffsetRange


@pytest.fixture
def cluster():
    partitions = {
        TopicPartition("t", 0): ScriptedPartition(batches()),
        TopicPartition("t", 1): ScriptedPartition(batches()[3:5], log_start=30, leader=2),
        TopicPartition("t", 2): ScriptedPartition([]),
    }
    with ScriptedCluster(partitions) as started:
        yield started


def _options(cluster, **given):
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"}
    return parse_options(servers | given, streaming=True)


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ({}, {"t:0": 100, "t:1": 50, "t:2": 0}),
        ({"startingOffsets": "earliest"}, {"t:0": 0, "t:1": 30, "t:2": 0}),
        (
            {"startingOffsets": '{"t": {"0": 7, "1": -1, "2": -2}}'},
            {"t:0": 7, "t:1": 50, "t:2": 0},
        ),
    ],
)
def test_a_new_stream_begins_where_it_is_told_and_at_the_end_by_default(
    cluster, starting, expected
):
    options = _options(cluster, **starting)
    with Client(options.bootstrap) as client:
        assert stream.initial_offsets(options, client) == expected


def test_offsets_survive_the_checkpoint_whatever_the_topic_is_called():
    offsets = {TopicPartition("a.b_c-1", 12): 5, TopicPartition("a", 0): 2**40}
    text = stream.to_text(offsets)
    assert text == {"a:0": 2**40, "a.b_c-1:12": 5}
    assert stream.from_text(text) == offsets


def test_without_a_limit_everything_that_is_there_is_taken():
    ends = {"t:0": 100, "t:1": 50}
    assert stream.next_offsets({"t:0": 10, "t:1": 50}, ends, {}, None) == ends


def test_a_partition_that_was_added_begins_at_its_first_record():
    found = stream.next_offsets({"t:0": 10}, {"t:0": 10, "t:1": 50}, {"t:1": 45}, 3)
    assert found == {"t:0": 10, "t:1": 48}


def test_a_partition_that_ends_before_its_start_fails_unless_it_may(cluster):
    start, ends = {"t:0": 10, "t:1": 7, "u:0": 3}, {"t:0": 4, "t:1": 9}
    with pytest.raises(DataLoss, match=r"`t-0` \[10, 10\): the log ends at 4; start anew"):
        stream.within(_options(cluster), start, ends)
    lax = _options(cluster, failOnDataLoss="false")
    assert stream.within(lax, start, ends) == {"t:0": 4, "t:1": 7, "u:0": 3}


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_is_kept_but_for_one_offset_from_each_partition(seed):
    prng = Prng(seed)
    start = {f"t:{number}": prng.below(1000) for number in range(1 + prng.below(20))}
    ends = {name: begin + prng.below(5000) for name, begin in start.items()}
    limit = 1 + prng.below(2000)
    position = dict(start)
    for _ in range(100_000):
        following = stream.next_offsets(position, ends, {}, limit)
        taken = {name: following[name] - position[name] for name in position}
        waiting = {name for name in ends if ends[name] > position[name]}
        assert sum(taken.values()) <= max(limit, len(waiting)) + len(waiting)
        assert all(taken[name] >= 1 for name in waiting)
        assert all(following[name] <= ends[name] for name in ends)
        position = following
        if not waiting:
            break
    assert position == ends


def test_a_batch_is_its_ranges(cluster):
    options = _options(cluster)
    with Client(options.bootstrap) as client:
        planned = stream.plan_batch(
            options, client, {"t:0": 20, "t:1": 50}, {"t:0": 70, "t:1": 50, "t:2": 0}
        )
    assert [one.wanted for one in planned] == [OffsetRange("t", 0, 20, 70)]


@pytest.mark.parametrize(
    ("start", "end", "there"),
    [
        ({"t:1": 10}, {"t:1": 50}, OffsetRange("t", 1, 30, 50)),  # Retention was faster.
        ({"t:1": 40}, {"t:1": 60}, OffsetRange("t", 1, 40, 50)),  # The end was cut off.
        ({"t:1": 60}, {"t:1": 60}, None),  # The topic was made anew.
    ],
)
def test_lost_records_fail_the_batch_unless_they_may_be_lost(cluster, start, end, there):
    strict, lax = _options(cluster), _options(cluster, failOnDataLoss="false")
    with Client(strict.bootstrap) as client:
        with pytest.raises(DataLoss, match=r"the log has \[30, 50\); start anew") as lost:
            stream.plan_batch(strict, client, start, end)
        assert lost.value.wanted == OffsetRange("t", 1, start["t:1"], end["t:1"])
        planned = stream.plan_batch(lax, client, start, end)
    assert [one.wanted for one in planned] == ([there] if there else [])
