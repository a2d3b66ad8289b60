"""Goal: what nodes answer becomes plain descriptions, all pages and all replicas of it."""

from typing import Any

import pytest

from tests.unit.testing.entities import (
    TOPIC_ID,
    cluster,
    deleted_records,
    moving,
    offsets,
    topic_page,
)
from tests.unit.testing.fake_node import ScriptedNode, scripted_node
from tidelog.errors import ErrorCode
from tidelog.model import uuid_to_text
from tidelog.testing.admin_client import AdminClient, AdminError
from tidelog.testing.descriptions import ReplicaDescription
from tidelog.wire import fetch
from tidelog.wire.api import ApiKey

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS


def test_nodes_come_by_id_with_their_state() -> None:
    answer = cluster((2, "b", 9093, True), (1, "a", 9092, False))
    with (
        scripted_node({ApiKey.DESCRIBE_CLUSTER: lambda _: answer}) as node,
        AdminClient([node.address]) as admin,
    ):
        described = admin.describe_cluster()
    assert [(n.node_id, n.host, n.fenced) for n in described.nodes] == [
        (1, "a", False),
        (2, "b", True),
    ]
    assert described.node(2) is described.nodes[1]
    assert described.node(3) is None


def test_a_topic_is_joined_from_its_pages() -> None:
    def answer(request: Any) -> Any:
        if request.cursor is None:
            return topic_page("t", [0, 2], more=1)
        assert (request.cursor.topic_name, request.cursor.partition_index) == ("t", 1)
        return topic_page("t", [1])

    with scripted_node({KEY: answer}) as node, AdminClient([node.address]) as admin:
        topic = admin.describe_topic("t")
    assert topic.topic_id == uuid_to_text(TOPIC_ID)
    assert [partition.partition for partition in topic.partitions] == [0, 1, 2]
    first = topic.partitions[0]
    assert (first.leader, first.leader_epoch) == (1, 4)
    assert (first.replicas, first.isr, first.eligible_leaders) == ((1, 2), (1,), (2,))


def test_a_topic_that_is_not_there_is_an_admin_error() -> None:
    answer = topic_page("t", [], code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with (
        scripted_node({KEY: lambda _: answer}) as node,
        AdminClient([node.address]) as admin,
        pytest.raises(AdminError, match="describe topic `t`") as caught,
    ):
        admin.describe_topic("t")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def fetched(message: tuple[Any, bytes, int]) -> bytes:
    """Answers a fetch at the end of the log with a high watermark that is two behind."""
    header, frame, body = message
    asked = fetch.parse_request(header.api_version, frame, body)
    assert asked.replica_id == -2
    response = fetch.FetchResponse(
        throttle_ms=0,
        error_code=ErrorCode.NONE,
        session_id=0,
        partitions=[
            fetch.FetchedPartition(
                topic=p.topic,
                topic_id=p.topic_id,
                partition=p.partition,
                error_code=ErrorCode.NONE,
                high_watermark=p.fetch_offset - 2,
                last_stable_offset=p.fetch_offset - 2,
                log_start_offset=0,
                records=[],
                records_bytes=0,
            )
            for p in asked.partitions
        ],
    )
    chunks = fetch.pack_response(header.api_version, header.correlation_id, response)
    return b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]


def replica(end: int) -> dict[ApiKey, Any]:
    """What a replica answers whose log reaches from 3 to `end`."""

    def list_offsets(request: Any) -> Any:
        assert request.replica_id == -2
        row = request.topics[0].partitions[0]
        offset = 3 if row.timestamp == -2 else end
        return offsets("t", {0: (ErrorCode.NONE, offset)})

    return {ApiKey.LIST_OFFSETS: list_offsets, ApiKey.FETCH: fetched}


def test_each_replica_is_asked_for_its_own_offsets() -> None:
    with scripted_node(replica(10)) as leader, scripted_node(replica(8)) as follower:

        def nodes(_: Any) -> Any:
            return cluster(
                (1, "127.0.0.1", leader.port, False), (2, "127.0.0.1", follower.port, False)
            )

        leader.answers |= {KEY: lambda _: topic_page("t", [0]), ApiKey.DESCRIBE_CLUSTER: nodes}
        assert described_logs(leader) == (
            ReplicaDescription(1, 3, 8, 10),
            ReplicaDescription(2, 3, 6, 8),
        )


def test_a_replica_that_is_fenced_or_silent_is_unknown() -> None:
    with scripted_node(replica(10)) as leader, scripted_node({}) as mute:
        answers = {
            KEY: lambda _: topic_page("t", [0]),
            ApiKey.DESCRIBE_CLUSTER: lambda _: cluster(
                (1, "127.0.0.1", leader.port, True), (2, "127.0.0.1", mute.port, False)
            ),
        }
        leader.answers |= answers
        assert described_logs(leader) == (ReplicaDescription(1), ReplicaDescription(2))


def moves_of(node: ScriptedNode) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What is told to come and go of the only partition."""
    with AdminClient([node.address], timeout_s=0.5) as admin:
        partition = admin.describe_topics(["t"], moves=True)[0].partitions[0]
    return partition.adding, partition.removing


def test_what_moves_is_told_by_the_controller_and_missed_without_one() -> None:
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    answer = moving("t", 0, adding=(3,), removing=(1, 2))
    with scripted_node({KEY: lambda _: topic_page("t", [0]), key: lambda _: answer}) as node:
        assert moves_of(node) == ((3,), (1, 2))
        (asked,) = node.requests[-1].topics
        assert (asked.name, tuple(asked.partition_indexes)) == ("t", (0,))
    with scripted_node({KEY: lambda _: topic_page("t", [0])}) as node:
        assert moves_of(node) == ((), ())


def described_logs(node: ScriptedNode) -> tuple[ReplicaDescription, ...]:
    """The replicas of the only partition."""
    with AdminClient([node.address]) as admin:
        return admin.describe_topic("t", replica_logs=True).partitions[0].replica_logs


def _deleting(*codes: ErrorCode) -> tuple[dict[ApiKey, Any], list[ErrorCode]]:
    """A leader that answers one deletion after the other with these codes."""
    left = list(codes)
    answers: dict[ApiKey, Any] = {
        KEY: lambda _: topic_page("t", [0]),
        ApiKey.DELETE_RECORDS: lambda _: deleted_records("t", 0, left.pop(0), 3),
    }
    return answers, left


def test_a_deletion_follows_a_leader_that_moves() -> None:
    answers, left = _deleting(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    with scripted_node(answers) as node, AdminClient([node.address]) as admin:
        answers[ApiKey.DESCRIBE_CLUSTER] = lambda _: cluster((1, "127.0.0.1", node.port, False))
        assert admin.delete_records("t", 0, 3) == 3
    assert not left


def test_a_deletion_that_is_refused_or_has_no_place_is_an_admin_error() -> None:
    answers, left = _deleting(ErrorCode.POLICY_VIOLATION)
    with scripted_node(answers) as node, AdminClient([node.address]) as admin:
        answers[ApiKey.DESCRIBE_CLUSTER] = lambda _: cluster((1, "127.0.0.1", node.port, False))
        with pytest.raises(AdminError, match="POLICY_VIOLATION"):
            admin.delete_records("t", 0, 3)
        with pytest.raises(AdminError, match="no such partition"):
            admin.delete_records("t", 5, 3)
    assert not left
