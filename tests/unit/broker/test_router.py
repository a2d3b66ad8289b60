"""Dispatch: what is served is answered, what is not is closed, and nothing stops the node."""

import pytest

from tests.served import BROKER_APIS, CONTROLLER_APIS
from tests.unit.broker.one_node import BROKER, CONTROLLER, OneNode, Wire
from tests.unit.broker.random_requests import random_request
from tidelog.broker.api import k63_broker_heartbeat
from tidelog.controller.messages import BrokerHeartbeat
from tidelog.env.effects import Received
from tidelog.env.prng import Prng
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, pack_header
from tidelog.wire.entities import make

TABLES = {BROKER: BROKER_APIS, CONTROLLER: CONTROLLER_APIS}


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def hello(correlation_id: int = 1) -> bytes:
    entity = make(codec.request_class(ApiKey.API_VERSIONS, 0))
    return codec.encode_request(entity, correlation_id, "c")


def warnings(node: OneNode) -> list[str]:
    """The log lines about connections since the last call."""
    return [line for line in node.trace.take_lines() if line.startswith("connection ")]


@pytest.fixture
def node() -> OneNode:
    return OneNode()


# Everything that is advertised -------------------------------------------------------------


@pytest.mark.parametrize("listener", TABLES)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_advertised_version_survives_wild_requests(listener, seed):
    """Well-formed requests with drawn values: each is answered in its own version or costs its
    connection. A request that stopped the node would be a way to stop a cluster from outside."""
    prng, node = Prng(seed), OneNode()
    bystander = node.client(listener)
    node.client().create_topic("t", 2)
    answered = 0
    for key, (low, high) in TABLES[listener].items():
        for version in range(low, high + 1):
            request_type = codec.request_class(key, version)
            for _ in range(3):
                ids = [topic.topic_id for topic in node.broker.image.topics_by_name.values()]
                wire = node.client(listener)
                frame = wire.ask(key, random_request(request_type, prng, ids[:3]))
                if frame is not None:
                    codec.decode_response(key, version, frame)
                    answered += 1
                assert node.exits == []
    assert answered > (300 if listener == BROKER else 100)
    assert len(node.broker.connections) > 1
    bystander.send(hello())
    assert len(bystander.frames()) == 1


@pytest.mark.parametrize("listener", TABLES)
def test_every_other_api_closes_the_connection(listener):
    node = OneNode()
    for key in ApiKey:
        if key in TABLES[listener]:
            continue
        wire = node.client(listener)
        node.trace.take_lines()
        wire.send(framed(pack_header(key, 0, 1, "c")))
        assert wire.closed, key
        assert wire.frames() == []
        assert warnings(node) == [
            f"connection {wire.connection_id} on_frame: closed "
            f"(API `{key.name}` is not served here) peer=peer"
        ]


@pytest.mark.parametrize("listener", TABLES)
def test_every_version_outside_the_table_closes_the_connection(listener):
    node = OneNode()
    for key, (low, high) in TABLES[listener].items():
        if key is ApiKey.API_VERSIONS:
            continue
        for version in {low - 1, high + 1, 32767} - {-1}:
            wire = node.client(listener)
            wire.send(framed(pack_header(key, version, 1, "c")))
            assert wire.closed, (key, version)


def test_produce_below_three_is_listed_and_refused(node):
    for version in (0, 1, 2):
        wire = node.client()
        wire.send(framed(pack_header(ApiKey.PRODUCE, version, 1, "c")))
        assert wire.closed


# Bytes that are not a request -------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        framed(b"\x00"),
        framed(b"\x7f\xff\x00\x00\x00\x00\x00\x01\x00\x00"),
        framed(b"\x00\x12\xff\xff\x00\x00\x00\x01\x00\x00"),
        framed(b"\x00\x12\x00\x00\x00\x00\x00\x01\x7f\xff"),
        framed(b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe"),
        framed(hello()[4:] + b"\x00"),
        framed(pack_header(ApiKey.LIST_OFFSETS, 1, 1, "c") + b"\x00"),
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
    ],
    ids=[
        "one byte",
        "no such key",
        "negative version",
        "client id beyond the end",
        "client id that is not text",
        "trailing byte",
        "body cut",
        "length zero",
        "negative length",
        "huge length",
    ],
)
def test_a_malformed_frame_costs_its_connection_and_one_log_line(node, data):
    bystander, wire = node.client(), node.client()
    node.trace.take_lines()
    wire.send(data)
    assert wire.closed
    assert wire.frames() == []
    assert len(warnings(node)) == 1
    bystander.send(hello())
    assert len(bystander.frames()) == 1


def test_replies_before_a_malformed_frame_and_requests_behind_it_are_lost(node):
    """The connection is no longer trusted from the first bad byte on."""
    wire = node.client()
    wire.send(hello(1))
    wire.send(hello(2) + framed(b"\x00") + hello(3))
    assert [int.from_bytes(frame[:4], "big") for frame in wire.frames()] == [1]
    assert wire.closed


def test_a_request_in_pieces_is_a_request(node):
    wire = node.client()
    for byte in hello(9):
        assert wire.frames() == []
        wire.send(bytes((byte,)))
    (frame,) = wire.frames()
    assert int.from_bytes(frame[:4], "big") == 9


def test_pipelined_requests_are_answered_in_order(node):
    wire = node.client()
    wire.send(b"".join(hello(number) for number in range(100)))
    assert [int.from_bytes(frame[:4], "big") for frame in wire.frames()] == list(range(100))


def test_of_large_requests_a_connection_has_one_under_way(node):
    """A client may send hundreds of them, and what is decoded takes ten times as much memory."""
    held, wire = node.broker.connections.held, node.client()
    topics = [{"name": "x" * 30_000, "partitions": range(9)}]
    dirs = [{"path": "/", "topics": topics}] * 3
    entity = make(codec.request_class(ApiKey.ALTER_REPLICA_LOG_DIRS, 2), dirs=dirs)
    frames = [codec.encode_request(entity, number, "c") for number in range(3)]
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None
    for number, frame in enumerate((*frames, hello(3))):
        node.node.receive(Received(wire.connection_id, frame), node.now)
        assert len(connection.slots) == 1, f"request {number} is under way"
    assert held.total_bytes > 3 * 90_000
    node.settle()
    found = wire.frames()
    assert [int.from_bytes(frame[:4], "big") for frame in found] == [0, 1, 2, 3]
    assert held.total_bytes == 0


# Who is at the other end -------------------------------------------------------------------


def test_a_heartbeat_shows_which_broker_is_at_the_other_end(node):
    wire = node.client(CONTROLLER)
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None
    assert connection.broker_id is None
    message = BrokerHeartbeat(7, 1, 1, False, False)
    wire.ask(ApiKey.BROKER_HEARTBEAT, k63_broker_heartbeat.API.request(message))
    assert connection.broker_id == 7


def test_a_client_on_the_broker_listener_is_not_taken_for_a_broker(node):
    wire: Wire = node.client()
    wire.send(hello())
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None
    assert connection.broker_id is None
