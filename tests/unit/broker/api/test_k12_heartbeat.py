"""Heartbeat on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import join, one_node, sync
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_a_member_and_a_stranger(version):
    wire = one_node().client()
    joined = join(wire, 5)
    sync(wire, 3, joined)
    values = {"group_id": "g", "generation_id": 1}

    def beat(member_id):
        answer = wire.call(ApiKey.HEARTBEAT, version, **values, member_id=member_id)
        return error_of(answer.error_code)

    assert beat(joined.member_id) is ErrorCode.NONE
    assert beat("who") is ErrorCode.UNKNOWN_MEMBER_ID
    values["generation_id"] = 2
    assert beat(joined.member_id) is ErrorCode.ILLEGAL_GENERATION
