"""How fast throttled replicas are fed."""

from dataclasses import replace

import pytest

from tidelog.config import LONG_MAX, ReplicationConfig
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.replication.throttle import ReplicationQuota, Throttles
from tidelog.sim.replicas.cluster import CONFIG, Cluster

WINDOW = ReplicationConfig(replication_quota_window_num=3, replication_quota_window_size_seconds=1)


def quota(rate: int) -> ReplicationQuota:
    """Three samples of a second."""
    made = ReplicationQuota(WINDOW)
    made.rate = rate
    return made


def at(ms: int) -> Instant:
    """An instant."""
    return Instant(ms)


def test_without_a_rate_nothing_is_too_much() -> None:
    """The default."""
    unlimited = ReplicationQuota(WINDOW)
    unlimited.record(LONG_MAX, at(0))
    assert not unlimited.is_exceeded(at(0))
    assert unlimited.free_at(at(0)) is None


def test_a_quota_is_exceeded_by_more_than_its_rate() -> None:
    """Over the time since the oldest sample began, and over a sample at least."""
    made = quota(100)
    made.record(100, at(0))
    assert not made.is_exceeded(at(0))
    made.record(50, at(500))
    assert made.is_exceeded(at(500))
    assert made.free_at(at(500)) == 1500
    assert made.is_exceeded(at(1499))
    assert not made.is_exceeded(at(1500))


def test_what_was_long_ago_does_not_count() -> None:
    """A sample is forgotten a window after it began."""
    made = quota(100)
    made.record(5000, at(0))
    assert made.free_at(at(0)) == 3000
    assert made.is_exceeded(at(2999))
    assert not made.is_exceeded(at(3000))


def test_a_rate_of_zero_lets_one_answer_through_a_window() -> None:
    """As in Kafka: what is about to be moved is not known."""
    made = quota(0)
    assert not made.is_exceeded(at(0))
    made.record(1, at(0))
    assert made.is_exceeded(at(2999))
    assert made.free_at(at(10)) == 3000
    assert not made.is_exceeded(at(3000))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_free_exactly_when_it_says(seed: int) -> None:
    """Not a millisecond before, whatever was moved when."""
    prng = Prng(seed)
    made = quota(prng.between(1, 500))
    now = 0
    for _ in range(200):
        now += prng.between(0, 700)
        made.record(prng.between(0, 900), at(now))
        free_at = made.free_at(at(now))
        if free_at is None:
            continue
        copy = quota(made.rate)
        copy.window.samples.extend(made.window.samples)
        copy.window.total = made.window.total
        assert copy.is_exceeded(at(free_at - 1))
        assert not copy.is_exceeded(free_at)


@pytest.mark.parametrize("seed", range(5))
def test_throttled_on_the_whole(seed: int) -> None:
    """Moves while it is not exceeded keep to the rate, but for the last answer."""
    prng = Prng(seed)
    made = quota(1000)
    moved, now, largest = 0, 0, 3000
    while now < 60_000:
        if not made.is_exceeded(at(now)):
            size = prng.between(1, largest)
            made.record(size, at(now))
            moved += size
        now += prng.between(1, 50)
    assert moved <= 1000 * (now / 1000 + 3) + largest
    assert moved >= 1000 * (now / 1000) * 0.8


def test_which_replicas_a_topic_names() -> None:
    """All, or pairs of partition and broker."""
    throttles = Throttles(2, WINDOW)
    assert throttles.names("*", 7)
    assert throttles.names("0:1, 7:2", 7)
    assert not throttles.names("0:1,7:2", 0)
    assert not throttles.names("", 0)


def catching_up(side: str, rate: int, replicas: str = "*") -> Cluster:
    """Broker 3 comes back to 400 batches of about 1 kB while one side throttles it."""
    small = replace(CONFIG, replica_fetch_max_bytes=20_000)
    cluster = Cluster((1, 2, 3), config=small)
    config = {f"{side}.replication.throttled.replicas": replicas}
    cluster.feed.create_topic("orders", (1, 2, 3), **config)
    cluster.run(20)
    cluster.kill(3)
    cluster.feed.change("orders", isr=(1, 2))
    for _ in range(400):
        cluster.produce(1, [b"x" * 930])
        cluster.run(3)
    for broker in cluster.brokers.values():
        broker.replicas.set_throttled_rates(
            leader=rate if side == "leader" else LONG_MAX,
            follower=rate if side == "follower" else LONG_MAX,
            moves=LONG_MAX,
        )
    cluster.start(3)
    cluster.brokers[3].replicas.set_throttled_rates(
        leader=LONG_MAX, follower=rate if side == "follower" else LONG_MAX, moves=LONG_MAX
    )
    return cluster


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_catches_up_keeps_to_the_rate(side: str) -> None:
    """About 400 kB at 40 kB a second, in answers of at most 20 kB; acks are not held up."""
    cluster = catching_up(side, 40_000)
    broker = cluster.brokers[3]
    seen: list[int] = []
    for _ in range(14):
        cluster.run(1000)
        seen.append(broker.log("orders").size_bytes)
        name = cluster.produce(1, [b"y"])
        cluster.run(10)
        assert cluster.replies[name][0].base_offset >= 400
    whole = cluster.brokers[1].log("orders").size_bytes
    assert seen[3] < whole / 2
    assert all(size <= 40_000 * (second + 4) + 25_000 for second, size in enumerate(seen))
    assert seen[-1] >= whole - 200
    assert cluster.feed.partition("orders").isr == (1, 2, 3)


@pytest.mark.parametrize(("side", "other"), [("leader", "0:2"), ("follower", "0:1")])
def test_a_replica_that_is_not_named_is_not_throttled(side: str, other: str) -> None:
    """The pair is partition and broker: the leader's on its side, the follower's on its own."""
    cluster = catching_up(side, 40_000, other)
    cluster.run(1000)
    assert cluster.brokers[3].log("orders").log_end_offset == 400


def test_in_sync_replicas_are_counted_and_not_held_up() -> None:
    """What they fetch leaves less for those that catch up."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2), **{"leader.replication.throttled.replicas": "*"})
    cluster.run(20)
    replicas = cluster.brokers[1].replicas
    replicas.set_throttled_rates(leader=100, follower=LONG_MAX, moves=LONG_MAX)
    for number in range(20):
        name = cluster.produce(1, [b"z" * 500])
        cluster.run(10)
        assert cluster.replies[name][0].base_offset == number
    assert replicas._env.throttles.leader.is_exceeded(cluster.now)
