"""Goal: what nodes answer becomes plain descriptions, all pages and all replicas of it."""

from typing import Any

import pytest

from tests.unit.client.responses import (
    TOPIC_ID,
    cluster,
    created,
    deleted_records,
    moving,
    offsets,
    topic_page,
)
from tests.unit.client.scripted_brokers import ScriptedBrokers
from tidelog.client import AdminClient, AdminError
from tidelog.client.core.descriptions import ReplicaDescription
from tidelog.errors import ErrorCode
from tidelog.model import uuid_to_text
from tidelog.wire import fetch
from tidelog.wire.api import ApiKey

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS


def test_nodes_come_by_id_with_their_state() -> None:
    answer = cluster((2, "b", 9093, True), (1, "a", 9092, False))
    with (
        ScriptedBrokers({ApiKey.DESCRIBE_CLUSTER: lambda _: answer}) as node,
        AdminClient([node.bootstrap_servers]) as admin,
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

    with ScriptedBrokers({KEY: answer}) as node, AdminClient([node.bootstrap_servers]) as admin:
        topic = admin.describe_topic("t")
    assert topic.topic_id == uuid_to_text(TOPIC_ID)
    assert [partition.partition for partition in topic.partitions] == [0, 1, 2]
    first = topic.partitions[0]
    assert (first.leader, first.leader_epoch) == (1, 4)
    assert (first.replicas, first.isr, first.eligible_leaders) == ((1, 2), (1,), (2,))


def test_a_topic_that_is_not_there_is_an_admin_error() -> None:
    answer = topic_page("t", [], code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with (
        ScriptedBrokers({KEY: lambda _: answer}) as node,
        AdminClient([node.bootstrap_servers]) as admin,
        pytest.raises(AdminError, match="describe topic `t`") as caught,
    ):
        admin.describe_topic("t")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def fetched(request: fetch.FetchRequest) -> fetch.FetchResponse:
    """Answers a fetch at the end of the log with a high watermark that is two behind."""
    assert request.replica_id == -2
    partitions = [
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
        for p in request.partitions
    ]
    return fetch.FetchResponse(0, ErrorCode.NONE, 0, partitions)


def replica(end: int) -> dict[ApiKey, Any]:
    """What a replica answers whose log reaches from 3 to `end`."""

    def list_offsets(request: Any) -> Any:
        assert request.replica_id == -2
        row = request.topics[0].partitions[0]
        offset = 3 if row.timestamp == -2 else end
        return offsets("t", {0: (ErrorCode.NONE, offset)})

    return {ApiKey.LIST_OFFSETS: list_offsets, ApiKey.FETCH: fetched}


def test_each_replica_is_asked_for_its_own_offsets() -> None:
    with ScriptedBrokers(replica(10)) as leader, ScriptedBrokers(replica(8)) as follower:

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
    with ScriptedBrokers(replica(10)) as leader, ScriptedBrokers({}) as mute:
        answers = {
            KEY: lambda _: topic_page("t", [0]),
            ApiKey.DESCRIBE_CLUSTER: lambda _: cluster(
                (1, "127.0.0.1", leader.port, True), (2, "127.0.0.1", mute.port, False)
            ),
        }
        leader.answers |= answers
        assert described_logs(leader) == (ReplicaDescription(1), ReplicaDescription(2))


def moves_of(node: ScriptedBrokers) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The replicas that are added to and removed from the only partition."""
    with AdminClient([node.bootstrap_servers], timeout_s=0.5) as admin:
        partition = admin.describe_topics(["t"], moves=True)[0].partitions[0]
    return partition.adding, partition.removing


def test_reassignments_come_from_the_controller_and_are_empty_without_one() -> None:
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    answer = moving("t", 0, adding=(3,), removing=(1, 2))
    with ScriptedBrokers({KEY: lambda _: topic_page("t", [0]), key: lambda _: answer}) as node:
        assert moves_of(node) == ((3,), (1, 2))
        (asked,) = node.requests[-1].topics
        assert (asked.name, tuple(asked.partition_indexes)) == ("t", (0,))
    with ScriptedBrokers({KEY: lambda _: topic_page("t", [0])}) as node:
        assert moves_of(node) == ((), ())


def described_logs(node: ScriptedBrokers) -> tuple[ReplicaDescription, ...]:
    """The replicas of the only partition."""
    with AdminClient([node.bootstrap_servers]) as admin:
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
    with ScriptedBrokers(answers) as node, AdminClient([node.bootstrap_servers]) as admin:
        answers[ApiKey.DESCRIBE_CLUSTER] = lambda _: cluster((1, "127.0.0.1", node.port, False))
        assert admin.delete_records("t", 0, 3) == 3
    assert not left


def test_a_deletion_that_is_refused_or_has_no_place_is_an_admin_error() -> None:
    answers, left = _deleting(ErrorCode.POLICY_VIOLATION)
    with ScriptedBrokers(answers) as node, AdminClient([node.bootstrap_servers]) as admin:
        answers[ApiKey.DESCRIBE_CLUSTER] = lambda _: cluster((1, "127.0.0.1", node.port, False))
        with pytest.raises(AdminError, match="POLICY_VIOLATION"):
            admin.delete_records("t", 0, 3)
        with pytest.raises(AdminError, match="no such partition"):
            admin.delete_records("t", 5, 3)
    assert not left


def creating(*codes: ErrorCode, timeout_s: float = 5) -> list[ErrorCode]:
    """Creates a topic at a cluster that answers with these codes; those that were not needed."""
    left = list(codes)
    with (
        ScriptedBrokers({ApiKey.CREATE_TOPICS: lambda _: created("t", left.pop(0), "So.")}) as node,
        AdminClient([node.bootstrap_servers], timeout_s=timeout_s) as admin,
    ):
        admin.create_topic("t")
    return left


def test_a_change_waits_out_passing_errors() -> None:
    assert creating(ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE) == []


def test_a_change_that_was_made_before_its_answer_was_lost_is_done() -> None:
    assert creating(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS) == []


def test_an_error_that_stays_is_raised_with_its_code() -> None:
    with pytest.raises(AdminError, match=r"create topic `t`: So. \(TOPIC_ALREADY") as caught:
        creating(ErrorCode.TOPIC_ALREADY_EXISTS)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_passing_error_that_does_not_pass_is_raised_too() -> None:
    with pytest.raises(AdminError) as caught:
        creating(*[ErrorCode.NOT_CONTROLLER] * 100, timeout_s=0.05)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


def test_a_change_is_asked_of_a_broker_that_answers() -> None:
    answers = {
        ApiKey.CREATE_TOPICS: lambda _: created("t", ErrorCode.NONE),
        ApiKey.DESCRIBE_CLUSTER: lambda _: cluster(),
    }
    with (
        ScriptedBrokers() as mute,
        ScriptedBrokers(answers) as node,
        AdminClient([mute.bootstrap_servers, node.bootstrap_servers]) as admin,
    ):
        admin.create_topic("t")
        assert mute.asked == [ApiKey.DESCRIBE_CLUSTER]
        assert node.asked == [ApiKey.DESCRIBE_CLUSTER, ApiKey.CREATE_TOPICS]


def test_the_old_module_is_an_alias() -> None:
    from tidelog.testing import admin_client

    assert admin_client.AdminClient is AdminClient
