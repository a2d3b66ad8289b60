"""Share partitions of a node: how they begin, and what another leader knows of them."""

from dataclasses import replace

import pytest

from tests.unit.broker.api.share_client import initialize
from tests.unit.broker.api.sharer import (
    Sharer,
    acquired,
    code,
    fill,
    filled_node,
    rows,
    sharing_node,
    start_of,
)
from tidelog.errors import ErrorCode
from tidelog.metadata.image import GROUP_RESOURCE, ConfigResource
from tidelog.sharing.values import ShareKey
from tidelog.wire.values import error_of


@pytest.fixture
def node():
    return filled_node()


def test_what_was_acknowledged_is_known_to_the_next_leader(node):
    a = Sharer(node, "a")
    a.fetch(0)
    a.acknowledge(0, (2, 4, 1), (7, 7, 2))
    key = ShareKey("g", node.broker.image.topics_by_name["t"].topic_id, 0)
    held = node.broker.sharing.held
    held.drop(held.get(key), "a test")
    assert acquired(Sharer(node, "b").fetch(0)) == [(0, 1, 1), (5, 6, 1), (7, 7, 2), (8, 9, 1)]


def configure(node, **configs):
    """Sets configurations of group `g`."""
    held = node.broker.sharing.held
    own = {name.replace("_", "."): value for name, value in configs.items()}
    image = node.broker.image
    resource = ConfigResource(GROUP_RESOURCE, "g")
    held.on_image(replace(image, configs={**image.configs, resource: own}))


@pytest.mark.parametrize(
    ("reset", "start"),
    [
        ("earliest", 0),
        ("latest", 10),
        ("by_duration:P1D", 10),
        ("by_duration:P30000D", 0),
        ("by_duration:soon", 10),
    ],
)
def test_a_group_begins_where_its_configuration_says(reset, start):
    node = sharing_node()
    initialize(node.client(), 0, start_offset=-1)
    fill(node, 0, 10)
    configure(node, share_auto_offset_reset=reset)
    Sharer(node).fetch(0)
    assert start_of(node) == start


def test_the_next_leader_begins_where_the_first_one_did():
    """What was delivered and not acknowledged when the leader went is delivered again, also if
    there was no acknowledgement at all."""
    node = sharing_node()
    initialize(node.client(), 0, start_offset=-1)
    fill(node, 0, 10)
    a = Sharer(node, "a")
    assert acquired(a.fetch(0)) == []
    fill(node, 0, 5)
    assert acquired(a.fetch()) == [(10, 14, 1)]
    held = node.broker.sharing.held
    key = ShareKey("g", node.broker.image.topics_by_name["t"].topic_id, 0)
    held.drop(held.get(key), "a test")
    fill(node, 0, 5)
    assert acquired(Sharer(node, "b").fetch(0)) == [(10, 19, 1)]


def test_a_new_configuration_counts_at_once(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0)
    configure(node, share_delivery_count_limit="2")
    a.acknowledge(0, (0, 9, 2))
    b.fetch(0)
    b.acknowledge(0, (0, 9, 2))
    assert start_of(node) == 10


def test_a_fenced_share_partition_begins_anew(node):
    sharer = Sharer(node)
    sharer.fetch(0)
    initialize(node.client(), 0, state_epoch=2)
    assert code(sharer.acknowledge(0, (0, 4, 1))) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acquired(Sharer(node, "b").fetch(0)) == [(0, 9, 1)]


def test_the_end_of_the_feature_ends_share_partitions(node):
    sharer = Sharer(node)
    sharer.fetch(0)
    held = node.broker.sharing.held
    held.on_image(replace(node.broker.image, features={"metadata.version": 30}))
    assert error_of(sharer.fetch(0).error_code) is ErrorCode.UNSUPPORTED_VERSION


def test_a_term_that_is_over_serves_no_group(node):
    """The metadata names another leader, and the replica has not followed it yet."""
    Sharer(node, "a").fetch(0)
    image = node.broker.image
    topic = image.topics_by_name["t"]
    moved = replace(
        topic.partitions[0], leader=2, leader_epoch=topic.partitions[0].leader_epoch + 1
    )
    topic = replace(topic, partitions={**topic.partitions, 0: moved})
    held = node.broker.sharing.held
    held.on_image(replace(image, topics_by_id={**image.topics_by_id, topic.topic_id: topic}))
    (row,) = rows(Sharer(node, "b").fetch(0))
    assert error_of(row.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert held.get(ShareKey("g", topic.topic_id, 0)) is None
