"""Scenarios of work that takes long: whole nodes whose work costs time (`engine/work.py`).

A node has one event loop. While it makes a thousand logs it answers no fetch of its followers and
sends no heartbeat; so its quorum elects another leader, which has the same work before it.
"""

from typing import Any, Final

from tidelog.config import profile_settings
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_TURN_MS
from tidelog.metadata.image import MetadataImage
from tidelog.model import NO_LEADER
from tidelog.replication.messages import TO_HIGH_WATERMARK
from tidelog.sim.checkers.turns import BoundedTurn, QuorumStands
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.host import Host
from tidelog.sim.engine.work import SLOW, SLOW_MAKE_DIR, SLOW_SYNC, USUAL
from tidelog.sim.engine.world import World
from tidelog.sim.regressions.testbed import Testbed
from tidelog.sim.report.violation import Violation
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

TIMEOUT_MS: Final = 10_000
LIMIT_MS: Final = 60_000
TOPIC: Final = "many"
OTHER: Final = "other"
SEGMENTS: Final = 150
_CHECK_EVERY: Final = 50
"""Invariants of thousands of replicas, looked at after every event, would be all that is done."""


class ManyPartitions:
    """Three nodes with short timers, whose work costs time, and one topic of many partitions."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.silent = True
        world.driver.check_every = _CHECK_EVERY
        world.start_all()
        world.run_until(lambda: all(self._active(host) == 3 for host in self._running()))

    @property
    def controller(self) -> int:
        """The quorum's leader, as some node knows it."""
        node = self._running()[0].node
        assert node is not None, "it runs"
        return node.broker.quorum.leader_id

    def create(self, count: int, **configs: str) -> None:
        """Creates the topic; returns when every node has every log."""
        client = SimClient(self._world, self.controller)
        code = client.create_topic(TOPIC, count, 3, **configs)
        assert code == ErrorCode.NONE, f"Setup: {code}"
        self.wait_for(count)

    def wait_for(self, count: int) -> None:
        """Waits until every node that runs hosts so many replicas, all of them led."""

        def done() -> bool:
            return all(
                len(hosted) == count
                and all(one.leader_id != NO_LEADER and one.image is not None for one in hosted)
                for host in self._running()
                if (hosted := self._hosted(host)) is not None
            )

        self._world.run_until(done, LIMIT_MS)

    def write_to_each(self) -> int:
        """Sends a record to each partition, to its leader; returns when all are acknowledged, and
        how many ms a write to another topic took meanwhile at most."""
        assert SimClient(self._world, self.controller).create_topic(OTHER) == ErrorCode.NONE
        self._world.run_for(500)
        other = SimClient(self._world, self._image.topics_by_name[OTHER].partitions[0].leader)
        other.produce(OTHER, 0, [b"before"])
        clients = {node_id: SimClient(self._world, node_id) for node_id in self._world.hosts}
        led = [(one.leader_id, one) for one in self._hosted(self._running()[0])]
        for leader_id, one in led:
            key = one.topic_partition
            clients[leader_id].send_produce(key.topic, key.partition, [b"first"])
        longest_ms = 0
        while sum(client.waiting for client in clients.values()) < len(led):
            began = self._world.now
            other.produce(OTHER, 0, [b"meanwhile"])
            longest_ms = max(longest_ms, self._world.now - began)
        for leader_id, _ in led:
            ((result,),) = (clients[leader_id].take_produced().partitions,)
            assert result.error_code is ErrorCode.NONE, f"{result}"
        return longest_ms

    @property
    def replicas(self) -> tuple[int, ...]:
        """Of the first partition, that of its leader first."""
        return self._image.topics_by_name[TOPIC].partitions[0].replicas

    def write(self, count: int) -> None:
        """Sends records to the first partition, each large enough for a segment of 1,000 bytes."""
        client = SimClient(self._world, self.replicas[0])
        for _ in range(count):
            (result,) = client.produce(TOPIC, 0, [bytes(900)], acks=1).partitions
            assert result.error_code is ErrorCode.NONE, f"Setup: {result}"

    def delete_records(self) -> None:
        """Deletes all records of the first partition that are committed."""
        self._world.run_for(LIMIT_MS)
        row = {"partition_index": 0, "offset": TO_HIGH_WATERMARK}
        topics = [{"name": TOPIC, "partitions": [row]}]
        client = SimClient(self._world, self.replicas[0])
        client.call(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=millis(TIMEOUT_MS))

    def log_start_on(self, node_id: int) -> int:
        """Where the log of the first partition begins on a node; -1 while it has none."""
        hosted = self._hosted(self._world.hosts[node_id])
        return hosted[0].log.log_start_offset if hosted else -1

    def delete(self) -> None:
        """Deletes the topic; returns when no node has any of it."""
        self._ask(
            ApiKey.DELETE_TOPICS,
            6,
            topics=[{"name": TOPIC, "topic_id": None}],
            timeout=millis(TIMEOUT_MS),
        )
        self.wait_for(0)
        # The files go later, and that is work too.
        self._world.run_for(2_000)

    def reverse_replicas(self, count: int) -> None:
        """Another order of the replicas of the first partitions, and its first one to lead."""
        partitions = self._image.topics_by_name[TOPIC].partitions
        moved = [
            {"partition_index": number, "replicas": list(reversed(partitions[number].replicas))}
            for number in range(count)
        ]
        self._ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            1,
            timeout=millis(TIMEOUT_MS),
            allow_replication_factor_change=True,
            topics=[{"name": TOPIC, "partitions": moved}],
        )
        self._ask(
            ApiKey.ELECT_LEADERS,
            2,
            election_type=0,
            topic_partitions=[{"topic": TOPIC, "partitions": list(range(count))}],
            timeout=millis(TIMEOUT_MS),
        )
        self._world.run_for(2_000)

    def kill(self, node_id: int) -> None:
        """Kills a node; returns when the others lead all that it led."""
        self._world.kill(node_id)
        self._world.run_until(
            lambda: all(
                one.leader_id not in (NO_LEADER, node_id)
                for host in self._running()
                for one in self._hosted(host)
            ),
            LIMIT_MS,
        )

    def _ask(self, key: ApiKey, version: int, /, **values: Any) -> None:
        SimClient(self._world, self.controller).call(key, version, **values)

    def _running(self) -> list[Host]:
        return [host for host in self._world.hosts.values() if host.node is not None]

    @property
    def _image(self) -> MetadataImage:
        node = self._running()[0].node
        assert node is not None, "it runs"
        return node.broker.image

    @staticmethod
    def _active(host: Host) -> int:
        assert host.node is not None, "it runs"
        return sum(broker.active for broker in host.node.broker.image.brokers.values())

    @staticmethod
    def _hosted(host: Host) -> list[Any]:
        assert host.node is not None, "it runs"
        hosted = host.node.broker.replicas.partitions
        return [one for key, one in hosted.items() if key.topic == TOPIC]


def s15_many_partitions_spare_the_quorum(testbed: Testbed) -> None:
    """A topic of many partitions costs the quorum no epoch.

    Origin: own experience with 3,000 partitions: eight epochs
    Case: a topic of 300 partitions is made, its leaders move, and it is deleted, on machines that
    are five times slower than usual ones and with short timers; the same with 30 partitions on
    disks that take 100 ms for a directory, then for each flush.
    Must: the leader of the quorum stays the leader.
    """
    for hardware, profile, count in (
        (SLOW, "test", 300),
        (SLOW_MAKE_DIR, "default", 30),
        (SLOW_SYNC, "default", 30),
    ):
        world = testbed.world(settings=profile_settings(profile, 3), hardware=hardware)
        cluster = ManyPartitions(world)
        world.driver.observers.append(QuorumStands().on_event)
        cluster.create(count)
        cluster.reverse_replicas(count)
        cluster.delete()


def s16_no_turn_is_long(testbed: Testbed) -> None:
    """No turn is longer than 50 ms, whatever becomes of a thousand partitions.

    Origin: own experience with 3,000 partitions: turns of seconds
    Case: a topic of a thousand partitions is made, each of them gets a record, a hundred get other
    leaders, a broker dies, the topic is deleted.
    Must: every turn of every node is short, and while each partition gets its record, a write to
    another topic is acknowledged within the time of one such turn.
    """
    world = testbed.world(settings=profile_settings("default", 3), hardware=USUAL)
    BoundedTurn(world)
    cluster = ManyPartitions(world)
    cluster.create(1000)
    longest_ms = cluster.write_to_each()
    if longest_ms > MAX_TURN_MS:
        raise Violation("FewFirstRecords", f"a write to another topic took {longest_ms} ms")
    cluster.reverse_replicas(100)
    cluster.kill(next(node_id for node_id in world.hosts if node_id != cluster.controller))
    cluster.delete()


def s18_a_long_log_goes_in_turns(testbed: Testbed) -> None:
    """No turn is longer than 50 ms when a follower gives up a log of many segments.

    Origin: own experience: 37 segments in a turn of 300 ms
    Case: a follower with 150 segments is down until its leader has deleted all of them.
    Must: every turn of every node is short, and the follower is in sync again.
    """
    world = testbed.world(settings=profile_settings("default", 3), hardware=USUAL)
    BoundedTurn(world)
    cluster = ManyPartitions(world)
    cluster.create(1, internal_segment_bytes="1000")
    cluster.write(SEGMENTS)
    follower = cluster.replicas[1]
    world.kill(follower)
    cluster.write(1)
    cluster.delete_records()
    world.start(follower)
    world.run_until(lambda: cluster.log_start_on(follower) > SEGMENTS, LIMIT_MS)
