"""ConsumerGroupHeartbeat on a node, in every version."""

import pytest

from tests.unit.broker.api.group_client import commit, fetch, join, one_node, topic_id_of
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.secured_node import GROUP, READ, add, as_user, entry
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.controller.messages import UpgradeType
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

KEY = ApiKey.CONSUMER_GROUP_HEARTBEAT


def beat(wire, version=1, **values):
    asked = {"group_id": "g", "member_id": "m", "member_epoch": 0, "topic_partitions": None}
    return wire.call(KEY, version, **{**asked, **values})


def enter(wire, version=1, **values):
    joins = {"rebalance_timeout": millis(1000), "topic_partitions": ()}
    return beat(wire, version, **{**joins, "subscribed_topic_names": ("t",), **values})


def partitions_of(answer):
    return [
        (each.topic_id, number)
        for each in answer.assignment.topic_partitions
        for number in each.partitions
    ]


@pytest.mark.parametrize("version", versions(KEY))
def test_a_member_joins_stays_and_leaves(version):
    wire = one_node().client()
    joined = enter(wire, version)
    assert error_of(joined.error_code) is ErrorCode.NONE and joined.member_epoch == 2
    topic_id = topic_id_of(wire, "t")
    assert partitions_of(joined) == [(topic_id, 0), (topic_id, 1)]
    held = [{"topic_id": topic_id, "partitions": (0, 1)}]
    stays = beat(wire, version, member_epoch=2, topic_partitions=held)
    assert error_of(stays.error_code) is ErrorCode.NONE and stays.assignment is None
    left = beat(wire, version, member_epoch=-1)
    assert (error_of(left.error_code), left.member_epoch) == (ErrorCode.NONE, -1)
    refused = beat(wire, version, member_epoch=2)
    assert error_of(refused.error_code) is ErrorCode.UNKNOWN_MEMBER_ID and refused.error_message


def test_topics_by_a_regular_expression():
    wire = one_node().client()
    joined = enter(wire, subscribed_topic_names=None, subscribed_topic_regex="[s-u]")
    assert len(partitions_of(joined)) == 2
    wire.create_topic("u", 1)
    other = enter(wire, member_id="n", subscribed_topic_names=("u",))
    assert len(partitions_of(other)) == 1


def test_a_regular_expression_matches_what_may_be_described():
    node = one_node(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")
    node.client().create_topic("tea", 1)
    node.client().create_topic("secret", 1)
    add(node, entry(READ, "g", resource_type=GROUP), entry(READ, "te", resource_pattern_type=4))
    wire = as_user(node, "ada")
    joined = enter(wire, subscribed_topic_names=None, subscribed_topic_regex=".*")
    assert partitions_of(joined) == [(topic_id_of(node.client(), "tea"), 0)]


def test_commits_name_the_epoch():
    wire = one_node().client()
    enter(wire)

    def committed(version, **values):
        (code,) = commit(wire, version, {"t": {0: 5}}, **values).values()
        return code

    own = {"member_id": "m", "generation_id": 2}
    for version in (9, 10):
        assert committed(version, **own) is ErrorCode.NONE
        assert committed(version, **{**own, "generation_id": 3}) is ErrorCode.STALE_MEMBER_EPOCH
        assert committed(version, **{**own, "generation_id": 1}) is ErrorCode.STALE_MEMBER_EPOCH
        assert committed(version, **{**own, "member_id": "n"}) is ErrorCode.UNKNOWN_MEMBER_ID
        assert committed(version) is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(8, **own) is ErrorCode.UNSUPPORTED_VERSION
    assert fetch(wire, 9, {"t": [0]})[1]["t", 0] == (5, ErrorCode.NONE)


def test_a_former_epoch_commits_what_it_had():
    """The member has not received its newest epoch yet (KIP-1251)."""
    wire = one_node().client()
    enter(wire)
    enter(wire, member_id="n")
    topic_id = topic_id_of(wire, "t")
    beat(wire, member_epoch=2)
    kept = beat(wire, member_epoch=2, topic_partitions=[{"topic_id": topic_id, "partitions": (0,)}])
    assert kept.member_epoch == 3
    own = {"member_id": "m", "generation_id": 2}
    assert commit(wire, 9, {"t": {0: 5}}, **own) == {("t", 0): ErrorCode.NONE}
    assert commit(wire, 9, {"t": {1: 5}}, **own) == {("t", 1): ErrorCode.STALE_MEMBER_EPOCH}
    # What is not committed anyway needs no right to it, as in Kafka's OffsetMetadataManager.
    refused = {("t", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(wire, 9, {"t": {1: 5}}, note="x" * 4097, **own) == refused


def test_questions_of_members_name_the_epoch():
    wire = one_node().client()
    enter(wire)

    def asked(**values):
        group = {"group_id": "g", "topics": None, **values}
        answer = wire.call(ApiKey.OFFSET_FETCH, 9, groups=[group])
        return error_of(answer.groups[0].error_code)

    assert asked() is ErrorCode.NONE
    assert asked(member_id="m", member_epoch=2) is ErrorCode.NONE
    assert asked(member_id="m", member_epoch=3) is ErrorCode.STALE_MEMBER_EPOCH
    assert asked(member_id="n", member_epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_of_the_classic_protocol_are_refused():
    wire = one_node().client()
    enter(wire)
    assert error_of(join(wire, 9).error_code) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_with_members_is_not_deleted():
    wire = one_node().client()
    enter(wire)

    def deleted():
        answer = wire.call(ApiKey.DELETE_GROUPS, 2, groups_names=("g",))
        return error_of(answer.results[0].error_code)

    assert deleted() is ErrorCode.NON_EMPTY_GROUP
    gone = wire.call(
        ApiKey.OFFSET_DELETE, 0, group_id="g", topics=[{"name": "t", "partitions": [_row(0)]}]
    )
    (row,) = gone.topics[0].partitions
    assert error_of(row.error_code) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    beat(wire, member_epoch=-1)
    assert deleted() is ErrorCode.NONE
    assert deleted() is ErrorCode.GROUP_ID_NOT_FOUND


def _row(number):
    return {"partition_index": number}


def test_a_cluster_without_the_feature_refuses():
    wire = one_node().client()
    update = {
        "feature": "group.version",
        "max_version_level": 0,
        "upgrade_type": UpgradeType.SAFE_DOWNGRADE,
    }
    values = {"timeout": millis(1000), "feature_updates": (update,), "validate_only": False}
    assert error_of(wire.call(ApiKey.UPDATE_FEATURES, 2, **values).error_code) is ErrorCode.NONE
    assert error_of(enter(wire).error_code) is ErrorCode.UNSUPPORTED_VERSION
    answer = wire.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=("g",), include_authorized_operations=False
    )
    assert error_of(answer.groups[0].error_code) is ErrorCode.UNSUPPORTED_VERSION


def test_without_a_coordinator(wire):
    assert error_of(enter(wire).error_code) is ErrorCode.NOT_COORDINATOR
