"""What answers about members of both kinds of groups have in common."""

import pytest

from tidelog.broker.api.member_rows import heartbeat_reply, rows_of
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import ConsumerGroupHeartbeatResult, ShareGroupHeartbeatResult
from tidelog.model import TopicId
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.values import to_millis, uuid_of

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def test_partitions_are_grouped_by_topic_in_their_order():
    partitions = (IdPartition(B, 2), IdPartition(A, 0), IdPartition(B, 1))
    assert rows_of(partitions) == [
        {"topic_id": B, "partitions": [2, 1]},
        {"topic_id": A, "partitions": [0]},
    ]


@pytest.mark.parametrize(
    ("key", "version", "result"),
    [
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, ConsumerGroupHeartbeatResult),
        (ApiKey.SHARE_GROUP_HEARTBEAT, 1, ShareGroupHeartbeatResult),
    ],
)
def test_a_heartbeat_has_an_assignment_only_where_there_is_news(key, version, result):
    response_type = codec.response_class(key, version)
    same = heartbeat_reply(response_type, result(ErrorCode.NONE, None, "m", 3, 5000, None))
    assert (same.member_id, same.member_epoch, same.assignment) == ("m", 3, None)
    assert to_millis(same.heartbeat_interval) == 5000
    news = heartbeat_reply(
        response_type, result(ErrorCode.NONE, None, "m", 4, 5000, (IdPartition(A, 7),))
    )
    (topic,) = news.assignment.topic_partitions
    assert (topic.topic_id, tuple(topic.partitions)) == (uuid_of(A), (7,))
