"""What followers and consumers read, and what a follower's fetch proves."""

from dataclasses import replace

import pytest

from tidelog.config import RACK_AWARE_SELECTOR
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.log.values import AppendOrigin
from tidelog.model import Endpoint, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record
from tidelog.replication.remote_replica import RemoteReplica
from tidelog.replication.replicas import Replicas
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.feed import topic_id_of
from tidelog.sim.replicas.reading import values_in
from tidelog.wire.fetch import FetchedPartition, FetchPartition, FetchRequest


@pytest.fixture
def cluster() -> Cluster:
    """Broker 1 leads three partitions; no follower fetches by itself."""
    cluster = Cluster((1, 2, 3))
    cluster.held |= {(2, 1), (3, 1)}
    cluster.feed.create_topic("orders", (1, 2), partitions=3)
    cluster.run(0)
    return cluster


def want(
    partition: int = 0,
    offset: int = 0,
    *,
    epoch: int = -1,
    last_epoch: int = -1,
    max_bytes: int = 1 << 20,
    topic_number: int = 1,
) -> FetchPartition:
    """One wish."""
    topic_id = topic_id_of(topic_number)
    return FetchPartition("orders", topic_id, partition, epoch, offset, last_epoch, 0, max_bytes)


class Reader:
    """Fetches from one broker and collects the answers."""

    def __init__(self, cluster: Cluster, node: int = 1) -> None:
        self.cluster = cluster
        self.replicas: Replicas = cluster.brokers[node].replicas
        self._sent = 0

    def send(
        self,
        *wants: FetchPartition,
        replica_id: int = -1,
        replica_epoch: int = -1,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        isolation_level: int = 0,
        followers_may_serve: bool = True,
        rack_id: str = "",
        listener: str = "",
    ) -> str:
        """Sends a fetch."""
        self._sent += 1
        name = f"r{self._sent}"
        request = FetchRequest(
            replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation_level, 0, -1,
            list(wants), [], rack_id,
        )  # fmt: skip
        self.replicas.fetch(
            request,
            name,
            self.cluster.now,
            followers_may_serve=followers_may_serve,
            listener=listener,
        )
        return name

    def answer(self, name: str) -> list[FetchedPartition] | None:
        """What was answered, if it was."""
        self.cluster.run(0)
        return self.cluster.replies.get(name)

    def fetch(self, *wants: FetchPartition, **options: int | str) -> list[FetchedPartition]:
        """Sends a fetch that is answered at once."""
        answer = self.answer(self.send(*wants, **options))  # type: ignore[arg-type]
        assert answer is not None, "parked"
        return answer

    def code(self, wish: FetchPartition, **options: int) -> ErrorCode:
        """The code of a fetch of one partition."""
        return self.fetch(wish, **options)[0].error_code


def append(cluster: Cluster, *values: bytes, partition: int = 0, commit: bool = True) -> None:
    """One batch for each value."""
    for value in values:
        cluster.produce(1, [value], partition=partition, acks=1)
    if commit:
        log = cluster.brokers[1].log("orders", partition)
        log.update_high_watermark(log.log_end_offset)


def remote(cluster: Cluster, partition: int = 0) -> RemoteReplica:
    """What broker 1 knows of broker 2."""
    hosted = cluster.brokers[1].replicas._env.hosted.partitions[TopicPartition("orders", partition)]
    assert hosted.leadership is not None
    return hosted.leadership.remotes[2]


def test_refusals_of_a_leader(cluster: Cluster) -> None:
    """Each error that a partition can have."""
    cluster.feed.change("orders", leader=1, isr=(1, 2))
    reader = Reader(cluster)
    epoch_of_2 = cluster.feed.image.brokers[2].broker_epoch
    cluster.run(0)
    assert reader.code(want(epoch=0)) is ErrorCode.FENCED_LEADER_EPOCH
    assert reader.code(want(epoch=2)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert reader.code(want(epoch=1)) is ErrorCode.NONE
    assert reader.code(want(7)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reader.code(want(topic_number=9)) is ErrorCode.UNKNOWN_TOPIC_ID
    cluster.feed.create_topic("others", (1, 2))
    cluster.run(0)
    assert reader.code(want(topic_number=2)) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert reader.code(want(offset=1)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert reader.code(want(epoch=1), replica_id=3) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert reader.code(want(), replica_id=3) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    stale = {"replica_id": 2, "replica_epoch": epoch_of_2 - 1}
    assert reader.code(want(epoch=1), **stale) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert remote(cluster).log_end_offset == -1


def test_a_follower_serves_consumers_but_no_followers(cluster: Cluster) -> None:
    """Consumers below version 11 must go to the leader."""
    reader = Reader(cluster, node=2)
    assert reader.code(want()) is ErrorCode.NONE
    assert reader.code(want(), followers_may_serve=False) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert reader.code(want(), replica_id=3) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_readers_see_as_far_as_they_may(cluster: Cluster) -> None:
    """Followers the log end, consumers the high watermark."""
    append(cluster, b"a")
    append(cluster, b"b", commit=False)
    reader = Reader(cluster)
    (consumer,) = reader.fetch(want())
    assert values_in(consumer) == [b"a"]
    assert (consumer.high_watermark, consumer.last_stable_offset) == (1, 1)
    (follower,) = reader.fetch(want(), replica_id=2)
    assert values_in(follower) == [b"a", b"b"]
    (empty,) = reader.fetch(want(offset=1))
    assert (empty.error_code, empty.records_bytes) == (ErrorCode.NONE, 0)
    assert reader.code(want(offset=3)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_one_whole_batch_whatever_the_limits(cluster: Cluster) -> None:
    """From the first partition that has anything; the others get what is left."""
    append(cluster, b"x" * 500, b"y", partition=1)
    append(cluster, b"z", partition=2)
    reader = Reader(cluster)
    wishes = [want(number, max_bytes=10) for number in range(3)]
    answers = reader.fetch(*wishes, max_bytes=10)
    assert [len(values_in(answer)) for answer in answers] == [0, 1, 0]
    size_bytes = answers[1].records_bytes
    answers = reader.fetch(want(1), want(2), max_bytes=size_bytes + 70)
    assert [len(values_in(answer)) for answer in answers] == [2, 0]
    answers = reader.fetch(want(1, offset=1), want(2), max_bytes=1000)
    assert [len(values_in(answer)) for answer in answers] == [1, 1]


def test_the_partitions_own_limit_holds_too(cluster: Cluster) -> None:
    """But for the first batch of all."""
    append(cluster, b"a", b"b", partition=0)
    append(cluster, b"c", partition=1)
    answers = Reader(cluster).fetch(want(0, max_bytes=1), want(1, max_bytes=1))
    assert [len(values_in(answer)) for answer in answers] == [1, 0]


def test_divergence_is_answered_and_nothing_noted(cluster: Cluster) -> None:
    """The follower's offset lies in another history."""
    append(cluster, b"a", b"b")
    cluster.feed.change("orders", leader=1, isr=(1, 2))
    cluster.run(0)
    append(cluster, b"c")
    reader = Reader(cluster)
    (answer,) = reader.fetch(want(offset=3, epoch=1, last_epoch=0), replica_id=2, max_wait_ms=500)
    assert answer.error_code is ErrorCode.NONE
    assert answer.diverging_epoch == (0, 2)
    assert (answer.records_bytes, answer.high_watermark) == (0, -1)
    assert remote(cluster).log_end_offset == -1
    (answer,) = reader.fetch(want(offset=2, epoch=1, last_epoch=0), replica_id=2)
    assert answer.diverging_epoch is None
    assert values_in(answer) == [b"c"]
    assert remote(cluster).log_end_offset == 2


def test_a_consumer_in_another_history_gets_the_high_watermark(cluster: Cluster) -> None:
    append(cluster, b"a", b"b")
    cluster.feed.change("orders", leader=1, isr=(1,))
    cluster.run(0)
    append(cluster, b"c")
    (answer,) = Reader(cluster).fetch(want(offset=3, epoch=1, last_epoch=0))
    assert (answer.diverging_epoch, answer.records_bytes) == ((0, 2), 0)
    log = cluster.brokers[1].log("orders")
    assert (log.high_watermark, log.log_start_offset) == (3, 0)
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (3, 3, 0)


def test_an_unknown_last_epoch_is_out_of_range(cluster: Cluster) -> None:
    """There is nothing to compare with; so is an offset below the log start."""
    append(cluster, b"a", b"b")
    reader = Reader(cluster)
    assert reader.code(want(last_epoch=9)) is ErrorCode.OFFSET_OUT_OF_RANGE
    cluster.brokers[1].log("orders").maybe_raise_log_start_offset(1)
    assert reader.code(want(offset=0, last_epoch=0)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_leaders_end_is_sampled_before_the_read(cluster: Cluster) -> None:
    """A follower that is given the last record by this fetch is not level yet."""
    append(cluster, b"a", commit=False)
    cluster.timeline.run_for(10)
    Reader(cluster).fetch(want(), replica_id=2)
    assert (remote(cluster).log_end_offset, remote(cluster).leader_end_at_fetch) == (0, 1)
    assert remote(cluster).last_caught_up == cluster.now - 10
    cluster.timeline.run_for(10)
    Reader(cluster).fetch(want(offset=1), replica_id=2)
    assert remote(cluster).last_caught_up == cluster.now


def test_a_parked_fetch_wakes_for_its_partition_only(cluster: Cluster) -> None:
    """And takes everything there is."""
    reader = Reader(cluster)
    name = reader.send(want(0), want(1), replica_id=2, max_wait_ms=500)
    append(cluster, b"z", partition=2, commit=False)
    assert reader.answer(name) is None
    append(cluster, b"a", partition=1, commit=False)
    append(cluster, b"b", partition=0, commit=False)
    answers = reader.answer(name)
    assert answers is not None
    assert [values_in(answer) for answer in answers] == [[b"b"], [b"a"]]


def test_what_has_not_moved_is_not_read_again(cluster: Cluster) -> None:
    """A fetch of a thousand idle partitions must not cost a thousand reads for each record: a
    change without a mark is not seen."""
    reader = Reader(cluster)
    append(cluster, b"a", partition=1, commit=False)
    cluster.run(0)
    name = reader.send(want(0), want(1, 1), max_wait_ms=500)
    cluster.brokers[1].log("orders", 1).update_high_watermark(1)
    append(cluster, b"b")
    answers = reader.answer(name)
    assert answers is not None
    assert [(values_in(answer), answer.high_watermark) for answer in answers] == [
        ([b"b"], 1),
        ([], 0),
    ]


def test_what_moved_without_a_record_is_answered_with_the_next_one(cluster: Cluster) -> None:
    """The high watermark of a partition that wakes no fetch."""
    append(cluster, b"a", partition=1, commit=False)
    cluster.run(0)
    reader = Reader(cluster)
    name = reader.send(want(0), want(1, 1), max_wait_ms=500)
    reader.fetch(want(1, 1), replica_id=2)
    assert reader.answer(name) is None
    append(cluster, b"b")
    answers = reader.answer(name)
    assert answers is not None
    assert [answer.high_watermark for answer in answers] == [1, 1]


def test_a_parked_fetch_waits_for_enough_bytes(cluster: Cluster) -> None:
    """Summed over its partitions."""
    reader = Reader(cluster)
    name = reader.send(want(0), want(1), max_wait_ms=500, min_bytes=130)
    cluster.held.clear()
    append(cluster, b"a", partition=0)
    cluster.run(1)
    assert reader.answer(name) is None
    append(cluster, b"b", partition=1)
    cluster.run(1)
    answers = reader.answer(name)
    assert answers is not None
    assert sum(answer.records_bytes for answer in answers) >= 130


def test_no_reader_waits_for_more_than_an_answer_can_hold(cluster: Cluster) -> None:
    """A minimum above the limits is the limit."""
    append(cluster, b"x" * 300)
    reader = Reader(cluster)
    wish = {"max_wait_ms": 500, "min_bytes": 1 << 30, "max_bytes": 200}
    assert values_in(reader.fetch(want(), **wish)[0]) == [b"x" * 300]
    assert reader.fetch(want(), max_wait_ms=500, max_bytes=-7)[0].error_code is ErrorCode.NONE


def test_a_parked_fetch_ends_at_its_deadline(cluster: Cluster) -> None:
    """With what there is: nothing."""
    reader = Reader(cluster)
    name = reader.send(want(0), max_wait_ms=500)
    cluster.run(499)
    assert reader.answer(name) is None
    cluster.run(1)
    answers = reader.answer(name)
    assert answers is not None and answers[0].records_bytes == 0


def test_completing_a_fetch_is_not_new_progress(cluster: Cluster) -> None:
    """Progress counts once, at the arrival of the fetch."""
    reader = Reader(cluster)
    name = reader.send(want(0), replica_id=2, max_wait_ms=500)
    arrived = cluster.now
    cluster.run(100)
    append(cluster, b"a", commit=False)
    assert reader.answer(name) is not None
    assert remote(cluster).last_fetch == arrived
    assert remote(cluster).leader_end_at_fetch == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("elect", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("epoch", ErrorCode.FENCED_LEADER_EPOCH),
        ("delete", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_parked_fetch_ends_with_the_term(
    cluster: Cluster, change: str, expected: ErrorCode
) -> None:
    """A follower that asks the wrong broker, or in the wrong epoch, is answered at once."""
    reader = Reader(cluster)
    epoch = -1 if change == "elect" else 0
    name = reader.send(want(0, epoch=epoch), replica_id=2, max_wait_ms=500)
    if change == "delete":
        cluster.feed.delete_topic("orders")
    else:
        cluster.feed.change("orders", leader=2 if change == "elect" else 1, isr=(1, 2))
    answers = reader.answer(name)
    assert answers is not None and answers[0].error_code is expected


def test_an_error_or_no_wish_is_answered_at_once(cluster: Cluster) -> None:
    """Whatever may be waited for."""
    reader = Reader(cluster)
    assert reader.answer(reader.send(max_wait_ms=500)) == []
    assert reader.answer(reader.send(want(0), want(9), max_wait_ms=500)) is not None


def test_a_broken_device_is_reported(cluster: Cluster) -> None:
    """The replica goes offline, and so it stays."""
    append(cluster, b"a")
    log: Log = cluster.brokers[1].log("orders")
    log.tail.clear()
    cluster.brokers[1].disk.failing = "input/output error"
    reader = Reader(cluster)
    assert reader.code(want()) is ErrorCode.KAFKA_STORAGE_ERROR
    cluster.brokers[1].disk.failing = None
    assert reader.code(want()) is ErrorCode.KAFKA_STORAGE_ERROR
    assert reader.code(want(1)) is ErrorCode.NONE


def test_read_committed_ends_at_the_first_open_transaction(cluster: Cluster) -> None:
    """And names what was aborted."""
    log = cluster.brokers[1].log("orders")
    transactional = build_batch(
        [Record(1, None, b"t")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    log.append_as_leader(transactional, 0, 1)
    append(cluster, b"a")
    reader = Reader(cluster)
    (answer,) = reader.fetch(want(), isolation_level=1)
    assert (answer.records_bytes, answer.last_stable_offset, answer.aborted) == (0, 0, [])
    (answer,) = reader.fetch(want())
    assert (values_in(answer), answer.aborted) == ([b"t", b"a"], None)
    marker = build_end_txn_marker(EndTxnMarker(is_commit=False, coordinator_epoch=0), 7, 0, 1)
    log.append_as_leader(marker, 0, 1, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(3)
    (answer,) = reader.fetch(want(), isolation_level=1)
    assert answer.last_stable_offset == 3
    assert answer.aborted is not None
    assert [tuple(aborted) for aborted in answer.aborted] == [(7, 0)]


# Reads from followers -----------------------------------------------------------------------


def test_a_consumer_is_sent_to_the_follower_in_its_rack() -> None:
    """At once, with the bounds of the log and without records; also one that had to wait."""
    cluster = Cluster((1, 2), config=replace(CONFIG, replica_selector_class=RACK_AWARE_SELECTOR))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(200)
    append(cluster, b"a")
    cluster.run(50)
    brokers = cluster.brokers[1].replicas._env.brokers
    brokers._images = {
        node: replace(
            image, rack=f"rack-{node}", endpoints=(Endpoint("EXTERNAL", f"host{node}", 9092),)
        )
        for node, image in brokers._images.items()
    }
    reader = Reader(cluster)
    (sent,) = reader.fetch(want(), rack_id="rack-2", max_wait_ms=1000, listener="EXTERNAL")
    assert (sent.preferred_read_replica, sent.records_bytes) == (2, 0)
    assert (sent.error_code, sent.high_watermark) == (ErrorCode.NONE, 1)
    (served,) = reader.fetch(want(), rack_id="rack-1", listener="EXTERNAL")
    assert (served.preferred_read_replica, values_in(served)) == (-1, [b"a"])
    (old,) = reader.fetch(want(), rack_id="rack-2", listener="EXTERNAL", followers_may_serve=False)
    assert (old.preferred_read_replica, values_in(old)) == (-1, [b"a"])


def test_a_follower_answers_within_its_own_high_watermark(cluster: Cluster) -> None:
    """Between high watermark and log end there is nothing yet; beyond the log end the consumer
    has to go back to the leader."""
    cluster.release(2, 1)
    append(cluster, b"a", b"b", commit=False)
    cluster.run(50)
    log = cluster.brokers[2].log("orders")
    log.update_high_watermark(1)
    reader = Reader(cluster, node=2)
    (first,) = reader.fetch(want())
    assert (values_in(first), first.high_watermark) == ([b"a"], 1)
    (nothing,) = reader.fetch(want(offset=2))
    assert (nothing.error_code, values_in(nothing)) == (ErrorCode.NONE, [])
    assert reader.code(want(offset=3)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert reader.code(want(epoch=1)) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_is_answered_with_a_high_watermark_it_can_use(cluster: Cluster) -> None:
    """At once when its log reaches beyond the one it knows; otherwise it waits for records."""
    append(cluster, b"a", b"b")
    reader = Reader(cluster)
    knows = {"replica_id": 2, "max_wait_ms": 1000}
    found = reader.fetch(want(offset=2, epoch=0)._replace(high_watermark=1), **knows)
    assert (found[0].high_watermark, found[0].records_bytes) == (2, 0)
    level = want(offset=2, epoch=0)._replace(high_watermark=2)
    anything = want(offset=2, epoch=0)
    assert reader.answer(reader.send(level, **knows)) is None  # type: ignore[arg-type]
    assert reader.answer(reader.send(anything, **knows)) is None  # type: ignore[arg-type]


def test_a_parked_follower_is_answered_when_the_high_watermark_moves(cluster: Cluster) -> None:
    """But only one that asked for it."""
    append(cluster, b"a", commit=False)
    reader = Reader(cluster)
    wish = want(offset=1, epoch=0)
    knows = {"replica_id": 2, "max_wait_ms": 1000}
    curious = reader.send(wish._replace(high_watermark=0), **knows)  # type: ignore[arg-type]
    answer = reader.answer(curious)
    assert answer is not None
    assert answer[0].high_watermark == 1


def test_the_end_of_a_segment_is_not_waited_at(cluster: Cluster) -> None:
    """More than is left in it will not come by waiting, whatever `min_bytes` is."""
    cluster.feed.configure("orders", "segment.bytes", "200")
    cluster.run(0)
    append(cluster, *[b"x" * 80] * 6)
    log = cluster.brokers[1].log("orders")
    assert len(log.segments) > 2
    log.tail.clear()
    reader = Reader(cluster)
    offset, rounds = 0, 0
    while offset < log.high_watermark:
        behind = offset < log.segments[-1].base_offset
        name = reader.send(want(offset=offset), max_wait_ms=1000, min_bytes=1 << 20)
        answer = reader.answer(name)
        assert (answer is not None) == behind
        if answer is None:
            break
        offset += len(values_in(answer[0]))
        rounds += 1
    assert rounds == len(log.segments) - 1


def test_a_fetch_that_waits_is_refused_when_its_topic_was_made_again(cluster: Cluster) -> None:
    """No topic has its id any more: clients ask for the new one."""
    reader = Reader(cluster)
    parked = reader.send(want(), max_wait_ms=1000)
    cluster.feed.delete_topic("orders")
    cluster.feed.create_topic("orders", (1, 2))
    answer = reader.answer(parked)
    assert answer is not None
    assert answer[0].error_code is ErrorCode.UNKNOWN_TOPIC_ID
