"""Random failures over three brokers and the real controller: no acknowledged record is lost, and
replicas are equal below the high watermark.

Each seed draws a run of kills (unflushed data survives: a process dies, not a machine), restarts,
broken and slow links, blind and silent phases, stalled devices and elections, while producers write
with acks=all to the broker that they take for the leader. In a quarter of the runs the machine dies
with the process, and the topic has group commit. An oracle outside of the brokers remembers every
record that any leader ever showed below its high watermark, and compares. At the end everything
heals, and within a bounded time every replica must be in sync and equal.

The same runs must fail when a safeguard is taken away; otherwise they would prove nothing.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, LogDamaged
from tidelog.log.log import Log
from tidelog.model import TopicPartition
from tidelog.replication import fetch_reading
from tidelog.replication.fetcher import ReplicaFetcher
from tidelog.replication.isr import Pending
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition, Role
from tidelog.replication.purgatory import AckQueue
from tidelog.replication.replicas import Replicas
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.controlled import ControlledFeed
from tidelog.sim.replicas.reading import Written, records_of

NODES = (1, 2, 3)
KEY = TopicPartition("orders", 0)
STEPS = 60
STORM_CONFIG = replace(
    CONFIG,
    replica_lag_time_max_ms=100,
    replica_fetch_wait_max_ms=30,
    replica_fetch_backoff_ms=40,
    alter_partition_retry_ms=20,
)


class Violation(AssertionError):
    """A promise was broken."""


class Storm:
    """One seed's run."""

    config = STORM_CONFIG

    def __init__(self, seed: int, *, power_cuts: bool = False) -> None:
        self.seed = seed
        self.prng = Prng(seed)
        self.feed = ControlledFeed(seed)
        self.cluster = Cluster(NODES, config=self.config, feed=self.feed)
        # Everything that any leader showed below its high watermark.
        self.committed: list[Written] = []
        # Values sent, by the name of the request; and where they were acknowledged.
        self.sent: dict[str, list[bytes]] = {}
        self.batches = 0
        self.acknowledged: dict[int, bytes] = {}
        self._judged: set[str] = set()
        self._next_heartbeat = 0
        # What each leader's log looked like when it was last compared.
        self._seen: dict[int, tuple[object, ...]] = {}
        # With group commit whole machines may die, all of them at once if need be.
        self.power_cuts = power_cuts
        configs = {"min.insync.replicas": "2"}
        if power_cuts:
            configs["flush.messages"] = "1"
        self.run(50)
        self.feed.create_topic("orders", NODES, **configs)
        self.run(20)

    # Time and truth ---------------------------------------------------------------------------

    def run(self, for_ms: int) -> None:
        """Moves time in small steps; brokers heartbeat, the oracle watches."""
        for _ in range(max(1, for_ms // 10)):
            self.feed.now = self.cluster.now
            if self.cluster.now >= self._next_heartbeat:
                self._next_heartbeat = self.cluster.now + 40
                for node, broker in self.cluster.brokers.items():
                    if broker.running and broker.sees_metadata:
                        self.keep_alive(node, broker.replicas)
            self.feed.wake()
            self.cluster.run(10)
            self.watch()

    def keep_alive(self, node: int, replicas: Replicas) -> None:
        """The heartbeat of a broker to the controller."""
        if replicas.broker_epoch < 0:
            replicas.broker_epoch = self.feed.register(node)
        else:
            self.feed.heartbeat(node, replicas.broker_epoch)

    def watch(self) -> None:
        """Compares what the leaders show with what was shown before."""
        for node, broker in self.cluster.brokers.items():
            log = broker.directory.logs.get(KEY) if broker.running else None
            if log is not None and self.leads(node):
                self.watch_leader(node, log)
        for name, results in self.cluster.replies.items():
            if name in self.sent and name not in self._judged:
                self._judged.add(name)
                self.judge(name, results[0].error_code, results[0].base_offset)

    def leads(self, node: int) -> bool:
        """Whether the broker believes that it leads."""
        hosted = self.cluster.brokers[node].replicas.partitions.values()
        return any(partition.role is Role.LEADER for partition in hosted)

    def watch_leader(self, node: int, log: Log) -> None:
        """Extends the oracle, or finds that the leader contradicts it."""
        newest = self.feed.partition("orders")
        bounds = (log.high_watermark, log.log_end_offset, log.latest_epoch)
        incarnation = self.cluster.brokers[node].incarnation
        look = (incarnation, *bounds, newest.leader, newest.leader_epoch, len(self.committed))
        if self._seen.get(node) == look:
            return
        self._seen[node] = look
        known = len(self.committed)
        shown = records_of(log, log.high_watermark)
        if shown[:known] != self.committed[: len(shown)]:
            raise Violation(f"b{node} shows {shown}, committed was {self.committed}")
        self.committed += shown[known:]
        if newest.leader == node and newest.leader_epoch == log.latest_epoch:
            held = records_of(log)
            if held[: len(self.committed)] != self.committed:
                raise Violation(f"LeaderCompleteness: b{node} holds {held} of {self.committed}")

    def judge(self, name: str, code: ErrorCode, base_offset: int) -> None:
        """An acknowledged record must be committed, at the offset of the answer."""
        if code is not ErrorCode.NONE:
            return
        for offset, value in enumerate(self.sent[name], start=base_offset):
            self.acknowledged[offset] = value
            if offset >= len(self.committed) or self.committed[offset].value != value:
                raise Violation(f"{name} {value!r} was acknowledged at {offset}")

    # Faults -----------------------------------------------------------------------------------

    def step(self) -> None:
        """One random event, more often than not at the leader."""
        leader = self.feed.partition("orders").leader
        node = leader if leader >= 0 and self.prng.chance(1, 2) else self.prng.choice(NODES)
        other = self.prng.choice([number for number in NODES if number != node])
        link = (node, other) if self.prng.chance(1, 2) else (other, node)
        actions: list[tuple[int, Callable[[], None]]] = [
            (16, self.produce),
            (4, lambda: self.kill(node)),
            (4, lambda: self.start(self.prng.choice(NODES))),
            (1, lambda: self.cut(node, other)),
            (2, self.heal),
            (4, lambda: self.cluster.held.add(link)),
            (4, lambda: self.cluster.release(*link)),
            (3, lambda: self.blind(node)),
            (3, lambda: self.see(self.prng.choice(NODES))),
            (1, lambda: self.stall_device(node)),
            (1, lambda: self.resume_device(self.prng.choice(NODES))),
            (2, self.controller_fault),
            (2, self.controller_back),
            (1, lambda: self.run(200)),
        ]
        draw = self.prng.below(sum(weight for weight, _ in actions))
        for weight, action in actions:
            if draw < weight:
                action()
                break
            draw -= weight
        self.run(self.prng.between(0, 3) * 10)

    def produce(self) -> None:
        """A batch to a broker that believes that it leads, right or wrong."""
        leaders = [n for n in NODES if self.cluster.brokers[n].running and self.leads(n)]
        if not leaders:
            return
        count = self.prng.between(1, 3)
        self.batches += 1
        values = [f"{self.batches}.{index}".encode() for index in range(count)]
        acks = -1 if self.prng.chance(3, 4) else 1
        name = self.cluster.produce(self.prng.choice(leaders), values, acks=acks, timeout_ms=3000)
        if acks == -1:
            self.sent[name] = values

    def kill(self, node: int) -> None:
        """The process ends, with group commit the machine; mostly it is noticed at once."""
        broker = self.cluster.brokers[node]
        if broker.running:
            self.cluster.kill(node)
            if self.power_cuts:
                broker.disk.crash(self.prng)
            if self.prng.chance(3, 4):
                self.feed.suspect(node)

    def start(self, node: int) -> None:
        """A new process, when the old one is gone."""
        broker = self.cluster.brokers[node]
        if not broker.running:
            broker.sees_metadata = broker.flushes = True
            self.cluster.start(node)

    def cut(self, node: int, other: int) -> None:
        """No messages between two brokers."""
        self.cluster.cut |= {(node, other), (other, node)}

    def heal(self) -> None:
        """All links work."""
        self.cluster.cut.clear()

    def blind(self, node: int) -> None:
        """A broker receives no metadata and sends no heartbeats."""
        self.cluster.brokers[node].sees_metadata = False

    def see(self, node: int) -> None:
        """And again."""
        self.cluster.brokers[node].sees_metadata = True

    def stall_device(self, node: int) -> None:
        """Nothing becomes durable."""
        self.cluster.brokers[node].flushes = False

    def resume_device(self, node: int) -> None:
        """And again."""
        self.cluster.brokers[node].flushes = True

    def controller_fault(self) -> None:
        """ISR proposals are not decided, or decided and the answer is lost."""
        self.cluster.controller = self.prng.choice(("unreachable", "decides-unheard"))

    def controller_back(self) -> None:
        """And again."""
        self.cluster.controller = "decides"

    # The end ----------------------------------------------------------------------------------

    def storm(self) -> None:
        """All of it."""
        try:
            for _ in range(STEPS):
                self.step()
            self.calm()
            self.verify()
        except AssertionError as error:
            raise Violation(f"seed {self.seed}: {error}") from error

    def calm(self) -> None:
        """Everything heals; within a bounded time all replicas are in sync and equal."""
        self.heal()
        self.controller_back()
        for link in list(self.cluster.held):
            self.cluster.release(*link)
        for node in NODES:
            self.see(node)
            self.resume_device(node)
            self.start(node)
        for _ in range(100):
            self.run(100)
            if self.is_settled():
                return
        raise Violation(f"not settled: {self.feed.partition('orders')}")

    def is_settled(self) -> bool:
        """All in sync, everything committed, everywhere known."""
        if set(self.feed.partition("orders").isr) != set(NODES):
            return False
        logs = [self.cluster.brokers[node].log("orders") for node in NODES]
        ends = {end for log in logs for end in (log.log_end_offset, log.high_watermark)}
        return len(ends) == 1

    def verify(self) -> None:
        """Nothing that was promised is missing anywhere."""
        for node in NODES:
            held = records_of(self.cluster.brokers[node].log("orders"))
            if held[: len(self.committed)] != self.committed:
                raise Violation(f"b{node} holds {held}, committed was {self.committed}")
            for offset, value in self.acknowledged.items():
                if held[offset].value != value:
                    raise Violation(f"b{node} lost {value!r} at {offset}")


@pytest.mark.parametrize("first", range(0, 200, 40))
def test_no_acknowledged_record_is_lost(first: int) -> None:
    """Kills, cuts, stalls and elections; the safeguards are in place."""
    acknowledged = 0
    for seed in range(first, first + 40):
        storm = Storm(seed, power_cuts=seed % 4 == 0)
        storm.storm()
        acknowledged += len(storm.acknowledged)
    assert acknowledged > 100, "the runs wrote next to nothing"


def test_a_look_that_is_left_out_would_have_found_nothing() -> None:
    """A tick that is about something else costs no look at all replicas; none is missed."""
    looks = 0
    for seed in range(12):
        storm = Storm(seed, power_cuts=seed % 2 == 0)
        for _ in range(STEPS):
            storm.step()
            for broker in storm.cluster.brokers.values():
                if broker.running and not broker.replicas._is_stirred:
                    looks += 1
                    broker.replicas._is_stirred = True
                    broker.replicas.wake(storm.cluster.now)
                    assert broker.replicas.take_outputs() == [], f"seed {seed}"
    assert looks > 1_000


ABLATIONS: dict[str, tuple[object, str, object]] = {
    "the high watermark moves below the min ISR": (
        LeaderState,
        "is_under_min_isr",
        property(lambda _: False),
    ),
    "a pending shrink no longer counts": (
        Pending,
        "maximal_isr",
        property(lambda self: self.proposed_isr),
    ),
    "followers are not waited for": (LeaderState, "waits_for", lambda *_: False),
    "acks come one record early": (
        AckQueue,
        "take_up_to",
        lambda self, high_watermark: _take_up_to(self, high_watermark + 1),
    ),
    "group commit does not wait for the device": (
        LeaderState,
        "own_end_offset",
        property(lambda self: self.log.log_end_offset),
    ),
    "a follower claims what is not on its device": (
        Partition,
        "is_flushed",
        property(lambda _: True),
    ),
    "divergence is not looked for": (fetch_reading, "_divergence", lambda *_: None),
    "followers cut to the high watermark": (
        ReplicaFetcher,
        "add",
        lambda self, partition, epoch: _add_after_cutting(self, partition, epoch),
    ),
}
_add = ReplicaFetcher.add
_take_up_to = AckQueue.take_up_to


def _add_after_cutting(fetcher: ReplicaFetcher, partition: Partition, epoch: int) -> bool:
    partition.log.truncate_to(partition.log.high_watermark)
    return _add(fetcher, partition, epoch)


@pytest.mark.parametrize("safeguard", ABLATIONS)
def test_the_storm_notices_a_missing_safeguard(
    safeguard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a hundred seeds at most."""
    target, name, replacement = ABLATIONS[safeguard]
    monkeypatch.setattr(target, name, replacement)
    for seed in range(100):
        storm = Storm(seed, power_cuts="device" in safeguard)
        try:
            storm.storm()
        except (Violation, LogDamaged):
            return
    raise AssertionError(f"no check noticed that {safeguard}")
