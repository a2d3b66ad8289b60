"""How far the next batch of a stream goes, and which ranges that makes."""

import pytest

from tests.unit.client.scripted_brokers import TOPIC_ID, ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batches
from tidelog.env.prng import Prng
from tidelog.errors import UsageError
from tidelog.model import TopicId, TopicPartition, uuid_to_text
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.topics import stream
from tidelog.pipeline.topics.options import parse_options
from tidelog.pipeline.topics.stream_offsets import Position
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


def _offsets(text):
    return Position.from_json(text).offsets


def _options(cluster, **given):
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t"}
    return parse_options(servers | given, streaming=True)


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ({}, {"t:0": 100, "t:1": 50, "t:2": 0}),
        ({"startingOffsets": "earliest"}, {"t:0": 0, "t:1": 30, "t:2": 0}),
        ({"startingOffsets": '{"t": {"0": 7, "1": -1, "2": -2}}'}, {"t:0": 7, "t:1": 50, "t:2": 0}),
    ],
)
def test_a_new_stream_begins_at_the_given_offsets_or_at_the_end(cluster, starting, expected):
    options = _options(cluster, **starting)
    with Client(options.rules.bootstrap) as client:
        found = stream.initial_position(options, client)
    assert found.to_json() == expected | {"t": uuid_to_text(TOPIC_ID)}


def test_without_a_limit_everything_that_is_there_is_taken():
    ends = _offsets({"t:0": 100, "t:1": 50})
    assert stream.next_offsets(_offsets({"t:0": 10, "t:1": 50}), ends, None) == ends


def test_a_partition_that_was_added_begins_at_its_first_record(cluster):
    options = _options(cluster)
    with Client(options.rules.bootstrap) as client:
        ends = stream.available(options, client)
        start = Position.from_json({"t:0": 100, "t:2": 0})
        found = stream.next_position(options, client, start, ends, 3)
    assert found.to_json() == {"t:0": 100, "t:1": 33, "t:2": 0, "t": uuid_to_text(TOPIC_ID)}


def test_a_partition_that_ends_before_its_start_fails_unless_it_may(cluster):
    start, ends = (
        Position(_offsets({"t:0": 10, "t:1": 7})),
        Position(_offsets({"t:0": 4, "t:1": 9})),
    )
    with pytest.raises(DataLoss) as caught:
        stream.readable_position(_options(cluster), start, ends)
    assert "`t-0` [10, 10): the log ends at 4\nhint: " in str(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)
    lax = _options(cluster, failOnDataLoss="false")
    assert stream.readable_position(lax, start, ends).offsets == _offsets({"t:0": 4, "t:1": 7})


def test_the_checkpoint_of_another_query_is_recognised(cluster):
    start = Position(_offsets({"t:0": 4, "u:0": 3}))
    ends = Position(_offsets({"t:0": 4}))
    with pytest.raises(DataLoss) as caught:
        stream.readable_position(_options(cluster), start, ends)
    assert "`u-0` [3, 3): the checkpoint has read this partition" in str(caught.value)
    assert "not in the `subscribe` of `t`" in str(caught.value)
    lax = _options(cluster, failOnDataLoss="false")
    assert stream.readable_position(lax, start, ends).offsets == _offsets({"t:0": 4})


def test_a_topic_that_was_created_again_is_data_loss_though_its_offsets_fit(cluster):
    options, lax = _options(cluster), _options(cluster, failOnDataLoss="false")
    old = Position(_offsets({"t:0": 20, "t:1": 35, "t:2": 0}), {"t": TopicId(b"old topic's id  ")})
    with Client(options.rules.bootstrap) as client:
        ends = stream.available(options, client)
        with pytest.raises(DataLoss, match="deleted and created again: its id was `b2xk"):
            stream.next_position(options, client, old, ends, None)
        end = stream.next_position(lax, client, old, ends, None)
        assert end == ends
        planned = stream.plan_batch(lax, client, old, end)
        assert [one.wanted for one in planned] == [
            OffsetRange("t", 0, 0, 100),
            OffsetRange("t", 1, 30, 50),
        ]
        with pytest.raises(DataLoss, match="created again"):
            stream.plan_batch(options, client, old, old)


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_is_kept_but_for_one_offset_from_each_partition(seed):
    prng = Prng(seed)
    start = {TopicPartition("t", n): prng.below(1000) for n in range(1 + prng.below(20))}
    ends = {name: begin + prng.below(5000) for name, begin in start.items()}
    limit = 1 + prng.below(2000)
    position = dict(start)
    for _ in range(100_000):
        following = stream.next_offsets(position, ends, limit)
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
    with Client(options.rules.bootstrap) as client:
        planned = stream.plan_batch(
            options,
            client,
            Position.from_json({"t:0": 20, "t:1": 50}),
            Position.from_json({"t:0": 70, "t:1": 50, "t:2": 0}),
        )
    assert {one.topic_id for one in planned} == {TOPIC_ID}
    assert [one.wanted for one in planned] == [OffsetRange("t", 0, 20, 70)]


@pytest.mark.parametrize(
    ("start", "end", "there"),
    [
        ({"t:1": 10}, {"t:1": 50}, OffsetRange("t", 1, 30, 50)),  # Retention was faster.
        ({"t:1": 40}, {"t:1": 60}, OffsetRange("t", 1, 40, 50)),  # The end was cut off.
        ({"t:1": 60}, {"t:1": 60}, None),  # The topic was created again.
    ],
)
def test_lost_records_fail_the_batch_unless_they_may_be_lost(cluster, start, end, there):
    strict, lax = _options(cluster), _options(cluster, failOnDataLoss="false")
    begin, finish = Position.from_json(start), Position.from_json(end)
    with Client(strict.rules.bootstrap) as client:
        with pytest.raises(DataLoss, match=r"the log (has \[30, 50\)|ends at 50)") as lost:
            stream.plan_batch(strict, client, begin, finish)
        assert lost.value.wanted == OffsetRange("t", 1, start["t:1"], end["t:1"])
        planned = stream.plan_batch(lax, client, begin, finish)
    assert [one.wanted for one in planned] == ([there] if there else [])


def test_a_time_to_begin_at_is_the_first_record_that_late(cluster):
    options = _options(cluster, startingTimestamp="1047")
    with (
        Client(options.rules.bootstrap) as client,
        pytest.raises(UsageError, match="`t-2` has a time"),
    ):
        stream.initial_position(options, client)
    lax = _options(cluster, startingTimestamp="1047", startingOffsetsByTimestampStrategy="latest")
    with Client(lax.rules.bootstrap) as client:
        found = stream.initial_position(lax, client)
    assert found.offsets == _offsets({"t:0": 47, "t:1": 47, "t:2": 0})


def test_a_pattern_takes_new_topics_and_leaves_internal_ones(cluster):
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribePattern": "[tu_].*"}
    options = parse_options(servers, streaming=True)
    cluster.partitions[TopicPartition("__consumer_offsets", 0)] = ScriptedPartition(batches())
    cluster.partitions[TopicPartition("other", 0)] = ScriptedPartition(batches())
    with Client(options.rules.bootstrap) as client:
        before = stream.available(options, client)
        assert {tp.topic for tp in before.offsets} == {"t"}
        cluster.partitions[TopicPartition("u1", 0)] = ScriptedPartition(batches(3))
        after = stream.available(options, client)
        found = stream.next_position(options, client, before, after, None)
        assert found.offsets[TopicPartition("u1", 0)] == 30
        planned = stream.plan_batch(options, client, before, found)
    assert [one.wanted for one in planned] == [OffsetRange("u1", 0, 0, 30)]


def test_only_decided_transactions_are_available_to_read_committed(cluster):
    cluster.partitions[TopicPartition("t", 0)].last_stable_offset = 60
    options = _options(cluster, **{"isolation.level": "read_committed"})
    with Client(options.rules.bootstrap) as client:
        assert stream.available(options, client).offsets[TopicPartition("t", 0)] == 60
