"""From the records of a request to its answer."""

from dataclasses import replace

import pytest

from tidelog.errors import ErrorCode
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.feed import topic_id_of
from tidelog.sim.replicas.reading import records_of
from tidelog.wire.produce import ProducePartition, ProduceRequest


@pytest.fixture
def cluster() -> Cluster:
    """Two brokers; the answers of broker 2 are kept back."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2), partitions=2, **{"min.insync.replicas": "2"})
    cluster.run(120)
    cluster.held.add((2, 1))
    cluster.run(120)
    return cluster


def batch(value: bytes, sequence: int = -1) -> memoryview:
    """One record, of an idempotent producer when it has a sequence."""
    producer_id = 7 if sequence >= 0 else -1
    return memoryview(
        build_batch(
            [Record(1000, None, value)],
            producer_id=producer_id,
            producer_epoch=0 if sequence >= 0 else -1,
            base_sequence=sequence,
        )
    )


def send(
    cluster: Cluster, *partitions: ProducePartition, acks: int = -1, timeout_ms: int = 1000
) -> str:
    """A request for broker 1."""
    name = f"r{len(cluster.replies)}.{cluster.now}"
    request = ProduceRequest(None, acks, timeout_ms, list(partitions))
    cluster.brokers[1].replicas.produce(request, name, cluster.now, 1_000_000)
    return name


def to(partition: int, records: memoryview | None, topic_number: int = 1) -> ProducePartition:
    """Records for one partition."""
    return ProducePartition("orders", topic_id_of(topic_number), partition, records)


def codes(cluster: Cluster, name: str) -> list[ErrorCode]:
    """The codes of an answer."""
    return [result.error_code for result in cluster.replies[name]]


def test_acks_decide_when_to_answer(cluster: Cluster) -> None:
    """0 and 1 after the append, all after the commit; the same order of partitions."""
    for acks in (0, 1):
        name = send(cluster, to(0, batch(b"a")), acks=acks)
        cluster.run(0)
        assert cluster.replies[name][0].base_offset == acks
    name = send(cluster, to(1, batch(b"c")), to(0, batch(b"d")))
    cluster.run(50)
    assert name not in cluster.replies
    cluster.release(2, 1)
    cluster.run(10)
    assert [(r.partition, r.base_offset) for r in cluster.replies[name]] == [(1, 0), (0, 2)]


@pytest.mark.parametrize("waits", [True, False])
def test_a_writer_that_waits_when_asked_to_does_not_end_the_isr(waits: bool) -> None:
    """Method: a client writes four times what a follower can fetch, for three times as long as a
    follower may lag. One that does not wait shows that the followers cannot keep up by themselves;
    a broker leaves no client that choice (`broker/throttling.py`)."""
    cluster = Cluster(config=replace(CONFIG, replica_fetch_max_bytes=1))
    cluster.feed.create_topic("orders", (1, 2, 3))
    cluster.run(500)
    resumes_at, written = cluster.now, 0
    for _ in range(3 * CONFIG.replica_lag_time_max_ms):
        cluster.run(1)
        if cluster.now >= resumes_at:
            partitions = [to(0, batch(b"a")), to(0, batch(b"b"))]
            request = ProduceRequest(None, 1, 1000, partitions)
            replicas = cluster.brokers[1].replicas
            pause_ms = replicas.produce(request, f"w{written}", cluster.now, 1_000_000)
            written += 1
            resumes_at = cluster.now + pause_ms * waits
    isr = cluster.feed.partition("orders").isr
    assert (len(isr) == 3) == waits
    assert written > 500


def test_other_acks_are_refused_everywhere(cluster: Cluster) -> None:
    """And nothing is written."""
    name = send(cluster, to(0, batch(b"a")), to(1, batch(b"a")), acks=2)
    cluster.run(0)
    assert codes(cluster, name) == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert cluster.brokers[1].log("orders").log_end_offset == 0


def test_each_partition_has_its_own_error(cluster: Cluster) -> None:
    """A waiting request keeps them until it is answered."""
    damaged = memoryview(bytearray(batch(b"x")))
    damaged[-1] ^= 1
    name = send(
        cluster,
        to(0, batch(b"a")),
        to(1, damaged),
        to(1, None),
        to(9, batch(b"b")),
        to(1, batch(b"c"), topic_number=5),
    )
    cluster.release(2, 1)
    cluster.run(20)
    assert codes(cluster, name) == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ]


def test_a_follower_names_the_leader(cluster: Cluster) -> None:
    """For clients with old metadata."""
    name = cluster.produce(2, [b"a"])
    cluster.run(0)
    (answer,) = cluster.replies[name]
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert tuple(answer.current_leader) == (1, 0)


def test_a_retry_waits_like_the_first_attempt(cluster: Cluster) -> None:
    """The batch is there and not committed: neither attempt may be acknowledged."""
    first = send(cluster, to(0, batch(b"a", sequence=0)), timeout_ms=10)
    send(cluster, to(0, batch(b"b", sequence=1)), timeout_ms=900)
    cluster.run(20)
    assert codes(cluster, first) == [ErrorCode.REQUEST_TIMED_OUT]
    retry = send(cluster, to(0, batch(b"a", sequence=0)))
    cluster.run(0)
    assert retry not in cluster.replies
    cluster.release(2, 1)
    cluster.run(10)
    assert [(r.error_code, r.base_offset) for r in cluster.replies[retry]] == [(ErrorCode.NONE, 0)]
    assert [record.value for record in records_of(cluster.brokers[1].log("orders"))] == [b"a", b"b"]
    again = send(cluster, to(0, batch(b"a", sequence=0)))
    cluster.run(0)
    assert codes(cluster, again) == [ErrorCode.NONE]


def test_a_deleted_topic_answers_its_waiters(cluster: Cluster) -> None:
    """They ask for something that is not there."""
    name = send(cluster, to(0, batch(b"a")))
    cluster.feed.delete_topic("orders")
    cluster.run(0)
    assert codes(cluster, name) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_shrunken_isr_after_the_append_is_answered(cluster: Cluster) -> None:
    """Committed, but with fewer replicas than the topic now demands."""
    name = send(cluster, to(0, batch(b"a")))
    partition = next(iter(cluster.brokers[1].replicas._env.hosted.partitions.values()))
    partition.log.update_high_watermark(1)
    cluster.feed.change("orders", isr=(1,))
    cluster.run(0)
    assert codes(cluster, name) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_a_timeout_of_zero_is_answered_in_the_same_tick(cluster: Cluster) -> None:
    """It asks for no waiting at all."""
    name = send(cluster, to(0, batch(b"a")), timeout_ms=0)
    cluster.run(0)
    assert codes(cluster, name) == [ErrorCode.REQUEST_TIMED_OUT]
