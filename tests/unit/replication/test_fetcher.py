"""One leader's answers, and what the follower makes of them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tidelog.config import LONG_MAX
from tidelog.env.effects import Flush, Replace
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import FIRST_RECORDS_WORK, REPLICA_WORK_PER_TURN
from tidelog.log.checkpoint import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    decode_offsets,
)
from tidelog.log.log import Log
from tidelog.log.reading import as_buffer
from tidelog.log.state import UNCUT
from tidelog.log.values import LogFlush
from tidelog.model import EpochEndOffset, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication import fetch_session
from tidelog.replication.fetch_state import CATCH_UP_REST_MS_PER_MB, FIRST_BACKOFF_MS
from tidelog.replication.fetcher import ReplicaFetcher
from tidelog.replication.messages import (
    ListOffsetsResult,
    Output,
    SendFetch,
    SendListOffsets,
    TruncationsAnnounced,
)
from tidelog.replication.partition import Partition
from tidelog.sim.replicas.cluster import CONFIG, Cluster
from tidelog.sim.replicas.feed import topic_id_of
from tidelog.sim.replicas.reading import records_of
from tidelog.wire.fetch import FetchedPartition, FetchResponse


class Follower:
    """Broker 2, which follows broker 1; the test is the leader and the network."""

    def __init__(self, partitions: int = 1, **configs: str) -> None:
        self.cluster = Cluster((1, 2))
        self.cluster.feed.create_topic("orders", (1, 2), partitions=partitions, **configs)
        self.broker = self.cluster.brokers[2]
        self.replicas = self.broker.replicas
        self.now = Instant(1000)
        self.cluster.feed.publish(2, self.replicas, self.now)

    def outputs(self, for_ms: int = 0) -> list[Output]:
        """What is sent after a while, at the end of a tick."""
        self.now = Instant(self.now + for_ms)
        self.replicas.wake(self.now)
        self.replicas.check()
        return self.replicas.take_outputs()

    def sent(self, for_ms: int = 0) -> SendFetch:
        """The one fetch that is sent."""
        (output,) = self.outputs(for_ms)
        assert isinstance(output, SendFetch), f"{output}"
        return output

    def asked(self, for_ms: int = 0) -> SendListOffsets:
        """The one ListOffsets that is sent, perhaps beside a fetch of other partitions."""
        (output,) = [o for o in self.outputs(for_ms) if isinstance(o, SendListOffsets)]
        return output

    def answer(self, fetch: SendFetch, *parts: FetchedPartition, session_id: int = 9) -> None:
        """The leader's answer."""
        response = FetchResponse(0, ErrorCode.NONE, session_id, list(parts))
        self.replicas.on_fetch_response(fetch.token, response, self.now)

    def answer_offset(self, question: SendListOffsets, offset: int) -> None:
        """The leader's answer to ListOffsets."""
        results = [
            ListOffsetsResult(query.topic, query.partition, ErrorCode.NONE, -1, offset, 0)
            for query in question.queries
        ]
        self.replicas.on_list_offsets_response(question.token, results, self.now)

    def log(self, partition: int = 0) -> Log:
        """The follower's log."""
        return self.broker.log("orders", partition)

    def deadline_in(self) -> int:
        """How long until it wants to be woken for a pause to end."""
        deadline = self.replicas._fetchers.deadline()
        assert deadline is not None
        return deadline - self.now


def part(
    *values: bytes,
    partition: int = 0,
    base: int = 0,
    epoch: int = 0,
    high_watermark: int = 0,
    code: ErrorCode = ErrorCode.NONE,
    diverging: EpochEndOffset | None = None,
) -> FetchedPartition:
    """One partition's answer."""
    data = b""
    if values:
        records = [Record(1, None, value) for value in values]
        data = build_batch(records, base_offset=base, leader_epoch=epoch)
    topic_id = topic_id_of(1)
    return FetchedPartition(
        "orders", topic_id, partition, code, high_watermark, high_watermark, 0,
        [data] if data else [], len(data), diverging,
    )  # fmt: skip


def test_the_first_request_says_where_the_log_ends() -> None:
    """With uptime, leader epoch, last epoch and limits."""
    follower = Follower()
    fetch = follower.sent()
    request = fetch.request
    assert fetch.leader_id == 1
    assert (request.replica_id, request.replica_epoch) == (2, follower.replicas.broker_epoch)
    assert (request.max_wait_ms, request.min_bytes) == (CONFIG.replica_fetch_wait_max_ms, 1)
    assert request.max_bytes == CONFIG.replica_fetch_response_max_bytes
    (wanted,) = request.partitions
    assert (wanted.topic, wanted.topic_id, wanted.partition) == ("orders", topic_id_of(1), 0)
    assert (wanted.fetch_offset, wanted.current_leader_epoch) == (0, 0)
    assert (wanted.last_fetched_epoch, wanted.log_start_offset) == (-1, 0)
    assert wanted.max_bytes == CONFIG.replica_fetch_max_bytes


def test_one_request_in_flight_then_the_next_with_what_changed() -> None:
    """Only the partition that got records is listed again."""
    follower = Follower(partitions=3)
    first = follower.sent()
    assert len(first.request.partitions) == 3
    assert follower.outputs() == []
    follower.answer(first, part(b"a", b"b", partition=1, high_watermark=1))
    assert [record.value for record in records_of(follower.log(1))] == [b"a", b"b"]
    assert follower.log(1).high_watermark == 1
    second = follower.sent()
    assert (second.request.session_id, second.request.session_epoch) == (9, 1)
    (wanted,) = second.request.partitions
    assert (wanted.partition, wanted.fetch_offset, wanted.last_fetched_epoch) == (1, 2, 0)
    follower.answer(second)
    assert follower.sent().request.partitions == []


def test_an_answer_to_another_epoch_is_dropped() -> None:
    """The partition was asked for in epoch 0 and is followed in epoch 1 by now."""
    follower = Follower()
    fetch = follower.sent()
    follower.cluster.feed.change("orders", leader=1, isr=(1, 2))
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    follower.answer(fetch, part(b"a", high_watermark=1))
    assert follower.log().log_end_offset == 0
    (wanted,) = follower.sent().request.partitions
    assert wanted.current_leader_epoch == 1


def test_an_answer_to_another_offset_is_dropped() -> None:
    """The log was cut since."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a", b"b"))
    fetch = follower.sent()
    follower.log().truncate_to(0)
    follower.answer(fetch, part(b"c", base=2))
    assert follower.log().log_end_offset == 0


@pytest.mark.parametrize("leader_end", [2, 5])
def test_what_was_asked_before_a_throttle_counts(leader_end: int) -> None:
    """The leader takes it for known: it would not repeat the high watermark."""
    follower = Follower(**{"follower.replication.throttled.replicas": "*"})
    follower.answer(follower.sent(), part(b"a", high_watermark=leader_end))
    fetch = follower.sent()
    follower.replicas.set_throttled_rates(leader=LONG_MAX, follower=1, moves=LONG_MAX)
    assert follower.outputs() == []
    follower.answer(fetch, part(b"b", base=1, high_watermark=leader_end))
    assert (follower.log().log_end_offset, follower.log().high_watermark) == (2, 2)
    # It waits while it lacks something.
    (wanted,) = follower.sent(for_ms=0 if leader_end == 2 else 60_000).request.partitions
    assert wanted.fetch_offset == 2


MUCH = b"x" * 600_000


def test_what_lags_rests_after_many_bytes_and_what_is_in_sync_does_not() -> None:
    """Partitions 0 and 1 get a megabyte together, 2 the last record that it lacked."""
    follower = Follower(partitions=3)
    parts = (part(MUCH, partition=number, high_watermark=9) for number in (0, 1))
    follower.answer(follower.sent(), *parts, part(b"a", partition=2, high_watermark=1))
    fetch = follower.sent()
    assert [one.partition for one in fetch.request.partitions] == [2]
    assert fetch.request.max_wait_ms == follower.deadline_in() == CATCH_UP_REST_MS_PER_MB
    assert follower.outputs(for_ms=CATCH_UP_REST_MS_PER_MB) == []
    follower.answer(fetch)
    fetch = follower.sent()
    assert [one.partition for one in fetch.request.partitions] == [0, 1]
    assert fetch.request.max_wait_ms == CONFIG.replica_fetch_wait_max_ms


def test_few_bytes_are_not_followed_by_a_rest() -> None:
    """Half a megabyte is a millisecond; what is less is not worth a change of the session."""
    follower = Follower()
    follower.answer(follower.sent(), part(MUCH[:400_000], high_watermark=9))
    (wanted,) = follower.sent().request.partitions
    assert wanted.fetch_offset == 1


def test_a_replica_rests_only_while_it_comes_nearer() -> None:
    """Producers append as fast as it fetches, and are slower later."""
    follower = Follower()
    fetch = follower.sent()
    for base, high_watermark, rests in (
        (0, 9, True),
        (1, 10, False),
        (2, 12, False),
        (3, 12, True),
    ):
        follower.answer(fetch, part(MUCH, base=base, high_watermark=high_watermark))
        sent = follower.outputs()
        assert (sent == []) is rests
        fetch = follower.sent(for_ms=1) if rests else sent[0]
        assert fetch.request.partitions[0].fetch_offset == base + 1


def test_records_and_bounds_of_a_diverging_answer_mean_nothing() -> None:
    """The log is cut, and the next fetch begins there."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a", b"b", b"c", high_watermark=1))
    answer = part(b"x", base=3, high_watermark=9, diverging=EpochEndOffset(0, 2))
    follower.answer(follower.sent(), answer)
    assert follower.log().log_end_offset == 2
    assert follower.log().high_watermark == 1
    (wanted,) = follower.sent().request.partitions
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (2, 0)


def durable_follower() -> Follower:
    """It holds three records, all of them durable."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a", b"b", b"c"))
    follower.log().request_flush()
    for effect in follower.broker.effects.take():
        if isinstance(effect, Flush) and isinstance(effect.subject, LogFlush):
            follower.replicas.on_flushed(effect.subject, follower.now)
    assert follower.log().recovery_point == 3
    return follower


def checkpoint_of(follower: Follower) -> tuple[int, object]:
    """What the requested checkpoint of recovery points holds, and its subject."""
    *_, found = [
        effect
        for effect in follower.broker.effects.take()
        if isinstance(effect, Replace) and effect.path == RECOVERY_POINT_FILE
    ]
    return decode_offsets(found.data)[TopicPartition("orders", 0)], found.subject


def test_durable_records_are_cut_when_no_checkpoint_claims_them_any_more() -> None:
    """ClaimBeforeCut: a process that dies in between must not find its log damaged."""
    follower = durable_follower()
    follower.answer(follower.sent(), part(diverging=EpochEndOffset(0, 1)))
    claimed, subject = checkpoint_of(follower)
    assert claimed == 1 and isinstance(subject, TruncationsAnnounced)
    assert not follower.outputs(for_ms=10) and follower.log().log_end_offset == 3
    follower.replicas.on_checkpointed(subject, follower.now)
    assert follower.log().log_end_offset == 1
    (wanted,) = follower.sent().request.partitions
    assert wanted.fetch_offset == 1


def test_a_log_that_is_cut_below_its_start_has_no_higher_one_on_the_disk() -> None:
    """Goal: a process that dies behind the cut does not find a log that ends below its start, which
    it would empty of all that was fetched and flushed since."""
    follower = durable_follower()
    log, directory = follower.log(), follower.broker.directory
    log.update_high_watermark(3)
    log.maybe_raise_log_start_offset(2)
    directory.checkpoint_log_start_offsets()
    follower.broker.effects.take()
    follower.answer(follower.sent(), part(diverging=EpochEndOffset(0, 1)))
    _, subject = checkpoint_of(follower)
    assert isinstance(subject, TruncationsAnnounced)
    follower.replicas.on_checkpointed(subject, follower.now)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    replaced = [each for each in follower.broker.effects.take() if isinstance(each, Replace)]
    (saved,) = [each for each in replaced if each.path == LOG_START_FILE]
    assert decode_offsets(saved.data).get(TopicPartition("orders", 0), 0) <= 1


@pytest.mark.parametrize("end", [1, 2])
def test_a_log_that_is_cut_at_its_start_or_below_begins_there(end: int) -> None:
    """Goal: what is fetched behind the cut follows without a hole, and a process that dies in
    between finds no damage. The log start lies within a batch, whose beginning no epoch shows."""
    follower = durable_follower()
    log, disk = follower.log(), follower.broker.disk
    log.update_high_watermark(3)
    log.maybe_raise_log_start_offset(2)
    follower.answer(follower.sent(), part(diverging=EpochEndOffset(0, end)))
    _, subject = checkpoint_of(follower)
    assert isinstance(subject, TruncationsAnnounced)
    follower.replicas.on_checkpointed(subject, follower.now)
    assert (log.log_start_offset, log.log_end_offset, log.claimed_end) == (end, end, 0)
    follower.answer(follower.sent(), part(b"d", base=end, high_watermark=end))
    log.verify()
    assert disk.exists(f"orders-0/{end:020}.log")


def long_follower() -> Follower:
    """One with twenty segments of a record each."""
    follower = Follower()
    log = follower.log()
    log.reconfigure(replace(log.config, segment_bytes=1))
    for offset in range(20):
        follower.answer(follower.sent(), part(b"x", base=offset, high_watermark=offset))
    return follower


def ends_of(follower: Follower) -> list[tuple[int, int]]:
    """Where the log ends after each turn of a cut, and what the disk claims of it then."""
    log, ends = follower.log(), []
    while log.announced_end != UNCUT:
        claimed, subject = checkpoint_of(follower)
        assert isinstance(subject, TruncationsAnnounced) and not follower.outputs()
        follower.replicas.on_checkpointed(subject, follower.now)
        ends.append((log.log_end_offset, claimed))
    return ends


def test_a_long_log_is_cut_a_few_segments_at_a_time() -> None:
    """BoundedTurn: with a checkpoint between two turns, and not claimed by any."""
    follower = long_follower()
    follower.answer(follower.sent(), part(diverging=EpochEndOffset(0, 1)))
    assert [end for end, _ in ends_of(follower)] == [16, 13, 10, 7, 4, 1]
    assert len(follower.log().segments) == 2
    (wanted,) = follower.sent().request.partitions
    assert wanted.fetch_offset == 1


def test_a_long_log_that_is_left_behind_goes_a_few_segments_at_a_time() -> None:
    """BoundedTurn: and no checkpoint claims any of it, so a start finds a shorter log in between,
    and not a damaged one."""
    follower = long_follower()
    follower.answer(follower.sent(), part(code=ErrorCode.OFFSET_OUT_OF_RANGE))
    follower.answer_offset(follower.asked(), 900)
    follower.answer_offset(follower.asked(), 400)
    assert ends_of(follower) == [(end, 0) for end in (16, 13, 10, 7, 4, 1, 400)]
    (segment,) = follower.log().segments
    assert segment.base_offset == 400
    (wanted,) = follower.sent().request.partitions
    assert wanted.fetch_offset == 400


def test_a_durable_log_that_is_left_behind_is_claimed_by_no_checkpoint_when_it_goes() -> None:
    """ClaimBeforeCut, and after it the new log's begin counts when it is durable: until then the
    follower does not say that it has everything below (seed 109159278)."""
    follower = durable_follower()
    log = follower.log()
    log.reconfigure(replace(log.config, flush_messages=1))
    follower.answer(follower.sent(), part(code=ErrorCode.OFFSET_OUT_OF_RANGE))
    follower.answer_offset(follower.asked(), 900)
    follower.answer_offset(follower.asked(), 400)
    claimed, subject = checkpoint_of(follower)
    assert claimed == 0 and log.log_end_offset == 3
    follower.replicas.on_checkpointed(subject, follower.now)
    assert (log.log_start_offset, log.log_end_offset) == (400, 400)
    assert follower.outputs() == []
    *_, flush = [each for each in follower.broker.effects.take() if isinstance(each, Flush)]
    follower.replicas.on_flushed(flush.subject, follower.now)
    (wanted,) = follower.sent().request.partitions
    assert wanted.fetch_offset == 400


def test_a_durable_log_whose_leader_begins_in_a_batch_below_is_claimed_by_no_checkpoint() -> None:
    """ClaimBeforeCut: what it has in place of that batch is of another history and goes. The batch
    was taken in the same turn, and after a power cut the log was missed."""
    follower = durable_follower()
    answer = part(b"1", b"2", b"3", b"4", base=1, high_watermark=5)._replace(log_start_offset=3)
    follower.answer(follower.sent(), answer)
    claimed, subject = checkpoint_of(follower)
    log = follower.log()
    assert claimed == 0 and (log.log_start_offset, log.log_end_offset) == (0, 3)
    follower.replicas.on_checkpointed(subject, follower.now)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    fetch = follower.sent()
    assert fetch.request.partitions[0].fetch_offset == 3
    follower.answer(fetch, answer)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (3, 5, 5)
    log.verify()


def test_an_empty_log_above_others_records_is_claimed_by_no_checkpoint_when_it_goes() -> None:
    """ClaimBeforeCut: all its records are deleted, and their segment is still there."""
    follower = durable_follower()
    log = follower.log()
    log.update_high_watermark(3)
    log.maybe_raise_log_start_offset(3)
    answer = part(b"1", b"2", b"3", b"4", base=1, high_watermark=5)._replace(log_start_offset=3)
    follower.answer(follower.sent(), answer)
    claimed, subject = checkpoint_of(follower)
    assert claimed == 0 and (log.log_start_offset, log.log_end_offset) == (3, 3)
    follower.replicas.on_checkpointed(subject, follower.now)
    assert log.segments.first_base_offset == 3
    follower.answer(follower.sent(), answer)
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)
    log.verify()


@pytest.mark.parametrize("values", [(), (b"d",)])
def test_what_lies_below_the_leaders_start_goes_where_it_may_be_of_another_history(
    values: tuple[bytes, ...],
) -> None:
    """Goal: records of a deposed leader do not come back as committed ones. This log ends at its
    leader's log start, in an epoch of which the leader has nothing left to compare."""
    follower = durable_follower()
    log = follower.log()
    follower.cluster.feed.change("orders", leader=1, isr=(1,))
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    fetch = follower.sent()
    answer = part(*values, base=3, epoch=1, high_watermark=3)._replace(log_start_offset=3)
    follower.answer(fetch, answer)
    claimed, subject = checkpoint_of(follower)
    assert claimed == 0
    follower.replicas.on_checkpointed(subject, follower.now)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert not follower.broker.disk.exists(f"orders-0/{0:020}.log")
    follower.answer(follower.sent(), answer)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3 + len(values))


def test_a_log_that_is_cut_below_its_high_watermark_has_no_higher_one_on_the_disk() -> None:
    """Goal: what takes the place of the cut records is not committed for a process that dies. An
    unclean election cuts there."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a", b"b", b"c", high_watermark=3))
    log, directory = follower.log(), follower.broker.directory
    directory.checkpoint_high_watermarks()
    follower.broker.effects.take()
    follower.answer(follower.sent(), part(diverging=EpochEndOffset(0, 1)))
    assert log.log_end_offset == 3
    marks, points = [each for each in follower.broker.effects.take() if isinstance(each, Replace)]
    assert (marks.path, points.path) == (HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE)
    assert decode_offsets(marks.data)[TopicPartition("orders", 0)] == 1
    assert isinstance(points.subject, TruncationsAnnounced)
    follower.replicas.on_checkpointed(points.subject, follower.now)
    assert (log.high_watermark, log.log_end_offset) == (1, 1)


def test_what_is_known_to_be_the_leaders_stays_below_its_start() -> None:
    """As long as retention lets it: beside it are the producers' states."""
    follower = durable_follower()
    log = follower.log()
    follower.answer(follower.sent(), part(high_watermark=3)._replace(log_start_offset=3))
    assert (log.log_start_offset, log.segments.first_base_offset) == (3, 0)


def test_an_announced_truncation_ends_with_the_leadership_that_asked_for_it() -> None:
    """The next leader may not want it, and the checkpoint then claims everything again."""
    follower = durable_follower()
    follower.answer(follower.sent(), part(diverging=EpochEndOffset(0, 1)))
    _, subject = checkpoint_of(follower)
    assert isinstance(subject, TruncationsAnnounced)
    follower.cluster.feed.change("orders", leader=2, isr=(1, 2))
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    follower.outputs()
    follower.replicas.on_checkpointed(subject, follower.now)
    assert follower.log().log_end_offset == 3
    follower.broker.effects.take()
    follower.broker.directory.checkpoint_recovery_points()
    assert checkpoint_of(follower) == (3, None)


def test_a_diverging_answer_without_effect_pauses() -> None:
    """A leader that contradicts itself must not be asked in a circle."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a"))
    follower.answer(follower.sent(), part(diverging=EpochEndOffset(0, 1)))
    assert follower.outputs() == []
    assert follower.deadline_in() == FIRST_BACKOFF_MS


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_errors_pause_their_partition_only(code: ErrorCode) -> None:
    """Longer each time, up to the limit; a good answer starts over. What the leader holds back for
    the others ends with the pause, for the paused one comes with the next request."""
    follower = Follower(partitions=2)
    fetch = follower.sent()
    for pause_ms in (20, 40, 80, 160, 200, 200):
        follower.answer(fetch, part(code=code))
        fetch = follower.sent()
        assert 0 not in [wanted.partition for wanted in fetch.request.partitions]
        assert follower.deadline_in() == pause_ms
        longest_ms = min(pause_ms, CONFIG.replica_fetch_wait_max_ms)
        assert fetch.request.max_wait_ms == longest_ms
        follower.answer(fetch)
        fetch = follower.sent(for_ms=pause_ms)
        assert [wanted.partition for wanted in fetch.request.partitions] == [0]
    follower.answer(fetch, part(b"a"))
    follower.answer(follower.sent(), part(code=code))
    follower.sent()
    assert follower.deadline_in() == 20


def test_a_paused_partition_is_forgotten_by_the_session() -> None:
    """Or the leader would read it all the same."""
    follower = Follower(partitions=2)
    follower.answer(follower.sent(), part(code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    (forgotten,) = follower.sent().request.forgotten
    assert (forgotten.topic, forgotten.partition) == ("orders", 0)


def test_a_fenced_epoch_waits_for_metadata() -> None:
    """However long it takes."""
    follower = Follower()
    follower.answer(follower.sent(), part(code=ErrorCode.FENCED_LEADER_EPOCH))
    assert follower.outputs(for_ms=60_000) == []
    follower.cluster.feed.change("orders", leader=1, isr=(1, 2))
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    (wanted,) = follower.sent().request.partitions
    assert wanted.current_leader_epoch == 1


def test_damaged_records_are_fetched_again() -> None:
    """After a pause."""
    follower = Follower()
    good = part(b"a")
    damaged = bytearray(good.records[0])  # type: ignore[arg-type]
    damaged[-1] ^= 1
    follower.answer(follower.sent(), good._replace(records=[bytes(damaged)]))
    assert follower.outputs() == []
    follower.answer(follower.sent(for_ms=FIRST_BACKOFF_MS), good)
    assert follower.log().log_end_offset == 1


def test_batches_that_cannot_be_taken_pause() -> None:
    """All of a later epoch, or a cut one: asked again at once, the leader would send them again."""
    follower = Follower()
    later = part(b"a", epoch=1)
    follower.answer(follower.sent(), later)
    assert follower.outputs() == []
    whole = part(b"a")
    data = bytes(whole.records[0])[:-1]  # type: ignore[arg-type]
    cut = whole._replace(records=[data], records_bytes=len(data))
    follower.answer(follower.sent(for_ms=20), cut)
    assert follower.outputs() == []
    assert follower.deadline_in() == 40
    assert follower.log().log_end_offset == 0


def test_no_answer_pauses_everything() -> None:
    """Longer each time; then everything is asked for anew, and the old session is closed."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a"))
    fetch = follower.sent()
    for pause_ms in (20, 40, 80, 160, 200):
        follower.replicas.on_fetch_response(fetch.token, None, follower.now)
        assert follower.outputs() == []
        assert follower.deadline_in() == pause_ms
        fetch = follower.sent(for_ms=pause_ms)
        assert (fetch.request.session_id, fetch.request.session_epoch) == (9, 0)
        assert len(fetch.request.partitions) == 1


def test_news_about_the_leader_end_the_pause() -> None:
    """Such as its registration after a restart."""
    follower = Follower()
    follower.replicas.on_fetch_response(follower.sent().token, None, follower.now)
    assert follower.outputs() == []
    follower.cluster.feed.register(1)
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    assert follower.sent().leader_id == 1


def test_a_lost_session_begins_anew() -> None:
    """The leader restarted, or made room for others."""
    follower = Follower()
    follower.answer(follower.sent())
    response = FetchResponse(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])
    follower.replicas.on_fetch_response(follower.sent().token, response, follower.now)
    fetch = follower.sent(for_ms=FIRST_BACKOFF_MS)
    assert (fetch.request.session_id, fetch.request.session_epoch) == (0, 0)
    assert len(fetch.request.partitions) == 1


def out_of_range(values: int = 3) -> tuple[Follower, SendListOffsets]:
    """A follower with some records whose fetch is out of range."""
    follower = Follower()
    follower.answer(follower.sent(), part(*[b"v"] * values, high_watermark=values))
    follower.answer(follower.sent(), part(code=ErrorCode.OFFSET_OUT_OF_RANGE))
    return follower, follower.asked()


def test_out_of_range_above_the_leaders_end_cuts() -> None:
    """Only an unclean election leads there; it is logged."""
    follower, question = out_of_range()
    assert [query.timestamp for query in question.queries] == [-1]
    assert question.queries[0].current_leader_epoch == 0
    follower.answer_offset(question, 1)
    _, subject = checkpoint_of(follower)
    assert isinstance(subject, TruncationsAnnounced)
    follower.replicas.on_checkpointed(subject, follower.now)
    assert follower.log().log_end_offset == 1
    (wanted,) = follower.sent().request.partitions
    assert wanted.fetch_offset == 1


def test_out_of_range_below_the_leaders_start_begins_there() -> None:
    """All that the follower has was deleted by the leader."""
    follower, question = out_of_range()
    follower.answer_offset(question, 90)
    question = follower.asked()
    assert [query.timestamp for query in question.queries] == [-2]
    follower.answer_offset(question, 40)
    log = follower.log()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (40, 40, 40)
    (wanted,) = follower.sent().request.partitions
    assert (wanted.fetch_offset, wanted.last_fetched_epoch) == (40, -1)


def test_in_range_after_all_asks_again_after_a_pause() -> None:
    """Nothing has changed here, so the same answer may come again."""
    follower, question = out_of_range()
    follower.answer_offset(question, 90)
    follower.answer_offset(follower.asked(), 0)
    assert follower.log().log_end_offset == 3
    assert follower.outputs() == []
    (wanted,) = follower.sent(for_ms=FIRST_BACKOFF_MS).request.partitions
    assert wanted.fetch_offset == 3


@pytest.mark.parametrize("results", [None, []])
def test_no_answer_to_the_question_pauses(results: list[ListOffsetsResult] | None) -> None:
    """Then the fetch is tried again, and will lead to the question again."""
    follower, question = out_of_range()
    follower.replicas.on_list_offsets_response(question.token, results, follower.now)
    assert follower.outputs() == []
    assert isinstance(follower.sent(for_ms=FIRST_BACKOFF_MS), SendFetch)


def test_a_refused_question_pauses() -> None:
    """The leader is not the leader, for example."""
    follower, question = out_of_range()
    refusal = ListOffsetsResult("orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    follower.replicas.on_list_offsets_response(question.token, [refusal], follower.now)
    assert follower.outputs() == []


def test_an_answer_for_a_partition_that_left_is_ignored() -> None:
    """It was deleted while the question travelled."""
    follower, question = out_of_range()
    follower.cluster.feed.delete_topic("orders")
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    follower.answer_offset(question, 1)
    assert follower.outputs() == []


# In slices ----------------------------------------------------------------------------------

NUMBERS = range(REPLICA_WORK_PER_TURN // FIRST_RECORDS_WORK + 1)


def follower_of_many() -> tuple[Follower, SendFetch]:
    """It has made all its logs, and asks for their first records."""
    follower = Follower(len(NUMBERS))
    first = follower.sent()
    while follower.replicas.is_behind:
        follower.outputs(for_ms=1)
    follower.answer(first)
    return follower, follower.sent()


def first_records() -> list[FetchedPartition]:
    """Of every partition, in buffers that the driver uses again."""
    parts = [part(b"a", partition=number) for number in NUMBERS]
    return [each._replace(records=[bytearray(as_buffer(each.records))]) for each in parts]


def test_an_answer_that_makes_many_files_is_applied_in_slices() -> None:
    """The next request waits for the last of them, and then claims them all."""
    follower, fetch = follower_of_many()
    parts = first_records()
    follower.answer(fetch, *parts)
    for each in parts:
        (chunk,) = each.records
        assert isinstance(chunk, bytearray)
        chunk[:] = bytes(len(chunk))
    ends = [follower.log(number).log_end_offset for number in NUMBERS]
    assert 0 < sum(ends) < len(NUMBERS) and ends == sorted(ends, reverse=True)
    follower.replicas.check()
    fetch = follower.sent(for_ms=1)
    assert [wanted.fetch_offset for wanted in fetch.request.partitions] == [1] * len(NUMBERS)
    assert all(records_of(follower.log(number)) for number in NUMBERS)


def test_what_waits_of_an_answer_must_still_fit() -> None:
    """Meanwhile its leader has begun another term of one partition."""
    follower, fetch = follower_of_many()
    follower.answer(fetch, *first_records())
    last = NUMBERS[-1]
    follower.cluster.feed.change("orders", partition=last, leader=1)
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    follower.sent(for_ms=1)
    assert follower.log(last).log_end_offset == 0
    assert follower.log(last - 1).log_end_offset == 1


@pytest.mark.parametrize("when", ["append", "cut"])
def test_a_broken_device_ends_the_following(when: str) -> None:
    """The replica is offline for good."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a", b"b"))
    fetch = follower.sent()
    follower.broker.disk.failing = "input/output error"
    if when == "append":
        follower.answer(fetch, part(b"c", base=2))
    else:
        follower.answer(fetch, part(diverging=EpochEndOffset(0, 1)))
    (output,) = follower.outputs()
    assert type(output).__name__ == "LogDirFailed"
    assert follower.outputs(for_ms=60_000) == []


def test_group_commit_holds_the_next_request() -> None:
    """It would claim what is not on the device."""
    follower = Follower(**{"flush.messages": "1"})
    follower.answer(follower.sent(), part(b"a"))
    assert follower.outputs() == []
    (flush,) = [
        effect
        for effect in follower.broker.effects.take()
        if getattr(getattr(effect, "subject", None), "completes", False)
    ]
    follower.replicas.on_flushed(flush.subject, follower.now)  # type: ignore[union-attr, arg-type]
    (wanted,) = follower.sent().request.partitions
    assert wanted.fetch_offset == 1


def test_a_log_without_epochs_keeps_only_what_is_committed() -> None:
    """It cannot be compared with the leader's."""
    follower = Follower()
    follower.answer(follower.sent(), part(b"a", b"b", high_watermark=1))
    follower.log().epochs.clear()
    follower.cluster.feed.change("orders", leader=1, isr=(1, 2))
    follower.cluster.feed.publish(2, follower.replicas, follower.now)
    assert follower.log().log_end_offset == 1


def test_following_the_wrong_leader_is_a_bug() -> None:
    """`check` asserts it."""
    follower = Follower()
    partition: Partition = follower.replicas._env.hosted.partitions[TopicPartition("orders", 0)]
    fetcher: ReplicaFetcher = follower.replicas._fetchers._by_partition[partition]
    breaks: list[Callable[[], None]] = [
        lambda: setattr(partition, "leader_epoch", 7),
        lambda: setattr(fetcher.followed, "leader_id", 5),
    ]
    for break_it in breaks:
        break_it()
        with pytest.raises(AssertionError, match="FollowsItsLeader"):
            follower.replicas.check()
        partition.leader_epoch, fetcher.followed.leader_id = 0, 1
    follower.replicas.check()


def test_a_session_is_built_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that has nothing new must not keep a fetch while partitions are not listed yet."""
    monkeypatch.setattr(fetch_session, "MAX_PARTITIONS_ADDED_PER_FETCH", 3)
    follower = Follower(partitions=4)
    first = follower.sent()
    assert (len(first.request.partitions), first.request.max_wait_ms) == (3, 0)
    follower.answer(first)
    second = follower.sent()
    wait_ms = CONFIG.replica_fetch_wait_max_ms
    assert (len(second.request.partitions), second.request.max_wait_ms) == (1, wait_ms)
