"""Damaged files on whole nodes in virtual time: found, never served, never spread, repaired."""

from dataclasses import dataclass

import pytest

from tests.sim.test_cluster import led_world, partition, values_of
from tidelog.errors import ErrorCode
from tidelog.model import LOST_DIRECTORY
from tidelog.sim.client import SimClient
from tidelog.sim.world import World

SMALL_SEGMENTS = {"log_segment_bytes": "1048576"}
VALUES = [b"%06d" % index + b"v" * 60_000 for index in range(60)]


@dataclass
class Story:
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
        self.world.hosts[node_id].node._directory.logs["t", 0]._tail.clear()

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


def story(seed: int = 1) -> Story:
    """Written and in sync everywhere."""
    world, client, leader = led_world(seed, **SMALL_SEGMENTS)
    for value in VALUES:
        assert client.produce("t", 0, [value]).partitions[0].error_code is ErrorCode.NONE
    told = Story(world, leader)
    told.until_healed()
    assert len(told.files(leader, ".log")) >= 3
    return told


def test_a_leader_with_a_flipped_bit_steps_down_and_is_repaired():
    """Goal: nobody reads the damage, a reader is only put off; the node repairs itself and the
    replicas are equal again, byte by byte."""
    told = story()
    world, leader = told.world, told.leader
    world.hosts[leader].disk.flip_bit(told.files(leader, ".log")[1], 8 * 70_001)
    told.forget_cached(leader)
    assert told.read() == VALUES
    assert partition(world, "t").leader != leader
    told.until_healed()
    assert told.said("quarantine: damaged") and told.said("quarantine: cut")
    assert len({told.log_bytes(node_id) for node_id in (1, 2, 3)}) == 1


