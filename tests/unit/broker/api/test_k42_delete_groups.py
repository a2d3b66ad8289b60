"""DeleteGroups on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import commit, fetch, join, one_node, sync
from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_every_group_has_its_own_answer(version):
    wire = one_node().client()
    sync(wire, 3, join(wire, 5))
    commit(wire, 9, {"t": {0: 1}}, group_id="simple")
    names = ("g", "simple", "nothing")
    answer = wire.call(ApiKey.DELETE_GROUPS, version, groups_names=names)
    assert [(each.group_id, error_of(each.error_code)) for each in answer.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("nothing", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert fetch(wire, 9, None, "simple") == (ErrorCode.NONE, {})
    assert wire.call(ApiKey.DELETE_GROUPS, version, groups_names=()).results == ()
