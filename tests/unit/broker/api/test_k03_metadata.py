"""Metadata: who is there and who leads, in all its versions; hostile questions included."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.broker.one_node import CLUSTER_ID, CONTROLLER, OneNode, Wire
from tidelog.broker.api import k03_metadata
from tidelog.broker.held_questions import HOLD_MS
from tidelog.env.effects import Closed, CloseReason
from tidelog.errors import ErrorCode
from tidelog.log.pieces import finish
from tidelog.model import Endpoint
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import field, make
from tidelog.wire.values import bytes_of, error_of, uuid_of

VERSIONS = range(14)
ALL_BUT_FIRST = range(1, 14)


def metadata(
    wire: Wire,
    version: int,
    *names: str | None,
    everything: bool = False,
    create: bool = False,
    operations: bool = False,
) -> Any:
    """A question about topics by name."""
    topics = tuple({"name": name, "topic_id": None} for name in names)
    if everything:
        topics = () if version == 0 else None
    return wire.call(
        ApiKey.METADATA,
        version,
        topics=topics,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=operations,
        include_topic_authorized_operations=operations,
    )


def by_id(wire: Wire, version: int, *topics: tuple[bytes, str | None]) -> Any:
    """A question about topics by id."""
    return wire.call(
        ApiKey.METADATA,
        version,
        topics=tuple({"topic_id": uuid_of(i), "name": name} for i, name in topics),
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def code(entity: Any) -> ErrorCode:
    return error_of(entity.error_code)


@pytest.mark.parametrize("version", VERSIONS)
def test_everything(node, wire, version):
    node.add_broker(2)
    node.add_broker(3, fenced=True)
    wire.create_topic("a", replicas=(2, 1))
    response = metadata(wire, version, everything=True)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (1, "host1", 9092),
        (2, "host2", 9092),
    ]
    assert [field(b, "rack", None) for b in response.brokers] == (
        [None, "rack2"] if version >= 1 else [None, None]
    )
    assert field(response, "cluster_id", CLUSTER_ID) == CLUSTER_ID
    assert field(response, "controller_id", 1) == 1
    assert [topic.name for topic in response.topics] == ["a", "t"]
    (partition,) = response.topics[0].partitions
    assert (code(partition), partition.leader_id) == (ErrorCode.NONE, 2)
    assert (partition.replica_nodes, partition.isr_nodes) == ((2, 1), (2, 1))
    assert [p.partition_index for p in response.topics[1].partitions] == [0, 1]
    if version >= 10:
        known = node.broker.image.topics_by_name["a"].topic_id
        assert bytes_of(response.topics[0].topic_id) == known


@pytest.mark.parametrize("version", VERSIONS)
def test_named_topics_in_the_order_of_the_question(wire, version):
    response = metadata(wire, version, "absent", "t")
    assert [(topic.name, code(topic)) for topic in response.topics] == [
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", ErrorCode.NONE),
    ]
    assert response.topics[0].partitions == ()


@pytest.mark.parametrize("version", ALL_BUT_FIRST)
def test_an_empty_list_asks_for_no_topic(wire, version):
    assert metadata(wire, version).topics == ()


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(node, wire, version):
    known = node.broker.image.topics_by_name["t"].topic_id
    found, unknown = by_id(wire, version, (known, None), (b"?" * 16, None)).topics
    assert (found.name, code(found)) == ("t", ErrorCode.NONE)
    assert (unknown.name, code(unknown)) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert bytes_of(unknown.topic_id) == b"?" * 16
    assert "?" not in node.broker.image.topics_by_name


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("asked", [(b"?" * 16, None), (b"?" * 16, "t"), (bytes(16), None)], ids=str)
def test_questions_by_id_before_ids_could_be_answered(wire, version, asked):
    """A response of these versions cannot do without a name; the node must not fall over it."""
    (topic,) = by_id(wire, version, asked).topics
    assert code(topic) is ErrorCode.INVALID_REQUEST
    assert topic.name == (asked[1] or "")


# Leaders -----------------------------------------------------------------------------------


def fence(node: OneNode, node_id: int) -> None:
    """Broker `node_id` is fenced in what handlers see."""
    image = node.broker.image
    brokers = {**image.brokers, node_id: replace(image.brokers[node_id], fenced=True)}
    node.broker.image = replace(image, brokers=brokers)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_that_is_fenced_is_not_available(node, wire, version):
    node.add_broker(2)
    wire.create_topic("a", replicas=(2, 1))
    fence(node, 2)
    (topic,) = metadata(wire, version, "a").topics
    (partition,) = topic.partitions
    assert (code(partition), partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (partition.replica_nodes, partition.isr_nodes) == ((2, 1), (2, 1))
    assert field(partition, "offline_replicas", (2,)) == (2,)
    assert field(partition, "leader_epoch", 0) == 0


def test_a_leader_that_has_just_cut_its_connections_is_not_available(node, wire):
    node.add_broker(2)
    wire.create_topic("a", replicas=(2, 1))
    node.broker.unreachable = frozenset((2,))
    (topic,) = answered_now(node, wire, "a").topics
    (partition,) = topic.partitions
    assert (code(partition), partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == ()


def answered_now(node: OneNode, wire: Wire, name: str) -> Any:
    """The handler's answer without the tick before it, which would look at the peers anew."""
    request_type = codec.request_class(ApiKey.METADATA, 12)
    request = make(
        request_type,
        topics=({"name": name, "topic_id": None},),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None
    header = RequestHeader(ApiKey.METADATA, 12, 1, "test")
    pending = node.broker.connections.admit(connection, header)
    finish(k03_metadata.handle(node.broker, pending, request, node.now))
    _, response = codec.decode_response(ApiKey.METADATA, 12, b"".join(pending.chunks)[4:])
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_without_this_listener(node, wire, version):
    node.add_broker(2)
    wire.create_topic("a", replicas=(2, 1))
    image = node.broker.image
    elsewhere = replace(image.brokers[2], endpoints=(Endpoint("OTHER", "host2", 1),))
    node.broker.image = replace(image, brokers={**image.brokers, 2: elsewhere})
    response = metadata(wire, version, "a")
    (partition,) = response.topics[0].partitions
    assert code(partition) is (
        ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    )
    assert partition.leader_id == -1
    assert [broker.node_id for broker in response.brokers] == [1]


@pytest.mark.parametrize("version", range(8, 14))
def test_every_operation_is_allowed_to_who_asks(wire, version):
    """As in Kafka without an authorizer."""
    wire.create_topic("a")
    unasked = metadata(wire, version, "a", "nothing")
    asked = metadata(wire, version, "a", "nothing", operations=True)
    assert [row.topic_authorized_operations for row in unasked.topics] == [-(2**31)] * 2
    assert [row.topic_authorized_operations for row in asked.topics] == [3576] * 2
    if version <= 10:
        assert unasked.cluster_authorized_operations == -(2**31)
        assert asked.cluster_authorized_operations == 8096


# Topics that are made on demand ------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_are_made_when_the_client_allows_it(node, wire, version):
    (topic,) = metadata(wire, version, "new", create=True).topics
    assert code(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (topic,) = metadata(wire, version, "new").topics
    assert code(topic) is ErrorCode.NONE


@pytest.mark.parametrize("version", range(4, 14))
def test_unknown_topics_are_not_made_when_the_client_forbids_it(node, wire, version):
    metadata(wire, version, "new", create=False)
    node.advance(1000)
    assert "new" not in node.broker.image.topics_by_name


def test_unknown_topics_are_not_made_when_the_broker_forbids_it():
    node = OneNode(auto_create_topics_enable="false")
    wire = node.client()
    metadata(wire, 12, "new", create=True)
    node.advance(1000)
    assert "new" not in node.broker.image.topics_by_name


@pytest.mark.parametrize("version", VERSIONS)
def test_names_that_no_topic_can_have_are_refused_for_good(node, wire, version):
    """Called unknown, they would be asked for until the client's records time out."""
    bad, good = metadata(wire, version, "no name!", "name", create=True).topics
    assert (bad.name, code(bad)) == ("no name!", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert code(good) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.advance(1000)
    assert set(node.broker.image.topics_by_name) == {"t", "name"}


def test_internal_topics_are_not_made_by_a_question(node, wire):
    """Made so, they would have the partition count of any topic, and groups would be lost in it."""
    metadata(wire, 12, "__consumer_offsets", "__transaction_state", "new", create=True)
    node.advance(1000)
    assert set(node.broker.image.topics_by_name) == {"t", "new"}
    assert node.broker.auto_topics.creating == set()


def test_who_answers_while_all_brokers_are_fenced_names_itself(node, wire):
    """librdkafka would give up all brokers that it knows, and might never ask again."""
    image = node.broker.image
    node.broker.image = replace(image, brokers={1: replace(image.brokers[1], fenced=True)})
    response = metadata(wire, 12, "t")
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "host1", 9092)]
    (topic,) = response.topics
    assert {p.leader_id for p in topic.partitions} == {-1}


# The hold ----------------------------------------------------------------------------------


def test_an_answer_is_held_for_a_moment_and_then_has_the_present_state(node, wire):
    start = node.now
    response = metadata(wire, 12, "t")
    assert node.now - start >= HOLD_MS
    assert len(response.topics) == 1
    assert node.broker.held_questions.deadline(caught_up=True) is None


def test_a_client_that_left_during_the_hold_is_forgotten(node, wire):
    request = make(codec.request_class(ApiKey.METADATA, 1), topics=None)
    wire.send(codec.encode_request(request, 1, "test"))
    node.receive(Closed(wire.connection_id, CloseReason.PEER))
    node.advance(HOLD_MS)
    assert wire.frames() == []
    assert node.broker.held_questions.deadline(caught_up=True) is None


def test_the_controller_listener_serves_no_metadata(node):
    wire = node.client(CONTROLLER)
    request = make(codec.request_class(ApiKey.METADATA, 1), topics=None)
    assert wire.ask(ApiKey.METADATA, request) is None
    assert wire.closed
