"""Clusters that ask for logins and decide about rights, under the simulator."""

import pytest

from tidelog.env.trace import Level
from tidelog.sim.campaign.seeds import CLUSTER, prepare, run_seed
from tidelog.sim.engine import secured
from tidelog.sim.engine.world import World
from tidelog.sim.workloads.cluster_view import newest_image


def secured_world(seed: int) -> World:
    world = World(seed, voters_in_log=True, settings=secured.settings(0))
    secured.secure(world, seed)
    world.start_all()
    world.run_until(lambda: len(newest_image(world).brokers) == 3)
    return world


def test_a_voter_on_a_listener_with_logins_reports_itself_once():
    world = secured_world(1)
    world.run_for(10_000)
    reports = sum("on_voter_change: ended" in line for line in world.lines)
    world.run_for(20_000)
    assert sum("on_voter_change: ended" in line for line in world.lines) == reports <= 3


def test_a_node_logs_in_at_a_leader_whose_address_a_message_named():
    """A controller that comes back empty knows no voters but the bootstrap servers."""
    world = secured_world(2)
    lost = next(one for one in world.hosts if one != world.nodes[0].broker.quorum.leader_id)
    world.kill(lost)
    world.wipe(lost)
    world.start(lost)

    def is_back() -> bool:
        node = world.hosts[lost].node
        return node is not None and node.broker.image.offset >= newest_image(world).offset

    world.run_until(is_back, 20_000)
    assert not any("before a login" in line for line in world.lines)


@pytest.mark.parametrize("seed", [2, 3])
def test_no_trace_has_a_password(seed):
    """Goal: at the finest level, with logins that fail and passwords that change under faults."""
    one = prepare(CLUSTER, "secured", seed, trace_level=Level.DEBUG)
    assert one.run().violation is None
    lines = one.world.lines
    assert any("intruder" in line for line in lines)
    assert [line for line in lines if "-secret" in line] == []


@pytest.mark.parametrize("seed", [2, 3])
def test_logins_and_rights_hold_under_faults(seed):
    outcome = run_seed(CLUSTER, "secured", seed)
    assert outcome.violation is None
