"""ListGroups on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import SETTINGS, commit, join, one_node, sync
from tests.unit.broker.api.wire_turns import shown, versions
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.LIST_GROUPS)


@pytest.fixture
def wire():
    found = one_node().client()
    sync(found, 3, join(found, 5))
    commit(found, 9, {"t": {0: 1}}, group_id="simple")
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_all_groups(wire, version):
    answer = wire.call(ApiKey.LIST_GROUPS, version, states_filter=(), types_filter=())
    assert error_of(answer.error_code) is ErrorCode.NONE
    stable, simple = answer.groups
    assert (stable.group_id, stable.protocol_type) == ("g", "consumer")
    assert (simple.group_id, simple.protocol_type) == ("simple", "")
    expected = {"group_state": "Stable", "group_type": "classic"}
    assert shown(stable, *expected).items() <= expected.items()


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (("stable",), (), ["g"]),
        (("Empty", "Dead"), (), ["simple"]),
        (("PreparingRebalance",), (), []),
        ((), ("Classic",), ["g", "simple"]),
        ((), ("consumer",), []),
    ],
)
def test_some_groups(wire, states, types, found):
    answer = wire.call(ApiKey.LIST_GROUPS, 5, states_filter=states, types_filter=types)
    assert [each.group_id for each in answer.groups] == found


def test_a_list_that_would_lack_some_is_refused(wire):
    again = OneNode(disk=wire.node.disk, **SETTINGS)
    codes = []
    while not codes or codes[-1] is not ErrorCode.NONE:
        answer = again.client().call(ApiKey.LIST_GROUPS, 0)
        codes.append(error_of(answer.error_code))
        assert codes[-1] is ErrorCode.NONE or not answer.groups
        again.advance(10)
    assert codes[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [each.group_id for each in answer.groups] == ["g", "simple"]
