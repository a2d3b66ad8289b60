"""Goal: whatever a node does to its connection, the caller gets an answer or `Unreachable`."""

import socket

import pytest

from tests.unit.testing.entities import cluster
from tests.unit.testing.fake_node import scripted_node
from tidelog.testing.asking import request
from tidelog.testing.wire_client import NodeConnection, Unreachable
from tidelog.wire import codec
from tidelog.wire.api import ApiKey


def ping() -> object:
    """A request that the scripted node may answer."""
    return request(
        ApiKey.DESCRIBE_CLUSTER,
        include_cluster_authorized_operations=False,
        endpoint_type=1,
        include_fenced_brokers=True,
    )


def test_answers_come_back_one_by_one() -> None:
    answer = cluster((1, "a", 9092, False))
    with scripted_node({ApiKey.DESCRIBE_CLUSTER: lambda _: answer}) as node:
        connection = NodeConnection("127.0.0.1", node.port, 5)
        assert [connection.call(ping(), 5).cluster_id for _ in range(3)] == ["c", "c", "c"]
        connection.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "closed the connection"),
        (b"\x00\x00\x00\x05abc", "did not answer"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", "a bad frame"),
    ],
)
def test_a_bad_answer_is_unreachable(answer: bytes | None, reason: str) -> None:
    with scripted_node({ApiKey.DESCRIBE_CLUSTER: lambda _: answer}) as node:
        connection = NodeConnection("127.0.0.1", node.port, 5)
        with pytest.raises(Unreachable, match=reason):
            connection.call(ping(), 0.2)
        connection.close()


def test_an_answer_to_another_request_is_unreachable() -> None:
    answer = cluster()
    with scripted_node({ApiKey.DESCRIBE_CLUSTER: lambda _: answer}) as node:
        connection = NodeConnection("127.0.0.1", node.port, 5)
        framed = connection.call_raw(_framed(77), 5)
        assert framed[:4] == (77).to_bytes(4, "big")
        with pytest.raises(Unreachable, match="answered request 77, not 1"):
            connection.check_id(1, 77)
        connection.close()


def _framed(correlation_id: int) -> bytes:
    return codec.encode_request(ping(), correlation_id, "test")


def test_a_port_that_nobody_has_is_unreachable() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        with pytest.raises(Unreachable, match="cannot be reached"):
            NodeConnection("127.0.0.1", reserved.getsockname()[1], 1)
