"""Machines: how processes end, what their disks keep, and what a node notices."""

from contextlib import suppress

import pytest
from tests.sim.test_cluster import led_world, partition, read_all, running_world, unfenced

from tidelog.errors import ErrorCode
from tidelog.sim.engine.client import Disconnected, SimClient
from tidelog.sim.engine.world import World


def metadata_log_bytes(world: World, node_id: int) -> int:
    disk = world.hosts[node_id].disk
    names = disk.list_dir("__cluster_metadata-0")
    return sum(
        len(disk.read_file(f"__cluster_metadata-0/{name}") or b"")
        for name in names
        if name.endswith(".log")
    )


def test_a_kill_keeps_what_was_written_and_a_power_cut_what_was_flushed():
    world, client, leader = led_world()
    client.produce("t", 0, [b"x" * 100])
    name = "t-0/00000000000000000000.log"
    disk = world.hosts[leader].disk
    written = disk.read_file(name)
    assert written
    world.kill(leader)
    assert disk.read_file(name) == written
    world.power_cut(leader, torn=False)
    assert not disk.read_file(name)
    assert metadata_log_bytes(world, leader) > 0


def test_group_commit_survives_a_power_cut_of_everything():
    world = running_world()
    assert SimClient(world, 1).create_topic("t", flush_messages="1") == ErrorCode.NONE
    world.run_until(lambda: partition(world, "t") is not None)
    world.run_for(500)
    client = SimClient(world, partition(world, "t").leader)
    values = [b"v%d" % index for index in range(20)]
    for value in values:
        assert client.produce("t", 0, [value]).partitions[0].error_code == ErrorCode.NONE
    for node_id in (1, 2, 3):
        world.power_cut(node_id)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 30_000)
    world.run_until(lambda: partition(world, "t").leader > 0)
    world.run_for(2_000)
    assert read_all(world, SimClient(world, partition(world, "t").leader)) == values


@pytest.mark.parametrize("writes", range(0, 40, 4))
def test_a_fuse_kills_the_process_inside_a_write_and_it_comes_back(writes):
    world, client, leader = led_world()
    world.hosts[leader].disk.fuse = writes
    with suppress(Disconnected):
        for index in range(20):
            client.send_produce("t", 0, [b"%d" % index])
            world.run_for(5)
    world.run_until(lambda: world.hosts[leader].node is None, 30_000)
    assert any(f"host{leader}: killed (inside a write)" in line for line in world.lines)
    world.start(leader)
    world.run_until(lambda: set(partition(world, "t").isr) == {1, 2, 3}, 60_000)


@pytest.mark.parametrize("fault", ["full", "failing", "flushes"])
def test_a_bad_disk_ends_the_process_with_a_message_and_a_hint(fault):
    world, client, leader = led_world()
    disk = world.hosts[leader].disk
    if fault == "full":
        disk.capacity_bytes = disk.used_bytes + 10
    elif fault == "failing":
        disk.failing = "input/output error"
    else:
        disk.failing_syncs = True
    with suppress(Disconnected):
        client.send_produce("t", 0, [b"x" * 50])
    world.run_until(lambda: world.hosts[leader].node is None, 30_000)
    assert world.hosts[leader].exit_code == 1
    assert "hint:" in world.hosts[leader].exit_message
    assert disk.loses_on_exit == (fault == "flushes")
    assert not world.start(leader) or fault == "full"


def test_a_machine_without_power_differs_from_a_dead_process():
    world, _, leader = led_world()
    victim = next(node_id for node_id in (1, 2, 3) if node_id != leader)
    world.power_cut(victim)
    world.run_for(3_000)
    assert victim in unfenced(world)
    world.run_until(lambda: victim not in unfenced(world), 12_000)


def test_a_jump_of_the_wall_clock_reaches_the_node():
    world = running_world()
    before = world.hosts[1].node.broker.wall_ms(world.now)
    world.set_wall_offset(1, 5_000)
    assert world.hosts[1].node.broker.wall_ms(world.now) == before + 5_000


@pytest.mark.parametrize("rate", [950, 1000, 1050])
def test_a_clock_that_drifts_never_goes_back_and_wakes_in_time(rate):
    world = running_world()
    host = world.hosts[1]
    world.set_clock_rate(1, rate)
    begun, read = world.now, host.local(world.now)
    last = read
    for _ in range(100):
        world.run_for(37)
        assert last < host.local(world.now)
        last = host.local(world.now)
    assert last - read == (world.now - begun) * rate // 1000
    for local in range(last, last + 50):
        assert host.local(host.when(local)) >= local
        assert host.local(host.when(local) - 1) < local
    world.set_clock_rate(1, 1000)
    assert host.local(world.now) == last
    world.run_for(3_000)
    assert unfenced(world) == {1, 2, 3}


def test_a_wiped_disk_is_a_new_directory_of_the_same_node_and_is_filled_again():
    world, client, leader = led_world()
    client.produce("t", 0, [b"x" * 100])
    world.kill(leader)
    world.wipe(leader)
    assert world.hosts[leader].disk.read_file("t-0/00000000000000000000.log") is None
    world.run_until(lambda: leader not in partition(world, "t").isr, 30_000)
    world.start(leader)
    world.run_until(lambda: set(partition(world, "t").isr) == {1, 2, 3}, 60_000)
    assert world.hosts[leader].disk.read_file("t-0/00000000000000000000.log")


def test_the_metadata_log_gets_its_identity_back():
    """A power cut may leave the name of `partition.metadata` and not its content; whose log this is
    is known all the same."""
    world, _, leader = led_world()
    path = "__cluster_metadata-0/partition.metadata"
    disk = world.hosts[leader].disk
    before = disk.read_file(path)
    world.kill(leader)
    disk.replace(path, bytes(len(before or b"")))
    world.start(leader)
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 30_000)
    assert disk.read_file(path) == before
