"""Requests to share coordinators, on a node that coordinates all share partitions."""

from typing import Any

from tests.unit.broker.one_node import OneNode, Wire, coordinating
from tidelog.errors import ErrorCode
from tidelog.model import SHARES_TOPIC
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis, uuid_of

SETTINGS = {
    "share_coordinator_state_topic_num_partitions": "3",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
    "offsets_topic_num_partitions": "3",
    "offsets_topic_replication_factor": "1",
}


def one_node(**settings: str) -> OneNode:
    """A node that coordinates, and has topic `t` with two partitions."""
    node = coordinating(SHARES_TOPIC, find, {**SETTINGS, **settings})
    node.run_until(lambda: node.broker.shares.coordinators() is not None)
    return node


def one_group_node(**settings: str) -> OneNode:
    """As `one_node`; it coordinates share groups, too."""
    node = one_node(**settings)
    wire = node.client()

    def found() -> bool:
        response = wire.call(ApiKey.FIND_COORDINATOR, 2, key="g", key_type=0)
        return error_of(response.error_code) is ErrorCode.NONE

    node.run_until(found)
    node.run_until(lambda: node.broker.groups.coordinators() is not None)
    return node


def find(wire: Wire, key: str = "g:AQIDBAUGBwgJCgsMDQ4PEA:0", version: int = 6) -> Any:
    """Where the coordinator of a share partition is."""
    response = wire.call(ApiKey.FIND_COORDINATOR, version, coordinator_keys=(key,), key_type=2)
    return response.coordinators[0]


def topic_id_of(wire: Wire, name: str = "t") -> Any:
    """As entities have it."""
    topic = wire.node.broker.image.topics_by_name.get(name)
    return uuid_of(b"u" * 16 if topic is None else topic.topic_id)


def call(
    wire: Wire,
    key: ApiKey,
    version: int,
    *partitions: dict[str, Any],
    group_id: str = "g",
    topic: str = "t",
) -> dict[int, Any]:
    """Asks about partitions of a topic; the row of each in the answer."""
    topic_id = topic_id_of(wire, topic)
    topics = [{"topic_id": topic_id, "partitions": list(partitions)}]
    response = wire.call(key, version, group_id=group_id, topics=topics)
    assert all(result.topic_id == topic_id for result in response.results)
    return {each.partition: each for result in response.results for each in result.partitions}


def initialize(wire: Wire, *numbers: int, state_epoch: int = 1, start_offset: int = 0) -> None:
    """These partitions may be read and written."""
    rows = [
        {"partition": number, "state_epoch": state_epoch, "start_offset": start_offset}
        for number in numbers
    ]
    found = call(wire, ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, *rows)
    assert {error_of(each.error_code) for each in found.values()} == {ErrorCode.NONE}


def set_level(node: OneNode, level: int) -> None:
    """Finalises `share.version`."""
    wire = node.client()
    update = {
        "feature": "share.version",
        "max_version_level": level,
        "upgrade_type": 1 if level else 2,
    }
    wire.call(
        ApiKey.UPDATE_FEATURES,
        1,
        timeout=millis(1000),
        feature_updates=[update],
        validate_only=False,
    )
    node.run_until(lambda: node.broker.image.features.get("share.version", 0) == level)


def beat(wire: Wire, member_id: str = "m", epoch: int = 0, *names: str, group_id: str = "g") -> Any:
    """A heartbeat; with names it subscribes."""
    return wire.call(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=names or None,
    )


def settled_group(node: OneNode) -> Wire:
    """The member `m` has both partitions of `t`."""
    wire = node.client()
    epoch = beat(wire, "m", 0, "t").member_epoch
    coordinators = node.broker.shares.coordinators
    node.run_until(lambda: sum(len(each.entries) for each in coordinators() or ()) == 2)
    node.settle()
    assert assigned_of(beat(wire, "m", epoch)) == [0, 1]
    return wire


def assigned_of(response: Any) -> list[int] | None:
    """The numbers of the partitions in an answer; `None` is unchanged."""
    if response.assignment is None:
        return None
    return [number for each in response.assignment.topic_partitions for number in each.partitions]
