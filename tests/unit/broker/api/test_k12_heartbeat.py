"""Heartbeat on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import SETTINGS, join, one_node, sync
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.one_node import OneNode
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


def test_while_the_group_is_loaded_every_member_is_alive():
    node = one_node()
    wire = node.client()
    joined = join(wire, 5)
    sync(wire, 3, joined)
    again = OneNode(disk=node.disk, **SETTINGS)

    def call(key, **values):
        return again.client().call(key, 0, **values)

    def is_loading():
        refused = error_of(call(ApiKey.LIST_GROUPS).error_code)
        return refused is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    answers = []
    while is_loading():
        found = call(ApiKey.HEARTBEAT, group_id="g", generation_id=1, member_id=joined.member_id)
        answers.append(error_of(found.error_code))
        again.advance(10)
    assert answers[-1] is ErrorCode.NONE
    # Before the node leads the partition it may be that another one does.
    assert set(answers) <= {ErrorCode.NOT_COORDINATOR, ErrorCode.NONE}
