"""ShareGroupDescribe: members of share groups, and what they have; share groups in lists."""

from tests.unit.broker.api.share_client import one_group_node, set_level, settled_group
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def described(wire, *group_ids):
    response = wire.call(
        ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=group_ids, include_authorized_operations=False
    )
    return list(response.groups)


def test_a_group_and_its_members():
    wire = settled_group(one_group_node())
    group, other = described(wire, "g", "other")
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    (member,) = group.members
    assert (member.member_id, member.member_epoch) == ("m", 3)
    assert member.subscribed_topic_names == ("t",)
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("t", (0, 1))
    assert error_of(other.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    assert (other.group_epoch, other.assignment_epoch) == (0, 0)


def test_lists_have_its_type():
    wire = settled_group(one_group_node())
    for filters, count in (((), 1), (("Share",), 1), (("classic",), 0)):
        response = wire.call(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=filters)
        assert len(response.groups) == count
    (group,) = wire.call(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=()).groups
    assert (group.group_id, group.group_type, group.group_state) == ("g", "share", "Stable")
    assert group.protocol_type == "share"


def test_it_is_refused_while_the_feature_is_off():
    node = one_group_node()
    set_level(node, 0)
    (group,) = described(node.client(), "g")
    assert error_of(group.error_code) is ErrorCode.UNSUPPORTED_VERSION
