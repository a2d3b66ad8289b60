"""Reading what is due gives what reading everything would give.

Each seed draws a history of three brokers: producers, followers and consumers with fetch sessions,
elections, deleted and remade topics, raised log starts, throttles, ends of processes, broken and
slow links. It runs twice: as it is, and with everything due before each reading. All answers, what
the leaders know of their followers at each step, and every trace line must be the same. With small
slices the answers differ, but not where it all ends.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tidelog.broker.fetch_sessions import FetchSession, FetchSessions
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.kraft.committed import contiguous
from tidelog.model import TopicPartition
from tidelog.replication import fetch_reading
from tidelog.replication.fetch_reading import Reading
from tidelog.replication.interest import Interest
from tidelog.replication.messages import TO_HIGH_WATERMARK, RecordsToDelete
from tidelog.replication.shared import Env
from tidelog.sim.replicas.cluster import Cluster
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenPartition,
)

PARTITIONS = 6
STEPS = 160
TOPICS = ("orders", "spare")


def shown(answer: FetchedPartition) -> tuple[Any, ...]:
    """What a client sees of an answer."""
    return (*answer._replace(records=[contiguous(answer.records)]),)


class Consumer:
    """Reads all partitions of both topics from one broker, in a session."""

    def __init__(self, history: "History", node: int, number: int) -> None:
        self.history, self.node = history, node
        self.name = f"c{number}-0"
        self.prng = Prng(number)
        self.session: FetchSession | None = None
        self.epoch = 0
        self.offsets: dict[tuple[str, int], int] = {}
        self.dropped: list[ForgottenPartition] = []
        self.waits = False
        self.full = True

    def step(self) -> None:
        """Takes the answer if there is one, and asks again."""
        cluster = self.history.cluster
        if self.waits:
            answers = cluster.replies.pop(self.name, None)
            if answers is None:
                return
            self.waits = False
            sessions = cluster.brokers[self.node].sessions
            closed = sessions.close(
                FetchResponse(0, ErrorCode.NONE, 0, answers), self.session, self.full
            )
            for answer in closed.partitions:
                self.take(answer)
        self.send()

    def take(self, answer: FetchedPartition) -> None:
        """Goes on behind the records, or anywhere after an error."""
        key = (answer.topic, answer.partition)
        if answer.error_code is not ErrorCode.NONE:
            self.offsets[key] = 0
        elif answer.records_bytes:
            self.offsets[key] = max(self.offsets.get(key, 0), answer.high_watermark)

    def send(self) -> None:
        """The next request of the session, or the first of a new one."""
        cluster, prng = self.history.cluster, self.prng
        broker = cluster.brokers[self.node]
        if not broker.running:
            self.session, self.epoch = None, 0
            return
        image = cluster.feed.image
        listed = [
            FetchPartition(topic, image.topics_by_name[topic].topic_id, number, -1,
                           self.offsets.get((topic, number), 0), -1, -1, 1 << 20)
            for topic in TOPICS if topic in image.topics_by_name
            for number in range(PARTITIONS)
            if prng.chance(1, 3) or self.session is None
        ]  # fmt: skip
        forgotten = []
        if self.session is not None and prng.chance(1, 6):
            forgotten = [
                ForgottenPartition(*each.want[:3])
                for each in self.session.interest.wanted.values()
                if prng.chance(1, 4)
            ]
        request = FetchRequest(
            -1, -1, prng.choice((0, 50, 300)), prng.choice((1, 1, 400)),
            prng.choice((150, 1 << 20)), int(prng.chance(1, 8)),
            0 if self.session is None else self.session.session_id, self.epoch, listed, forgotten,
        )  # fmt: skip
        self.name = self.name.split("-")[0] + f"-{int(self.name.split('-')[1]) + 1}"
        try:
            self.session, interest = broker.sessions.open(request, True, cluster.now)
        except ProtocolError:
            self.session, self.epoch = None, 0
            return
        self.full = self.epoch == 0
        self.epoch = 0 if self.session is None else self.session.next_epoch
        self.waits = True
        broker.replicas.fetch(request, self.name, cluster.now, interest=interest)


class History:
    """One seed's run."""

    def __init__(self, seed: int) -> None:
        self.prng = Prng(seed)
        self.cluster = Cluster((1, 2, 3))
        for topic in TOPICS:
            self.cluster.feed.create_topic(topic, (1, 2, 3), partitions=PARTITIONS)
        self.cluster.run(50)
        self.consumers = [Consumer(self, 1 + number % 3, number) for number in range(4)]
        self.rate = 2**63 - 1

    def run(self) -> Iterator[object]:
        """What can be seen after each step."""
        for step in range(STEPS):
            if step % 20 == 0:
                self.heal()
            for _ in range(1 + self.prng.below(3)):
                self.act()
            self.cluster.run(self.prng.choice((0, 1, 5, 20, 150)))
            yield self.seen()

    def heal(self) -> None:
        """Every broker runs, and every link works."""
        cluster = self.cluster
        for node, broker in cluster.brokers.items():
            if not broker.running:
                cluster.start(node)
        cluster.cut.clear()
        for link in list(cluster.held):
            cluster.release(*link)

    def act(self) -> None:
        """Something happens."""
        prng = self.prng
        draw = prng.below(100)
        topic = prng.choice(TOPICS)
        number = prng.below(PARTITIONS)
        if draw < 45:
            self.produce(topic, number)
        elif draw < 80:
            prng.choice(self.consumers).step()
        else:
            self.disturb(draw, topic, number)

    def produce(self, topic: str, number: int) -> None:
        """One batch to the leader."""
        leader = self.cluster.feed.partition(topic, number).leader
        if self.cluster.brokers[leader].running:
            acks = self.prng.choice((1, -1))
            value = b"v" * (1 + self.prng.below(120))
            self.cluster.produce(leader, [value], topic=topic, partition=number, acks=acks)

    def disturb(self, draw: int, topic: str, number: int) -> None:
        """A change that is not a record."""
        cluster, feed, node = self.cluster, self.cluster.feed, 1 + self.prng.below(3)
        known = feed.partition(topic, number)
        if draw < 86:
            feed.change(topic, partition=number, leader=self.prng.choice(known.isr))
        elif draw < 89:
            wanted = [RecordsToDelete(topic, number, TO_HIGH_WATERMARK)]
            if cluster.brokers[known.leader].running:
                leader = cluster.brokers[known.leader].replicas
                leader.delete_records(wanted, f"d{cluster.now}", cluster.now, timeout_ms=100)
        elif draw < 92:
            links = cluster.cut if self.prng.chance(1, 2) else cluster.held
            links.add((node, 1 + node % 3))
        elif draw < 95:
            self.heal()
        elif draw < 97:
            feed.configure(
                topic, "leader.replication.throttled.replicas", self.prng.choice(("*", ""))
            )
            for broker in cluster.brokers.values():
                broker.replicas.set_throttled_rates(leader=100, follower=2**63 - 1, moves=2**63 - 1)
        elif draw < 98:
            feed.delete_topic("spare")
            cluster.run(self.prng.below(3))
            feed.create_topic("spare", (2, 3, 1), partitions=PARTITIONS)
        elif cluster.brokers[node].running:
            cluster.kill(node)
            feed.fence(node)

    def seen(self) -> object:
        """What the leaders know, and the trace."""
        lines, self.cluster.lines[:] = list(self.cluster.lines), []
        state: dict[TopicPartition, object] = {}
        for broker in self.cluster.brokers.values():
            hosted = broker.replicas.partitions if broker.running else {}
            for key, partition in hosted.items():
                leadership = partition.leadership
                if leadership is not None:
                    state[key] = (
                        partition.log.high_watermark,
                        leadership.isr_state,
                        [
                            (replica_id, remote.log_end_offset, remote.log_start_offset,
                             remote.leader_end_at_fetch, remote.last_fetch, remote.last_caught_up,
                             remote.broker_epoch)
                            for replica_id, remote in leadership.remotes.items()
                        ],
                    )  # fmt: skip
        return (self.cluster.now, state, lines)


def record_answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """All that sessions answer from now on. To read takes nothing of the turn: how much is read is
    what the two ways differ in."""
    monkeypatch.setattr(fetch_reading, "PARTITION_READING_WORK", 0)
    seen: list[object] = []
    close = FetchSessions.close

    def closing(self: FetchSessions, response: FetchResponse, session: Any, full: bool) -> Any:
        closed = close(self, response, session, full)
        seen.append((closed.session_id, [shown(answer) for answer in closed.partitions]))
        return closed

    monkeypatch.setattr(FetchSessions, "close", closing)
    return seen


def read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on all that is wanted is due whenever a fetch is read."""
    begin_fetch, begin_reading = Interest.begin_fetch, Reading.__init__

    def beginning(self: Interest, *args: Any) -> None:
        self.make_all_due()
        begin_fetch(self, *args)

    def reading(self: Reading, env: Env, *args: Any, on_arrival: bool) -> None:
        parked = args[2]
        request = parked.request
        # A stale sender was replaced while the fetch waited, and takes no answer.
        if not on_arrival and not env.brokers.is_stale(request.replica_id, request.replica_epoch):
            parked.interest.make_all_due()
        begin_reading(self, env, *args, on_arrival=on_arrival)

    monkeypatch.setattr(Interest, "begin_fetch", beginning)
    monkeypatch.setattr(Reading, "__init__", reading)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_due_is_all_that_has_news(seed: int) -> None:
    """Two histories, each in both ways."""
    with pytest.MonkeyPatch.context() as patch:
        answers = record_answers(patch)
        steps = list(History(seed).run())
    with pytest.MonkeyPatch.context() as patch:
        expected = record_answers(patch)
        read_everything(patch)
        for index, step in enumerate(History(seed).run()):
            assert steps[index] == step, f"step {index}"
    assert answers == expected
    assert len(answers) > STEPS


@pytest.mark.parametrize("seed", range(100, 102))
def test_slices_lose_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions a turn, and two with records in an answer: in the end all replicas are equal
    and in sync."""
    monkeypatch.setattr(fetch_reading, "MAX_PARTITIONS_READ_PER_TURN", 2)
    monkeypatch.setattr(fetch_reading, "MAX_PARTITIONS_WITH_RECORDS", 2)
    history = History(seed)
    for _ in history.run():
        pass
    history.heal()
    history.cluster.run(5000)
    for number in range(PARTITIONS):
        logs = [broker.log("orders", number) for broker in history.cluster.brokers.values()]
        ends = {(log.high_watermark, log.log_end_offset) for log in logs}
        assert len(ends) == 1, f"{number} {ends}"
        assert len(history.cluster.feed.partition("orders", number).isr) == 3
