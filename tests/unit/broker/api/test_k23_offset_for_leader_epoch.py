"""OffsetForLeaderEpoch: where an epoch ends, and the checks before it."""

import pytest

from tests.unit.broker.api.test_k00_produce import produce
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.OFFSET_FOR_LEADER_EPOCH)


def ask(wire, version, *queries):
    """Answers to (topic, partition, current leader epoch, epoch): code, epoch, end offset."""
    response = wire.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        version,
        replica_id=-1,
        topics=tuple(
            {
                "topic": topic,
                "partitions": (
                    {
                        "partition": partition,
                        "current_leader_epoch": current,
                        "leader_epoch": epoch,
                    },
                ),
            }
            for topic, partition, current, epoch in queries
        ),
    )
    answers = []
    for topic, (name, partition, _, _) in zip(response.topics, queries, strict=True):
        (answer,) = topic.partitions
        assert (topic.topic, answer.partition) == (name, partition)
        answers.append((error_of(answer.error_code), answer.leader_epoch, answer.end_offset))
    return answers


@pytest.mark.parametrize("version", VERSIONS)
def test_the_present_epoch_ends_at_the_end_of_the_log(wire, version):
    produce(wire, 9)
    assert ask(wire, version, ("t", 0, -1, 0), ("t", 1, 0, 0), ("t", 0, 0, 5)) == [
        (ErrorCode.NONE, 0, 2),
        (ErrorCode.NONE, 0, 0),
        (ErrorCode.NONE, -1, -1),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_stands_against_an_answer(node, wire, version):
    node.add_broker(2)
    wire.create_topic("far", replicas=(2,))
    answers = ask(
        wire, version, ("t", 0, 1, 0), ("absent", 0, -1, 0), ("t", 7, -1, 0), ("far", 0, -1, 0)
    )
    assert [answer[0] for answer in answers] == [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert {answer[1:] for answer in answers} == {(-1, -1)}
