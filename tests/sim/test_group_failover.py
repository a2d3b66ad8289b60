"""Goal: no acknowledged commit is lost, and no group is stuck, whichever coordinator dies.

Method: three whole nodes on memory disks under the simulator; a client that commits and joins
through the wire, and the death or the isolation of the coordinator. Every event is followed by
`Node.check()`.
"""

import pytest
from tests.sim.test_cluster import all_know, partition, unfenced

from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.sim.engine.client import Disconnected, SimClient
from tidelog.sim.engine.world import World
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis, uuid_of

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}
AGAIN = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Groups:
    """A cluster with topic `t`, and a client that finds its coordinator as real ones do."""

    def __init__(self, seed: int, **settings: str) -> None:
        self.world = World(seed, settings={**SETTINGS, **settings})
        self.world.start_all()
        self.world.run_until(lambda: unfenced(self.world) == {1, 2, 3}, 10_000)
        assert SimClient(self.world, 1).create_topic("t", 2) == ErrorCode.NONE
        self.world.run_until(lambda: all_know(self.world, "t"))
        self._client: SimClient | None = None
        # A node that the client does not ask for its coordinator.
        self.avoided = -1
        self.call(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m")
        self.world.run_until(lambda: len(partition(self.world, OFFSETS_TOPIC).isr) == 3)

    @property
    def coordinator(self) -> int:
        """Who leads the partition of group `g`."""
        found = partition(self.world, OFFSETS_TOPIC, partition_of("g", 3))
        leader: int = found.leader
        return leader

    def call(self, key, version, **values):
        """One request to the coordinator, which is looked for until there is one."""
        for _ in range(200):
            try:
                if self._client is None:
                    self._client = self._find()
                response = self._client.call(key, version, **values)
            except Disconnected:
                self._client = None
                continue
            if _codes(response).isdisjoint(AGAIN):
                return response
            self._client = None
            self.world.run_for(50)
        raise AssertionError(f"{key.name}: no coordinator")

    def _find(self) -> SimClient | None:
        for node_id, host in self.world.hosts.items():
            if not host.running or node_id == self.avoided:
                continue
            client = SimClient(self.world, node_id)
            found = client.call(ApiKey.FIND_COORDINATOR, 2, key="g", key_type=0)
            if error_of(found.error_code) is ErrorCode.NONE:
                return SimClient(self.world, found.node_id)
        self.world.run_for(50)
        raise Disconnected("no coordinator yet")

    def commit(self, offset, generation_id=-1, member_id=""):
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": "t", "partitions": [row]}]
        response = self.call(
            ApiKey.OFFSET_COMMIT,
            8,
            group_id="g",
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=topics,
        )
        return error_of(response.topics[0].partitions[0].error_code)

    def committed(self):
        topics = [{"name": "t", "partition_indexes": (0,)}]
        response = self.call(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=topics)
        assert error_of(response.error_code) is ErrorCode.NONE
        return response.topics[0].partitions[0].committed_offset

    def join(self, member_id=""):
        response = self.call(
            ApiKey.JOIN_GROUP,
            5,
            group_id="g",
            session_timeout=millis(5_000),
            rebalance_timeout=millis(10_000),
            member_id=member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        code = error_of(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            return self.join(response.member_id)
        assert code is ErrorCode.NONE, code
        return response

    def sync(self, joined):
        response = self.call(
            ApiKey.SYNC_GROUP,
            3,
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[{"member_id": joined.member_id, "assignment": b"all"}],
        )
        assert error_of(response.error_code) is ErrorCode.NONE
        return response

    def beat(self, joined):
        response = self.call(
            ApiKey.HEARTBEAT,
            3,
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
        )
        return error_of(response.error_code)


CONSUMERS = {
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}


class Consumers:
    """Members of a consumer group (KIP-848), which give back at once."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        # Of each member its epoch and its partitions of `t`.
        self.members = {}

    def beat(self, member_id, *, leaves=False):
        epoch, held = self.members.get(member_id, (0, ()))
        joins = {"rebalance_timeout": millis(2_000), "subscribed_topic_names": ("t",)}
        rows = [{"topic_id": self.topic_id, "partitions": held}] if held else []
        response = self.groups.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id="g",
            member_id=member_id,
            member_epoch=-1 if leaves else epoch,
            topic_partitions=rows,
            **({} if epoch else joins),
        )
        code = error_of(response.error_code)
        if code is ErrorCode.NONE and not leaves:
            found = response.assignment
            if found is not None:
                held = tuple(
                    number for each in found.topic_partitions for number in each.partitions
                )
            self.members[member_id] = response.member_epoch, held
        else:
            self.members.pop(member_id, None)
        return code

    def settle(self, *members):
        for _ in range(4):
            for each in members:
                assert self.beat(each) is ErrorCode.NONE

    @property
    def topic_id(self):
        image = next(iter(self.groups.world.nodes)).broker.image
        return uuid_of(image.topics_by_name["t"].topic_id)

    @property
    def owned(self):
        return sorted(number for _, held in self.members.values() for number in held)


def _codes(response):
    """The errors of a response that a client retries by looking for the coordinator."""
    codes = {error_of(response.error_code)} if hasattr(response, "error_code") else set()
    for topic in getattr(response, "topics", ()):
        codes |= {error_of(row.error_code) for row in topic.partitions}
    return codes


@pytest.mark.parametrize("seed", range(3))
def test_acknowledged_commits_survive_every_coordinator(seed):
    groups = Groups(seed)
    for round_number in range(1, 4):
        for offset in range(round_number * 10, round_number * 10 + 3):
            assert groups.commit(offset) is ErrorCode.NONE
            acknowledged = offset
        died = groups.coordinator
        groups.world.kill(died)
        assert groups.committed() == acknowledged
        groups.world.start(died)
        groups.world.run_until(lambda: unfenced(groups.world) == {1, 2, 3}, 60_000)
        # It may have its partition back.
        groups.world.run_for(1_000)
        assert groups.committed() == acknowledged


@pytest.mark.parametrize("seed", range(3))
def test_a_member_goes_on_after_the_death_of_its_coordinator(seed):
    groups = Groups(seed)
    joined = groups.join()
    groups.sync(joined)
    assert groups.commit(5, joined.generation_id, joined.member_id) is ErrorCode.NONE
    groups.world.kill(groups.coordinator)
    assert groups.beat(joined) is ErrorCode.NONE
    assert bytes(groups.sync(joined).assignment) == b"all"
    assert groups.commit(6, joined.generation_id, joined.member_id) is ErrorCode.NONE
    assert groups.committed() == 6
    # A member that never comes back is removed by the new coordinator.
    groups.world.run_for(6_000)
    assert groups.beat(joined) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("seed", range(3))
def test_a_consumer_group_goes_on_after_the_death_of_its_coordinator(seed):
    """Epochs and assignments are in the log: no member has to give anything back."""
    consumers = Consumers(Groups(seed, **CONSUMERS))
    consumers.settle("a", "b")
    before = dict(consumers.members)
    assert consumers.owned == [0, 1] and before["a"][0] == before["b"][0]
    consumers.groups.world.kill(consumers.groups.coordinator)
    consumers.settle("a", "b")
    assert consumers.members == before
    # A member that never comes back is removed by the new coordinator.
    del consumers.members["a"]
    consumers.groups.world.run_for(2_000)
    consumers.settle("b")
    consumers.groups.world.run_for(2_000)
    consumers.settle("b")
    assert consumers.owned == [0, 1]


@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_that_is_cut_off_acknowledges_nothing(seed):
    """Its commits are not replicated; what it was asked meanwhile is not what clients then see."""
    groups = Groups(seed)
    world = groups.world
    assert groups.commit(1) is ErrorCode.NONE
    isolated = groups.coordinator
    others = [node_id for node_id in world.hosts if node_id != isolated]
    for other in others:
        world.cut(isolated, other)
        world.cut(other, isolated)
    cut_off = SimClient(world, isolated)
    row = {"partition_index": 0, "committed_offset": 99, "committed_metadata": ""}
    late = cut_off.call(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "t", "partitions": [row]}],
    )
    assert error_of(late.topics[0].partitions[0].error_code) in AGAIN
    world.run_until(lambda: groups.coordinator in others, 60_000)
    groups._client = None
    groups.avoided = isolated
    assert groups.committed() == 1
    assert groups.commit(2) is ErrorCode.NONE
    world.heal()
    world.run_until(lambda: unfenced(world) == {1, 2, 3}, 60_000)
    assert groups.committed() == 2


@pytest.mark.parametrize("seed", range(2))
def test_commits_survive_a_power_cut_of_all_where_every_record_is_flushed(seed):
    groups = Groups(seed, **{"log.flush.interval.messages": "1"})
    assert groups.commit(7) is ErrorCode.NONE
    for node_id in groups.world.hosts:
        groups.world.power_cut(node_id)
    groups._client = None
    groups.world.start_all()
    groups.world.run_until(lambda: unfenced(groups.world) == {1, 2, 3}, 60_000)
    assert groups.committed() == 7
