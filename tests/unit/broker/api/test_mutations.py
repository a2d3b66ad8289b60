"""Partitions that are created or deleted count against a quota, before the controller decides."""

from typing import Any

import pytest

from tests.unit.broker.one_node import CONTROLLER, OneNode, Wire
from tests.unit.broker.test_throttling import set_quota
from tidelog.broker.api import k58_envelope
from tidelog.errors import ErrorCode
from tidelog.model import Principal
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis, to_millis


def created(response: Any) -> list[ErrorCode]:
    return [error_of(topic.error_code) for topic in response.topics]


def create(wire: Wire, version: int, *names: str, partitions: int = 5) -> Any:
    rows = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1}
        | {"assignments": (), "configs": ()}
        for name in names
    ]
    return wire.call(
        ApiKey.CREATE_TOPICS, version, topics=rows, timeout=millis(1000), validate_only=False
    )


def test_mutations_beyond_the_quota_are_refused_where_the_client_knows_the_code(
    node: OneNode,
) -> None:
    set_quota(node, controller_mutation_rate=1)
    wire = node.client()
    response = create(wire, 7, *"abcd")
    codes = dict(zip([t.name for t in response.topics], created(response), strict=True))
    assert codes == dict.fromkeys("abc", ErrorCode.NONE) | {
        "d": ErrorCode.THROTTLING_QUOTA_EXCEEDED
    }
    assert to_millis(response.throttle_time) == 4000
    assert response.topics[-1].error_message == "The throttling quota has been exceeded."
    assert "d" not in node.broker.image.topics_by_name
    node.advance(4000)
    assert created(create(wire, 7, "d")) == [ErrorCode.NONE]


def test_older_clients_get_all_and_wait(node: OneNode) -> None:
    set_quota(node, controller_mutation_rate=1)
    wire = node.client()
    response = create(wire, 5, *"abcd")
    assert created(response) == [ErrorCode.NONE] * 4
    assert to_millis(response.throttle_time) == 9000
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None and connection.muted_until == node.now + 9000


@pytest.mark.parametrize("version", [4, 5, 6])
def test_deletions_and_additions_count(node: OneNode, version: int) -> None:
    create(node.client(), 7, "a", "b", partitions=8)
    set_quota(node, controller_mutation_rate=0.5)
    wire, strict = node.client(), version >= 5
    if version < 6:
        names = {"topic_names": ("a", "nosuch", "b")}
    else:
        names = {"topics": [{"name": n, "topic_id": None} for n in ("a", "nosuch", "b")]}
    response = wire.call(ApiKey.DELETE_TOPICS, version, timeout=millis(1000), **names)
    codes = {row.name: error_of(row.error_code) for row in response.responses}
    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED if strict else ErrorCode.NONE
    assert codes["a"] is ErrorCode.NONE and codes["b"] is refused
    assert codes["nosuch"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert to_millis(response.throttle_time) == (5000 if strict else 21_000)
    row = {"name": "t", "count": 4, "assignments": None}
    response = node.client().call(
        *(ApiKey.CREATE_PARTITIONS, 3), topics=[row], timeout=millis(1000), validate_only=False
    )
    assert error_of(response.results[0].error_code) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_the_controller_counts_for_the_client_in_an_envelope(node: OneNode) -> None:
    set_quota(node, {"user": "ada"}, controller_mutation_rate=1)
    wire = node.client(CONTROLLER)
    request_type = codec.request_class(ApiKey.CREATE_TOPICS, 7)
    for pause_ms in (0, 9000):
        inner = make(
            request_type,
            topics=[
                {
                    "name": f"n{pause_ms}",
                    "num_partitions": 20,
                    "replication_factor": 1,
                    "assignments": (),
                    "configs": (),
                }
            ],
            timeout=millis(1000),
            validate_only=False,
        )
        frame = codec.encode_request(inner, 1, "app")[4:]
        envelope = k58_envelope.request_of(frame, Principal("User", "ada"), "10.0.0.1")
        answer = k58_envelope.outcome_of(wire.ask(ApiKey.ENVELOPE, envelope) or b"")
        assert isinstance(answer, bytes)
        _, response = codec.decode_response(ApiKey.CREATE_TOPICS, 7, answer)
        assert to_millis(response.throttle_time) == pause_ms
    connection = node.broker.connections.get(wire.connection_id)
    assert connection is not None and connection.muted_until is None
