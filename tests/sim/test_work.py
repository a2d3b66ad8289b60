"""Work costs virtual time: a busy node answers late, what arrives waits, and nothing is free."""

import inspect
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.sim.test_cluster import led_world, partition, running_world, unfenced

from tidelog.env.disk import Disk, File
from tidelog.env.effects import StopRequested
from tidelog.env.memory_disk import Operation
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import SnapshotId
from tidelog.limits import MAX_TURN_MS
from tidelog.sim.checkers.turns import MOST_TURNS_AT_ONCE, BoundedTurn, QuorumStands, TimeGoesOn
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.work import COSTS_US, FREE, HARDWARE, USUAL, EventLoop, Hardware, Work
from tidelog.sim.engine.world import World
from tidelog.sim.quorum.cluster import QuorumCluster
from tidelog.sim.quorum.options import QUICK, Composition, Conditions
from tidelog.sim.report.violation import Violation
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.runs.quorum import QuorumRun, draw_quorum
from tidelog.sim.scenarios.swarm import draw

COUNT_ALL = dict.fromkeys(COSTS_US, 1)

ON_DISK: dict[str, Callable[[SimDisk], object]] = {
    "open": lambda disk: disk.open("d/new", create=True),
    "new_file": lambda disk: disk.new_file("d/new").append([b"x"]),
    "exists": lambda disk: disk.exists("d"),
    "list_dir": lambda disk: disk.list_dir("d"),
    "make_dir": lambda disk: disk.make_dir("e"),
    "read_file": lambda disk: disk.read_file("d/file"),
    "read_head": lambda disk: disk.read_head("d/file", 1),
    "replace": lambda disk: disk.replace("d/file", b"x"),
    "rename": lambda disk: disk.rename("d", "f"),
    "link": lambda disk: disk.link("d/file", "d/second"),
    "delete": lambda disk: disk.delete("d/file"),
    "delete_some": lambda disk: disk.delete_some("d", 1),
    "sync": lambda disk: disk.sync(disk.open("d/file")),
}
ON_FILE: dict[str, Callable[[SimDisk], object]] = {
    "append": lambda disk: disk.open("d/file").append([b"x"]),
    "read": lambda disk: disk.open("d/file").read(0, 1),
    "truncate": lambda disk: disk.open("d/file").truncate(0),
}
IN_MEMORY = {"boot_id", "everything", "close", "closed", "path", "root", "size_bytes", "space"}
"""Of the ports, what needs no system call that takes time."""


def operations_of(port: type) -> set[str]:
    """The names that a port declares."""
    return {name for name, _ in inspect.getmembers(port) if not name.startswith("_")}


# The table -------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_everything():
    assert COSTS_US.keys() == {*Operation, *Work}
    assert all(cost > 0 for cost in COSTS_US.values())


def test_no_operation_of_the_disk_port_is_free():
    assert operations_of(Disk) - IN_MEMORY == ON_DISK.keys()
    assert operations_of(File) - IN_MEMORY == ON_FILE.keys()
    for name, act in (ON_DISK | ON_FILE).items():
        disk = SimDisk("disk")
        disk.make_dir("d")
        disk.replace("d/file", b"content")
        disk.open("d/file")
        disk.costs = dict(COUNT_ALL)
        act(disk)
        # Opening or making the file is one, what is done with it another.
        assert disk.spent_us >= (2 if name in (*ON_FILE, "sync", "new_file") else 1), name


def test_what_a_checker_reads_costs_the_node_nothing():
    disk = SimDisk("disk")
    disk.replace("file", bytes(1 << 20))
    disk.costs = dict(COSTS_US)
    with disk.observed():
        disk.read_file("file")
    assert disk.spent_us == 0
    disk.read_file("file")
    assert disk.spent_us == COSTS_US[Operation.READ] + COSTS_US[Work.READ_MIB]


# Turns -----------------------------------------------------------------------------------------


def test_short_turns_add_up():
    loop = EventLoop(Hardware())
    turn_us = COSTS_US[Work.TURN]
    ends = [loop.end_turn(5, 0, 0, decided=0, replayed=0) for _ in range(1000)]
    assert ends == [5 + (turn_us * (number + 1)) // 1000 for number in range(1000)]
    assert loop.end_turn(500, 2_000, 0, decided=0, replayed=0) == 502


def test_a_turn_costs_what_was_done_in_it():
    loop = EventLoop(Hardware(factor=3))
    loop.begin_life(10, 7)
    loop.on_input(1 << 20)
    loop.on_role_change()
    loop.end_turn(0, 1_000, 4, decided=12, replayed=8)
    rows = {
        **dict.fromkeys((Work.TURN, Work.INPUT, Work.INPUT_MIB, Work.ROLE_CHANGE), 1),
        Work.EFFECT: 4,
        Work.METADATA_DECIDED: 2,
        Work.METADATA_REPLAYED: 1,
    }
    assert loop.turn_us == 1_000 + 3 * sum(COSTS_US[row] * count for row, count in rows.items())
    # What a snapshot replaces was neither copied nor replayed.
    loop.end_turn(0, 0, 0, decided=5_012, replayed=5_003, snapshot=SnapshotId(5_000, 1))
    rows = {Work.TURN: 1, Work.METADATA_DECIDED: 12, Work.METADATA_REPLAYED: 3}
    assert loop.turn_us == 3 * sum(COSTS_US[row] * count for row, count in rows.items())
    # A log that was cut takes no work back.
    loop.end_turn(0, 0, 0, decided=0, replayed=8)
    assert loop.turn_us == 3 * COSTS_US[Work.TURN]


def slow_world() -> tuple[World, SimClient, int]:
    """A led topic, at whose leader from now on every input takes half a second."""
    world, client, leader = led_world()
    host = world.hosts[leader]
    host.set_hardware(Hardware())
    assert host.loop is not None
    host.loop.costs[Work.INPUT] = 500_000
    return world, client, leader


def run_into_the_turn(world: World, leader: int) -> None:
    """Its state changes when the turn of the produce begins, the answer leaves when it is over."""
    host = world.hosts[leader]
    world.run_until(lambda: bool(host.disk.read_file(f"t-0/{0:020}.log")))
    world.run_for(1)
    assert host.busy


def test_a_busy_node_answers_when_its_turn_is_over_and_what_arrives_waits():
    world, client, leader = slow_world()
    begun = world.now
    for value in (b"a", b"b"):
        client.send_produce("t", 0, [value], acks=1)
    host = world.hosts[leader]
    world.run_for(300)
    assert host.busy
    assert host.waiting
    for offset in (0, 1):
        assert client.take_produced().partitions[0].base_offset == offset
        assert world.now - begun >= 500


def test_what_has_gathered_in_a_socket_is_one_read():
    world, client, leader = slow_world()
    host = world.hosts[leader]
    world.pause(leader)
    world.network.dribbles.add(("client", host.name))
    for value in (b"a", b"b"):
        client.send_produce("t", 0, [value], acks=1)
    world.run_for(100)
    assert len(host.waiting) > 50
    begun = world.now
    world.resume(leader)
    for offset in (0, 1):
        assert client.take_produced().partitions[0].base_offset == offset
    # Two turns at most: the one under way, and that of one read for each connection.
    assert world.now - begun < 10 * 500


def test_a_process_that_is_stopped_in_a_turn_ends_it_when_it_goes_on():
    world, client, leader = slow_world()
    client.send_produce("t", 0, [b"a"], acks=1)
    run_into_the_turn(world, leader)
    world.pause(leader)
    stopped_at = world.now
    with pytest.raises(TimeoutError):
        client.take_frame(5_000)
    world.resume(leader)
    client.take_frame()
    assert world.now - stopped_at >= 5_000


def test_what_a_turn_wanted_to_send_is_lost_with_its_process():
    world, client, leader = slow_world()
    client.send_produce("t", 0, [b"a"], acks=1)
    run_into_the_turn(world, leader)
    host = world.hosts[leader]
    world.kill(leader)
    world.run_for(1_000)
    assert client.closed
    assert not host.busy
    assert world.start(leader)
    world.run_for(5_000)
    assert world.hosts[leader].node is not None


def test_a_node_that_is_asked_to_stop_in_a_turn_ends_the_turn_first():
    world, client, leader = slow_world()
    client.send_produce("t", 0, [b"a"], acks=1)
    host = world.hosts[leader]
    world.run_until(lambda: host.busy)
    world.stop(leader)
    assert any(isinstance(event, StopRequested) for event in host.waiting)
    assert client.take_produced().partitions[0].base_offset == 0


def test_the_disk_thread_is_not_the_loop():
    world = running_world()
    host = world.hosts[1]
    host.set_hardware(Hardware(slow={Operation.SYNC: 10_000_000, Operation.REPLACE: 10_000_000}))
    client = SimClient(world, 1)
    assert client.create_topic("t", flush_messages="1") == ErrorCode.NONE
    world.run_for(3_000)
    assert not host.busy


def test_another_disk_costs_as_much():
    world = World(1)
    world.set_hardware(Hardware())
    world.wipe(1)
    assert world.hosts[1].disk.costs is world.hosts[1].loop.costs


def test_a_start_takes_as_long_as_its_disk():
    world = World(1)
    world.set_hardware(Hardware(slow={Operation.READ: 100_000}))
    assert world.start(1)
    host = world.hosts[1]
    assert host.busy
    world.run_until(lambda: not host.busy)
    assert world.now >= 200


# Runs ------------------------------------------------------------------------------------------


def test_work_changes_when_things_happen_and_not_what_a_seed_draws():
    kinds = {draw(seed).hardware for seed in range(200)}
    assert kinds == HARDWARE.keys()
    swarm = replace(draw(3), fault_phase_ms=1_000)
    hashes = {
        name: ClusterRun(3, replace(swarm, hardware=name)).run().trace_hash
        for name in (FREE, USUAL)
    }
    assert hashes[FREE] != hashes[USUAL]


@pytest.mark.parametrize("name", sorted(HARDWARE))
def test_whatever_the_hardware_a_seed_is_the_same_twice(name):
    swarm = replace(draw(5), hardware=name, fault_phase_ms=2_000)
    first, second = (ClusterRun(5, swarm).run() for _ in range(2))
    assert first == second
    assert first.violation is None


def test_what_reaches_a_busy_voter_waits():
    cluster = QuorumCluster(
        Prng(3), composition=Composition(3, slowness=100), config=QUICK, conditions=Conditions()
    )
    cluster.start_all()
    assert cluster.run_until(lambda: (one := cluster.leader()) is not None and not one.busy, 20_000)
    leader = cluster.leader()
    assert leader is not None
    assert cluster.append(leader, [b"first"]) is not None
    assert leader.busy
    end = leader.quorum.log_end_offset
    assert cluster.append(leader, [b"second"]) is None
    assert leader.waiting
    assert leader.quorum.log_end_offset == end
    cluster.run_until(lambda: leader.quorum.log_end_offset > end, 1_000)
    cluster.kill(leader)
    assert not leader.waiting
    assert not leader.busy


@pytest.mark.parametrize("slowness", [1, 100])
def test_a_slow_quorum_is_the_same_twice(slowness):
    swarm = replace(draw_quorum(5), slowness=slowness)
    first, second = (QuorumRun(5, swarm).run() for _ in range(2))
    assert first == second
    assert first.violation is None
    assert first.trace_hash != QuorumRun(5, replace(swarm, slowness=0)).run().trace_hash


# Checkers --------------------------------------------------------------------------------------


def test_a_turn_that_is_too_long_is_rejected():
    world = World(1)
    world.set_hardware(Hardware(factor=2))
    host = world.hosts[1]
    checker = BoundedTurn(world)
    host.loop.turn_us = 2 * MAX_TURN_MS * 1000
    checker.on_event(host)
    assert checker.longest_us == MAX_TURN_MS * 1000
    host.loop.turn_us += 2
    with pytest.raises(Violation, match=r"BoundedTurn: host1 works for"):
        checker.on_event(host)


def test_a_node_that_has_turn_after_turn_at_one_instant_is_rejected():
    """Seed 25141579 never ended, and no checker said why."""
    world = World(1)
    checker, host = TimeGoesOn(world), world.hosts[1]
    for _ in range(2):
        for _ in range(MOST_TURNS_AT_ONCE):
            checker.on_event(host)
        world.run_for(1)
    with pytest.raises(Violation, match=r"TimeGoesOn: host1 has turn"):
        for _ in range(MOST_TURNS_AT_ONCE + 1):
            checker.on_event(host)


def test_a_turn_that_is_too_long_says_what_took_long():
    world = World(1)
    world.set_hardware(Hardware(factor=2))
    for host in world.hosts.values():
        assert host.loop is not None
        host.loop.costs[Work.ROLE_CHANGE] = 10_000_000
    BoundedTurn(world)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    with pytest.raises(Violation, match=r"5000\.\d of them replicas follow metadata \(\d+\)$"):
        SimClient(world, 1).create_topic("t")


def test_a_clean_stop_saves_its_logs_in_slices():
    world = World(1)
    world.set_hardware(Hardware())
    checker = BoundedTurn(world)
    world.start_all()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 10_000)
    assert SimClient(world, 1).create_topic("t", partitions=120) == ErrorCode.NONE
    world.run_for(1_000)
    clients = {node_id: SimClient(world, node_id) for node_id in world.hosts}
    for number in range(120):
        clients[partition(world, "t", number).leader].send_produce("t", number, [b"x"])
    world.run_for(1_000)
    assert checker.longest_us < MAX_TURN_MS * 1000
    world.stop(2)
    world.run_until(lambda: world.hosts[2].node is None, 10_000)
    assert checker.longest_us < MAX_TURN_MS * 1000


def test_a_deposed_leader_is_noticed():
    world = running_world()
    world.driver.observers.append(QuorumStands().on_event)
    world.run_for(2_000)
    world.kill(world.hosts[1].node.broker.quorum.leader_id)
    with pytest.raises(Violation, match=r"QuorumStands: host. is in epoch"):
        world.run_for(5_000)
