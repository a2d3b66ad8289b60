"""OffsetDelete on a node."""

from tests.unit.broker.api.group_client import commit, fetch, one_node
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def delete(wire, group_id, wanted):
    topics = [
        {"name": name, "partitions": [{"partition_index": each} for each in numbers]}
        for name, numbers in wanted.items()
    ]
    answer = wire.call(ApiKey.OFFSET_DELETE, 0, group_id=group_id, topics=topics)
    return error_of(answer.error_code), {
        (topic.name, row.partition_index): error_of(row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    }


def test_what_is_deleted_and_what_is_not():
    wire = one_node().client()
    commit(wire, 9, {"t": {0: 5, 1: 6}})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(wire, "g", {"t": [0, 9], "nothing": [0]}) == (
        ErrorCode.NONE,
        {("t", 0): ErrorCode.NONE, ("t", 9): unknown, ("nothing", 0): unknown},
    )
    assert fetch(wire, 9, None)[1] == {("t", 1): (6, ErrorCode.NONE)}
    assert delete(wire, "other", {"t": [0]}) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    commit(wire, 9, {"t": {0: 5}}, group_id="")
    assert delete(wire, "", {"t": [0]}) == (ErrorCode.INVALID_GROUP_ID, {})
