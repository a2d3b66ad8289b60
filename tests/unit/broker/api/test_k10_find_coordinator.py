"""FindCoordinator: the leader of a group's partition, which the first question creates."""

import pytest

from tests.unit.broker.api import share_client as shares
from tests.unit.broker.api.group_client import SETTINGS, find, one_node
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.one_node import OneNode
from tidelog.broker.api.k10_find_coordinator import shares_topic
from tidelog.config import LogConfig, SharesConfig, resolve_topic_config
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC, SHARES_TOPIC
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import has_field
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.FIND_COORDINATOR)


def test_the_first_question_creates_the_topic():
    node = OneNode(**SETTINGS, offsets_topic_segment_bytes="2097152")
    wire = node.client()
    first = find(wire)
    assert error_of(first.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (first.node_id, first.host, first.port) == (-1, "", -1)
    node.run_until(lambda: OFFSETS_TOPIC in node.broker.image.topics_by_name)
    image = node.broker.image
    assert len(image.topics_by_name[OFFSETS_TOPIC].partitions) == 3
    assert dict(image.topic_configs(OFFSETS_TOPIC)) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "2097152",
    }
    assert find(wire).node_id == 1


def test_no_size_limits_what_share_coordinators_remember():
    """The broker's own default would delete the states of share groups that read slowly."""
    topic = shares_topic(SharesConfig())
    log = resolve_topic_config(dict(topic.configs), LogConfig(retention_bytes=1 << 20))
    assert (log.retention_bytes, log.retention_ms) == (-1, -1)


def test_topics_of_clients_need_not_be_created_for_it():
    assert one_node(auto_create_topics_enable="false")


def test_too_few_brokers_for_its_replicas_are_logged():
    node = OneNode(offsets_topic_replication_factor="3")
    wire = node.client()
    for _ in range(2):
        assert error_of(find(wire).error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        node.advance(100)
    assert sum("InternalTopicNotCreated" in repr(each) for each in node.trace.events) == 2


@pytest.mark.parametrize("version", [v for v in VERSIONS if v < 4])
def test_one_key(version):
    wire = one_node().client()
    response = wire.call(ApiKey.FIND_COORDINATOR, version, key="group", key_type=0)
    assert error_of(response.error_code) is ErrorCode.NONE
    assert (response.node_id, response.host, response.port) == (1, "host1", 9092)
    assert has_field(type(response), "error_message") == (version > 0)


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 4])
def test_many_keys(version):
    wire = one_node().client()
    keys = ("a", "b", "a")
    response = wire.call(ApiKey.FIND_COORDINATOR, version, coordinator_keys=keys, key_type=0)
    assert [item.key for item in response.coordinators] == list(keys)
    assert {(item.node_id, item.port) for item in response.coordinators} == {(1, 9092)}


@pytest.mark.parametrize(
    "key", ["", "k", "g:0", ":AQIDBAUGBwgJCgsMDQ4PEA:0", "g:AQID:0", "g:AQIDBAUGBwgJCgsMDQ4PEA:x"]
)
def test_keys_that_do_not_name_a_share_partition(wire, key):
    found = shares.find(wire, key)
    assert error_of(found.error_code) is ErrorCode.INVALID_REQUEST
    assert wire.node.broker.auto_topics.creating == set()


@pytest.mark.parametrize("version", [4, 5])
def test_share_partitions_are_of_version_6(wire, version):
    found = shares.find(wire, version=version)
    assert error_of(found.error_code) is ErrorCode.INVALID_REQUEST


def test_share_partitions_live_on_a_topic_that_is_not_compacted():
    node = shares.one_node()
    assert dict(node.broker.image.topic_configs(SHARES_TOPIC)) == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }
    assert shares.find(node.client(), "a:b:AQIDBAUGBwgJCgsMDQ4PEA:0").node_id == 1


@pytest.mark.parametrize("key_type", [3, -1, 127])
def test_unknown_kinds_of_keys(wire, key_type):
    single = wire.call(ApiKey.FIND_COORDINATOR, 1, key="k", key_type=key_type)
    assert error_of(single.error_code) is ErrorCode.INVALID_REQUEST
    many = wire.call(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("k",), key_type=key_type)
    assert error_of(many.coordinators[0].error_code) is ErrorCode.INVALID_REQUEST


def test_a_leader_that_is_fenced_is_none():
    node = OneNode(**SETTINGS)
    node.add_broker(2)
    wire = node.client()
    wire.create_topic(OFFSETS_TOPIC, replicas=(2,))
    found = find(wire)
    assert (found.node_id, found.host) == (2, "host2")
    node.run_until(lambda: not node.broker.image.is_alive(2))
    assert error_of(find(wire).error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
