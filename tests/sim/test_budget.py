"""The fault budget: what it lets happen, and when."""

from tests.sim.test_cluster import led_world, partition

from tidelog.sim.faults.budget import Budget, is_back, newest_image
from tidelog.sim.faults.kinds import FaultKind


def test_with_group_commit_everything_may_happen_at_once():
    world, _, _ = led_world()
    budget = Budget(world, group_commit=True)
    for node_id in (1, 2, 3):
        assert budget.may_lose_data(node_id)
        budget.note_unclean(node_id, lossy=True)
    assert budget.may_end_uncleanly(1)


def test_one_lossy_restart_at_a_time_and_no_kills_beside_it():
    world, _, _ = led_world()
    budget = Budget(world, group_commit=False)
    assert budget.may_lose_data(1)
    budget.note_unclean(1, lossy=True)
    world.power_cut(1)
    assert not budget.may_lose_data(2)
    assert not budget.may_end_uncleanly(2)
    assert budget.may_end_uncleanly(1)


def test_kills_are_free_but_no_power_cut_comes_beside_them():
    world, _, _ = led_world()
    budget = Budget(world, group_commit=False)
    budget.note_unclean(1, lossy=False)
    world.kill(1)
    assert budget.may_end_uncleanly(2)
    assert not budget.may_lose_data(2)
    assert budget.may_lose_data(1)


def test_a_node_is_forgiven_when_its_next_life_is_in_every_isr():
    world, _, leader = led_world()
    budget = Budget(world, group_commit=False)
    budget.note_unclean(leader, lossy=True)
    world.power_cut(leader)
    world.run_until(lambda: partition(world, "t").leader not in (leader, -1), 20_000)
    world.start(leader)
    assert not budget.may_lose_data(1 + leader % 3)
    host = world.hosts[leader]
    world.run_until(lambda: is_back(host, newest_image(world)), 60_000)
    assert budget.may_lose_data(1 + leader % 3)


def test_a_process_that_has_not_registered_yet_is_not_back_though_the_isr_names_its_node():
    world, _, leader = led_world()
    world.kill(leader)
    world.start(leader)
    assert leader in partition(world, "t").isr
    assert not is_back(world.hosts[leader], newest_image(world))


def test_what_needs_group_commit_is_never_drawn_without_it():
    assert FaultKind.POWER_CUT_ALL.needs_group_commit
    assert not FaultKind.KILL_ALL.needs_group_commit


def test_a_disk_is_wiped_only_while_all_is_well_and_then_nothing_else_ends():
    world, _, _ = led_world()
    budget = Budget(world, group_commit=True)
    quorum_leader = world.hosts[1].node.broker.quorum.leader_id
    first, second = (node_id for node_id in (1, 2, 3) if node_id != quorum_leader)
    world.run_until(lambda: budget.may_lose_everything(first), 5_000)
    assert not budget.may_lose_everything(quorum_leader)
    budget.note_unclean(second, lossy=False)
    world.kill(second)
    assert not budget.may_lose_everything(first)
    world.run_until(lambda: second not in partition(world, "t").isr, 30_000)
    world.start(second)
    world.run_until(lambda: budget.may_lose_everything(first), 60_000)
    budget.note_wiped(first)
    world.kill(first)
    world.wipe(first)
    assert not budget.may_end_uncleanly(second)
    assert not budget.may_lose_data(second)
    assert budget.may_end_uncleanly(first)
