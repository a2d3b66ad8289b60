"""Clients beyond their quotas wait, and others do not."""

import pytest

from tests.unit.broker.api.test_k00_produce import request_of
from tests.unit.broker.api.test_k01_fetch import fetch, request, wanted
from tests.unit.broker.one_node import CONTROLLER, OneNode, Wire
from tidelog.env.effects import Closed, CloseReason, Spent
from tidelog.errors import ErrorCode
from tidelog.records.batch import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, to_millis

KEY = ApiKey.ALTER_CLIENT_QUOTAS
LARGE = build_batch([Record(1_700_000_000_000, None, bytes(9_000))])


def alter(wire: Wire, entity: dict[str, str | None], **values: float | None) -> list[ErrorCode]:
    """Sets quotas; those that are `None` are removed."""
    row = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in values.items()
        ],
    }
    answer = wire.call(KEY, 1, entries=[row], validate_only=False)
    return [error_of(each.error_code) for each in answer.entries]


METADATA = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
DEFAULT_USER: dict[str, str | None] = {"user": None}


@pytest.fixture
def node() -> OneNode:
    one = OneNode()
    one.client().create_topic("t", 2)
    return one


def set_quota(node: OneNode, entity: dict[str, str | None] = DEFAULT_USER, **values: float) -> None:
    assert alter(node.client(), entity, **values) == [ErrorCode.NONE]
    node.settle()


def produce(wire: Wire, records: bytes = LARGE) -> int:
    """The pause in the answer."""
    frame = wire.ask(ApiKey.PRODUCE, request_of(wire, 9, records=records))
    assert frame is not None
    _, response = codec.decode_response(ApiKey.PRODUCE, 9, frame)
    (topic,) = response.responses
    assert error_of(topic.partition_responses[0].error_code) is ErrorCode.NONE
    return to_millis(response.throttle_time)


def metadata_pause(wire: Wire) -> int:
    """The pause in the answer."""
    return to_millis(wire.call(ApiKey.METADATA, 8, **METADATA).throttle_time)


def test_a_producer_beyond_its_quota_is_answered_and_then_muted(node: OneNode) -> None:
    set_quota(node, producer_byte_rate=1000)
    wire, other = node.client(), node.client()
    assert produce(wire) == 0
    pause_ms = produce(wire)
    assert 8_000 < pause_ms < 9_000
    wire.send(codec.encode_request(request_of(wire, 9, records=LARGE), 7, "test"))
    node.advance(pause_ms - 1)
    assert not wire.frames()
    assert not node.closed
    node.advance(1)
    assert len(wire.frames()) == 1
    assert node.broker.throttling.pauses.counts["producer_byte_rate"] == 2
    assert metadata_pause(other) == 0


def test_the_window_is_configured() -> None:
    """Two samples: a client that was silent may use one second of its quota at once."""
    node = OneNode(quota_window_num="2")
    node.client().create_topic("t", 2)
    set_quota(node, producer_byte_rate=1000)
    assert 8_000 < produce(node.client()) < 9_000


def test_what_was_pipelined_waits_too(node: OneNode) -> None:
    set_quota(node, producer_byte_rate=1000)
    wire = node.client()
    asked = codec.encode_request(request_of(wire, 9, records=LARGE), 7, "test")
    wire.send(asked * 4)
    assert len(wire.frames()) == 2
    node.advance(60_000)
    assert len(wire.frames()) == 2


def test_a_closed_connection_is_forgotten(node: OneNode) -> None:
    set_quota(node, producer_byte_rate=1000)
    wire = node.client()
    produce(wire), produce(wire)
    node.receive(Closed(wire.connection_id, CloseReason.PEER))
    node.advance(60_000)


def test_a_consumer_gets_what_it_asked_for_and_then_nothing_beyond_its_quota(node: OneNode) -> None:
    producer = node.client()
    for _ in range(3):
        produce(producer)
    set_quota(node, consumer_byte_rate=500)
    wire = node.client()
    answer = fetch(wire, 12, request(wanted(node)))
    assert answer.partitions[0].records_bytes > 5_000
    assert answer.throttle_ms > 0
    began, pauses_ms = node.now, [answer.throttle_ms]
    while not (answer := fetch(wire, 12, request(wanted(node)))).partitions:
        pauses_ms.append(answer.throttle_ms)
    assert len(pauses_ms) > 1 and max(pauses_ms[1:]) <= 1000
    assert answer.partitions[0].records_bytes > 5_000
    assert node.now - began >= 10_000


def test_a_refused_fetch_leaves_its_session_as_it_was(node: OneNode) -> None:
    """To one that asks for a session: that there is none. The next one asks again."""
    producer = node.client()
    for _ in range(3):
        produce(producer)
    wire, whole = node.client(), request(wanted(node), session_epoch=0)
    session_id = fetch(wire, 12, whole).session_id
    set_quota(node, consumer_byte_rate=500)
    assert session_id and fetch(node.client(), 12, request(wanted(node))).throttle_ms
    later = {"session_id": session_id, "session_epoch": 1}
    answer = fetch(wire, 12, request(wanted(node), **later))
    assert (answer.session_id, answer.partitions) == (session_id, []) and answer.throttle_ms
    refused = fetch(node.client(), 12, whole)
    assert (refused.session_id, refused.partitions) == (0, [])
    assert len(node.broker.fetch_sessions) == 1
    node.advance(60_000)
    (found,) = fetch(wire, 12, request(session_id=session_id, session_epoch=2)).partitions
    assert found.records_bytes > 5_000


def test_an_answer_is_at_most_ten_seconds_of_the_quota(node: OneNode) -> None:
    producer = node.client()
    for _ in range(4):
        produce(producer)
    set_quota(node, consumer_byte_rate=2000)
    answer = fetch(node.client(), 12, request(wanted(node)))
    assert answer.partitions[0].records_bytes < 20_000


def test_followers_are_never_muted(node: OneNode) -> None:
    """ReplicationIsNeverMuted."""
    set_quota(node, consumer_byte_rate=1, producer_byte_rate=1, request_percentage=0.01)
    wire = node.client()
    for _ in range(3):
        asked = request(wanted(node), replica_id=2, replica_epoch=5)
        assert fetch(wire, 15, asked).throttle_ms == 0
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None and connection.muted_until is None
    controller = node.client(CONTROLLER)
    controller.call(ApiKey.API_VERSIONS, 3, client_software_name="x", client_software_version="1")
    assert connection.limits is None


def test_a_writer_waits_for_followers_that_fetch_and_lag(node: OneNode) -> None:
    """Also without any quota, and with what it has sent already. The other broker is fenced after
    nine seconds."""
    epoch = node.add_broker(2)
    node.client().create_topic("copied", replicas=(1, 2))
    wire, follower = node.client(), node.client()
    asked = codec.encode_request(request_of(wire, 9, topic="copied", records=LARGE, acks=1), 7, "c")
    begin, answered_at = node.now, []
    while node.now < begin + 8_000:
        fetch(follower, 15, request(wanted(node, "copied"), replica_id=2, replica_epoch=epoch))
        wire.send(asked)
        node.advance(100)
        answered_at += [node.now - begin] * len(wire.frames())
    early = [at for at in answered_at if at < 3_000]
    late = [at for at in answered_at if at >= 5_000]
    assert len(early) >= 25 and 1 <= len(late) <= 3
    assert node.broker.throttling.pauses.counts["replication"] >= len(late)


def test_who_uses_the_node_for_too_long_waits_a_second_at_most(node: OneNode) -> None:
    set_quota(node, request_percentage=1)
    wire = node.client()

    assert metadata_pause(wire) == 0
    node.receive(Spent({wire.connection_id: 150_000_000, 12345: 1}))
    assert metadata_pause(wire) == 1000
    node.advance(15_000)
    assert metadata_pause(wire) == 0
    assert node.broker.throttling.pauses.sum_ms["request_percentage"] == 1000


def test_what_is_looked_into_beside_the_loop_is_paid_for_too(node: OneNode) -> None:
    """Kafka counts the time of the thread that handles a request."""
    node.client().create_topic("packed", compression_type="zstd")
    node.run_until(lambda: not node.broker.replicas.is_behind)
    set_quota(node, request_percentage=1)
    node.computes_later = True
    wire, other = node.client(), node.client()
    large = build_batch([Record(1, b"k", bytes(1 << 20))], codec=Codec.GZIP)
    produced = request_of(wire, 9, records=large, topic="packed")
    wire.send(codec.encode_request(produced, 1, "test"))
    assert node.computes and metadata_pause(other) == 0
    node.compute(spent_ns=150_000_000)
    node.settle()
    assert metadata_pause(other) == 1000


def test_an_address_that_connects_too_often_is_cut_after_a_pause(node: OneNode) -> None:
    set_quota(node, {"ip": None}, connection_creation_rate=1)
    for _ in range(10):
        node.client()
    late = node.client()
    assert late.connection_id not in node.closed
    node.advance(1000)
    assert late.connection_id in node.closed
    assert node.broker.throttling.pauses.counts["connection_creation_rate"] == 1
    assert node.client(CONTROLLER).connection_id not in node.closed


def test_a_quota_that_is_removed_holds_no_longer(node: OneNode) -> None:
    set_quota(node, producer_byte_rate=1)
    admin = node.client()
    assert alter(admin, DEFAULT_USER, producer_byte_rate=None) == [ErrorCode.NONE]
    assert not node.broker.throttling.is_on
    wire = node.client()
    assert [produce(wire) for _ in range(3)] == [0, 0, 0]
