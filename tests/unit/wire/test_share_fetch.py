"""ShareFetch responses, packed by hand, as kio reads them."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, TopicId
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.share_fetch import ShareFetched, ShareFetchResponse, pack_response
from tidelog.wire.topics import LeaderHint
from tidelog.wire.values import bytes_of, error_of, millis


def read(version, response):
    data = b"".join(bytes(chunk) for chunk in pack_response(7, response))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    correlation_id, entity = codec.decode_response(ApiKey.SHARE_FETCH, version, data[4:])
    assert correlation_id == 7
    return entity


@pytest.mark.parametrize("version", [1, 2])
def test_everything_arrives(version):
    first = ShareFetched(TopicId(b"1" * 16), 3)
    first.records, first.records_bytes = [memoryview(b"ab"), b"c"], 3
    first.acquired = [(5, 9, 2), (12, 12, 1)]
    second = ShareFetched(
        TopicId(b"2" * 16),
        0,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "no",
        ErrorCode.INVALID_RECORD_STATE,
        "not yours",
        LeaderHint(4, 6),
    )
    third = ShareFetched(TopicId(b"1" * 16), 4)
    response = ShareFetchResponse(
        lock_ms=30_000,
        partitions=[first, second, third],
        node_endpoints=[(4, Endpoint("", "host4", 9092), None)],
    )
    entity = read(version, response)
    assert entity.acquisition_lock_timeout == millis(30_000)
    assert [bytes_of(topic.topic_id) for topic in entity.responses] == [b"1" * 16, b"2" * 16]
    one, three = entity.responses[0].partitions
    assert (one.partition_index, bytes(one.records)) == (3, b"abc")
    assert [(r.first_offset, r.last_offset, r.delivery_count) for r in one.acquired_records] == [
        (5, 9, 2),
        (12, 12, 1),
    ]
    assert (three.partition_index, three.acquired_records) == (4, ())
    (two,) = entity.responses[1].partitions
    assert error_of(two.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (two.acknowledge_error_code, two.acknowledge_error_message) == (121, "not yours")
    assert (two.current_leader.leader_id, two.current_leader.leader_epoch) == (4, 6)
    assert (entity.node_endpoints[0].host, entity.node_endpoints[0].port) == ("host4", 9092)


def test_a_refusal_is_an_answer():
    entity = read(2, ShareFetchResponse(ErrorCode.SHARE_SESSION_NOT_FOUND, "no session"))
    assert error_of(entity.error_code) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (entity.error_message, entity.responses) == ("no session", ())
