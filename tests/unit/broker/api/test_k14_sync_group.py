"""SyncGroup on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import join, one_node, sync
from tests.unit.broker.api.wire_turns import shown, versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.SYNC_GROUP)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_leader_assigns_itself(version):
    wire = one_node().client()
    joined = join(wire, 9)
    answer = sync(wire, version, joined)
    assert (error_of(answer.error_code), bytes(answer.assignment)) == (ErrorCode.NONE, b"all")
    names = shown(answer, "protocol_type", "protocol_name").items()
    assert names <= {"protocol_type": "consumer", "protocol_name": "range"}.items()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_refused_assigns_nothing(version):
    wire = one_node().client()
    answer = sync(wire, version, join(wire, 9), generation_id=4)
    assert error_of(answer.error_code) is ErrorCode.ILLEGAL_GENERATION
    assert bytes(answer.assignment) == b""
    if version >= 5:
        joined = join(wire, 9, group_id="h")
        other = sync(wire, version, joined, group_id="h", protocol_name="sticky")
        assert error_of(other.error_code) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_client_that_must_name_the_protocol_and_does_not():
    wire = one_node().client()
    for name in ("protocol_type", "protocol_name"):
        answer = sync(wire, 5, join(wire, 9, group_id=name), group_id=name, **{name: None})
        assert error_of(answer.error_code) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
