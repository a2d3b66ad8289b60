"""The composed node: its verbs, and what a restart finds."""

import gc
import ssl
from typing import Any

import pytest

from tests.unit.broker.one_node import BROKER, SETTINGS, WALL_MS, OneNode
from tidelog.broker.node import Node
from tidelog.config import parse_node_config
from tidelog.env.effects import Opened, StopRequested, WallClock
from tidelog.env.instant import Instant
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import TraceList
from tidelog.errors import UsageError
from tidelog.log.identity import format_directory
from tidelog.model import ANONYMOUS, Uuid
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World
from tidelog.testing.certificates import Authority
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis


def made(disk: MemoryDisk, **settings: str) -> Node:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    config = parse_node_config(SETTINGS | given)
    return Node(config, [disk], 1, TraceList(), now=Instant(0), wall_ms=WALL_MS)


def formatted(node_id: int) -> MemoryDisk:
    disk = MemoryDisk(root="host1")
    format_directory(disk, cluster_id="c", node_id=node_id, directory_id=Uuid(b"d" * 16))
    return disk


# The directory -----------------------------------------------------------------------------


def test_a_directory_of_another_node_is_refused_with_a_hint():
    with pytest.raises(UsageError) as raised:
        made(formatted(7))
    assert "belongs to node `7`" in raised.value.message
    assert "node.id" in raised.value.hint


def test_an_unformatted_directory_is_refused_with_a_hint():
    with pytest.raises(UsageError) as raised:
        made(MemoryDisk(root="host1"))
    assert raised.value.hint


# Time --------------------------------------------------------------------------------------


def test_the_wall_clock_may_be_set():
    node = OneNode()
    node.receive(WallClock(offset_ms=123))
    assert node.broker.wall_ms(Instant(1000)) == 1123


def test_an_idle_node_asks_to_be_woken_and_never_spins():
    """In ten idle seconds the node wakes for heartbeats, no-ops and its quorum, not in a loop."""
    node = OneNode()
    node.settle()
    end = node.now + 10_000
    wakes = 0
    while True:
        deadline = node.node.deadline()
        assert deadline is not None
        assert deadline > node.now
        if deadline > end:
            break
        node.now = deadline
        node.settle()
        wakes += 1
    assert 5 <= wakes < 200


# Restarts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_topics_and_records(clean):
    first = OneNode()
    wire = first.client()
    wire.create_topic("t", 2)
    before = first.broker.image.topics_by_name["t"]
    if clean:
        first.receive(StopRequested())
        first.run_until_exit()
    second = OneNode(disk=first.disk)
    second.run_until(lambda: "t" in second.broker.image.topics_by_name)
    assert second.broker.image.topics_by_name["t"].topic_id == before.topic_id
    recovered = any("logs were recovered" in line for line in second.trace.take_lines())
    assert recovered is not clean


# A cluster ---------------------------------------------------------------------------------


def test_a_paused_controller_costs_no_other_broker_its_session():
    """A process that stands still keeps its connections, and the heartbeats that are under way to
    it. Brokers must turn to the next controller at once, or it ends all their sessions."""
    world = World(3, settings={"broker.session.timeout.ms": "2000"})
    world.start_all()

    def image_of(node_id: int) -> Any:
        node = world.hosts[node_id].node
        assert node is not None
        return node.broker.image

    def alive(node_id: int) -> set[int]:
        return {b.node_id for b in image_of(node_id).brokers.values() if b.active}

    world.run_until(lambda: all(alive(node_id) == {1, 2, 3} for node_id in world.hosts))
    assert SimClient(world, 1).create_topic("t") == 0
    (paused,) = [
        node_id
        for node_id, host in world.hosts.items()
        if host.node is not None and host.node.broker.controller.active
    ]
    world.run_for(1000)
    world.pause(paused)
    others = set(world.hosts) - {paused}
    seen: set[frozenset[int]] = set()
    for _ in range(120):
        world.run_for(100)
        seen |= {frozenset(alive(node_id)) for node_id in others}
    assert seen == {frozenset((1, 2, 3)), frozenset(others)}
    world.resume(paused)
    world.run_until(lambda: all(alive(node_id) == {1, 2, 3} for node_id in world.hosts))


def test_an_idle_client_is_closed_and_a_watching_one_is_not():
    node = OneNode(connections_max_idle_ms="1000")
    wire, silent = node.client(), node.client()
    wire.create_topic("t")
    node.advance(999)
    assert not wire.closed
    node.advance(1)
    assert wire.closed
    assert not silent.closed


def test_a_deleted_topic_leaves_no_cycles():
    """Goal: a node may do without collections of all objects (`runtime/process.py`)."""
    node = OneNode()
    wire = node.client()
    gc.collect()
    gc.disable()
    try:
        for round_number in range(2):
            wire.create_topic(f"t{round_number}", 50)
            wire.call(
                ApiKey.DELETE_TOPICS, 5, topic_names=(f"t{round_number}",), timeout=millis(1000)
            )
            node.advance(120_000)
        assert not node.broker.replicas.partitions
        node.trace.events.clear()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_connection_belongs_to_the_name_in_its_certificate() -> None:
    """By the rules of its listener; a name that no rule matches closes it."""
    node = OneNode(
        listener_security_protocol_map="PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        ssl_principal_mapping_rules="RULE:^CN=(a.*)$/$1/U",
    )
    authority = Authority.create()
    for connection_id, name in ((801, "alice"), (802, "bob"), (803, None)):
        der = None if name is None else ssl.PEM_cert_to_DER_cert(chain_of(authority.issue(name)))
        node.receive(Opened(connection_id, BROKER, "10.0.0.7", der))
    connections = node.broker.connections
    alice, nameless = connections.get(801), connections.get(803)
    assert alice is not None
    assert str(alice.principal) == "User:ALICE"
    assert nameless is not None
    assert nameless.principal == ANONYMOUS
    assert node.closed == [802]
    (line,) = [line for line in node.trace.take_lines() if "no rule" in line]
    assert "connection 802 on_opened: closed" in line


def chain_of(pem: str) -> str:
    """The certificate behind the private key of a PEM text."""
    return pem[pem.index("-----BEGIN CERTIFICATE-----") :]
