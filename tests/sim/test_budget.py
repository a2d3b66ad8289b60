"""The fault budget: what it lets happen, and when."""

from tests.sim.test_cluster import all_know, led_world, partition

from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World
from tidelog.sim.faults.budget import Budget, Harm, is_back, newest_image
from tidelog.sim.scenarios.fault_kinds import FaultKind


def test_with_group_commit_everything_may_happen_at_once():
    world, _, _ = led_world()
    budget = Budget(world, group_commit=True)
    for node_id in (1, 2, 3):
        assert budget.may_lose_data(node_id)
        budget.note(node_id, Harm.LOSSY)
    assert budget.may_end_uncleanly(1)


def test_one_lossy_restart_at_a_time_and_no_kills_beside_it():
    world, _, _ = led_world()
    budget = Budget(world, group_commit=False)
    assert budget.may_lose_data(1)
    budget.note(1, Harm.LOSSY)
    world.power_cut(1)
    assert not budget.may_lose_data(2)
    assert not budget.may_end_uncleanly(2)
    assert budget.may_end_uncleanly(1)


def test_kills_are_free_but_no_power_cut_comes_beside_them():
    world, _, _ = led_world()
    budget = Budget(world, group_commit=False)
    budget.note(1)
    world.kill(1)
    assert budget.may_end_uncleanly(2)
    assert not budget.may_lose_data(2)
    assert budget.may_lose_data(1)


def test_a_node_is_forgiven_when_its_next_life_is_in_every_isr():
    world, _, leader = led_world()
    budget = Budget(world, group_commit=False)
    budget.note(leader, Harm.LOSSY)
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
    budget.note(second)
    world.kill(second)
    assert not budget.may_lose_everything(first)
    world.run_until(lambda: second not in partition(world, "t").isr, 30_000)
    world.start(second)
    world.run_until(lambda: budget.may_lose_everything(first), 60_000)
    budget.note(first, Harm.WIPED)
    world.kill(first)
    world.wipe(first)
    assert not budget.may_end_uncleanly(second)
    assert not budget.may_lose_data(second)
    assert budget.may_end_uncleanly(first)


def damage(world: World, budget: Budget, node_id: int) -> None:
    """A file of a node is damaged that the node does not write again."""
    assert budget.may_damage(node_id)
    world.hosts[node_id].disk.replace("t-0/partition.metadata", b"\0")
    budget.note(node_id, Harm.DAMAGED)


def test_beside_a_damaged_node_no_other_ends_uncleanly_group_commit_or_not():
    world, _, leader = led_world()
    second = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    budget = Budget(world, group_commit=True)
    assert budget.may_end_uncleanly(second)
    damage(world, budget, leader)
    assert not budget.may_damage(second)
    assert not budget.may_end_uncleanly(second)
    assert not budget.may_lose_data(second)
    # Who is damaged counts for nothing, so it may end.
    assert budget.may_end_uncleanly(leader)


def test_a_leader_epoch_that_is_flipped_is_damage_that_no_checksum_shows():
    """Seed 73000151 of an older version: the damage counted as repaired, and a checker read it."""
    world, client, leader = led_world(1, log_flush_interval_messages="1")
    second = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    for _ in range(2):
        assert client.produce("t", 0, [b"v"]).partitions[0].error_code is ErrorCode.NONE
    world.run_for(1_000)
    budget = Budget(world, group_commit=True)
    budget.note(leader, Harm.DAMAGED)
    assert budget.may_end_uncleanly(second), "nothing is damaged yet"
    world.hosts[leader].disk.flip_bit("t-0/00000000000000000000.log", 8 * 12 + 5)
    budget.note(leader, Harm.DAMAGED)
    assert not budget.may_end_uncleanly(second)


def test_beside_an_unclean_node_no_other_is_damaged_group_commit_or_not():
    world, _, leader = led_world()
    second = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    budget = Budget(world, group_commit=True)
    assert budget.may_damage(leader)
    budget.note(second)
    world.kill(second)
    # The ISR names it still; what the ISR knows ends with the process.
    assert not budget.may_damage(leader)
    assert budget.may_damage(second)
    world.start(second)
    world.run_until(lambda: budget.may_damage(leader), 60_000)


def test_the_only_replica_that_counts_as_complete_is_not_damaged():
    world, _, leader = led_world()
    budget = Budget(world, group_commit=True)
    client = SimClient(world, leader)
    assert client.create_topic("alone", replication_factor=1) == ErrorCode.NONE
    world.run_until(lambda: all_know(world, "alone"))
    owner = partition(world, "alone").leader
    assert [node for node in (1, 2, 3) if not budget.may_damage(node)] == [owner]


def test_who_stopped_cleanly_and_is_eligible_counts_as_complete():
    world, _, leader = led_world()
    budget = Budget(world, group_commit=True)
    second, third = (node_id for node_id in (1, 2, 3) if node_id != leader)
    world.stop(second)
    world.run_until(lambda: second not in partition(world, "t").isr, 30_000)
    world.stop(third)
    world.run_until(lambda: partition(world, "t").isr == (leader,), 30_000)
    assert partition(world, "t").eligible_leaders == (third,)
    assert budget.may_damage(leader)


def test_a_node_on_a_full_disk_may_end_yet_and_so_may_one_that_met_it():
    world, _, leader = led_world()
    budget = Budget(world, group_commit=False)
    other = 1 + leader % 3
    world.run_until(lambda: is_back(world.hosts[leader], newest_image(world)), 10_000)
    disk = world.hosts[leader].disk
    disk.capacity_bytes = 1
    budget.note(leader)
    assert not budget.may_lose_data(other)
    disk.capacity_bytes, disk.hurt = None, True
    assert not budget.may_lose_data(other)
    disk.hurt = False
    assert budget.may_lose_data(other)
