"""The broker's part of a node: what it calls the controller for, and what ends it."""

from typing import Any

import pytest

from tests.unit.broker.one_node import OneNode, Wire
from tidelog.broker.broker_side import BrokerSide
from tidelog.broker.held_questions import CATCH_UP_MS, HOLD_MS
from tidelog.env.effects import Exit, FlushFailed, StopRequested
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.log.values import LogFlush
from tidelog.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE
from tidelog.model import TopicPartition
from tidelog.sim.engine.world import World
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of


def side_of(node: OneNode) -> BrokerSide:
    side: BrokerSide | None = node.node._broker_side
    assert side is not None
    return side


def test_a_failed_log_directory_ends_the_node_with_a_hint() -> None:
    node = OneNode()
    node.client().create_topic("t")
    log = node.node.broker.replicas.partitions[TopicPartition("t", 0)].log
    flush = LogFlush(log.topic_partition, log.topic_id, 0, completes=True, truncation_count=0)
    node.node.receive(FlushFailed(flush, "EIO"), node.now)
    node.node.wake(node.now)
    exits = [effect for effect in node.node.take_effects() if isinstance(effect, Exit)]
    assert [effect.code for effect in exits] == [1]
    assert "hint:" in exits[0].message


def test_the_life_of_the_broker_decides_when_it_wants_to_be_woken() -> None:
    node = OneNode()
    side = side_of(node)
    due = side.deadline()
    assert due is not None
    assert due <= (side.lifecycle.deadline() or Instant(0))
    node.receive(StopRequested())
    node.run_until_exit()
    assert [effect.code for effect in node.exits] == [0]


def test_a_process_that_was_never_registered_hands_on_the_epoch_of_the_one_before() -> None:
    """It changed no log; with another epoch in the marker its successor would count as unclean."""
    first = OneNode()
    epoch = side_of(first).lifecycle.broker_epoch
    first.receive(StopRequested())
    first.run_until_exit()
    voters = {"controller_quorum_voters": "1@host1:9093,2@host2:9093,3@host3:9093"}
    second = OneNode(disk=first.disk, alone=False, **voters)
    assert side_of(second).lifecycle.broker_epoch == -1
    second.receive(StopRequested())
    second.run_until_exit()
    third = OneNode(disk=first.disk, alone=False, **voters)
    assert third.node._directories.clean_shutdown.broker_epoch == epoch


def test_a_node_that_is_only_a_controller_has_no_broker() -> None:
    world = World(1, nodes=1, controllers=1)
    world.start_all()
    assert world.hosts[2].node._broker_side is None
    assert world.hosts[1].node._broker_side is not None


def ask_for_metadata(node: OneNode) -> Wire:
    wire = node.client()
    request = make(codec.request_class(ApiKey.METADATA, 1), topics=None)
    wire.send(codec.encode_request(request, 1, "test"))
    return wire


def lag_behind(side: BrokerSide) -> None:
    """The replicas do not follow the metadata of this broker's registration yet."""
    side.broker.replicas._metadata.applied_offset = side.lifecycle.broker_epoch - 1


def catch_up(side: BrokerSide) -> None:
    """Now they do."""
    side.broker.replicas._metadata.applied_offset = side.broker.image.offset


def described_by(key: ApiKey, version: int) -> Any:
    """A question of an administrator about the topic `t`."""
    request_type = codec.request_class(key, version)
    if key is ApiKey.DESCRIBE_TOPIC_PARTITIONS:
        topic = {"name": "t"}
        return make(request_type, topics=(topic,), response_partition_limit=1, cursor=None)
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": "t", "configuration_keys": None}
    return make(
        request_type, resources=(resource,), include_synonyms=False, include_documentation=False
    )


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0), (ApiKey.DESCRIBE_CONFIGS, 4)]
)
def test_administrators_wait_as_well(key: ApiKey, version: int) -> None:
    """Kafka's own takes a topic that is said not to exist for one that does not."""
    node = OneNode()
    node.client().create_topic("t")
    side = side_of(node)
    lag_behind(side)
    known, node.broker.image = node.broker.image, EMPTY_IMAGE
    wire = node.client()
    wire.send(codec.encode_request(described_by(key, version), 1, "test"))
    node.advance(10 * HOLD_MS)
    assert wire.frames() == []
    node.broker.image = known
    catch_up(side)
    node.settle()
    (frame,) = wire.frames()
    _, answer = codec.decode_response(key, version, frame)
    found = answer.topics if key is ApiKey.DESCRIBE_TOPIC_PARTITIONS else answer.results
    assert [error_of(one.error_code) for one in found] == [ErrorCode.NONE]


def test_metadata_waits_until_the_broker_has_caught_up_with_its_registration() -> None:
    """Until then the image may be empty, or of a former life: topics must not be denied."""
    node = OneNode()
    node.client().create_topic("t")
    side = side_of(node)
    lag_behind(side)
    wire = ask_for_metadata(node)
    node.advance(10 * HOLD_MS)
    assert wire.frames() == []
    catch_up(side)
    node.settle()
    (frame,) = wire.frames()
    _, answer = codec.decode_response(ApiKey.METADATA, 1, frame)
    assert [topic.name for topic in answer.topics] == ["t"]


def test_a_broker_that_does_not_catch_up_sends_askers_away() -> None:
    node = OneNode(alone=False, controller_quorum_voters="1@host1:9093,2@host2:9093,3@host3:9093")
    wire = ask_for_metadata(node)
    node.advance(CATCH_UP_MS - 1)
    assert not wire.closed
    node.advance(HOLD_MS + 1)
    assert (wire.frames(), wire.closed) == ([], True)
