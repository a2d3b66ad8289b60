"""The end of a node: a clean stop, and storage that fails."""

from typing import Any

import pytest

from tests.unit.broker.one_node import OneNode
from tidelog.env.effects import Flush, FlushFailed, Replace, StopRequested
from tidelog.env.instant import Instant
from tidelog.log.checkpoint import CLEAN_SHUTDOWN_FILE
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import millis


def test_a_stop_is_controlled_and_exits_with_zero():
    node = OneNode()
    node.client().create_topic("t")
    node.receive(StopRequested())
    node.run_until_exit()
    (exit_,) = node.exits
    assert (exit_.code, exit_.message) == (0, "")
    assert node.node.deadline() is None
    lines = node.trace.take_lines()
    assert any("on_closed: stopped" in line for line in lines)


def test_a_stop_waits_for_the_logs_that_are_to_be_deleted():
    """The next start would take them for strays, and keep them."""
    node = OneNode()
    node.client().create_topic("t", 40)
    node.advance(100)
    codec_request = codec.request_class(ApiKey.DELETE_TOPICS, 1)
    request = make(codec_request, topic_names=("t",), timeout=millis(1000))
    node.client().send(codec.encode_request(request, 1, "test"))
    replicas = node.node.broker.replicas
    assert replicas.has_deletions and len(replicas.partitions) > 0
    node.receive(StopRequested())
    node.run_until_exit()
    assert [exit_.code for exit_ in node.exits] == [0]
    names = [name for name in node.disk.list_dir() if name.startswith("t-")]
    assert all(name.endswith("-delete") for name in names)


def test_nothing_is_done_after_the_end():
    node = OneNode()
    node.receive(StopRequested())
    node.run_until_exit()
    node.node.receive(StopRequested(), node.now)
    node.node.wake(Instant(node.now + 10_000))
    assert node.node.take_effects() == []


def test_metadata_that_cannot_be_made_durable_stops_the_node():
    node = OneNode()
    node.node.take_effects()
    wire = node.client()
    subject = None
    carry_out = node.carry_out

    def fail(effect: Any) -> None:
        nonlocal subject
        if isinstance(effect, Flush | Replace) and effect.subject is not None:
            subject = effect.subject
            node.node.receive(FlushFailed(subject, "no space left on device"), node.now)
        else:
            carry_out(effect)

    node.carry_out = fail  # type: ignore[method-assign]
    with pytest.raises(AssertionError):
        wire.create_topic("t")
    assert subject is not None
    (exit_,) = node.exits
    assert exit_.code == 1
    assert "no space left on device" in exit_.message


def test_a_broker_that_cannot_register_in_time_stops_cleanly_and_says_why():
    """Two voters of three are not there. Its logs are as they were: the next start trusts them."""
    voters = ",".join(f"{i}@host{i}:9093" for i in (1, 2, 3))
    node = OneNode(
        alone=False, controller_quorum_voters=voters, initial_broker_registration_timeout_ms="700"
    )
    begun = node.now
    node.run_until_exit()
    (exit_,) = node.exits
    assert (exit_.code, node.now) == (1, begun + 700)
    assert exit_.message.startswith("the broker was not registered within 700 ms: no controller")
    assert node.disk.exists(CLEAN_SHUTDOWN_FILE)
