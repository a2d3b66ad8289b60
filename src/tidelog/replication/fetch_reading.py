"""What followers and consumers read, and what a follower's fetch proves to its leader.

A follower reads to the log end, a consumer to the high watermark or, with read_committed, to the
last stable offset. Followers serve consumers too, within the high watermark they know; followers
are only ever served by leaders.

A follower's fetch is also its acknowledgement. For each partition, in this order:
1. Refuse what another epoch, another topic id, a stale broker epoch or a foreign replica asks for.
2. Sample the leader's log end.
3. Compare the follower's last epoch; where the logs diverge, answer where and note *nothing* about
   the follower, because its offset lies in another history.
4. Note the follower's progress, propose it for the ISR if it may join; the high watermark follows
   at the end of the tick.
5. Read.
A fetch that waits is read again when it completes, but steps 2 to 4 happen once, on arrival. Only
what is due is read (`interest`); steps 2 to 4 of everything else are in `remote_replica.LastFetch`.
What is due may be thousands, so it is read in slices, each in a turn of its own.

**Byte budget.** Partitions are served in the order of their places. The first one that has anything
gives at least one whole batch, whatever the limits are, or a reader could never pass a large batch.

**Empty replicas.** A follower makes a file for the first records of a replica, and acknowledges
nothing of an answer before it has applied all of it. So an answer has first records for
`MAX_FIRST_RECORDS` of them at most, and the records of all others beside: a write to a topic that
is in use does not wait behind the first records of thousands of new partitions (FewFirstRecords).

**Reads from followers.** A leader may send a consumer to a follower in its rack (`read_replica`);
the answer then carries no records. A follower answers within the high watermark it knows: above it,
but within its log, a consumer finds nothing yet, and beyond its log OFFSET_OUT_OF_RANGE, which
sends the consumer back to the leader. So that consumers do not wait for the leader's next long
poll, a follower that serves some names in its fetches the high watermark that it knows, and is
answered as soon as there is a newer one that its log reaches (KIP-1166's field).

**Throttles.** A throttled follower that is not in the ISR gets no records while the quota of this
node's leaders is exceeded (`throttle`); its fetch counts all the same.

Invariant: `ReadsBelowHighWatermark` (asserted for each consumer read).

Source: KIP-320, KIP-392, KIP-595, KIP-903, KIP-1166.
"""

from typing import Final

from tidelog.env.effects import Chunk
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, LogDamaged, ProtocolError, StorageError
from tidelog.limits import (
    FETCHED_BYTES_PER_WORK,
    MAX_FIRST_RECORDS,
    MAX_PARTITIONS_ANSWERED,
    MAX_PARTITIONS_READ_PER_TURN,
    MAX_PARTITIONS_WITH_RECORDS,
    PARTITION_READING_WORK,
)
from tidelog.log.batch_file import LogRead
from tidelog.log.log import Log
from tidelog.model import NO_EPOCH, NO_OFFSET, EpochEndOffset
from tidelog.replication.interest import DelayedFetch, Wanted
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.replication.read_replica import READ_HERE, ReadReplicaSelector
from tidelog.replication.remote_replica import RemoteReplica
from tidelog.replication.shared import Env
from tidelog.wire.fetch import READ_COMMITTED, AbortedTransaction, FetchedPartition, FetchPartition

_ABOUT_NO_REPLICA: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Reading:
    """One pass over the partitions that are due. What it shows of followers is noted only when the
    request arrives, not when it is read again."""

    __slots__ = (
        "_by_follower",
        "_committed_only",
        "_empty",
        "_enough_bytes",
        "_env",
        "_first_records",
        "_interest",
        "_is_incremental",
        "_isr_changes",
        "_left_bytes",
        "_may_join",
        "_on_arrival",
        "_parked",
        "_request",
        "_selector",
        "_stale",
        "_unread",
        "_with_records",
        "at_once",
        "now",
        "records_bytes",
        "throttled_bytes",
    )

    def __init__(
        self,
        env: Env,
        selector: ReadReplicaSelector,
        isr_changes: IsrChanges,
        parked: DelayedFetch,
        now: Instant,
        on_arrival: bool,
    ) -> None:
        request = parked.request
        self._env = env
        self._selector = selector
        # Where followers are proposed that may join the ISR.
        self._isr_changes = isr_changes
        self._parked = parked
        self._interest = parked.interest
        self._request = request
        self._by_follower = request.replica_id >= 0
        # The follower is another process than the one that is registered.
        self._stale = self._by_follower and env.brokers.is_stale(
            request.replica_id, request.replica_epoch
        )
        # Whether its broker is in service, so that it may join ISRs.
        self._may_join = self._by_follower and env.brokers.may_join_isr(
            request.replica_id, request.replica_epoch
        )
        self._committed_only = request.isolation_level == READ_COMMITTED
        self.now = now
        # Whether a follower's fetch still counts as its progress.
        self._on_arrival = on_arrival
        # What may still be read, but for the first batch of all.
        self._left_bytes = max(0, min(request.max_bytes, env.config.fetch_max_bytes))
        # No reader may wait for more than an answer can hold.
        self._enough_bytes = min(request.min_bytes, self._left_bytes)
        # An error or a divergence: the sender must be answered now.
        self.at_once = False
        # Record bytes found so far, and those of them that count towards the leaders' quota.
        self.records_bytes = 0
        self.throttled_bytes = 0
        # Whether it may be answered in part.
        self._is_incremental = request.session_epoch > 0
        # Partitions with records found so far: those for empty replicas, and the others.
        self._first_records = 0
        self._with_records = 0
        if on_arrival:
            self._interest.begin_fetch(self._terms(), now)
        # What is still to be read, the next one last; a follower's empty replicas by themselves.
        self._unread = self._interest.in_order(self._interest.due)
        self._unread.reverse()
        self._empty: list[Wanted] = []
        if self._by_follower and self._is_incremental:
            self._empty = [each for each in self._unread if not each.want.fetch_offset]
            if self._empty:
                self._unread = [each for each in self._unread if each.want.fetch_offset]

    def _terms(self) -> tuple[object, ...]:
        """What decides, beside the partitions and the replicas, what is found."""
        request, parked = self._request, self._parked
        by_rack = self._selector.by_rack and not self._by_follower
        return (
            request.replica_id,
            request.replica_epoch,
            request.isolation_level,
            parked.followers_may_serve,
            self._stale,
            self._may_join,
            # Where a consumer is sent also depends on the brokers.
            (request.rack_id, parked.listener, self._env.brokers.version) if by_rack else None,
        )

    @property
    def is_finished(self) -> bool:
        """Whether everything has been read."""
        return not self._unread and not self._empty

    def read_slice(self) -> None:
        """Reads as much as a turn may, empty replicas first."""
        left = MAX_PARTITIONS_READ_PER_TURN
        while self._empty and left:
            left -= 1
            self._first_records += self._read_next(self._empty)
            if self._first_records >= MAX_FIRST_RECORDS:
                self._leave(self._empty)
        while self._unread and left:
            left -= 1
            self._with_records += self._read_next(self._unread)
            if self._is_incremental and self._with_records >= MAX_PARTITIONS_WITH_RECORDS:
                self._leave(self._unread)
        self._env.work.spend((MAX_PARTITIONS_READ_PER_TURN - left) * PARTITION_READING_WORK)
        if self._is_incremental and len(self._parked.answers) >= MAX_PARTITIONS_ANSWERED:
            self._leave(self._empty)
            self._leave(self._unread)

    def _read_next(self, unread: list[Wanted]) -> bool:
        """Reads one partition; returns whether it has records."""
        wanted = unread.pop()
        answer = self._read_wanted(wanted)
        if wanted.is_news(answer) or not self._is_incremental:
            self._parked.answers[wanted] = answer
        else:
            self._parked.answers.pop(wanted, None)
        return answer.records_bytes > 0

    def _leave(self, unread: list[Wanted]) -> None:
        """The answer has enough; what is unread stays due, and comes first next time."""
        self.at_once = True
        for wanted in unread:
            self._parked.answers.pop(wanted, None)
        unread.clear()

    def _read_wanted(self, wanted: Wanted) -> FetchedPartition:
        hosted = self._env.hosted
        want = wanted.want
        if not want.topic and self._interest.by_id:
            topic = hosted.image.topics_by_id.get(want.topic_id)
            if topic is None:
                return self._refuse(want, ErrorCode.UNKNOWN_TOPIC_ID)
            want = wanted.want = want._replace(topic=topic.name)
        partition = hosted.by_key.get((want.topic, want.partition))
        if partition is None:
            return self._refuse(want, self._error_of_missing(want))
        try:
            answer = self.read(partition, want)
        except (StorageError, LogDamaged) as error:
            self._env.changed.failed.append((partition, error))
            return self._refuse(want, ErrorCode.KAFKA_STORAGE_ERROR)
        except ProtocolError as error:
            return self._refuse(want, error.code)
        if answer.error_code is ErrorCode.NONE and answer.diverging_epoch is None:
            self._interest.watch(wanted, partition.readers)
            if not answer.records_bytes and answer.preferred_read_replica == READ_HERE:
                self._settle(partition, wanted)
        return answer

    def _error_of_missing(self, want: FetchPartition) -> ErrorCode:
        hosted = self._env.hosted
        if self._interest.by_id and want.topic_id not in hosted.image.topics_by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return hosted.error_of_missing(want.topic, want.partition)

    def _settle(self, partition: Partition, wanted: Wanted) -> None:
        """Nothing was found: unless that may change by itself, or was not for want of records, it
        is read again when the replica has changed."""
        log, want = partition.log, wanted.want
        if not self._by_follower:
            if want.fetch_offset >= fetchable_end(log, self._request.isolation_level):
                self._interest.settle(wanted, None)
            return
        leadership, replica_id = partition.leadership, self._request.replica_id
        assert leadership is not None, f"{partition} serves a follower without leading"
        if (
            # What a fetch shows of a follower is noted on arrival.
            self._on_arrival
            and want.fetch_offset >= log.log_end_offset
            and not self._lacks_high_watermark(log, want)
            # A follower that may join the ISR is proposed when it is read.
            and (replica_id in leadership.maximal_isr or not self._may_join)
        ):
            self._interest.settle(wanted, leadership.remotes[replica_id])

    @property
    def has_enough(self) -> bool:
        """Whether the records found are worth an answer."""
        return self.records_bytes >= self._enough_bytes

    def _refuse(
        self,
        want: FetchPartition,
        code: ErrorCode,
        offsets: tuple[int, int, int] = (NO_OFFSET, NO_OFFSET, NO_OFFSET),
        diverging: EpochEndOffset | None = None,
    ) -> FetchedPartition:
        """The answer of a partition that is not read."""
        self.at_once = True
        place = want.topic, want.topic_id, want.partition
        # As in Kafka, null only beside what a replica answers.
        aborted: list[AbortedTransaction] | None = [] if code in _ABOUT_NO_REPLICA else None
        return FetchedPartition(*place, code, *offsets, [], 0, diverging, aborted=aborted)

    def read(self, partition: Partition, want: FetchPartition) -> FetchedPartition:
        """The answer of one partition. Raises `ProtocolError` and `StorageError`."""
        _, topic_id, _, epoch, fetch_offset, last_epoch, *_ = want
        if (
            epoch != partition.leader_epoch
            or topic_id != partition.topic_id
            or partition.offline is not None
        ):
            code = partition.error_of_request(topic_id, epoch)
            if (
                code is ErrorCode.INCONSISTENT_TOPIC_ID
                and topic_id not in self._env.hosted.image.topics_by_id
            ):
                # The topic was deleted while the fetch waited, and made again under its name.
                code = ErrorCode.UNKNOWN_TOPIC_ID
            if code is not ErrorCode.NONE:
                return self._refuse(want, code)
        leadership = partition.leadership
        if leadership is None and (self._by_follower or not self._parked.followers_may_serve):
            return self._refuse(want, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        remote = None
        if self._by_follower:
            assert leadership is not None, f"{partition} serves a follower without leading"
            remote = leadership.remotes.get(self._request.replica_id)
            if remote is None or self._stale:
                return self._refuse(want, self._error_of_follower(epoch))
        log = partition.log
        log_end = log.log_end_offset
        if last_epoch != NO_EPOCH:
            diverging = _divergence(log, want)
            if diverging is not None:
                return self._refuse(want, ErrorCode.NONE, self._beside_divergence(log), diverging)
        if not log.log_start_offset <= fetch_offset <= log_end:
            return self._refuse(want, ErrorCode.OFFSET_OUT_OF_RANGE)
        if leadership is None or remote is None:
            return self._answer_consumer(partition, want)
        if self._lacks_high_watermark(log, want):
            self.at_once = True
        if self._on_arrival:
            # The leader's end is sampled before the read: see `leader`.
            self._note_progress(partition, leadership, remote, want, log_end)
        if log.config.leader_replication_throttled_replicas:
            return self._answer_throttled(partition, leadership, want)
        return self._answer(log, want, log_end)

    def _beside_divergence(self, log: Log) -> tuple[int, int, int]:
        """High watermark, last stable offset and log start.

        A follower does not look at the high watermark of a divergence, so it must not be counted
        as sent: a fetch session mentions only what changed since it was sent."""
        if self._by_follower:
            return NO_OFFSET, NO_OFFSET, log.log_start_offset
        return log.high_watermark, log.last_stable_offset, log.log_start_offset

    def _lacks_high_watermark(self, log: Log, want: FetchPartition) -> bool:
        """Whether a follower asks for a newer high watermark, which its log reaches."""
        return want.high_watermark < want.fetch_offset and want.high_watermark < log.high_watermark

    def _answer_throttled(
        self, partition: Partition, leadership: LeaderState, want: FetchPartition
    ) -> FetchedPartition:
        """A follower's answer where the topic throttles some replicas, maybe this leader's."""
        log, throttles = partition.log, self._env.throttles
        listed = log.config.leader_replication_throttled_replicas
        throttled = throttles.names(listed, partition.topic_partition.partition)
        in_sync = self._request.replica_id in leadership.isr
        if throttled and not in_sync and throttles.leader.is_exceeded(self.now):
            return self._answer(log, want, NO_OFFSET)
        answer = self._answer(log, want, log.log_end_offset)
        if throttled:
            self.throttled_bytes += answer.records_bytes
        return answer

    def _answer_consumer(self, partition: Partition, want: FetchPartition) -> FetchedPartition:
        log, leadership = partition.log, partition.leadership
        if leadership is None:
            partition.last_consumer_read = self.now
        elif self._selector.by_rack and self._parked.followers_may_serve:
            preferred = self._selector.decide(
                leadership,
                want.fetch_offset,
                rack_id=self._request.rack_id,
                listener=self._parked.listener,
                now=self.now,
            )
            if preferred != READ_HERE:
                self.at_once = True
                empty = self._answer(log, want, NO_OFFSET)
                return empty._replace(preferred_read_replica=preferred)
        upper = log.last_stable_offset if self._committed_only else log.high_watermark
        return self._answer(log, want, upper)

    def _error_of_follower(self, epoch: int) -> ErrorCode:
        if self._stale or epoch == NO_EPOCH:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        # The follower may know a newer assignment than this leader; it will ask again.
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def _note_progress(
        self,
        partition: Partition,
        leadership: LeaderState,
        remote: RemoteReplica,
        want: FetchPartition,
        leader_end: int,
    ) -> None:
        request = self._request
        moved = remote.on_fetch(
            want.fetch_offset,
            want.log_start_offset,
            leader_end=leader_end,
            broker_epoch=request.replica_epoch,
            now=self.now,
        )
        if moved:
            self._env.changed.progressed[partition] = None
            if self._selector.by_rack:
                # Consumers may be sent there now.
                self._env.changed.mark_readable(partition)
        if request.replica_id not in leadership.maximal_isr:
            self._isr_changes.maybe_expand_isr(partition, request.replica_id)

    def _answer(self, log: Log, want: FetchPartition, upper: int) -> FetchedPartition:
        chunks: list[Chunk] = []
        size_bytes = 0
        aborted: list[AbortedTransaction] | None = [] if self._committed_only else None
        if want.fetch_offset < upper and (self._left_bytes or not self.records_bytes):
            got = self._read_records(log, want, upper)
            chunks, size_bytes = got.chunks, got.size_bytes
            if self._committed_only and chunks:
                aborted = log.aborted_in(want.fetch_offset, got.next_offset)
        return FetchedPartition(
            want.topic,
            want.topic_id,
            want.partition,
            ErrorCode.NONE,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            chunks,
            size_bytes,
            None,
            None,
            None,
            aborted,
        )

    def _read_records(self, log: Log, want: FetchPartition, upper: int) -> LogRead:
        got = log.read(
            want.fetch_offset,
            max(0, min(want.max_bytes, self._left_bytes)),
            upper,
            at_least_one=not self.records_bytes,
        )
        assert got.next_offset <= upper, (
            f"ReadsBelowHighWatermark: {log.topic_partition} {got.next_offset} > {upper}"
        )
        if got.next_offset < upper:
            # The rest is in the next segment, or too large for this answer: waiting brings no more.
            self.at_once = True
        self.records_bytes += got.size_bytes
        self._left_bytes = max(0, self._left_bytes - got.size_bytes)
        self._env.work.spend(got.size_bytes // FETCHED_BYTES_PER_WORK)
        return got


def fetchable_end(log: Log, isolation_level: int) -> int:
    """Up to where (exclusive) a consumer may read."""
    return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark


def _divergence(log: Log, want: FetchPartition) -> EpochEndOffset | None:
    """Where the reader's log leaves this one, `None` where it does not.

    Raises OFFSET_OUT_OF_RANGE when there is nothing to compare with.
    """
    epoch = want.last_fetched_epoch
    end = log.end_offset_for_epoch(epoch)
    if end.end_offset == NO_OFFSET or want.fetch_offset < log.log_start_offset:
        raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.leader_epoch < epoch or end.end_offset < want.fetch_offset:
        return end
    return None
