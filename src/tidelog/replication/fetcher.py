"""Fetches from one leader broker what this node's followers lack.

One request is in flight per leader (`OneFetchInFlight`). It lists all partitions that this node
follows there and that are able to fetch (`fetch_state`), in an incremental session; the answer is
applied (`fetch_answers`), and the next tick sends the next request. The leader holds a request back
while it has nothing new, so this loop is a long poll, not a spin. It holds it no longer than until
the first partition that pauses is to be fetched again: that one comes with the next request.

**In slices.** An answer with records for hundreds of partitions is applied in as many turns as its
work takes (`turn_work`). A partition that waits is one whose answer has not arrived yet: when its
turn comes the same is asked as of a late answer, whether it still fits. The next request is sent
when all is applied, because it claims what the logs hold.

**Group commit.** A fetch at offset n claims "I hold everything below n". With `flush.messages=1`
that must be true after a power cut, so the next request to this leader is held until all that the
last answer brought is on the device. One slow flush holds the other partitions of the same leader,
as the flush inside the append does in Kafka.

**No answer.** A leader that cannot be reached pauses all its partitions, until the metadata has
something new about that broker.

Source: KIP-227, KIP-595.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.limits import (
    FETCHED_OFFSETS_WORK,
    FETCHED_PARTITION_WORK,
    MAX_PARTITIONS_ADDED_PER_FETCH,
)
from tidelog.log.reading import as_buffer
from tidelog.model import NO_EPOCH
from tidelog.replication.events.following import FetchesPaused, FetchesPausedAgain, TruncationReason
from tidelog.replication.events.shape import NoAnswer
from tidelog.replication.fetch_answers import FetchAnswers
from tidelog.replication.fetch_state import (
    ANSWERED,
    FetchState,
    FollowedPartitions,
    key_of,
    pause_ms,
)
from tidelog.replication.follower import Cut, truncate
from tidelog.replication.leader_bounds import LeaderBounds
from tidelog.replication.messages import SendFetch, Token
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env
from tidelog.wire.fetch import (
    FETCH_ANY_HIGH_WATERMARK,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)

CONSUMER_INTEREST_MS: Final = 60_000
"""How long after a consumer's last read here the leader is asked for news of the high watermark as
soon as there are any. It costs an answer for each commit, so without readers it is not asked."""


class ReplicaFetcher:
    """All that this node fetches from one leader."""

    __slots__ = (
        "_applied_at",
        "_blocked_until",
        "_env",
        "_failures",
        "_rest",
        "answers",
        "bounds",
        "followed",
        "token",
    )

    def __init__(self, leader_id: int, env: Env) -> None:
        self._env = env
        # The partitions, and what the leader knows of them.
        self.followed = FollowedPartitions(leader_id, env)
        self.answers = FetchAnswers(self.followed)
        self.bounds = LeaderBounds(self.followed, self.answers)
        # The Fetch in flight.
        self.token: Token | None = None
        # What is still to be applied of the newest answer, and when some of it was applied last.
        self._rest: deque[FetchedPartition] = deque()
        self._applied_at: Instant | None = None
        # Nothing is sent before this instant, because the leader could not be reached.
        self._blocked_until: Instant | None = None
        # Requests without an answer since the last answered one; they lengthen the pause.
        self._failures = 0

    # Which partitions are followed here -----------------------------------------------------

    def add(self, partition: Partition, leader_epoch: int) -> bool:
        """Follows a partition from now on; returns whether its log had to be cut.

        Raises `StorageError`.
        """
        self.followed.remove(partition)
        self.followed.add(FetchState(partition, leader_epoch))
        log = partition.log
        if log.latest_epoch != NO_EPOCH:
            return False
        # Without a single epoch the log cannot be compared with the leader's: keep only what is
        # known to be committed.
        cut = Cut(log.high_watermark, TruncationReason.NO_EPOCH)
        return truncate(log, cut, self._env.trace)

    def epoch_of(self, partition: Partition) -> int | None:
        """The leader epoch in which a partition is followed here."""
        state = self.followed.by_key.get(key_of(partition))
        return None if state is None else state.leader_epoch

    def resume(self) -> None:
        """The metadata has something new about the leader: the pause is over."""
        self._blocked_until = None
        self._failures = 0

    # Sending --------------------------------------------------------------------------------

    def poll(self, now: Instant) -> None:
        """Sends what can be sent; called once per tick."""
        self.followed.resume_due(now)
        self.followed.throttle(now)
        if self._blocked_until is not None:
            if now < self._blocked_until:
                return
            self._blocked_until = None
        self.bounds.maybe_send()
        if self.token is not None or self._rest:
            return
        self.followed.rest(now)
        if self._refresh_session(now) and len(self.followed.session):
            self._send(now)

    def _refresh_session(self, now: Instant) -> bool:
        """Enters in the session where the logs end now; `False` while that must not be claimed. Of
        newcomers it enters as many as the next request can add."""
        followed = self.followed
        new = list(islice(followed.newcomers, MAX_PARTITIONS_ADDED_PER_FETCH))
        due = [*followed.stale, *new]
        if not all(state.partition.is_flushed for state in due):
            return False
        followed.stale.clear()
        for state in new:
            del followed.newcomers[state]
        for state in due:
            log = state.partition.log
            state.sent_offset = log.log_end_offset
            is_read = now - state.partition.last_consumer_read <= CONSUMER_INTEREST_MS
            entry = FetchPartition(
                topic=state.partition.topic_partition.topic,
                topic_id=state.partition.topic_id,
                partition=state.partition.topic_partition.partition,
                current_leader_epoch=state.leader_epoch,
                fetch_offset=log.log_end_offset,
                last_fetched_epoch=log.latest_epoch,
                log_start_offset=log.log_start_offset,
                max_bytes=self._env.config.replica_fetch_max_bytes,
                high_watermark=log.high_watermark if is_read else FETCH_ANY_HIGH_WATERMARK,
            )
            followed.session.put(entry)
        return True

    def _send(self, now: Instant) -> None:
        env, session = self._env, self.followed.session
        listed, forgotten = session.take_request()
        longest_ms = env.config.replica_fetch_wait_max_ms
        if session.has_more or self.followed.newcomers:
            longest_ms = 0
        elif self.followed.retry_at is not None:
            longest_ms = min(longest_ms, self.followed.retry_at - now)
        request = FetchRequest(
            replica_id=env.node_id,
            replica_epoch=env.brokers.own_epoch,
            max_wait_ms=longest_ms,
            min_bytes=env.config.replica_fetch_min_bytes,
            max_bytes=env.config.replica_fetch_response_max_bytes,
            isolation_level=READ_UNCOMMITTED,
            session_id=session.session_id,
            session_epoch=session.epoch,
            partitions=listed,
            forgotten=forgotten,
        )
        self.token = env.outbox.new_token()
        env.outbox.emit(SendFetch(self.followed.leader_id, self.token, request))

    # Answers --------------------------------------------------------------------------------

    def on_fetch_response(self, response: FetchResponse | None, now: Instant) -> None:
        """Applies the answer to the Fetch in flight, `None` when there was none."""
        assert self.token is not None, "OneFetchInFlight: no fetch is in flight"
        self.token = None
        session = self.followed.session
        if response is None:
            session.on_failure()
            self._block(NoAnswer.NO_ANSWER, now)
            return
        if response.error_code is not ErrorCode.NONE:
            session.on_error(response.error_code)
            self._block(response.error_code, now)
            return
        self._failures = 0
        session.on_success(response.session_id)
        unapplied = iter(response.partitions)
        self._apply(unapplied, now)
        # What waits must not be part of a buffer that is used again.
        self._rest.extend(_own_copy(fetched) for fetched in unapplied)

    @property
    def has_rest(self) -> bool:
        """Whether some of the newest answer is still to be applied."""
        return bool(self._rest)

    def apply_rest(self, now: Instant) -> None:
        """Applies as much of it as this turn may, at least one partition."""
        rest = self._rest
        self._apply((rest.popleft() for _ in range(len(rest))), now)

    def _apply(self, fetched: Iterator[FetchedPartition], now: Instant) -> None:
        self._applied_at = now
        work, by_key = self._env.work, self.followed.by_key
        for each in fetched:
            state = by_key.get((each.topic_id, each.partition))
            if state is not None and state.phase in ANSWERED:
                self.answers.on_partition(state, each, now)
                work.spend(FETCHED_PARTITION_WORK if each.records_bytes else FETCHED_OFFSETS_WORK)
                if work.is_spent:
                    return

    def _block(self, reason: NoAnswer | ErrorCode, now: Instant) -> None:
        wait_ms = pause_ms(self._failures, self._env.config)
        self._failures += 1
        self._blocked_until = Instant(now + wait_ms)
        if not self.followed.by_key:
            return
        # Only the first of a row is news.
        event = FetchesPaused if self._failures == 1 else FetchesPausedAgain
        self._env.trace.event(event(leader_id=self.followed.leader_id, reason=reason, ms=wait_ms))

    # Time and invariants --------------------------------------------------------------------

    def deadline(self) -> Instant | None:
        """When `poll` has something to do that no answer brings about."""
        followed = self.followed
        retry_at = followed.retry_at if followed.delayed else None
        blocked_until = self._blocked_until if followed.by_key else None
        throttled_until = followed.throttled_until if followed.throttled else None
        rest_at = self._applied_at if self._rest else None
        return earliest(blocked_until, throttled_until, retry_at, rest_at)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        self.followed.check()
        assert self.token is None or not self._rest, "OneFetchInFlight: the answer is not applied"
        for state in self.followed.by_key.values():
            partition = state.partition
            assert partition.leader_id == self.followed.leader_id, (
                f"FollowsItsLeader: {partition} is led by {partition.leader_id}, not by "
                f"{self.followed.leader_id}"
            )
            assert partition.leader_epoch == state.leader_epoch, (
                f"FollowsItsLeader: {partition} is in epoch {partition.leader_epoch}, fetched in "
                f"{state.leader_epoch}"
            )


def _own_copy(fetched: FetchedPartition) -> FetchedPartition:
    if not fetched.records_bytes:
        return fetched
    return fetched._replace(records=[bytes(as_buffer(fetched.records))])
