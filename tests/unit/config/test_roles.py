"""Goal: a node is broker, controller or both, and its place in the quorum fits that."""

import pytest

from tidelog.config import parse_node_config
from tidelog.config.roles import resolve_roles
from tidelog.errors import UsageError

VOTERS = "1@a:9093,2@b:9093,3@c:9093"
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://a:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": VOTERS,
    "log.dirs": "data",
}
BROKER = {
    **CONTROLLER,
    "process.roles": "broker",
    "node.id": "4",
    "listeners": "PLAINTEXT://d:9092",
}


@pytest.mark.parametrize("text", ["", "zookeeper", "broker,broker", "broker,observer"])
def test_other_roles_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"process\.roles") as caught:
        resolve_roles({"process.roles": text})
    assert "broker,controller" in caught.value.hint


def test_the_order_of_roles_does_not_matter() -> None:
    both = resolve_roles({"process.roles": "controller, broker"})
    assert both == resolve_roles({"process.roles": "broker,controller"})


def test_each_role_alone_is_a_node() -> None:
    controller, broker = parse_node_config(CONTROLLER), parse_node_config(BROKER)
    assert (controller.is_controller, controller.is_broker) == (True, False)
    assert (broker.is_controller, broker.is_broker) == (False, True)
    assert [e.host for e in controller.advertised_controller_listeners] == ["a"]
    assert broker.advertised_controller_listeners == ()


def test_a_static_voter_is_a_controller_and_the_other_way_round() -> None:
    with pytest.raises(UsageError, match="`9` is not among"):
        parse_node_config({**CONTROLLER, "node.id": "9"})
    with pytest.raises(UsageError, match="`1` is among"):
        parse_node_config({**BROKER, "node.id": "1"})


def test_with_the_voters_in_the_log_any_controller_may_start() -> None:
    settings = {**CONTROLLER, "node.id": "9", "controller.quorum.bootstrap.servers": "a:9093"}
    del settings["controller.quorum.voters"]
    config = parse_node_config(settings)
    assert config.voters == {}
    assert [str(server) for server in config.bootstrap_servers] == ["CONTROLLER://a:9093"]
