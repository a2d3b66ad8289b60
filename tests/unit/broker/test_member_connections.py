"""Goal: a coordinator learns that a member's connection has ended, if it was its last one."""

from typing import Any

import pytest

from tests.unit.broker.api.group_client import join, one_node, sync
from tests.unit.broker.one_node import OneNode, Wire
from tidelog.env.effects import Closed, CloseReason
from tidelog.groups.classic_group import ClassicGroup
from tidelog.limits import MAX_MEMBERS_PER_CONNECTION
from tidelog.wire.api import ApiKey


@pytest.fixture
def node() -> OneNode:
    return one_node()


def member_of(wire: Wire, group_id: str = "g") -> Any:
    """The only member of a new group; its session is 10 s."""
    joined = join(wire, 5, group_id=group_id)
    sync(wire, 3, joined, group_id=group_id)
    return joined


def beat(wire: Wire, member_id: str, generation_id: int = 1, group_id: str = "g") -> None:
    asked = {"group_id": group_id, "generation_id": generation_id, "member_id": member_id}
    wire.call(ApiKey.HEARTBEAT, 4, **asked)


def close(wire: Wire) -> None:
    wire.node.receive(Closed(wire.connection_id, CloseReason.PEER))


def groups(node: OneNode) -> dict[str, ClassicGroup]:
    """The groups that have members here."""
    found: dict[str, ClassicGroup] = {}
    for each in node.broker.groups.coordinators() or ():
        found.update(each.groups)
    return found


def is_gone_after(node: OneNode, duration_ms: int) -> bool:
    """Whether no group has members then; a second less, and they are there."""
    end = node.now + duration_ms
    node.run_until(lambda: node.now >= end - 1_000)
    assert groups(node)
    node.run_until(lambda: node.now >= end)
    return not groups(node)


def test_a_member_is_removed_after_a_third_of_its_session_when_its_connection_ends(node):
    wire = node.client()
    member_of(wire)
    close(wire)
    assert is_gone_after(node, 4_000)


def test_where_it_was_before_says_nothing_of_a_member(node):
    former, wire = node.client(), node.client()
    joined = member_of(former)
    beat(wire, joined.member_id)
    close(former)
    assert is_gone_after(node, 10_001)


def test_a_stranger_cannot_end_a_session(node):
    wire, stranger = node.client(), node.client()
    joined = member_of(wire)
    beat(stranger, joined.member_id, generation_id=7)
    close(stranger)
    assert is_gone_after(node, 10_001)


def test_so_many_members_of_a_connection_are_remembered(node):
    wire = node.client()
    for number in range(MAX_MEMBERS_PER_CONNECTION + 1):
        member_of(wire, f"g{number}")
    node.broker.groups.check()
    close(wire)
    end = node.now + 4_000
    node.run_until(lambda: node.now >= end)
    assert set(groups(node)) == {"g0"}
