"""DescribeTopicPartitions: pages of topics, with eligible leaders."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.limits import MAX_DESCRIBED_PARTITIONS
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

REQUEST = codec.request_class(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)


def ask(wire, *names, limit=2000, cursor=None):
    place = None
    if cursor is not None:
        place = {"topic_name": cursor[0], "partition_index": cursor[1]}
    return wire.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=tuple({"name": name} for name in names),
        response_partition_limit=limit,
        cursor=place,
    )


def pages(response):
    return [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]


@pytest.fixture
def wide(wire):
    """Topics a (3), b (1) and t (2)."""
    wire.create_topic("a", 3)
    wire.create_topic("b", 1)
    return wire


def test_all_topics_in_the_order_of_their_names(wide):
    response = ask(wide)
    assert pages(response) == [("a", [0, 1, 2]), ("b", [0]), ("t", [0, 1])]
    assert response.next_cursor is None


def test_named_topics_once_each_and_unknown_ones(wide):
    response = ask(wide, "t", "absent", "no/topic", "t")
    assert pages(response) == [("absent", []), ("no/topic", []), ("t", [0, 1])]
    assert error_of(response.topics[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(response.topics[1].error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_pages_cover_everything_once(wide, limit):
    seen, cursor = [], None
    for _ in range(20):
        response = ask(wide, limit=limit, cursor=cursor)
        rows = [(name, index) for name, indexes in pages(response) for index in indexes]
        assert len(rows) <= limit
        seen += rows
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("t", 0), ("t", 1)]


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_a_limit_of_nothing_is_one(wide, limit):
    assert pages(ask(wide, limit=limit)) == [("a", [0])]


def test_a_cursor_whose_topic_is_gone_goes_on_with_the_next(wide):
    assert pages(ask(wide, cursor=("aa", 7))) == [("b", [0]), ("t", [0, 1])]


def test_the_fields_of_a_partition(node, wire):
    node.add_broker(2)
    node.add_broker(3, fenced=True)
    wire.create_topic("p", replicas=(2, 1))
    response = ask(wire, "p")
    (partition,) = response.topics[0].partitions
    assert error_of(partition.error_code) is ErrorCode.NONE
    assert (partition.leader_id, partition.leader_epoch) == (2, 0)
    assert (partition.replica_nodes, partition.isr_nodes) == ((2, 1), (2, 1))
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())
    assert partition.offline_replicas == ()


def test_a_page_is_bounded_whatever_is_asked_for(wire):
    wire.create_topic("wide", MAX_DESCRIBED_PARTITIONS + 7)
    first = ask(wire, "wide", limit=2000)
    assert pages(first) == [("wide", list(range(MAX_DESCRIBED_PARTITIONS)))]
    cursor = first.next_cursor
    rest = ask(wire, "wide", limit=2000, cursor=(cursor.topic_name, cursor.partition_index))
    assert [len(indexes) for _, indexes in pages(rest)] == [7]
    assert rest.next_cursor is None


def test_every_operation_is_allowed(wide, wire):
    """Without being asked for, as in Kafka."""
    assert {topic.topic_authorized_operations for topic in ask(wire, "a", "none").topics} == {3576}


def test_a_cursor_before_the_first_partition(wide):
    response = ask(wide, "t", cursor=("t", -1))
    assert [error_of(each.error_code) for each in response.topics] == [ErrorCode.INVALID_REQUEST]
    assert pages(response) == [("t", [])]


@pytest.mark.parametrize("names", [("a",), ("t", "a"), ("absent", "absent")])
def test_a_cursor_at_a_topic_that_is_not_asked_for(wide, names):
    response = ask(wide, *names, cursor=("b", 0))
    assert pages(response) == [(name, []) for name in names]
    assert {error_of(each.error_code) for each in response.topics} == {ErrorCode.INVALID_REQUEST}
