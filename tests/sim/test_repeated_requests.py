"""The controller dies when it has appended what a client asked for, before any answer."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.sim.test_cluster import unfenced

from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import NAME, SimClient
from tidelog.sim.engine.world import World
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis


def led_by_controller() -> tuple[World, int, SimClient]:
    """Three nodes, the controller, and a client of another node."""
    world = World(5)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    controller = world.hosts[1].node.broker.quorum.leader_id
    client = SimClient(world, controller % 3 + 1)
    assert client.create_topic("known", 2) == ErrorCode.NONE
    return world, controller, client


def ask_and_kill(
    world: World, controller: int, client: SimClient, key: ApiKey, version: int, **values: Any
) -> Any:
    """The answer to a request whose records the controller has appended and one follower has
    fetched when the controller dies."""
    entity = make(codec.request_class(key, version), **values)
    quorums = [host.node.broker.quorum for host in world.hosts.values()]
    leader = next(one for one in quorums if one.is_leader)
    world.run_until(lambda: all(one.log_end_offset == leader.log_end_offset for one in quorums))
    before = leader.log_end_offset
    client.send_frame(codec.encode_request(entity, client.session.correlation_id, NAME))
    world.run_until(lambda: sum(one.log_end_offset > before for one in quorums) == 2)
    assert leader.high_watermark <= before, "it is committed already"
    world.kill(controller)
    _, response = codec.decode_response(key, version, client.take_frame())
    return response


def create(world: World, controller: int, client: SimClient, name: str = "new") -> ErrorCode:
    topic = {
        "name": name,
        "num_partitions": 3,
        "replication_factor": 3,
        "assignments": [],
        "configs": [{"name": "retention.ms", "value": "1000"}],
    }
    response = ask_and_kill(
        world,
        controller,
        client,
        ApiKey.CREATE_TOPICS,
        7,
        topics=[topic],
        timeout=millis(20_000),
        validate_only=False,
    )
    [row] = response.topics
    image = world.hosts[client.node_id].node.broker.image
    if error_of(row.error_code) is ErrorCode.NONE:
        assert (row.num_partitions, row.replication_factor) == (3, 3)
        assert row.topic_id.bytes == image.topics_by_name[name].topic_id
        configs = {config.name: config.value for config in row.configs}
        assert configs["retention.ms"] == "1000"
    return error_of(row.error_code)


def delete(world: World, controller: int, client: SimClient) -> ErrorCode:
    topics = [{"name": "known", "topic_id": None}]
    response = ask_and_kill(
        world, controller, client, ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=millis(20_000)
    )
    assert response.responses[0].name == "known"
    return error_of(response.responses[0].error_code)


def grow(world: World, controller: int, client: SimClient) -> ErrorCode:
    topics = [{"name": "known", "count": 5, "assignments": None}]
    response = ask_and_kill(
        world,
        controller,
        client,
        ApiKey.CREATE_PARTITIONS,
        3,
        topics=topics,
        timeout=millis(20_000),
        validate_only=False,
    )
    return error_of(response.results[0].error_code)


@pytest.mark.parametrize("ask", [create, delete, grow])
def test_the_repetition_reports_the_success_of_the_first(ask: Callable[..., ErrorCode]) -> None:
    """Goal: the forwarding broker repeats the request at the next controller, which finds it done,
    and the client learns of one success."""
    world, controller, client = led_by_controller()
    assert ask(world, controller, client) is ErrorCode.NONE


def test_a_topic_that_was_there_before_is_refused_all_the_same() -> None:
    """Goal: only what the request itself did is its success."""
    world, controller, client = led_by_controller()
    entity = {
        "name": "known",
        "num_partitions": 2,
        "replication_factor": 3,
        "assignments": [],
        "configs": [],
    }
    world.pause(controller)
    response = client.call(
        ApiKey.CREATE_TOPICS, 7, topics=[entity], timeout=millis(20_000), validate_only=False
    )
    assert error_of(response.topics[0].error_code) is ErrorCode.TOPIC_ALREADY_EXISTS
