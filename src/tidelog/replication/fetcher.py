"""Fetches from one leader broker what this node's followers lack.

One request is in flight per leader (`OneFetchInFlight`). It lists all partitions that this node
follows there and that are able to fetch, in an incremental session; the answer is applied, and the
next tick sends the next request. The leader holds a request back while it has nothing new, so this
loop is a long poll, not a spin.

A partition is in one of these phases:

| phase | what it waits for |
| --- | --- |
| FETCHING | the next answer |
| DELAYED | the end of a pause after an error of its own |
| THROTTLED | the quota of this node's throttled followers, which is exceeded (`throttle`) |
| ASKING_LATEST, ASKING_EARLIEST | where the leader's log ends or starts: out of range |
| CUTTING | a recovery point on the disk that does not claim what is to be cut |
| FAILED | new metadata: its leader epoch is fenced, or its log is broken |

A partition's answer counts only if it still is what was asked: same leader epoch, and the log still
ends where the fetch began (`ResponseMatchesRequest`). A new leader epoch makes a new `FetchState`,
so an answer to the old one finds a state that has sent nothing.

**Group commit.** A fetch at offset n says "I hold everything below n". With `flush.messages=1` that
must be true after a power cut, so the next request to this leader is held until all that the last
answer brought is on the device. One slow flush holds the other partitions of the same leader, as
the flush inside the append does in Kafka.

**Cutting.** A log that ends below its checkpointed recovery point is taken for damaged after a
crash. So durable records are cut only when a checkpoint that does not claim them is durable itself
(`ClaimBeforeCut`); the partition is not fetched meanwhile.

**Errors.** A leader that has not heard of its leadership yet answers UNKNOWN_LEADER_EPOCH or
NOT_LEADER_OR_FOLLOWER for a moment after every election; so pauses begin short and double up to
`replica.fetch.backoff.ms`. A leader that cannot be reached pauses all its partitions, until the
metadata tells something new about that broker.

Source: KIP-227, KIP-595; Kafka's fetcher thread for the reactions to errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tidelog.config import ReplicationConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, LogDamaged, ProtocolError, StorageError
from tidelog.log.log import UNCUT
from tidelog.model import NO_EPOCH, NO_OFFSET, EpochEndOffset, TopicPartition
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.fetch_session import FollowerSession, SessionKey
from tidelog.replication.follower import (
    Progress,
    append_fetched,
    restart,
    truncate,
    where_to_agree,
)
from tidelog.replication.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsQuery,
    ListOffsetsResult,
    SendFetch,
    SendListOffsets,
    Token,
)
from tidelog.replication.outbox import Outbox
from tidelog.replication.partition import Partition
from tidelog.replication.throttle import Throttles
from tidelog.wire.fetch import (
    FETCH_ANY_HIGH_WATERMARK,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)

FIRST_BACKOFF_MS: Final = 20
"""The first pause after an error; each further one doubles it."""

CONSUMER_INTEREST_MS: Final = 60_000
"""How long after a consumer's last read here the leader is asked for news of the high watermark as
soon as there are any. It costs an answer for each commit, so nobody asks without readers."""


@dataclass(frozen=True, slots=True)
class FetcherEnv:
    """What all fetchers of a node share."""

    node_id: int
    config: ReplicationConfig
    brokers: BrokerEpochs
    outbox: Outbox
    trace: Trace
    throttles: Throttles


@dataclass(slots=True)
class FetchOutcome:
    """What answers did to this node's followers."""

    changed: list[Partition] = field(default_factory=list)
    """Log end, high watermark or log start changed."""
    failed: list[tuple[Partition, StorageError | LogDamaged]] = field(default_factory=list)
    """The device failed under them, or their own logs are damaged."""
    cutting: "list[FetchState]" = field(default_factory=list)
    """They are to be cut once the recovery points are checkpointed."""


class Phase(Enum):
    """See the module's table."""

    FETCHING = "fetching"
    DELAYED = "delayed"
    THROTTLED = "throttled"
    ASKING_LATEST = "asking latest"
    ASKING_EARLIEST = "asking earliest"
    CUTTING = "cutting"
    FAILED = "failed"


class Cut(NamedTuple):
    """Where a log is to be cut and why."""

    target: int
    cause: str
    diverging: EpochEndOffset | None = None
    restarts: bool = False
    """Nothing is kept, the log begins anew at the target."""


class FetchState:
    """One followed partition in one leader epoch."""

    __slots__ = (
        "cut",
        "errors",
        "key",
        "lags",
        "leader_epoch",
        "partition",
        "phase",
        "retry_at",
        "sent_offset",
    )

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.key: SessionKey = (partition.topic_id, partition.topic_partition.partition)
        # The epoch that every fetch of this state carries.
        self.leader_epoch = leader_epoch
        self.phase = Phase.FETCHING
        # The fetch offset as the leader was told it last; -1 when it was not told any.
        self.sent_offset = NO_OFFSET
        # When a DELAYED one fetches again.
        self.retry_at = Instant(0)
        # What a CUTTING one waits to do.
        self.cut: Cut | None = None
        # Errors since the last good answer; they lengthen the pause.
        self.errors = 0
        # Whether the last answer told of committed records that this log lacks. Nothing is known
        # before the first, and a newcomer is taken to lag.
        self.lags = True


class ReplicaFetcher:
    """All that this node fetches from one leader."""

    __slots__ = (
        "_asked",
        "_blocked_until",
        "_delayed",
        "_env",
        "_failures",
        "_session",
        "_stale",
        "_states",
        "_throttled",
        "_throttled_until",
        "_to_ask",
        "asking_token",
        "leader_id",
        "token",
    )

    def __init__(self, leader_id: int, env: FetcherEnv) -> None:
        self.leader_id = leader_id
        self._env = env
        # Every partition that is followed here, whatever its phase.
        self._states: dict[SessionKey, FetchState] = {}
        # What the leader is asked for: the FETCHING ones.
        self._session = FollowerSession()
        # FETCHING states whose entry in the session is out of date.
        self._stale: dict[FetchState, None] = {}
        # DELAYED states.
        self._delayed: dict[FetchState, None] = {}
        # THROTTLED states.
        self._throttled: dict[FetchState, None] = {}
        # When the quota is looked at again for them.
        self._throttled_until: Instant | None = None
        # ASKING states that no request in flight asks for.
        self._to_ask: dict[FetchState, None] = {}
        # ASKING states of the ListOffsets in flight.
        self._asked: dict[TopicPartition, FetchState] = {}
        # The Fetch and the ListOffsets in flight.
        self.token: Token | None = None
        self.asking_token: Token | None = None
        # Nothing is sent before this instant, because the leader could not be reached.
        self._blocked_until: Instant | None = None
        # Requests without an answer since the last answered one; they lengthen the pause.
        self._failures = 0

    def __len__(self) -> int:
        return len(self._states)

    # Who is followed here -------------------------------------------------------------------

    def add(self, partition: Partition, leader_epoch: int) -> bool:
        """Follows a partition from now on; returns whether its log had to be cut.

        Raises `StorageError`.
        """
        self.remove(partition)
        state = FetchState(partition, leader_epoch)
        self._states[state.key] = state
        self._stale[state] = None
        log = partition.log
        if log.latest_epoch != NO_EPOCH:
            return False
        # Without a single epoch the log cannot be compared with the leader's: keep only what is
        # known to be committed.
        return truncate(log, log.high_watermark, self._env.trace, cause="no leader epoch known")

    def remove(self, partition: Partition) -> None:
        """Follows a partition no longer."""
        state = self._states.pop(_key_of(partition), None)
        if state is not None:
            self._leave_phase(state)

    def epoch_of(self, partition: Partition) -> int | None:
        """The leader epoch in which a partition is followed here."""
        state = self._states.get(_key_of(partition))
        return None if state is None else state.leader_epoch

    def resume(self) -> None:
        """The metadata told something new about the leader: the pause is over."""
        self._blocked_until = None
        self._failures = 0

    def _leave_phase(self, state: FetchState) -> None:
        if state.cut is not None:
            state.partition.log.announced_end = UNCUT
            state.cut = None
        self._stale.pop(state, None)
        self._delayed.pop(state, None)
        self._throttled.pop(state, None)
        self._to_ask.pop(state, None)
        self._asked.pop(state.partition.topic_partition, None)
        self._session.drop(state.partition.topic_partition.topic, state.key)

    def _enter(self, state: FetchState, phase: Phase) -> None:
        self._leave_phase(state)
        state.phase = phase
        if phase is Phase.FETCHING:
            self._stale[state] = None
        elif phase is Phase.DELAYED:
            self._delayed[state] = None
        elif phase is Phase.THROTTLED:
            self._throttled[state] = None
        elif phase in (Phase.ASKING_LATEST, Phase.ASKING_EARLIEST):
            self._to_ask[state] = None

    # Sending --------------------------------------------------------------------------------

    def poll(self, now: Instant) -> None:
        """Sends what can be sent; called once per tick."""
        for state in list(self._delayed):
            if state.retry_at <= now:
                self._enter(state, Phase.FETCHING)
        self._throttle(now)
        if self._blocked_until is not None:
            if now < self._blocked_until:
                return
            self._blocked_until = None
        if self._to_ask and self.asking_token is None:
            self._ask()
        if self.token is None and self._refresh_session(now) and len(self._session):
            self._send()

    def _throttle(self, now: Instant) -> None:
        """Takes throttled partitions that lag out of the session while the quota is exceeded."""
        throttles = self._env.throttles
        if not throttles.follower.is_exceeded(now):
            for state in list(self._throttled):
                self._enter(state, Phase.FETCHING)
            return
        self._throttled_until = throttles.follower.free_at(now)
        for state in self._states.values():
            if state.phase is Phase.FETCHING and state.lags and self._is_throttled(state):
                self._enter(state, Phase.THROTTLED)

    def _is_throttled(self, state: FetchState) -> bool:
        partition = state.partition
        listed = partition.log.config.follower_replication_throttled_replicas
        return self._env.throttles.names(listed, partition.topic_partition.partition)

    def _refresh_session(self, now: Instant) -> bool:
        """Tells the session where the logs end now; `False` while that must not be claimed."""
        if not all(state.partition.is_flushed for state in self._stale):
            return False
        for state in self._stale:
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
            self._session.put(entry)
        self._stale.clear()
        return True

    def _send(self) -> None:
        env = self._env
        listed, forgotten = self._session.take_request()
        request = FetchRequest(
            replica_id=env.node_id,
            replica_epoch=env.brokers.own_epoch,
            max_wait_ms=env.config.replica_fetch_wait_max_ms,
            min_bytes=env.config.replica_fetch_min_bytes,
            max_bytes=env.config.replica_fetch_response_max_bytes,
            isolation_level=READ_UNCOMMITTED,
            session_id=self._session.session_id,
            session_epoch=self._session.epoch,
            partitions=listed,
            forgotten=forgotten,
        )
        self.token = env.outbox.new_token()
        env.outbox.emit(SendFetch(self.leader_id, self.token, request))

    def _ask(self) -> None:
        queries = []
        for state in self._to_ask:
            topic, partition = state.partition.topic_partition
            latest = state.phase is Phase.ASKING_LATEST
            timestamp = LATEST_TIMESTAMP if latest else EARLIEST_TIMESTAMP
            queries.append(ListOffsetsQuery(topic, partition, state.leader_epoch, timestamp))
            self._asked[state.partition.topic_partition] = state
        self._to_ask.clear()
        self.asking_token = self._env.outbox.new_token()
        request = SendListOffsets(self.leader_id, self.asking_token, tuple(queries))
        self._env.outbox.emit(request)

    # Answers to Fetch -------------------------------------------------------------------------

    def on_fetch_response(
        self, response: FetchResponse | None, outcome: FetchOutcome, now: Instant
    ) -> None:
        """Applies the answer to the Fetch in flight, `None` when there was none."""
        assert self.token is not None, "OneFetchInFlight: no fetch is in flight"
        self.token = None
        if response is None:
            self._session.on_failure()
            self._block("no answer", now)
            return
        if response.error_code is not ErrorCode.NONE:
            self._session.on_error(response.error_code)
            self._block(response.error_code.name, now)
            return
        self._failures = 0
        self._session.on_success(response.session_id)
        for fetched in response.partitions:
            state = self._states.get((fetched.topic_id, fetched.partition))
            if state is not None and state.phase is Phase.FETCHING:
                self._on_partition(state, fetched, outcome, now)

    def _block(self, reason: str, now: Instant) -> None:
        pause_ms = self._pause_ms(self._failures)
        self._failures += 1
        self._blocked_until = Instant(now + pause_ms)
        if not self._states:
            return
        # Only the first of a row is news.
        emit = self._env.trace.info if self._failures == 1 else self._env.trace.debug
        subject = f"fetcher {self.leader_id}"
        emit(subject, "on_fetch_response", "pausing", reason, ms=pause_ms)

    def _pause_ms(self, failures: int) -> int:
        return min(FIRST_BACKOFF_MS << min(failures, 16), self._env.config.replica_fetch_backoff_ms)

    def _on_partition(
        self, state: FetchState, fetched: FetchedPartition, outcome: FetchOutcome, now: Instant
    ) -> None:
        partition = state.partition
        if state.sent_offset != partition.log.log_end_offset:
            self._env.trace.debug(
                partition, "on_fetch_response", "ignored", "the log has moved since",
                sent=state.sent_offset, log_end=partition.log.log_end_offset,
            )  # fmt: skip
            return
        if fetched.error_code is not ErrorCode.NONE:
            self._on_error(state, fetched.error_code, now)
            return
        try:
            if fetched.diverging_epoch is not None:
                self._on_divergence(state, fetched, outcome, now)
            else:
                self._on_records(state, fetched, outcome, now)
        except (StorageError, LogDamaged) as error:
            self._fail(state, error, outcome)
        except ProtocolError as error:
            self._delay(state, error.message, now)

    def _on_divergence(
        self, state: FetchState, fetched: FetchedPartition, outcome: FetchOutcome, now: Instant
    ) -> None:
        diverging = fetched.diverging_epoch
        assert diverging is not None, "asked to cut without a diverging epoch"
        leader_start = fetched.log_start_offset
        target = where_to_agree(state.partition.log, diverging)
        cut = Cut(target, "diverging epoch", diverging)
        if target <= leader_start and leader_start > 0:
            # Nobody can say any more where the logs part, only that nothing above is common.
            cut = Cut(leader_start, "diverging below the leader's log start", diverging, True)
        if self._cut(state, cut, outcome):
            state.errors = 0
        else:
            self._delay(state, f"no progress with {diverging}", now)

    def _cut(self, state: FetchState, cut: Cut, outcome: FetchOutcome) -> bool:
        """Cuts a log; durable records only once no checkpoint claims them any more. Returns whether
        anything changes."""
        log = state.partition.log
        if cut.target < log.recovery_point:
            self._enter(state, Phase.CUTTING)
            state.cut = cut
            log.announced_end = cut.target
            outcome.cutting.append(state)
            return True
        if not self._truncate(state, cut):
            return False
        self._go_on(state, outcome)
        return True

    def _truncate(self, state: FetchState, cut: Cut) -> bool:
        values = {} if cut.diverging is None else {"diverging": tuple(cut.diverging)}
        log = state.partition.log
        if cut.restarts:
            return restart(log, cut.target, self._env.trace, cause=cut.cause, **values)
        return truncate(log, cut.target, self._env.trace, cause=cut.cause, **values)

    def on_announced(self, state: FetchState, outcome: FetchOutcome) -> None:
        """The checkpoint that was written for a CUTTING partition is durable."""
        cut = state.cut
        if cut is None or self._states.get(state.key) is not state:
            return
        try:
            self._truncate(state, cut)
        except (StorageError, LogDamaged) as error:
            self._fail(state, error, outcome)
        else:
            self._go_on(state, outcome)

    def _go_on(self, state: FetchState, outcome: FetchOutcome) -> None:
        """The log has another end: fetching begins there."""
        outcome.changed.append(state.partition)
        self._enter(state, Phase.FETCHING)

    def _fail(
        self, state: FetchState, error: StorageError | LogDamaged, outcome: FetchOutcome
    ) -> None:
        self._enter(state, Phase.FAILED)
        outcome.failed.append((state.partition, error))

    def _on_records(
        self, state: FetchState, fetched: FetchedPartition, outcome: FetchOutcome, now: Instant
    ) -> None:
        log = state.partition.log
        if fetched.records_bytes and self._is_throttled(state):
            self._env.throttles.follower.record(fetched.records_bytes, now)
        progress = append_fetched(log, fetched, state.leader_epoch, self._env.trace)
        state.lags = log.log_end_offset < fetched.high_watermark
        if fetched.records_bytes and progress is not Progress.APPENDED:
            # All of it is of a later epoch, or cut short. The leader would send the same at once.
            self._delay(state, "no batch could be taken", now)
            return
        state.errors = 0
        if progress is not Progress.NOTHING:
            outcome.changed.append(state.partition)
            self._stale[state] = None

    def _on_error(self, state: FetchState, code: ErrorCode, now: Instant) -> None:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._enter(state, Phase.ASKING_LATEST)
        elif code is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader is in a later epoch; fetching begins anew when the metadata tells it here.
            self._enter(state, Phase.FAILED)
        else:
            self._delay(state, code.name, now)

    def _delay(self, state: FetchState, reason: str, now: Instant) -> None:
        pause_ms = self._pause_ms(state.errors)
        state.errors += 1
        state.retry_at = Instant(now + pause_ms)
        self._enter(state, Phase.DELAYED)
        emit = self._env.trace.info if state.errors == 1 else self._env.trace.debug
        emit(
            state.partition,
            "on_fetch_response",
            "delayed",
            reason,
            ms=pause_ms,
            leader=self.leader_id,
            leader_epoch=state.leader_epoch,
            fetch_offset=state.sent_offset,
        )

    # Answers to ListOffsets -------------------------------------------------------------------

    def on_list_offsets_response(
        self,
        results: Sequence[ListOffsetsResult] | None,
        outcome: FetchOutcome,
        now: Instant,
    ) -> None:
        """Applies where the leader's logs end or start, `None` when there was no answer."""
        assert self.asking_token is not None, "no ListOffsets is in flight"
        self.asking_token = None
        asked, self._asked = self._asked, {}
        for result in results or ():
            state = asked.pop(TopicPartition(result.topic, result.partition), None)
            if state is None:
                continue
            if result.error_code is not ErrorCode.NONE:
                self._delay(state, result.error_code.name, now)
                continue
            try:
                self._on_offset(state, result.offset, outcome, now)
            except (StorageError, LogDamaged) as error:
                self._fail(state, error, outcome)
        for state in asked.values():
            self._delay(state, "no answer", now)

    def _on_offset(
        self, state: FetchState, offset: int, outcome: FetchOutcome, now: Instant
    ) -> None:
        log = state.partition.log
        latest = state.phase is Phase.ASKING_LATEST
        if latest and offset >= log.log_end_offset:
            self._enter(state, Phase.ASKING_EARLIEST)
            return
        if latest:
            # Only an unclean election leaves a leader with less than its followers.
            self._cut(state, Cut(offset, "the leader's log ends here"), outcome)
            return
        if offset > log.log_end_offset:
            self._env.trace.warn(
                state.partition,
                "on_list_offsets_response",
                "restarted",
                "the leader's log starts above this one's end",
                log_end=log.log_end_offset,
                leader_start=offset,
            )
            log.truncate_fully_and_start_at(offset)
            self._go_on(state, outcome)
        else:
            # In range after all. Where it was not, the leader has moved since; ask it again, but
            # not at once, because nothing here has changed.
            self._delay(state, "offset is in range by now", now)

    # Time and invariants ----------------------------------------------------------------------

    def deadline(self) -> Instant | None:
        """When `poll` has something to do that no answer brings about."""
        resumes = (state.retry_at for state in self._delayed)
        throttled_until = self._throttled_until if self._throttled else None
        return earliest(self._blocked_until if self._states else None, throttled_until, *resumes)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        self._session.check()
        for key, state in self._states.items():
            partition = state.partition
            assert key == state.key, f"{key} holds the state of {state.key}"
            announced = UNCUT if state.cut is None else state.cut.target
            assert partition.log.announced_end == announced, f"ClaimBeforeCut: {state.cut}"
            assert partition.leader_id == self.leader_id, (
                f"FollowsItsLeader: {partition} is led by {partition.leader_id}, not by "
                f"{self.leader_id}"
            )
            assert partition.leader_epoch == state.leader_epoch, (
                f"FollowsItsLeader: {partition} is in epoch {partition.leader_epoch}, fetched in "
                f"{state.leader_epoch}"
            )


def _key_of(partition: Partition) -> SessionKey:
    return (partition.topic_id, partition.topic_partition.partition)
