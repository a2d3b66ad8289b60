"""JoinGroup on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import join, one_node
from tests.unit.broker.api.wire_turns import shown, versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

VERSIONS = versions(ApiKey.JOIN_GROUP)


@pytest.fixture
def node():
    return one_node()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_only_member_leads(node, version):
    answer = join(node.client(), version)
    assert error_of(answer.error_code) is ErrorCode.NONE
    assert (answer.generation_id, answer.leader) == (1, answer.member_id)
    assert answer.protocol_name == "range"
    (member,) = answer.members
    assert (member.member_id, bytes(member.metadata)) == (answer.member_id, b"meta")
    names = shown(answer, "protocol_type", "skip_assignment").items()
    assert names <= {"protocol_type": "consumer", "skip_assignment": False}.items()
    group = node.broker.groups._seats
    kept = [each.coordinator.groups["g"] for each in group.values() if each.coordinator.groups]
    (found,) = kept[0].members.values()
    assert (found.client_id, found.client_host) == ("test", "/peer")
    assert found.rebalance_timeout_ms == (20_000 if version >= 1 else 10_000)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_refused_names_no_protocol(node, version):
    answer = join(node.client(), version, session_timeout=millis(1))
    assert error_of(answer.error_code) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())
    assert answer.protocol_name == (None if version >= 7 else "")
