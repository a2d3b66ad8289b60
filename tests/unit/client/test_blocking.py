"""Goal: whatever a broker does to its connection, the caller gets an answer or `Unreachable`; the
first broker that answers wins; pauses and deadlines are those of the core."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.unit.client.responses import cluster
from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client.blocking import Brokers, Connection, now_ms, retrying
from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import Retry, TryAgain, Unreachable
from tidelog.client.core.values import Address
from tidelog.wire.api import ApiKey

ANSWERS = {ApiKey.DESCRIBE_CLUSTER: lambda _: cluster((1, "a", 9092, False))}


def describe() -> Call[object]:
    """A call that the scripted brokers may answer."""
    return request(
        ApiKey.DESCRIBE_CLUSTER,
        include_cluster_authorized_operations=False,
        endpoint_type=1,
        include_fenced_brokers=True,
    )


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def connection_to(node: ScriptedBrokers) -> Connection:
    """A new connection."""
    return Connection(node.addresses[0], "test", 5)


def test_answers_come_back_in_the_order_of_the_calls() -> None:
    with ScriptedBrokers(ANSWERS) as node:
        connection = connection_to(node)
        for _ in range(3):
            connection.send(describe())
        assert [connection.receive().cluster_id for _ in range(3)] == ["c", "c", "c"]
        connection.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "closed the connection"),
        (b"\x00\x00\x00\x05abc", "did not answer"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", "a bad frame"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x4d\x00", "a bad frame"),
    ],
)
def test_a_bad_answer_is_unreachable(answer: bytes | None, reason: str) -> None:
    with ScriptedBrokers({ApiKey.DESCRIBE_CLUSTER: lambda _: answer}) as node:
        connection = connection_to(node)
        with pytest.raises(Unreachable, match=reason):
            connection.call(describe(), 0.2)
        connection.close()


def test_a_port_on_which_nothing_listens_is_unreachable(free_port: int) -> None:
    with pytest.raises(Unreachable, match=f"broker `127.0.0.1:{free_port}` cannot be reached"):
        Connection(Address("127.0.0.1", free_port), "test", 1)


def test_an_api_that_the_broker_does_not_serve_is_unreachable() -> None:
    with ScriptedBrokers(ANSWERS) as node:
        del node.served[ApiKey.DESCRIBE_CLUSTER]
        connection = connection_to(node)
        assert not connection.serves(ApiKey.DESCRIBE_CLUSTER)
        with pytest.raises(Unreachable, match="does not serve DESCRIBE_CLUSTER"):
            connection.call(describe())
        connection.close()


def test_the_first_broker_that_answers_wins_and_stays_first() -> None:
    with ScriptedBrokers() as mute, ScriptedBrokers(ANSWERS) as good:
        addresses = [*mute.addresses, *good.addresses]
        with closing(Brokers(addresses, client_id="test", timeout_s=5)) as brokers:
            for _ in range(2):
                assert brokers.any(describe()).cluster_id == "c"
        assert (len(mute.requests), len(good.requests)) == (1, 2)


def test_addresses_that_are_preferred_are_asked_first() -> None:
    with ScriptedBrokers(ANSWERS) as first, ScriptedBrokers(ANSWERS) as later:
        with closing(Brokers(first.addresses, client_id="test", timeout_s=5)) as brokers:
            brokers.prefer(later.addresses)
            brokers.first(describe())
        assert (len(first.requests), len(later.requests)) == (0, 1)


def test_brokers_that_do_not_answer_are_named_at_the_deadline() -> None:
    with (
        ScriptedBrokers() as mute,
        closing(Brokers(mute.addresses, client_id="test", timeout_s=0.1)) as brokers,
        pytest.raises(Unreachable, match=mute.bootstrap_servers),
    ):
        brokers.any(describe())


def test_attempts_are_repeated_until_one_succeeds() -> None:
    failures = [TryAgain("one"), Unreachable("two")]

    def attempt() -> str:
        if failures:
            raise failures.pop(0)
        return "done"

    assert retrying(attempt, Retry(now_ms(), 5)) == "done"
