"""Scenarios of devices: what is on a disk after it failed, and what a log may believe of it.

Theory. A process that comes back knows how the one before ended only by a marker that it left
as the last thing of a clean stop. A device that failed once proves nothing by working again: what a
failed flush should have saved is gone.

Source: Rebello and others 2020 (fsync); KAFKA-5634, 9491, 10471, 10778.
"""

from dataclasses import replace

from tidelog.config import LogConfig
from tidelog.errors import ErrorCode
from tidelog.log.checkpoint import CleanShutdown
from tidelog.model import METADATA_PARTITION, TopicId, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.disk import ProcessKilled
from tidelog.sim.regressions.testbed import BareDirectory, Scene, SmallCluster, Testbed

_KEY = TopicPartition("orders", 0)
_SEGMENTS = LogConfig(segment_bytes=200)


def _batch(*values: str) -> bytes:
    return build_batch([Record(1000, None, value.encode()) for value in values])


def r15_crash_while_recovering(testbed: Testbed) -> None:
    """A start that does not reach its end is not a clean stop.

    Origin: KAFKA-10471
    Case: after a clean stop the process starts, is killed before it has done anything, starts
    again, writes, and the machine loses power in the middle of a write.
    Must: the marker of the clean stop is gone before anything else happens, so that the torn end of
    the log is found.
    """
    disk = testbed.disk()
    directory = disk.open(LogConfig())
    log = directory.create(_KEY, TopicId(bytes(15) + b"\7"), LogConfig())
    log.append_as_leader(_batch("a"), 0, 1_000)
    directory.close_cleanly(CleanShutdown(5))
    disk.carry_out(directory)
    directory.close()
    # The next process dies at its first write, or after it has only loaded the logs.
    disk.disk.fuse = 0
    try:
        disk.open(LogConfig()).close()
    except ProcessKilled:
        testbed.must(True, "Setup", "killed at once")
    disk.disk.fuse = None
    directory = disk.open(LogConfig())
    log = directory.logs[_KEY]
    log.append_as_leader(_batch("b"), 0, 2_000)
    directory.close()
    _tear_last_batch(disk)
    directory = disk.open(LogConfig())
    found = directory.logs.get(_KEY)
    end = None if found is None else found.log_end_offset
    testbed.must(end == 1, "RecoveredLogIsValid", f"log end {end}")
    directory.check()


def _tear_last_batch(cluster: BareDirectory) -> None:
    """The last bytes of the log are not what was written when the power went."""
    path = f"{_KEY}/00000000000000000000.log"
    written = cluster.disk.read_file(path)
    assert written is not None, f"Setup: `{path}` is not there"
    cluster.disk.flip_bit(path, 8 * (len(written) - 3))


def r21_append_after_an_error(testbed: Testbed) -> None:
    """A replica whose device failed once takes nothing more, though the device works again.

    Origin: KAFKA-10778
    Case: a write fails; before the node has noticed, the next one comes.
    Must: it is refused, and so are reads; the node learns that the directory failed.
    """
    cluster = testbed.topic(1, 2, first="a")
    cluster.brokers[1].disk.failing = "input/output error"
    first = cluster.send(1, "b")
    cluster.brokers[1].disk.failing = None
    second = cluster.send(1, "c")
    name = cluster.read(1, 0)
    cluster.run(10)
    refused = ErrorCode.KAFKA_STORAGE_ERROR
    codes = [cluster.code_of(one) for one in (first, second, name)]
    testbed.must(codes == [refused] * 3, "OfflineForGood", f"{codes}")
    _must_be_offline(testbed, cluster)


def _must_be_offline(testbed: Testbed, cluster: Scene) -> None:
    cluster.is_beyond_help = True
    reported = any("log dir failed" in line for line in cluster.lines)
    testbed.must(reported, "OfflineForGood", "the failure is not reported")


def r22_start_over(testbed: Testbed) -> None:
    """A follower that starts over takes high watermark and log start along.

    Origin: KAFKA-9491, KAFKA-5634
    Case: records that the follower never had are deleted on the leader; the follower throws its
    log away and begins where the leader's begins.
    Must: log start, high watermark and log end move together; all bounds hold at each step.
    """
    cluster = testbed.topic(1, 2, segment_bytes="200", first="a")
    cluster.part(1, 2)
    cluster.set_isr(1, then_ms=1_600)
    for value in "bcdefg":
        cluster.send(1, value)
    cluster.run(10)
    cluster.log_of(1).maybe_raise_log_start_offset(5)
    cluster.reunite(then_ms=800)
    log = cluster.log_of(2)
    bounds = (log.log_start_offset, log.high_watermark, log.log_end_offset)
    testbed.must(bounds == (5, 7, 7), "HighWatermarkBounds", f"{bounds}")


def r39_flush_fails_once(testbed: Testbed) -> None:
    """A flush that failed is not made good by the next one.

    Origin: the fsync failures of 2018 (ATC'20)
    Case: with group commit a flush of the leader fails, the next one would succeed; then the
    machine loses power.
    Must: the replica is out of service at the first failure; what was acknowledged is on the
    others.
    """
    cluster = testbed.topic(1, 2, 3, flush_messages="1", min_insync_replicas="1")
    cluster.send(1, "a", then_ms=200)
    cluster.part(1, 2)
    cluster.part(1, 3)
    cluster.set_isr(1, then_ms=10)
    disk = cluster.brokers[1].disk
    disk.failing_syncs = True
    name = cluster.send(1, "b", then_ms=10)
    disk.failing_syncs = False
    cluster.send(1, "c", then_ms=50)
    code = cluster.code_of(name)
    testbed.must(
        code is ErrorCode.KAFKA_STORAGE_ERROR, "NothingLost", f"b was answered with {code}"
    )
    _must_be_offline(testbed, cluster)


def r38_flipped_bit(testbed: Testbed) -> None:
    """A damaged record is neither served nor copied, and its replica is repaired.

    Origin: CORDS (FAST'17), NATS 2.12.1
    Case: on whole nodes, one bit of a sealed segment flips on a follower while it is stopped; it
    comes back in sync, then the leader dies and this follower leads; consumers read.
    Must: no reader receives the damaged record; another replica leads, no record is lost, and in
    the end all three replicas are equal.
    """
    world = testbed.world(
        tweak=lambda config: replace(config, log=replace(config.log, segment_bytes=300))
    )
    cluster = SmallCluster(world)
    leader = cluster.leader
    values = [b"%04d" % index for index in range(12)]
    for value in values:
        SimClient(world, leader).produce("t", 0, [value])
    world.run_for(1_000)
    victim = next(node for node in cluster.partition.replicas if node != leader)
    world.stop(victim)
    world.run_until(lambda: world.hosts[victim].node is None, 20_000)
    world.hosts[victim].disk.flip_bit("t-0/00000000000000000000.log", 8 * 66)
    world.start(victim)
    world.run_for(1_000)
    world.run_until(lambda: len(cluster.partition.isr) == 3, 30_000)
    world.kill(leader)
    world.run_until(lambda: cluster.leader not in (-1, leader), 30_000)
    testbed.must(cluster.leader == victim, "Setup", f"{cluster.leader} leads, not {victim}")
    found = cluster.read_all(len(values))
    testbed.must(found == values, "NothingDamagedIsServed", f"read {found}")
    world.start(leader)
    world.run_for(1_000)
    world.run_until(lambda: len(cluster.partition.isr) == 3, 60_000)
    world.run_for(2_000)
    logs = cluster.log_files()
    testbed.must(len(set(logs.values())) == 1, "ReplicasEqual", "the replicas differ")


def s20_damage_above_the_checkpoints(testbed: Testbed) -> None:
    """A voter that has lost what it promised does not vote for one that lacks it.

    Origin: seed 86543844
    Case: while a voter is down the two others make a topic. The one that does not lead is killed,
    and a bit flips in records that it flushed since the last checkpoint. The leader is killed too,
    and the other two start.
    Must: no voter without the topic is elected; when the last one starts the topic is known.
    """
    world = testbed.world()
    cluster = SmallCluster(world)
    leader = next(node for node in world.nodes if node.broker.quorum.is_leader).config.node_id
    promised, behind = (node_id for node_id in world.hosts if node_id != leader)
    world.kill(behind)
    code = SimClient(world, leader).create_topic("late", replication_factor=2)
    testbed.must(code == ErrorCode.NONE, "Setup", f"no topic: {code}")
    world.run_for(500)
    world.kill(promised)
    world.kill(leader)
    disk, path = world.hosts[promised].disk, f"{METADATA_PARTITION}/{0:020}.log"
    size_bytes = len(disk.read_file(path) or b"")
    disk.flip_bit(path, 8 * (size_bytes // 2))
    disk.was_damaged = True
    for node_id in (promised, behind):
        world.start(node_id)
    world.run_for(5_000)
    leaders = [node.config.node_id for node in world.nodes if node.broker.quorum.is_leader]
    testbed.must(not leaders, "MemoryComesBackFirst", f"{leaders} leads without the topic")
    world.start(leader)
    world.run_until(lambda: cluster.knows_everywhere("late"), 20_000)
    testbed.must(cluster.knows_everywhere("late"), "CommittedIsDurable", "the topic is gone")
