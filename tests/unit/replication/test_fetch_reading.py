"""Fetches in sessions: each reads what has changed, and misses none of it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from tidelog.broker.fetch_sessions import FetchSession, FetchSessions
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.replication import fetch_reading
from tidelog.replication.fetch_reading import Reading
from tidelog.replication.interest import Interest
from tidelog.replication.partition import Partition
from tidelog.replication.remote_replica import RemoteReplica
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.feed import topic_id_of
from tidelog.wire.fetch import (
    FETCH_ANY_HIGH_WATERMARK,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)

MANY = 1000
TOPIC_SIZE = 250


def make_cluster(partitions: int = 3) -> Cluster:
    """Broker 1 leads; broker 2 does not fetch by itself."""
    cluster = Cluster((1, 2), config=replace(CONFIG, metadata_work_per_turn=1 << 30))
    cluster.held.add((2, 1))
    for first in range(0, partitions, TOPIC_SIZE):
        size = min(TOPIC_SIZE, partitions - first)
        cluster.feed.create_topic(name_of(first)[0], (1, 2), partitions=size)
        cluster.run(0)
    return cluster


def name_of(number: int) -> tuple[str, int]:
    """The topic and partition that a number stands for."""
    topic = number // TOPIC_SIZE
    return f"orders{topic or ''}", number % TOPIC_SIZE


def with_records(answers: Iterable[FetchedPartition]) -> list[int]:
    """The partitions that got some."""
    return [each.partition for each in answers if each.records_bytes]


@pytest.fixture
def cluster() -> Cluster:
    """Three partitions."""
    return make_cluster()


class Session:
    """A fetcher of broker 1, by default the follower on broker 2."""

    def __init__(self, cluster: Cluster, partitions: int = 3, *, replica_id: int = 2) -> None:
        self.cluster, self.replica_id = cluster, replica_id
        self.sent = 0
        self.sessions: FetchSessions = cluster.brokers[1].sessions
        self.known: FetchSession | None = None
        self.next = [self.want(number) for number in range(partitions)]

    @property
    def interest(self) -> Interest:
        """What is wanted."""
        assert self.known is not None
        return self.known.interest

    def want(self, number: int, offset: int = 0, known: int | None = None) -> FetchPartition:
        """One wish; `known` is the high watermark that the follower knows."""
        epoch = 0 if self.replica_id >= 0 else -1
        known = FETCH_ANY_HIGH_WATERMARK if known is None else known
        topic_id = topic_id_of(1 + number // TOPIC_SIZE)
        return FetchPartition(
            *(name_of(number)[0], topic_id, name_of(number)[1], epoch, offset),
            *(-1, 0, 1 << 20, known),
        )

    def send(self, *listed: FetchPartition, max_wait_ms: int = 500) -> str:
        """The next fetch, in the tick under way."""
        session_id, epoch = (
            (0, 0) if self.known is None else (self.known.session_id, self.known.next_epoch)
        )
        request = FetchRequest(
            self.replica_id, -1, max_wait_ms, 1, 1 << 20, 0, session_id, epoch,
            [*self.next, *listed], [],
        )  # fmt: skip
        self.next = []
        self.known, interest = self.sessions.open(request, True, self.cluster.now)
        self.sent += 1
        name = f"s{id(self)}-{self.sent}"
        self.cluster.brokers[1].replicas.fetch(request, name, self.cluster.now, interest=interest)
        return name

    def listed(self, name: str) -> list[FetchedPartition] | None:
        """What the answer lists, if there is one by now, or once all slices are read."""
        self.cluster.run(0)
        replicas = self.cluster.brokers[1].replicas
        while name not in self.cluster.replies and replicas.deadline() == self.cluster.now + 1:
            self.cluster.run(1)
        answers = self.cluster.replies.pop(name, None)
        if answers is None:
            return None
        response = FetchResponse(0, ErrorCode.NONE, 0, answers)
        return self.sessions.close(response, self.known, name.endswith("-1")).partitions

    def fetch(self, *listed: FetchPartition) -> list[FetchedPartition]:
        """What a fetch that does not wait is answered."""
        answer = self.listed(self.send(*listed, max_wait_ms=0))
        assert answer is not None
        return answer


def remote(cluster: Cluster) -> RemoteReplica:
    """What broker 1 knows of broker 2."""
    leadership = cluster.brokers[1].replicas.partitions[TopicPartition("orders", 0)].leadership
    assert leadership is not None
    return leadership.remotes[2]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the partitions that are read from now on."""
    numbers: list[int] = []
    reading = Reading.read

    def counting(self: Reading, partition: Partition, want: FetchPartition) -> FetchedPartition:
        numbers.append(want.partition)
        return reading(self, partition, want)

    monkeypatch.setattr(Reading, "read", counting)
    yield numbers


# What a fetch costs -------------------------------------------------------------------------


def test_a_fetch_reads_what_changed(read: list[int]) -> None:
    """Of a thousand partitions one or two, for followers and for consumers; each change once."""
    cluster = make_cluster(MANY)
    for session in (Session(cluster, MANY), Session(cluster, MANY, replica_id=-1)):
        logs = cluster.brokers[1].directory.logs
        ends = [logs[TopicPartition(*name_of(each))].log_end_offset for each in range(MANY)]
        session.next = [session.want(*each) for each in enumerate(ends)]
        read.clear()
        assert len(session.fetch()) == len(read) == MANY
        read.clear()
        assert (session.fetch(), read) == ([], [])
        parked = session.send()
        cluster.run(499)
        assert read == []
        cluster.run(1)
        assert (session.listed(parked), read) == ([], [])
        end = cluster.brokers[1].log("orders", 7).log_end_offset
        for number in (7, 40):
            cluster.produce(1, [b"a"], partition=number, acks=1)
            cluster.brokers[1].log("orders", number).update_high_watermark(end + 1)
        assert [answer.partition for answer in session.fetch()] == read == [7, 40]
        read.clear()
        following = [session.want(7, end + 1), session.want(40, end + 1)]
        assert (session.fetch(*following), read) == ([], [7, 40])
        parked = session.send()
        read.clear()
        cluster.produce(1, [b"a"], partition=200, acks=1)
        cluster.brokers[1].log("orders", 200).update_high_watermark(end + 1)
        assert [answer.partition for answer in session.listed(parked) or ()] == read == [200]


def test_an_unused_session_costs_one_change(cluster: Cluster) -> None:
    """After that its partition is due, and it stands in no register."""
    session = Session(cluster)
    session.fetch()
    readers = cluster.brokers[1].replicas.partitions[TopicPartition("orders", 0)].readers
    assert list(readers) == [session.interest]
    cluster.produce(1, [b"a"])
    cluster.run(0)
    assert readers == {}
    assert [wanted.want.partition for wanted in session.interest.due] == [0]


# Much at once -------------------------------------------------------------------------------


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn reads two partitions."""
    monkeypatch.setattr(fetch_reading, "MAX_PARTITIONS_READ_PER_TURN", 2)


@pytest.mark.usefixtures("slices")
def test_a_large_fetch_is_read_in_slices(read: list[int]) -> None:
    """Each in a turn of its own, a millisecond later, however many rounds a tick has; the answer
    has everything."""
    cluster = make_cluster(7)
    cluster.produce(1, [b"a"], partition=6)
    cluster.run(0)
    replicas = cluster.brokers[1].replicas
    session = Session(cluster, 7)
    name = session.send()
    for slices in range(1, 4):
        for _ in range(2):
            replicas.wake(Instant(cluster.now + slices - 1))
        assert (read, replicas.deadline()) == (list(range(2 * slices)), cluster.now + slices)
    replicas.wake(Instant(cluster.now + 3))
    assert read == list(range(7))
    answers = session.listed(name)
    assert answers is not None
    assert [answer.partition for answer in answers] == read
    assert answers[6].records_bytes


@pytest.mark.usefixtures("slices")
def test_what_changes_between_two_slices_is_not_lost(read: list[int]) -> None:
    """A record of a partition that was read already, and the end of a term."""
    cluster = make_cluster(6)
    session = Session(cluster, 6)
    name = session.send()
    cluster.produce(1, [b"a"], partition=0)
    answers = session.listed(name)
    assert answers is not None and answers[0].records_bytes
    assert read == [0, 1, 2, 3, 4, 5, 0]
    again = session.send(session.want(0, 1))
    cluster.feed.change("orders", partition=5, leader=2)
    answers = session.listed(again)
    assert answers is not None
    assert [(each.partition, each.error_code) for each in answers if each.error_code] == [
        (5, ErrorCode.FENCED_LEADER_EPOCH)
    ]


@pytest.mark.usefixtures("slices")
def test_a_large_fetch_may_be_given_up(cluster: Cluster) -> None:
    """What was not read is read by the next one."""
    session = Session(cluster)
    first, second = session.send(), session.send(max_wait_ms=0)
    given_up, answers = session.listed(first), session.listed(second)
    assert given_up is not None and answers is not None
    assert [len(given_up), len(answers)] == [2, 1]


def test_an_answer_has_no_more_records_than_a_turn_appends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But in a full one. The others come first the next time, and nothing waits."""
    for number in range(3):
        cluster.produce(1, [b"a"], partition=number)
    session = Session(cluster)
    session.fetch()
    for number in range(3):
        cluster.produce(1, [b"b"], partition=number)
    monkeypatch.setattr(fetch_reading, "MAX_PARTITIONS_WITH_RECORDS", 2)
    offsets = [session.want(number, 1) for number in range(3)]
    found = [session.fetch(*offsets)] + [session.fetch() for _ in range(2)]
    assert [with_records(answers) for answers in found] == [[0, 1], [2, 0], [1, 2]]


def test_a_write_does_not_wait_behind_the_first_records_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer fills few empty replicas, in their order, and has all other records."""
    monkeypatch.setattr(fetch_reading, "MAX_FIRST_RECORDS", 1)
    cluster = make_cluster(5)
    cluster.produce(1, [b"a"], partition=4)
    session = Session(cluster, 5)
    assert with_records(session.fetch()) == [4]
    for number in (0, 2, 4):
        cluster.produce(1, [b"b"], partition=number)
    assert with_records(session.fetch(session.want(4, 1))) == [0, 4]
    assert with_records(session.fetch(session.want(0, 1), session.want(4, 2))) == [2]
    assert with_records(session.fetch(session.want(2, 1))) == []


# What must not be missed --------------------------------------------------------------------


def test_a_fetch_sees_what_its_own_tick_has_changed(cluster: Cluster) -> None:
    """A record is there, and the follower is not level with it."""
    session = Session(cluster)
    session.fetch()
    level_at = cluster.now
    cluster.run(50)
    cluster.produce(1, [b"a"])
    name = session.send()
    assert remote(cluster).last_caught_up == level_at
    assert (remote(cluster).last_fetch, remote(cluster).leader_end_at_fetch) == (cluster.now, 1)
    answers = session.listed(name)
    assert answers is not None and answers[0].records_bytes


def test_an_idle_follower_stays_in_sync(cluster: Cluster) -> None:
    """It was level a moment ago when the first record after a long time comes."""
    session = Session(cluster)
    for _ in range(40):
        session.fetch()
        cluster.run(CONFIG.replica_lag_time_max_ms // 10)
    cluster.produce(1, [b"a"])
    cluster.run(CONFIG.replica_lag_time_max_ms // 2)
    assert cluster.proposals == []
    cluster.run(CONFIG.replica_lag_time_max_ms)
    assert [len(each.new_isr) for each in cluster.proposals[0].proposals] == [1]


def fenced_session(cluster: Cluster) -> Session:
    """Of a follower that is fenced and in no ISR, after its first fetch."""
    cluster.feed.fence(2)
    for number in range(3):
        cluster.feed.change("orders", partition=number, isr=(1,))
    cluster.run(0)
    session = Session(cluster)
    session.fetch()
    return session


def test_a_level_follower_joins_when_it_may(cluster: Cluster) -> None:
    """Nothing of the partition changes when its broker is unfenced."""
    session = fenced_session(cluster)
    assert cluster.proposals == []
    cluster.feed.unfence(2)
    cluster.run(0)
    session.fetch()
    cluster.run(10)
    assert [len(each.new_isr) for each in cluster.proposals[0].proposals] == [2, 2, 2]


def test_a_fenced_follower_costs_what_changed(cluster: Cluster, read: list[int]) -> None:
    """It cannot join any ISR, so it is level like a member. Once it is unfenced its parked fetch is
    answered, and the next one proposes it everywhere."""
    session = fenced_session(cluster)
    read.clear()
    assert (session.fetch(), read) == ([], [])
    parked = session.send()
    assert session.listed(parked) is None
    cluster.feed.unfence(2)
    assert session.listed(parked) == []
    session.fetch()
    cluster.run(10)
    assert [len(each.new_isr) for each in cluster.proposals[0].proposals] == [2, 2, 2]


def test_a_follower_that_lacks_the_high_watermark_gets_it_each_time(cluster: Cluster) -> None:
    """Until it says that it has it."""
    session = Session(cluster)
    cluster.produce(1, [b"a"])
    cluster.run(0)
    session.fetch(session.want(0, 1, known=0))
    cluster.run(0)
    for _ in range(2):
        answers = session.listed(session.send())
        assert answers is not None
        assert [answer.high_watermark for answer in answers] == [1]
    assert session.listed(session.send(session.want(0, 1, known=1))) is None


def test_a_former_session_proves_nothing(cluster: Cluster) -> None:
    """A fetch of it that still waits is read again, and shows nothing of the follower."""
    former, session = Session(cluster), Session(cluster)
    cluster.produce(1, [b"a"])
    parked = former.send(former.want(0, 1))
    cluster.run(10)
    session.fetch(session.want(0, 1))
    cluster.produce(1, [b"b"], partition=1)
    assert former.listed(parked) is not None
    cluster.run(10)
    session.fetch()
    assert remote(cluster).last_fetch == cluster.now


def test_a_partition_that_is_made_again_is_found(cluster: Cluster) -> None:
    """The replica that a session watched is gone, and errors are reported each time."""
    session = Session(cluster)
    session.fetch()
    cluster.feed.delete_topic("orders")
    cluster.run(0)
    for _ in range(2):
        assert {answer.error_code for answer in session.fetch()} == {ErrorCode.UNKNOWN_TOPIC_ID}
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(0)
    listed = FetchPartition("orders", topic_id_of(2), 0, 0, 0, -1, 0, 1 << 20)
    found = {answer.topic_id: answer.error_code for answer in session.fetch(listed)}
    assert found == {topic_id_of(1): ErrorCode.UNKNOWN_TOPIC_ID, topic_id_of(2): ErrorCode.NONE}


def test_another_request_gives_up_the_one_that_waits(cluster: Cluster) -> None:
    """One session, one fetch at a time."""
    session = Session(cluster)
    session.fetch()
    first = session.send()
    second = session.send()
    assert session.listed(first) == []
    assert session.listed(second) is None
