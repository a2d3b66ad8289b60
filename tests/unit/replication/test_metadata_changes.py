"""What new metadata means is done in slices: the most urgent first, by the newest image."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tidelog.config import ReplicationConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import (
    LOG_CREATION_WORK,
    LOG_DELETION_WORK,
    REPLICA_WORK_PER_TURN,
    ROLE_CHANGE_WORK,
    UNHURRIED_PAUSE_MS,
    UNHURRIED_SHARE,
)
from tidelog.model import TopicPartition
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Roles
from tidelog.replication.turn_work import TurnWork
from tidelog.sim.replicas.cluster import CONFIG, Broker, Cluster

LOGS_PER_TURN = REPLICA_WORK_PER_TURN // LOG_CREATION_WORK
COUNT = 3 * LOGS_PER_TURN
MANY = 1000
ONE_STEP = replace(CONFIG, metadata_work_per_turn=1)


def cluster_of(*nodes: int, config: ReplicationConfig = CONFIG) -> Cluster:
    """Brokers with the topic `orders`, which the first leads."""
    cluster = Cluster(nodes, config=config)
    cluster.feed.create_topic("orders", nodes)
    cluster.run(10)
    return cluster


@pytest.fixture
def cluster() -> Cluster:
    """One broker with a topic that it leads."""
    return cluster_of(1)


def follow(cluster: Cluster) -> Broker:
    """The first broker gets the newest metadata; nothing else happens."""
    broker = cluster.brokers[1]
    cluster.feed.publish(1, broker.replicas, cluster.now)
    return broker


def turn(cluster: Cluster, after_ms: int = 1) -> None:
    """The first broker's next turn alone."""
    cluster.timeline.run_for(after_ms)
    cluster.brokers[1].replicas.wake(cluster.now)
    cluster.brokers[1].replicas.check()


def turns(cluster: Cluster) -> int:
    """The turns until nothing waits any more."""
    replicas, count = cluster.brokers[1].replicas, 0
    while replicas._metadata.has_work:
        to_deadline(cluster)
        count += 1
    return count


def to_deadline(cluster: Cluster) -> int:
    """The first broker's next turn alone, when it wants it; returns after how many ms."""
    deadline = cluster.brokers[1].replicas.deadline()
    assert deadline is not None and deadline <= cluster.now + UNHURRIED_PAUSE_MS
    pause_ms = max(0, deadline - cluster.now)
    turn(cluster, after_ms=pause_ms)
    return pause_ms


def hosted(broker: Broker, topic: str) -> list[int]:
    """The partitions of a topic that have a log and a role."""
    return [key.partition for key in broker.replicas.partitions if key.topic == topic]


def first(broker: Broker, topic: str) -> Partition:
    """The first partition of a topic."""
    return broker.replicas.partitions[TopicPartition(topic, 0)]


class Steps:
    """Counts the roles and logs that change, by turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[TopicPartition] = []
        self._seen = 0
        host, drop = Roles.host, Roles.drop

        def counted_host(roles: Roles, decision, now):  # type: ignore[no-untyped-def]
            self.keys.append(decision.topic_partition)
            host(roles, decision, now)

        def counted_drop(roles: Roles, key, reason):  # type: ignore[no-untyped-def]
            self.keys.append(key)
            drop(roles, key, reason)

        monkeypatch.setattr(Roles, "host", counted_host)
        monkeypatch.setattr(Roles, "drop", counted_drop)

    def new(self) -> int:
        """How many since the last call."""
        seen, self._seen = self._seen, len(self.keys)
        return self._seen - seen

    def most_in_a_turn(self, cluster: Cluster) -> int:
        """The most that one turn takes, until nothing waits."""
        replicas, most = cluster.brokers[1].replicas, self.new()
        while replicas._metadata.has_work:
            cluster.timeline.run_for(1)
            replicas.wake(cluster.now)
            most = max(most, self.new())
        return most


# Slices ---------------------------------------------------------------------------------------


def test_a_turn_makes_a_few_logs_and_wants_the_next_one_after_a_pause(cluster: Cluster) -> None:
    """A second look in the same instant makes none, and nothing that arrives in between has any
    made. Those that are left when the queue has nothing else share the machine with clients."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    made = [len(hosted(broker, "wide"))]
    broker.replicas.wake(cluster.now)
    assert len(hosted(broker, "wide")) == made[0]
    while broker.replicas._metadata.has_work:
        for _ in range(UNHURRIED_PAUSE_MS - 1):
            cluster.produce(1, [b"meanwhile"], acks=1)
            turn(cluster)
            assert len(hosted(broker, "wide")) == made[-1]
        assert to_deadline(cluster) == 1
        made.append(len(hosted(broker, "wide")))
    most = LOGS_PER_TURN // UNHURRIED_SHARE
    assert max(b - a for a, b in pairwise(made)) == most
    assert len(made) <= 1 + COUNT // most
    assert hosted(broker, "wide") == list(range(COUNT))
    deadline = broker.replicas.deadline()
    assert deadline is None or deadline > cluster.now + 1


def test_a_role_is_not_kept_waiting_by_the_pause(cluster: Cluster) -> None:
    """New logs wait; an election that arrives in their pause has the whole work of the turn."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    made = len(hosted(broker, "wide"))
    cluster.timeline.run_for(1)
    cluster.feed.change("orders", leader=1)
    follow(cluster)
    assert first(broker, "orders").leader_epoch == 1
    assert len(hosted(broker, "wide")) <= made + LOGS_PER_TURN


@pytest.fixture(scope="module")
def wide() -> Cluster:
    """Two brokers, of which the first leads a thousand partitions."""
    cluster = cluster_of(1, 2, config=replace(CONFIG, metadata_work_per_turn=1 << 40))
    cluster.feed.create_topic("wide", (1, 2), partitions=MANY)
    cluster.brokers[2].sees_metadata = False
    follow(cluster)
    turn(cluster)
    return cluster


def set_work(cluster: Cluster, work: int) -> None:
    """From now on a turn does so much."""
    env = cluster.brokers[1].replicas._env
    config = replace(env.config, metadata_work_per_turn=work)
    object.__setattr__(env, "config", config)
    object.__setattr__(env, "work", TurnWork(work))


def test_no_turn_is_long_whatever_happens_to_a_thousand(
    wide: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another leader for all, the lead again, another ISR, another configuration, the broker's
    configuration, a fenced broker, and the end of the topic."""
    set_work(wide, REPLICA_WORK_PER_TURN)
    steps, feed, roles_per_turn = (
        Steps(monkeypatch),
        wide.feed,
        1 + REPLICA_WORK_PER_TURN // ROLE_CHANGE_WORK,
    )
    changes = [
        partial(feed.change, "wide", leader=2),
        partial(feed.change, "wide", leader=1),
        partial(feed.change, "wide", isr=(1,)),
    ]
    for change in changes:
        for number in range(MANY):
            change(partition=number)
        follow(wide)
        assert 0 < steps.most_in_a_turn(wide) <= roles_per_turn
        assert len({key.partition for key in steps.keys}) == MANY
        steps.keys.clear()
        steps.new()
    feed.configure("wide", "segment.bytes", "4096")
    follow(wide)
    assert 0 < steps.most_in_a_turn(wide) <= 10 * roles_per_turn
    assert {log.config.segment_bytes for log in logs(wide)} == {4096}
    feed.fence(2)
    follow(wide)
    assert steps.most_in_a_turn(wide) == 0
    feed.delete_topic("wide")
    follow(wide)
    assert 0 < steps.most_in_a_turn(wide) <= 1 + REPLICA_WORK_PER_TURN // LOG_DELETION_WORK
    assert logs(wide) == []


def logs(cluster: Cluster) -> list:  # type: ignore[type-arg]
    directory = cluster.brokers[1].directory
    return [log for key, log in directory.logs.items() if key.topic == "wide"]


# Order ----------------------------------------------------------------------------------------


def test_the_most_urgent_step_is_taken_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deposed leaders, new leaders, changed ISRs, followers, new logs, logs that go."""
    cluster = cluster_of(1, 2)
    for name, nodes in [("a-drop", (1, 2)), ("c-follow", (2, 1)), ("d-isr", (1, 2))]:
        cluster.feed.create_topic(name, nodes)
    cluster.feed.create_topic("e-lead", (2, 1))
    cluster.feed.create_topic("f-stop", (1, 2))
    cluster.run(10)
    set_work(cluster, 1)
    steps = Steps(monkeypatch)
    cluster.feed.delete_topic("a-drop")
    cluster.feed.create_topic("b-create", (1, 2))
    cluster.feed.change("c-follow", leader=2)
    cluster.feed.change("d-isr", isr=(1,))
    cluster.feed.change("e-lead", leader=1)
    cluster.feed.change("f-stop", leader=2)
    follow(cluster)
    turns(cluster)
    assert [key.topic for key in steps.keys] == [
        "f-stop",
        "e-lead",
        "d-isr",
        "c-follow",
        "b-create",
        "a-drop",
    ]


def test_logs_that_are_here_do_not_wait_for_new_ones(cluster: Cluster) -> None:
    """A change of an existing partition takes effect before the queue of new ones."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    cluster.feed.change("orders", leader=1)
    broker = follow(cluster)
    assert first(broker, "orders").leader_epoch == 1


def test_metadata_counts_as_applied_once_all_lead_and_follow() -> None:
    """New logs and those that go are not waited for."""
    cluster = cluster_of(1, config=ONE_STEP)
    broker = cluster.brokers[1]
    cluster.feed.change("orders", leader=1)
    cluster.feed.create_topic("wide", (1,), partitions=2)
    before = broker.replicas.applied_offset
    follow(cluster)
    while first(broker, "orders").leader_epoch == 0:
        assert broker.replicas.applied_offset == before
        turn(cluster)
    assert broker.replicas.applied_offset == cluster.feed.image.offset
    assert hosted(broker, "wide") == []


def test_a_start_does_not_count_before_the_replicas_have_their_roles() -> None:
    """Else the controller would make a broker leader that refuses its clients."""
    cluster = cluster_of(1, config=ONE_STEP)
    cluster.kill(1)
    broker = cluster.brokers[1]
    broker.start()
    cluster.feed.forget(1)
    epoch = cluster.feed.register(1)
    follow(cluster)
    broker.replicas.broker_epoch = epoch
    turn(cluster)
    assert hosted(broker, "orders") == []
    assert broker.replicas.applied_offset < epoch
    turns(cluster)
    assert hosted(broker, "orders") == [0]
    assert broker.replicas.applied_offset >= epoch


# Followers of which only the ISR has changed ----------------------------------------------------


def followed(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[Cluster, Steps]:
    """A follower whose turn does one unit of work, after its partition has changed."""
    cluster = cluster_of(2, 1, config=ONE_STEP)
    steps = Steps(monkeypatch)
    cluster.feed.change("orders", **fields)
    follow(cluster)
    return cluster, steps


def test_a_follower_takes_over_an_isr_without_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a restart of a broker with ten thousand replicas these are the most."""
    cluster, steps = followed(monkeypatch, isr=(2,))
    assert steps.keys == []
    image = cluster.feed.image.topics_by_name["orders"].partitions[0]
    assert image.isr == (2,)
    assert first(cluster.brokers[1], "orders").image == image
    turns(cluster)
    assert steps.keys == []


def test_it_takes_a_step_for_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for fields in ({"leader": 2}, {"leader": 1}, {"replicas": (1, 2), "isr": (2,)}):
        cluster, steps = followed(monkeypatch, **fields)
        turns(cluster)
        assert [key.topic for key in steps.keys] == ["orders"], fields


def test_its_new_configuration_comes_with_the_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(2, 1, config=ONE_STEP)
    steps = Steps(monkeypatch)
    cluster.feed.change("orders", isr=(2,))
    cluster.feed.configure("orders", "segment.bytes", "4096")
    broker = follow(cluster)
    replica = first(broker, "orders")
    while replica.image != cluster.feed.image.topics_by_name["orders"].partitions[0]:
        assert steps.keys == []
        turn(cluster)
    assert broker.log("orders").config.segment_bytes == 4096
    assert len(steps.keys) == 1


def test_a_follower_is_not_caught_up_by_an_isr_with_an_election_before_it() -> None:
    """The newest image has both, so the term begins."""
    cluster = cluster_of(2, 1, config=ONE_STEP)
    cluster.feed.change("orders", leader=2)
    cluster.feed.change("orders", isr=(2,))
    broker = follow(cluster)
    turns(cluster)
    assert first(broker, "orders").leader_epoch == 1


# The newest image decides -----------------------------------------------------------------------


def test_a_topic_that_is_deleted_while_it_is_made_leaves_nothing(cluster: Cluster) -> None:
    """Its logs that were made are deleted, the others never made."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    cluster.feed.delete_topic("wide")
    follow(cluster)
    cluster.run(30)
    assert hosted(broker, "wide") == []
    assert [key for key in broker.directory.logs if key.topic == "wide"] == []


def test_a_partition_that_moves_away_before_its_turn_is_not_made(cluster: Cluster) -> None:
    """The newest image decides."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    cluster.feed.change("wide", partition=COUNT - 1, replicas=(2,), isr=(2,), leader=2)
    cluster.run(30)
    assert hosted(broker, "wide") == list(range(COUNT - 1))


def test_a_topic_that_is_created_again_while_it_is_made_has_the_new_id(cluster: Cluster) -> None:
    """No log of the former topic remains."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    cluster.feed.delete_topic("wide")
    topic_id = cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    cluster.run(30)
    logs = [log for key, log in broker.directory.logs.items() if key.topic == "wide"]
    assert len(logs) == COUNT
    assert {log.topic_id for log in logs} == {topic_id}


def test_of_two_elections_only_the_second_takes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leadership that went and came back in a turn's wait begins one term here."""
    cluster = cluster_of(1, 2, config=ONE_STEP)
    cluster.brokers[2].sees_metadata = False
    follow(cluster)
    steps = Steps(monkeypatch)
    cluster.feed.change("orders", leader=2)
    follow(cluster)
    cluster.feed.change("orders", leader=1)
    broker = follow(cluster)
    turns(cluster)
    assert len(steps.keys) == 1
    assert (first(broker, "orders").leader_epoch, first(broker, "orders").leader_id) == (2, 1)


def test_a_topic_that_comes_back_before_its_log_went(cluster: Cluster) -> None:
    """The old log still waits to be dropped when the new topic is there: it goes, and the new log
    is empty."""
    cluster.produce(1, [b"old"])
    set_work(cluster, 1)
    cluster.feed.delete_topic("orders")
    broker = follow(cluster)
    topic_id = cluster.feed.create_topic("orders", (1,))
    follow(cluster)
    assert first(broker, "orders").log.log_end_offset == 1
    turns(cluster)
    assert first(broker, "orders").topic_id == topic_id
    assert first(broker, "orders").log.log_end_offset == 0


def test_a_queued_configuration_is_not_forgotten_when_its_partition_is_sorted_again() -> None:
    """Setting strays aside looks at every log."""
    cluster = cluster_of(1, config=ONE_STEP)
    cluster.feed.configure("orders", "segment.bytes", "4096")
    broker = follow(cluster)
    broker.replicas.remove_strays(cluster.now)
    turns(cluster)
    assert broker.log("orders").config.segment_bytes == 4096


# What a late replica may do ---------------------------------------------------------------------


def code_of(cluster: Cluster, name: str) -> ErrorCode:
    """The answer that is there by now."""
    turn(cluster, after_ms=0)
    for output in cluster.brokers[1].replicas.take_outputs():
        cluster._carry_out(cluster.brokers[1], output)
    (partition,) = cluster.replies[name]
    code: ErrorCode = partition.error_code
    return code


def test_a_role_that_the_published_image_takes_away_takes_no_records() -> None:
    """PublishedRolesServe: a client that writes to a topic that was made again has its records
    acknowledged by the new log, or tries again."""
    cluster = cluster_of(1, config=ONE_STEP)
    cluster.feed.delete_topic("orders")
    broker = follow(cluster)
    cluster.feed.create_topic("orders", (1,))
    follow(cluster)
    old = first(broker, "orders")
    cluster._topic_id = lambda topic: bytes(16)  # type: ignore[assignment, method-assign]
    name = cluster.produce(1, [b"by name"], acks=1)
    assert old.log.log_end_offset == 0
    assert code_of(cluster, name) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    turns(cluster)
    assert code_of(cluster, cluster.produce(1, [b"again"], acks=1)) is ErrorCode.NONE
    assert first(broker, "orders").log.log_end_offset == 1


def test_a_deposed_leader_takes_no_records_before_its_turn() -> None:
    cluster = cluster_of(1, 2, config=ONE_STEP)
    cluster.feed.change("orders", leader=2)
    broker = follow(cluster)
    assert first(broker, "orders").leadership is not None
    name = cluster.produce(1, [b"late"], acks=1)
    assert code_of(cluster, name) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_stays_goes_on_while_its_isr_waits() -> None:
    """Nothing is taken away from it."""
    cluster = cluster_of(1, 2, config=ONE_STEP)
    cluster.feed.change("orders", isr=(1,))
    follow(cluster)
    assert code_of(cluster, cluster.produce(1, [b"now"], acks=1)) is ErrorCode.NONE


def test_a_deleted_topic_is_unknown_at_once() -> None:
    cluster = cluster_of(1, config=ONE_STEP)
    topic_id = cluster._topic_id("orders")
    cluster.feed.delete_topic("orders")
    follow(cluster)
    cluster._topic_id = lambda topic: topic_id  # type: ignore[method-assign]
    name = cluster.produce(1, [b"late"], acks=1)
    assert code_of(cluster, name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_configuration_comes_with_the_isr_that_was_decided_on_it() -> None:
    """ConfigBeforeIsr: under the new min ISR a member that left may still be elected, and must hold
    all that is committed; the former min ISR would let the leader commit without it."""
    cluster = cluster_of(1, 2, config=ONE_STEP)
    cluster.brokers[2].sees_metadata = False
    cluster.cut.add((2, 1))
    cluster.run(10)
    cluster.feed.configure("orders", "min.insync.replicas", "2")
    follow(cluster)
    cluster.feed.change("orders", isr=(1,))
    broker = follow(cluster)
    cluster.produce(1, [b"x"], acks=1)
    seen = set()
    while broker.replicas._metadata.has_work:
        turn(cluster)
        leadership = first(broker, "orders").leadership
        assert leadership is not None
        seen.add((leadership.isr, leadership.min_isr))
    assert ((1,), 2) in seen and ((1,), 1) not in seen
    assert first(broker, "orders").log.high_watermark == 0


# Pauses -----------------------------------------------------------------------------------------


def test_turns_need_not_come_in_the_same_instant(cluster: Cluster) -> None:
    """A process that was paused between two slices goes on where it was."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    turn(cluster, after_ms=60_000)
    turns(cluster)
    assert hosted(broker, "wide") == list(range(COUNT))


def test_a_crash_between_two_slices_leaves_the_rest_to_the_next_start(cluster: Cluster) -> None:
    """Logs that were not made are made then; logs that were not deleted become strays."""
    cluster.feed.create_topic("wide", (1,), partitions=COUNT)
    broker = follow(cluster)
    assert 0 < len(hosted(broker, "wide")) < COUNT
    cluster.kill(1)
    cluster.start(1)
    cluster.run(30)
    assert sorted(hosted(broker, "wide")) == list(range(COUNT))
    cluster.feed.delete_topic("wide")
    follow(cluster)
    left = len(hosted(broker, "wide"))
    assert 0 < left < COUNT
    cluster.kill(1)
    cluster.start(1)
    cluster.run(30)
    broker.replicas.remove_strays(Instant(cluster.now))
    cluster.run(2 * CONFIG.recovery_point_checkpoint_interval_ms)
    assert [key.topic for key in broker.directory.logs] == ["orders"]
    strays = [name for name in broker.disk.list_dir() if name.endswith("-stray")]
    assert len(strays) == left
