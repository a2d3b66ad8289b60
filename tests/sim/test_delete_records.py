"""Records that are deleted, on whole nodes: every replica lets go, whatever happens meanwhile.

Every event is followed by `Node.check()`, so the order of the four offsets is asserted everywhere.
"""

from dataclasses import replace

import pytest
from tests.sim.test_cluster import all_know, partition, unfenced, values_of

from tidelog.config import NodeConfig
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.world import World
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error_of, millis

T0 = TopicPartition("t", 0)
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
CHECKPOINTS = "log.flush.offset.checkpoint.interval.ms"
KEY = ApiKey.DELETE_RECORDS


def with_small_segments(config: NodeConfig) -> NodeConfig:
    """Two or three records in each."""
    return replace(config, log=replace(config.log, segment_bytes=200))


def request(offset: int, timeout_ms: int = 5_000) -> Entity:
    """Deletes what is below an offset."""
    request_type = codec.request_class(KEY, 2)
    wish = {"partition_index": 0, "offset": offset}
    topics = ({"name": "t", "partitions": (wish,)},)
    return make(request_type, topics=topics, timeout=millis(timeout_ms))


class Bench:
    """A cluster with topic `t`, RF 3, some records, and the log starts of everybody."""

    def __init__(self, seed: int = 1, *, records: int = 20, **configs: str) -> None:
        self.world = World(seed, settings={CHECKPOINTS: "1000"}, tweak=with_small_segments)
        self.world.start_all()
        self.world.run_until(lambda: unfenced(self.world) == {1, 2, 3}, 10_000)
        assert SimClient(self.world, 1).create_topic("t", **configs) == ErrorCode.NONE
        self.world.run_until(lambda: all_know(self.world, "t"))
        self.world.run_for(300)
        self.count = 0
        self.produce(records)

    @property
    def leader(self) -> int:
        """The node that leads and knows it, if there is one."""
        self.world.run_until(lambda: self._leads(partition(self.world, "t").leader))
        leader: int = partition(self.world, "t").leader
        return leader

    def _leads(self, node_id: int) -> bool:
        host = self.world.hosts.get(node_id)
        if host is None or host.node is None or host.paused:
            return False
        replica = host.node.broker.replicas.partitions.get(T0)
        return replica is not None and replica.leadership is not None

    def calm(self) -> None:
        """Everybody runs and is in sync."""
        self.world.run_until(lambda: unfenced(self.world) == set(self.world.hosts), 60_000)
        self.world.run_until(lambda: len(partition(self.world, "t").isr) == 3, 60_000)
        log = self.log(self.leader)
        self.world.run_until(lambda: log.high_watermark == log.log_end_offset)

    @property
    def followers(self) -> list[int]:
        """Everybody else."""
        return [node_id for node_id in self.world.hosts if node_id != self.leader]

    @property
    def client(self) -> SimClient:
        """A new client of the leader."""
        return SimClient(self.world, self.leader)

    def produce(self, count: int) -> None:
        """Acknowledged records `v0`, `v1`, …, one batch each."""
        client = self.client
        for _ in range(count):
            answer = client.produce("t", 0, [b"v%d" % self.count])
            assert answer.partitions[0].error_code == ErrorCode.NONE
            self.count += 1

    def delete(self, offset: int, timeout_ms: int = 5_000) -> tuple[ErrorCode, int]:
        """Asks the leader; the code and the low watermark."""
        client = self.client
        client.send_frame(codec.encode_request(request(offset, timeout_ms), 1, "sim"))
        _, answer = codec.decode_response(KEY, 2, client.take_frame())
        row = answer.topics[0].partitions[0]
        return error_of(row.error_code), row.low_watermark

    def log(self, node_id: int):
        """One replica's log."""
        return self.world.hosts[node_id].node._directories.logs[T0]

    def starts(self) -> dict[int, int]:
        """Where the log of every running node starts."""
        nodes = [i for i, host in self.world.hosts.items() if host.node is not None]
        return {node_id: self.log(node_id).log_start_offset for node_id in nodes}

    def everywhere(self, offset: int) -> bool:
        """Whether all nodes run, in sync, and start there."""
        in_sync = len(partition(self.world, "t").isr) == 3
        return in_sync and self.starts() == dict.fromkeys(self.world.hosts, offset)

    def bases(self, node_id: int) -> list[int]:
        """One replica's segments."""
        return [segment.base_offset for segment in self.log(node_id).segments]

    def read(self, offset: int) -> list[bytes]:
        """Everything from an offset on, that a consumer gets of the leader."""
        client, values = self.client, []
        while True:
            response = client.fetch("t", 0, offset + len(values))
            assert response.partitions[0].error_code == ErrorCode.NONE
            found = values_of(response)
            if not found:
                return values
            values += found

    def values(self, start: int) -> list[bytes]:
        """What is to be read from an offset on."""
        return [b"v%d" % index for index in range(start, self.count)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_idle_partition_lets_go_everywhere_and_its_segments_go(seed):
    bench = Bench(seed)
    before = bench.world.now
    assert bench.delete(13) == (ErrorCode.NONE, 13)
    assert bench.world.now - before < 400, "a long poll was sat out"
    assert bench.everywhere(13)
    assert bench.client.fetch("t", 0, 12).partitions[0].error_code == OUT_OF_RANGE
    assert bench.read(13) == bench.values(13)
    bench.world.run_for(2_500)
    for node_id in bench.world.hosts:
        first, second = bench.bases(node_id)[:2]
        assert first <= 13 < second
        names = bench.world.hosts[node_id].disk.list_dir("t-0")
        assert min(name for name in names if name.endswith(".log")) == f"{first:020d}.log"
    bench.produce(5)
    assert bench.read(13) == bench.values(13)


def test_a_parked_consumer_learns_that_its_records_are_gone():
    bench = Bench()
    client = bench.client
    assert bench.delete(-1) == (ErrorCode.NONE, 20)
    assert client.fetch("t", 0, 20).partitions[0].log_start_offset == 20
    assert client.fetch("t", 0, 3).partitions[0].error_code == OUT_OF_RANGE
    bench.produce(3)
    assert bench.read(20) == bench.values(20)


def test_a_follower_that_is_away_is_not_waited_for_and_begins_at_the_start():
    bench = Bench()
    away = bench.followers[0]
    bench.world.kill(away)
    bench.world.run_until(lambda: away not in unfenced(bench.world))
    bench.produce(10)
    assert bench.delete(26) == (ErrorCode.NONE, 26)
    bench.world.start(away)
    bench.world.run_until(lambda: bench.everywhere(26))
    log = bench.log(away)
    assert (bench.bases(away)[0], log.log_end_offset) == (26, 30)
    bench.world.run_for(1_000)
    assert bench.log(away).high_watermark == 30


def test_a_follower_that_is_gone_and_not_fenced_yet_holds_the_answer_up():
    bench = Bench()
    away = bench.followers[0]
    bench.world.pause(away)
    assert bench.delete(7, timeout_ms=100) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert bench.log(bench.leader).log_start_offset == 7
    assert bench.delete(7, timeout_ms=30_000) == (ErrorCode.NONE, 7)
    assert bench.log(away).log_start_offset == 0
    bench.world.resume(away)
    bench.world.run_until(lambda: bench.everywhere(7))


def test_the_next_leader_does_not_know_of_the_deletion():
    """What it serves is right all the same, and it can be asked again."""
    bench = Bench()
    old, client = bench.leader, bench.client
    client.send_frame(codec.encode_request(request(9), 1, "sim"))
    bench.world.run_until(lambda: bench.log(old).log_start_offset == 9)
    bench.world.kill(old, reset=True)
    bench.world.run_until(lambda: partition(bench.world, "t").leader not in (old, -1))
    log = bench.log(bench.leader)
    # Up to then the last records may be hidden: the new leader does not know yet who has them.
    bench.world.run_until(lambda: log.high_watermark == log.log_end_offset)
    assert bench.read(0) == bench.values(0)
    bench.produce(3)
    bench.world.start(old)
    bench.calm()
    assert set(bench.starts().values()) == {0}, "it was killed before a checkpoint"
    assert bench.delete(5) == (ErrorCode.NONE, 5)
    assert bench.everywhere(5)


def test_a_leader_that_was_away_during_the_deletion():
    """It stopped cleanly before, follows, and is as good as any afterwards."""
    bench = Bench()
    old = bench.leader
    bench.world.stop(old)
    bench.world.run_until(lambda: bench.world.hosts[old].node is None)
    bench.world.run_until(lambda: partition(bench.world, "t").leader not in (old, -1))
    assert bench.delete(9) == (ErrorCode.NONE, 9)
    bench.world.start(old)
    bench.world.run_until(lambda: bench.everywhere(9))
    assert bench.read(9) == bench.values(9)
    assert bench.delete(4) == (ErrorCode.NONE, 9)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_after_a_restart_of_everything_nothing_is_back(how):
    bench = Bench(4)
    assert bench.delete(13) == (ErrorCode.NONE, 13)
    bench.world.run_for(1_500)
    for node_id in bench.world.hosts:
        getattr(bench.world, how)(node_id)
    bench.world.run_until(lambda: all(h.node is None for h in bench.world.hosts.values()), 60_000)
    bench.world.start_all()
    bench.calm()
    assert set(bench.starts().values()) == {13}
    assert bench.read(13) == bench.values(13)
    bench.produce(3)
    assert bench.read(13) == bench.values(13)


@pytest.mark.parametrize("seed", range(1, 9))
def test_power_cuts_during_the_deletion_lose_nothing_above_it(seed):
    """With group commit, at some moment between the request and the last deleted file."""
    bench = Bench(seed, flush_messages="1")
    bench.delete(13, timeout_ms=0)
    bench.world.run_for(seed * 230)
    for node_id in bench.world.hosts:
        bench.world.power_cut(node_id)
    bench.world.start_all()
    bench.calm()
    for host in bench.world.hosts.values():
        assert not host.node._directories.damaged, host.name
    assert set(bench.starts().values()) <= {0, 13}
    assert bench.read(13) == bench.values(13)
    assert bench.delete(13) == (ErrorCode.NONE, 13)
    bench.produce(3)
    assert bench.read(13) == bench.values(13)


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_power_cut_without_group_commit_takes_one_replica_back_and_no_record(seed):
    """Its unflushed tail is gone, maybe everything above the start that its checkpoint names."""
    bench = Bench(seed)
    assert bench.delete(19) == (ErrorCode.NONE, 19)
    bench.world.run_for(seed * 400)
    lost = bench.followers[0]
    bench.world.power_cut(lost)
    bench.world.run_until(lambda: lost not in unfenced(bench.world))
    bench.produce(2)
    bench.world.start(lost)
    bench.world.run_until(lambda: bench.everywhere(19))
    assert bench.log(lost).log_end_offset == bench.count
    assert bench.read(19) == bench.values(19)


def test_a_replica_that_is_added_later_begins_at_the_start():
    bench = Bench(6, records=10)
    assert bench.delete(8) == (ErrorCode.NONE, 8)
    victim = bench.followers[0]
    bench.world.power_cut(victim)
    bench.world.run_until(lambda: victim not in unfenced(bench.world))
    bench.world.wipe(victim)
    bench.world.start(victim)
    bench.world.run_until(lambda: bench.everywhere(8))
    assert bench.bases(victim) == [8]
