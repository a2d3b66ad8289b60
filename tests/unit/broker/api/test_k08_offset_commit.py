"""OffsetCommit on a node, in every version: what is committed is there for OffsetFetch."""

import pytest

from tests.unit.broker.api.group_client import commit, fetch, join, one_node, sync
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.one_node import WALL_MS
from tidelog.errors import ErrorCode
from tidelog.groups.records import OffsetRecord, decode
from tidelog.model import OFFSETS_TOPIC
from tidelog.records.batch import decode_body, iter_headers
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

VERSIONS = versions(ApiKey.OFFSET_COMMIT)


@pytest.fixture
def node():
    return one_node()


def written(node):
    """All offset records of the node."""
    found = []
    for (topic, _), partition in sorted(node.broker.replicas.partitions.items()):
        if topic == OFFSETS_TOPIC:
            log = partition.log
            read = log.read(0, 1 << 20, log.log_end_offset, at_least_one=True)
            data = b"".join(read.chunks)
            for place, header in iter_headers(data):
                for record in decode_body(data, place, header):
                    found.append(decode((record.key, record.value)))
    return [each for each in found if isinstance(each, OffsetRecord)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_partition_has_its_own_answer(node, version):
    wire = node.client()
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, version, {"nothing": {0: 5}, "t": {0: 6, 1: 7, 9: 8}}) == {
        ("nothing", 0): unknown,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.NONE,
    }
    assert fetch(wire, 9, None)[1] == {("t", 0): (6, ErrorCode.NONE), ("t", 1): (7, ErrorCode.NONE)}
    value = written(node)[0].value
    assert value is not None
    assert value.metadata == "note"
    assert value.leader_epoch == (4 if version >= 6 else -1)
    assert value.topic_id == node.broker.image.topics_by_name["t"].topic_id
    assert value.commit_timestamp_ms >= WALL_MS


@pytest.mark.parametrize("version", [v for v in VERSIONS if v < 5])
def test_older_clients_may_ask_for_an_expiry(node, version):
    commit(node.client(), version, {"t": {0: 6}}, retention_time=millis(5_000))
    (record,) = written(node)
    assert record.value is not None
    assert record.value.expire_timestamp_ms == record.value.commit_timestamp_ms + 5_000


@pytest.mark.parametrize("version", VERSIONS)
def test_a_generation_that_does_not_exist(node, version):
    codes = commit(node.client(), version, {"t": {0: 1}}, generation_id=3, member_id="m")
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert codes == {("t", 0): code}


def test_a_member_commits(node):
    wire = node.client()
    joined = join(wire, 9)
    sync(wire, 5, joined)
    values = {"generation_id": 1, "member_id": joined.member_id}
    assert commit(wire, 9, {"t": {0: 3}}, **values) == {("t", 0): ErrorCode.NONE}
    assert commit(wire, 9, {"t": {0: 4}}) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert fetch(wire, 9, None)[1] == {("t", 0): (3, ErrorCode.NONE)}


def test_nothing_to_commit_is_answered_without_a_coordinator(wire):
    assert commit(wire, 9, {}) == {}
