"""Goal: questions find a node that answers, changes wait out passing errors, the rest is told."""

import pytest

from tests.unit.testing.entities import cluster, created
from tests.unit.testing.fake_node import scripted_node
from tidelog.errors import ErrorCode, UsageError
from tidelog.testing.asking import AdminError, Asking, check, parse_address, request
from tidelog.testing.wire_client import Unreachable
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

PING = {
    "include_cluster_authorized_operations": False,
    "endpoint_type": 1,
    "include_fenced_brokers": True,
}


def test_the_first_node_that_answers_wins_and_stays_first() -> None:
    answer = cluster((2, "b", 9092, False))
    with (
        scripted_node({}) as mute,
        scripted_node({ApiKey.DESCRIBE_CLUSTER: lambda _: answer}) as good,
    ):
        asking = Asking([mute.address, good.address], 5)
        for _ in range(2):
            found = asking.any(request(ApiKey.DESCRIBE_CLUSTER, **PING))
            assert found.cluster_id == "c"
        assert len(good.requests) == 2
        asking.close()


def test_nobody_there_is_told_at_the_deadline() -> None:
    with scripted_node({}) as mute:
        asking = Asking([mute.address], 0.1)
        with pytest.raises(Unreachable, match=mute.address):
            asking.any(request(ApiKey.DESCRIBE_CLUSTER, **PING))
        asking.close()


def create_topic(asking: Asking) -> None:
    """Asks for a topic; what it is called does not matter here."""
    question = request(ApiKey.CREATE_TOPICS, topics=(), timeout=millis(1000), validate_only=False)
    asking.until_done(
        question,
        lambda response: response.topics[0],
        "create topic `t`",
        done_before=ErrorCode.TOPIC_ALREADY_EXISTS,
    )


def test_a_change_waits_out_passing_errors() -> None:
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    with scripted_node({ApiKey.CREATE_TOPICS: lambda _: created("t", codes.pop(0))}) as node:
        asking = Asking([node.address], 5)
        create_topic(asking)
        asking.close()
    assert codes == []


def test_a_change_that_was_made_before_its_answer_was_lost_is_done() -> None:
    codes = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS]
    with scripted_node({ApiKey.CREATE_TOPICS: lambda _: created("t", codes.pop(0))}) as node:
        asking = Asking([node.address], 5)
        create_topic(asking)
        asking.close()
    assert codes == []


def test_an_error_that_stays_is_raised_with_its_code() -> None:
    answer = created("t", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    with scripted_node({ApiKey.CREATE_TOPICS: lambda _: answer}) as node:
        asking = Asking([node.address], 5)
        with pytest.raises(
            AdminError, match=r"create topic `t`: Topic 't' already exists"
        ) as caught:
            create_topic(asking)
        asking.close()
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_passing_error_that_does_not_pass_is_raised_too() -> None:
    answer = created("t", ErrorCode.NOT_CONTROLLER)
    with scripted_node({ApiKey.CREATE_TOPICS: lambda _: answer}) as node:
        asking = Asking([node.address], 0.05)
        with pytest.raises(AdminError) as caught:
            create_topic(asking)
        asking.close()
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


def test_codes_and_addresses_are_checked() -> None:
    check(ErrorCode.NONE, None, "anything")
    with pytest.raises(AdminError, match=r"anything: refused \(INVALID_REQUEST\)"):
        check(ErrorCode.INVALID_REQUEST, None, "anything")
    assert parse_address(" localhost:9092") == ("localhost", 9092)
    assert parse_address("[::1]:9092") == ("::1", 9092)
    for bad in (
        "localhost",
        ":9092",
        "localhost:",
        "localhost:kafka",
        "localhost:0",
        "localhost:75536",
    ):
        with pytest.raises(UsageError, match="is no `host:port`"):
            parse_address(bad)
