"""ConsumerGroupDescribe on a node, in every version; and what else administrators see of such
groups."""

import pytest

from tests.unit.broker.api.group_client import commit, one_node
from tests.unit.broker.api.test_k68_consumer_group_heartbeat import beat, enter
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.secured_node import GROUP, READ, add, as_user, entry
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.errors import ErrorCode
from tidelog.security.rights import NOT_ASKED
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import error_of, millis


def described(wire, version, *groups):
    values = {"group_ids": groups, "include_authorized_operations": False}
    return wire.call(ApiKey.CONSUMER_GROUP_DESCRIBE, version, **values).groups


def partitions_of(assignment):
    return [
        (each.topic_name, number)
        for each in assignment.topic_partitions
        for number in each.partitions
    ]


@pytest.mark.parametrize("version", versions(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_a_group_on_its_way(version):
    wire = one_node().client()
    enter(wire, rack_id="r")
    enter(wire, member_id="n", instance_id="i", server_assignor="range")
    beat(wire, member_epoch=2)
    (group,) = described(wire, version, "g")
    assert error_of(group.error_code) is ErrorCode.NONE
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "range"
    first, second = group.members
    assert (first.member_id, first.rack_id, first.member_epoch) == ("m", "r", 2)
    assert (first.client_id, first.subscribed_topic_names) == ("test", ("t",))
    # It has not given the other one back yet.
    assert partitions_of(first.target_assignment) == [("t", 1)]
    assert sorted(partitions_of(first.assignment)) == [("t", 0), ("t", 1)]
    assert (second.member_id, second.instance_id, second.member_epoch) == ("n", "i", 3)
    assert (
        not partitions_of(second.assignment) and len(partitions_of(second.target_assignment)) == 1
    )
    assert field(first, "member_type", 1) == 1
    assert first.subscribed_topic_regex == ""


def test_what_is_not_such_a_group():
    wire = one_node().client()
    commit(wire, 9, {"t": {0: 1}}, group_id="simple")
    simple, nothing = described(wire, 1, "simple", "nothing")
    assert error_of(simple.error_code) is error_of(nothing.error_code)
    assert error_of(simple.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    assert simple.error_message == "Group simple is not a consumer group."
    assert nothing.error_message == "Group nothing not found."
    (unnamed,) = described(wire, 1, "")
    assert error_of(unnamed.error_code) is ErrorCode.INVALID_GROUP_ID


def test_partitions_of_a_deleted_topic_are_left_out():
    wire = one_node().client()
    enter(wire)
    wire.call(ApiKey.DELETE_TOPICS, 1, topic_names=("t",), timeout=millis(1000))
    (group,) = described(wire, 1, "g")
    assert not partitions_of(group.members[0].assignment)


def test_other_questions():
    wire = one_node().client()
    enter(wire)
    answer = wire.call(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=("Consumer",))
    (listed,) = answer.groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "consumer", "Stable")
    assert not wire.call(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=("classic",)).groups
    values = {"groups": ("g",), "include_authorized_operations": False}
    (classic,) = wire.call(ApiKey.DESCRIBE_GROUPS, 6, **values).groups
    assert error_of(classic.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.group_state == "Dead"


def test_without_a_coordinator(wire):
    (group,) = described(wire, 1, "g")
    assert error_of(group.error_code) is ErrorCode.NOT_COORDINATOR
    assert described(wire, 1) == ()


def test_a_group_with_a_hidden_topic_shows_its_name_alone():
    node = one_node(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")
    enter(node.client())
    add(node, entry(READ, "g", resource_type=GROUP))
    (group,) = described(as_user(node, "ada"), 1, "g")
    assert error_of(group.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    shown = (group.group_id, group.group_state, group.group_epoch, group.assignor_name)
    assert (*shown, group.members, group.authorized_operations) == ("g", "", 0, "", (), NOT_ASKED)
