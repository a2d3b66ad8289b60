"""OffsetFetch on a node, in every version: offsets, or an error, and never a wrong -1."""

import pytest

from tests.unit.broker.api.group_client import (
    commit,
    fetch,
    one_node,
    refused_everywhere,
    topic_id_of,
)
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.OFFSET_FETCH)


@pytest.fixture
def wire():
    return one_node().client()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_committed_and_what_is_not(wire, version):
    commit(wire, 9, {"t": {1: 7}})
    none = ErrorCode.NONE
    wanted = {"t": [0, 1]}
    assert fetch(wire, version, wanted) == (none, {("t", 0): (-1, none), ("t", 1): (7, none)})
    assert fetch(wire, version, wanted, "other")[1] == {("t", 0): (-1, none), ("t", 1): (-1, none)}


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 2])
def test_all_partitions(wire, version):
    commit(wire, 9, {"t": {1: 7}})
    assert fetch(wire, version, None) == (ErrorCode.NONE, {("t", 1): (7, ErrorCode.NONE)})


def test_a_topic_id_that_does_not_exist(wire):
    found = fetch(wire, 10, {"nothing": [0]})
    assert found == (ErrorCode.NONE, {("nothing", 0): (-1, ErrorCode.UNKNOWN_TOPIC_ID)})


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups(wire, version):
    for group_id, offset in (("g", 7), ("h", 8)):
        commit(wire, 9, {"t": {0: offset}}, group_id=group_id)
    topics = [{"name": "t", "topic_id": topic_id_of(wire, "t"), "partition_indexes": (0,)}]
    groups = [{"group_id": each, "topics": topics} for each in ("h", "none", "g")]
    response = wire.call(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=True)
    assert [
        (group.group_id, row.committed_offset)
        for group in response.groups
        for topic in group.topics
        for row in topic.partitions
    ] == [("h", 8), ("none", -1), ("g", 7)]
    nothing = wire.call(ApiKey.OFFSET_FETCH, version, groups=(), require_stable=False)
    assert nothing.groups == ()


def test_without_a_coordinator_there_is_no_answer_that_looks_like_one(node):
    """KAFKA-7190: a client would take -1 for the truth, and read everything again."""
    found = node.client()
    assert refused_everywhere(found) == {ErrorCode.NOT_COORDINATOR}
    response = found.call(ApiKey.OFFSET_FETCH, 5, group_id="g", topics=None)
    assert error_of(response.error_code) is ErrorCode.NOT_COORDINATOR and response.topics == ()
