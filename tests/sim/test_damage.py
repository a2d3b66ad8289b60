"""Damaged files on whole nodes in virtual time: found, never served, never spread, repaired."""

from dataclasses import dataclass

import pytest
from tests.sim.test_cluster import led_world, partition, running_world, unfenced, values_of
from tests.sim.test_elections import allow_unclean, elect

from tidelog.config import profile_settings
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.quorum_state import QUORUM_STATE_PATH, decode_state
from tidelog.kraft.snapshot_format import snapshot_name
from tidelog.model import LOST_DIRECTORY
from tidelog.records.batch import batch_size_at
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.world import World
from tidelog.sim.faults.damage import damage
from tidelog.sim.scenarios.fault_kinds import DiskFault
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

SMALL_SEGMENTS = {"log_segment_bytes": "1048576"}
VALUES = [b"%06d" % index + b"v" * 60_000 for index in range(60)]


@dataclass
class Damaged:
    """A cluster with three segments of acknowledged records, written by `leader`."""

    world: World
    leader: int

    def files(self, node_id: int, suffix: str) -> list[str]:
        """Paths of one kind in the partition's directory."""
        disk = self.world.hosts[node_id].disk
        return [f"t-0/{name}" for name in disk.list_dir("t-0") if name.endswith(suffix)]

    def log_bytes(self, node_id: int) -> bytes:
        """All bytes of the replica's log files."""
        disk = self.world.hosts[node_id].disk
        return b"".join(disk.read_file(path) or b"" for path in self.files(node_id, ".log"))

    def forget_cached(self, node_id: int) -> None:
        """From now on the node reads its device."""
        self.world.hosts[node_id].node._directories.logs["t", 0].tail.clear()

    def said(self, text: str) -> list[str]:
        """Lines of the trace that say so."""
        return [line for line in self.world.lines if text in line]

    def until_healed(self, limit_ms: int = 60_000) -> None:
        """Everybody is in sync again, and the leader has what was acknowledged."""
        world = self.world
        world.run_until(lambda: set(partition(world, "t").isr) == {1, 2, 3}, limit_ms)
        world.run_for(1_000)
        assert partition(world, "t").directories.count(LOST_DIRECTORY) == 0

    def read(self) -> list[bytes]:
        """What a consumer sees from offset 0 on, asking again after retriable errors."""
        values: list[bytes] = []
        for _ in range(400):
            leader = partition(self.world, "t").leader
            if len(values) == len(VALUES):
                return values
            if leader < 0 or self.world.hosts[leader].node is None:
                self.world.run_for(100)
                continue
            answer = SimClient(self.world, leader).fetch("t", 0, len(values)).partitions[0]
            if answer.error_code is ErrorCode.NONE:
                found = values_of_one(answer)
                values += found
            else:
                assert answer.error_code in (
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ), answer.error_code
                self.world.run_for(100)
        raise AssertionError(f"only {len(values)} of {len(VALUES)} could be read")


def values_of_one(answer) -> list[bytes]:
    """The record values in the answer of one partition."""

    class Response:
        partitions = (answer,)

    return values_of(Response)


def damaged(seed: int = 1) -> Damaged:
    """Written and in sync everywhere."""
    world, client, leader = led_world(seed, **SMALL_SEGMENTS)
    for value in VALUES:
        assert client.produce("t", 0, [value]).partitions[0].error_code is ErrorCode.NONE
    case = Damaged(world, leader)
    case.until_healed()
    assert len(case.files(leader, ".log")) >= 3
    return case


def test_a_leader_with_a_flipped_bit_steps_down_and_is_repaired():
    """Goal: no consumer reads the damage, a reader is only put off; the node repairs itself and the
    replicas are equal again, byte by byte."""
    case = damaged()
    world, leader = case.world, case.leader
    world.hosts[leader].disk.flip_bit(case.files(leader, ".log")[1], 8 * 70_001)
    case.forget_cached(leader)
    assert case.read() == VALUES
    assert partition(world, "t").leader != leader
    case.until_healed()
    assert case.said("open_case: damaged") and case.said("repair: cut")
    assert len({case.log_bytes(node_id) for node_id in (1, 2, 3)}) == 1


def lonely_world(topic: str, seed: int) -> tuple[World, int]:
    """All values are on one broker only; returns which."""
    world = running_world(seed, **SMALL_SEGMENTS)
    asked = SimClient(world, 1).create_topic(topic, replication_factor=1)
    assert asked == ErrorCode.NONE
    world.run_until(lambda: partition(world, topic) is not None)
    owner = partition(world, topic).leader
    world.run_for(500)
    for value in VALUES:
        done = SimClient(world, owner).produce(topic, 0, [value])
        assert done.partitions[0].error_code is ErrorCode.NONE
    return world, owner


def test_the_last_replica_with_damage_stays_offline_until_files_are_put_back():
    """Goal: P6; without an intact replica there is no leader, also after a restart, and the
    operator gets a hint; an intact copy of the file brings everything back."""
    world, owner = lonely_world("one", 2)
    host = world.hosts[owner]
    path = "one-0/" + [n for n in host.disk.list_dir("one-0") if n.endswith(".log")][1]
    world.stop(owner)
    world.run_until(lambda: host.node is None)
    good = host.disk.read_file(path)
    host.disk.replace(path, good[: len(good) // 2])
    for _ in range(2):
        world.start(owner)
        world.run_until(lambda: partition(world, "one").has_lost(owner))
        world.run_until(lambda: unfenced(world) == {1, 2, 3})
        world.run_for(5_000)
        assert partition(world, "one").leader == -1
        asked = SimClient(world, owner).fetch("one", 0, 0).partitions[0]
        assert asked.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        world.stop(owner)
        world.run_until(lambda: host.node is None)
        assert host.disk.read_file(path) == good[: len(good) // 2]
    stuck = [line for line in world.lines if "one-0 report_stuck: offline" in line]
    assert any("hint" in line for line in stuck)
    host.disk.replace(path, good)
    world.start(owner)
    world.run_until(lambda: partition(world, "one").leader == owner)
    world.run_for(500)
    answer = SimClient(world, owner).fetch("one", 0, 20).partitions[0]
    assert values_of_one(answer)[0] == VALUES[20]


def test_unclean_elections_give_up_what_no_replica_has():
    """Goal: a topic that prefers what is left to nothing gets it, and the loss is named."""
    world, owner = lonely_world("t", 3)
    host = world.hosts[owner]
    path = "t-0/" + [n for n in host.disk.list_dir("t-0") if n.endswith(".log")][1]
    world.stop(owner)
    world.run_until(lambda: host.node is None)
    host.disk.delete(path)
    world.start(owner)
    world.run_until(lambda: unfenced(world) == {1, 2, 3})
    world.run_for(2_000)
    assert partition(world, "t").leader == -1
    assert allow_unclean(SimClient(world, owner)) is ErrorCode.NONE
    world.run_until(lambda: partition(world, "t").leader == owner)
    world.run_for(500)
    kept = int(path[len("t-0/") :].removesuffix(".log"))
    found = SimClient(world, owner).fetch("t", 0, kept).partitions[0]
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, kept)
    assert [line for line in world.lines if "t-0 repair: cut" in line and "given up" in line]


def truncated(data: bytes) -> bytes:
    """A third of it is gone."""
    return data[: len(data) * 2 // 3]


def zeroed(data: bytes) -> bytes:
    """A page is zeros, or all of a small file."""
    start = len(data) // 2 if len(data) > 8192 else 0
    return data[:start] + bytes(min(4096, len(data) - start)) + data[start + 4096 :]


def flipped(data: bytes) -> bytes:
    """One bit in the middle is another one."""
    middle = len(data) // 2
    return data[:middle] + bytes((data[middle] ^ 4,)) + data[middle + 1 :]


METADATA = "__cluster_metadata-0/"
KINDS = [
    "segment",
    "active segment",
    "offset index",
    "time index",
    "snapshot",
    "t-0/leader-epoch-checkpoint",
    "t-0/partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
    METADATA + "00000000000000000000.log",
    METADATA + "leader-epoch-checkpoint",
    METADATA + "partition.metadata",
    METADATA + "flushed-end",
    METADATA + "quorum-state",
    "meta.properties",
]
PLACES = {
    "segment": (".log", 1),
    "active segment": (".log", -1),
    "offset index": (".index", 1),
    "time index": (".timeindex", 1),
    "snapshot": (".snapshot", -1),
}
REFUSED = ("meta.properties", METADATA + "quorum-state")


@pytest.mark.parametrize(
    "damage", [truncated, zeroed, flipped, None], ids=["truncated", "zeroed", "flipped", "missing"]
)
def test_every_kind_of_file_may_be_damaged_while_its_node_is_down(damage):
    """Goal: whatever file is truncated, zeroed, flipped or missing: the node starts and the
    replicas become equal again, or it refuses with a hint; nothing wrong is ever read.
    Method: one cluster; for each kind of file the preferred leader is stopped, damaged, started,
    and elected, so that it must read what it has."""
    case = damaged(7)
    world = case.world
    node_id = partition(world, "t").replicas[0]
    for kind in KINDS:
        host = world.hosts[node_id]
        world.stop(node_id)
        world.run_until(lambda host=host: host.node is None)
        suffix, number = PLACES.get(kind, ("", 0))
        path = case.files(node_id, suffix)[number] if suffix else kind
        good = host.disk.read_file(path)
        assert good, f"{path} is empty"
        host.disk.delete(path)
        if damage is not None:
            host.disk.replace(path, damage(good))
        before = len(world.lines)
        started = world.start(node_id)
        assert not (started and damage is None and kind in REFUSED), f"{kind} is not missed"
        if not started:
            assert kind in REFUSED, f"{kind}: {host.exit_message}"
            assert "host" in host.exit_message or path in host.exit_message
            host.disk.replace(path, good)
            assert world.start(node_id)
        case.until_healed()
        elect(SimClient(world, node_id), 0, 0)
        world.run_for(1_000)
        case.forget_cached(node_id)
        assert case.read() == VALUES, kind
        case.until_healed()
        if started and host.disk.read_file(path) != good and kind in PLACES:
            lines = [line for line in world.lines[before:] if "t-0" in line]
            assert lines, f"{kind}: nothing is in the trace"
        logs = {case.log_bytes(each) for each in (1, 2, 3)}
        assert len(logs) == 1, f"{kind}: replicas differ"


def test_an_epoch_that_never_was_is_damage():
    """Goal: no checksum covers the leader epoch of a batch. A replica whose newest batch claims an
    epoch to come repairs itself; its node neither stops nor starts in vain again and again.
    Method: a follower is killed, a high bit of that field flips, it starts."""
    case = damaged(13)
    world = case.world
    node_id = next(one for one in (1, 2, 3) if one != case.leader)
    host = world.hosts[node_id]
    world.kill(node_id)
    path = case.files(node_id, ".log")[-1]
    data = host.disk.read_file(path)
    position = 0
    while position + batch_size_at(data, position) < len(data):
        position += batch_size_at(data, position)
    host.disk.flip_bit(path, 8 * (position + 12) + 4)
    world.start(node_id)
    world.run_until(lambda: bool(case.said("repair: cut")))
    case.until_healed()
    assert case.said("leader epoch `26843545")
    assert len({case.log_bytes(each) for each in (1, 2, 3)}) == 1


def test_a_voter_whose_log_is_cut_keeps_its_votes_and_its_snapshots():
    """Goal: repairing the metadata log takes what is the log's, and not what lies beside it.
    Method: a bit flips in the first batch of a dead voter; it starts, and is killed before it has
    received anything, twice; then it follows again and has everything."""
    case = damaged(9)
    world = case.world
    node_id = next(one for one in (1, 2, 3) if one != world.hosts[1].node.broker.quorum.leader_id)
    host = world.hosts[node_id]
    world.stop(node_id)
    world.run_until(lambda: host.node is None)
    voted = decode_state(host.disk.read_file(QUORUM_STATE_PATH))
    assert voted.epoch > 0
    snapshot = METADATA + snapshot_name(SnapshotId(1, 1))
    host.disk.replace(snapshot, b"a snapshot, for all that the log knows")
    host.disk.flip_bit(METADATA + "00000000000000000000.log", 8 * 80)
    for _ in range(2):
        assert world.start(node_id), host.exit_message
        assert case.said("quarantine: out of service")
        assert decode_state(host.disk.read_file(QUORUM_STATE_PATH)) == voted
        beside = host.disk.list_dir(METADATA.rstrip("/"))
        assert any(snapshot.endswith(name.removesuffix(".corrupt")) for name in beside), beside
        world.kill(node_id)
    assert world.start(node_id), host.exit_message
    case.until_healed()
    assert case.read() == VALUES


@pytest.mark.parametrize("voters_in_log", [False, True])
def test_the_only_voter_refuses_to_start_without_its_log_and_keeps_what_there_is(voters_in_log):
    """Goal: no node can give the metadata back, so the node says so, again and again, and what an
    operator may still save stays.
    Method: a bit flips in the metadata log of a cluster of one node."""
    settings = profile_settings("test", 1)
    world = World(3, nodes=1, voters_in_log=voters_in_log, settings=settings)
    world.start_all()
    world.run_for(5_000)
    host = world.hosts[1]
    world.stop(1)
    world.run_until(lambda: host.node is None)
    path = METADATA + "00000000000000000000.log"
    host.disk.flip_bit(path, 8 * 80)
    damaged = host.disk.read_file(path)
    for _ in range(3):
        assert not world.start(1)
        assert "is damaged, and this is the only voter" in host.exit_message
        assert host.disk.read_file(path + ".corrupt") == damaged


def restart_until_led(world: World, node_id: int) -> None:
    """A dead node starts and leads `t-0` in a new epoch."""
    epoch = partition(world, "t").leader_epoch
    world.start(node_id)
    world.run_until(lambda: partition(world, "t").leader_epoch > epoch)
    world.run_until(lambda: partition(world, "t").leader == node_id)
    world.run_for(500)


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize(
    "damage", [zeroed, truncated, None], ids=["zeroed", "truncated", "missing"]
)
def test_a_young_log_with_group_commit_outlives_its_topic_id(damage, restarts):
    """Goal: what was acknowledged under group commit was durable, also in the first minute, before
    the recovery points are checkpointed for the first time: a damaged topic id must not make a
    replica forget it, or its only replica leads with an empty log.
    Method: one record, a kill, `partition.metadata` is damaged, a start; also when the records were
    synced by a start after a kill that no checkpoint followed."""
    world = running_world(5)
    asked = SimClient(world, 1).create_topic("t", replication_factor=1, flush_messages="1")
    assert asked == ErrorCode.NONE
    world.run_until(lambda: partition(world, "t") is not None)
    owner = partition(world, "t").leader
    host = world.hosts[owner]
    world.run_for(500)
    done = SimClient(world, owner).produce("t", 0, [b"kept"]).partitions[0]
    assert done.error_code is ErrorCode.NONE
    world.run_for(100)
    for _ in range(restarts):
        world.kill(owner)
        restart_until_led(world, owner)
    world.kill(owner)
    path = "t-0/partition.metadata"
    good = host.disk.read_file(path)
    host.disk.delete(path)
    if damage is not None:
        host.disk.replace(path, damage(good))
    restart_until_led(world, owner)
    answer = SimClient(world, owner).fetch("t", 0, 0).partitions[0]
    assert values_of_one(answer) == [b"kept"]
    assert host.disk.read_file(path) == good


@pytest.mark.parametrize("loses_segment", [False, True])
@pytest.mark.parametrize("change", [zeroed, None], ids=["zeroed", "missing"])
def test_records_of_a_deleted_topic_do_not_come_back_with_a_damaged_topic_id(change, loses_segment):
    """LogMatching (seed 885). Goal: a follower whose log cannot say its topic gets all records from
    the leader; offsets and epochs alone make it look complete. Method: while it is down its topic
    id is damaged, and the topic is deleted and made again, with as many records; in one case a
    segment is missing, too, so that the log is in quarantine first."""
    case = damaged(3)
    world = case.world
    away = next(node_id for node_id in world.hosts if node_id != case.leader)
    world.stop(away)
    world.run_until(lambda: world.hosts[away].node is None)
    disk, path = world.hosts[away].disk, "t-0/partition.metadata"
    identity = disk.read_file(path)
    disk.delete(path)
    if change is not None:
        disk.replace(path, change(identity))
    if loses_segment:
        disk.delete(case.files(away, ".log")[1])
    client = SimClient(world, case.leader)
    asked = [{"name": "t", "topic_id": None}]
    client.call(ApiKey.DELETE_TOPICS, 6, topics=asked, timeout=millis(10_000))
    world.run_until(lambda: partition(world, "t") is None)
    assert client.create_topic("t") == ErrorCode.NONE
    world.run_until(lambda: partition(world, "t") is not None)
    leader = SimClient(world, partition(world, "t").leader)
    for value in VALUES:
        answer = leader.produce("t", 0, [value[::-1]])
        assert answer.partitions[0].error_code is ErrorCode.NONE
    world.start(away)
    case.until_healed()
    assert len({case.log_bytes(node_id) for node_id in (1, 2, 3)}) == 1
    assert case.said("open: set aside") or loses_segment


@pytest.mark.parametrize("length", [100, 90])
@pytest.mark.parametrize("same_offset", [True, False])
def test_a_page_of_another_log_that_passes_for_its_own_does_not_arrive(same_offset, length):
    """No checksum, Kafka's neither, says which partition a batch is of; seeds 116 and 920055025, in
    which the foreign batch was shorter, what came after it was cut, and the foreign one stayed."""
    disk = SimDisk("disk")
    offsets = (0, 0) if same_offset else (0, 7)
    for name, offset, size in zip("ab", offsets, (100, length), strict=True):
        disk.make_dir(f"{name}-0")
        batch = offset.to_bytes(8, "big") + size.to_bytes(4, "big") + name.encode() * size
        disk.replace(f"{name}-0/{0:020}.log", batch)
    done = damage(disk, DiskFault.MISDIRECTED, Prng(1))
    assert done is not None
    target, other = done.split()[1], done.split()[3]
    assert {target[0], other[0]} == {"a", "b"}
    contents = {path: bytes(disk.content(path).data) for path in (target, other)}
    assert not contents[other].strip(b"\0"), "it is lost where it should be"
    is_foreign = other[:1].encode() in contents[target]
    assert is_foreign != same_offset
