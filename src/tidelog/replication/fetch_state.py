"""What a follower remembers of the partitions that it fetches from one leader.

A partition is in one of these phases:

| phase | what it waits for |
| --- | --- |
| FETCHING | the next answer |
| DELAYED | the end of a pause after an error of its own, or of a rest |
| THROTTLED | the exceeded quota of this node's throttled followers |
| NEEDS_LOG_END, NEEDS_LOG_START | the bounds of the leader's log, after OFFSET_OUT_OF_RANGE \
(`leader_bounds`) |
| CUTTING | a recovery point on the disk that does not claim what is to be cut, and between two \
parts of a long cut |
| FAILED | new metadata: its leader epoch is fenced, or its log is broken |

While the follower quota (`throttle`) is exceeded, throttled partitions that lag are not fetched.
Those that keep up still are: they are in sync, and acks=all waits for them. The quota is looked at
when a request is made, as in Kafka: what was asked before counts when it is answered. The leader
takes all that it has answered for known and does not repeat it, the high watermark least of all.

**Rests.** A replica that lacks gigabytes would keep its node and its leader busy without a break,
and what is in sync there would wait behind each answer: producers as well, since acks=all waits for
it. So after an answer with many bytes those that got them and still lag are left out for about as
long as such an answer takes (`CATCH_UP_REST_MS_PER_MB`). A replica rests only while it comes
nearer, so that one beside busy producers is in sync one day.

A new leader epoch makes a new `FetchState`, so an answer to the old one finds a state that has sent
nothing.

Invariant: a state is in the registers of its own phase and in no other; only FETCHING ones are in
the session. `enter` is the only way from one phase to another.
"""

from enum import Enum
from typing import Final

from tidelog.config import LONG_MAX, ReplicationConfig
from tidelog.env.instant import Instant, earliest
from tidelog.log.state import UNCUT
from tidelog.model import NO_OFFSET, TopicPartition
from tidelog.replication.fetch_session import FollowerSession, SessionKey
from tidelog.replication.follower import Cut
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env

FIRST_BACKOFF_MS: Final = 20
"""The first pause after an error; each further one doubles it."""

CATCH_UP_REST_MS_PER_MB: Final = 2
"""How long replicas that lag are not fetched after each mebibyte that they got."""


def pause_ms(failures: int, config: ReplicationConfig) -> int:
    """How long to wait after an error that comes after so many others."""
    return min(FIRST_BACKOFF_MS << min(failures, 16), config.replica_fetch_backoff_ms)


class Phase(Enum):
    """See the module's table."""

    FETCHING = "fetching"
    DELAYED = "delayed"
    THROTTLED = "throttled"
    NEEDS_LOG_END = "needs log end"
    NEEDS_LOG_START = "needs log start"
    CUTTING = "cutting"
    FAILED = "failed"


ANSWERED: Final = (Phase.FETCHING, Phase.THROTTLED)
"""The phases in which an answer counts."""


class FetchState:
    """One followed partition in one leader epoch."""

    __slots__ = (
        "cut",
        "errors",
        "key",
        "lacks",
        "lags",
        "leader_epoch",
        "partition",
        "phase",
        "retry_at",
        "sent_offset",
    )

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.key = key_of(partition)
        # The epoch that every fetch of this state carries.
        self.leader_epoch = leader_epoch
        # Set by `FollowedPartitions.enter` alone.
        self.phase = Phase.FETCHING
        # The fetch offset of the newest request that listed this partition; -1 before the first.
        self.sent_offset = NO_OFFSET
        # When a DELAYED one fetches again.
        self.retry_at = Instant(0)
        # What a CUTTING one waits to do.
        self.cut: Cut | None = None
        # Errors since the last good answer; they lengthen the pause.
        self.errors = 0
        # Whether this log lacked committed records after the last answer. Nothing is known before
        # the first, and a newcomer is taken to lag.
        self.lags = True
        # How many committed records it lacked after the last answer that was followed by a rest.
        self.lacks = LONG_MAX


class FollowedPartitions:
    """Every partition that is fetched from one leader, by its phase."""

    __slots__ = (
        "by_key",
        "cutting",
        "delayed",
        "env",
        "fed",
        "fed_bytes",
        "lagging",
        "leader_id",
        "newcomers",
        "queried",
        "retry_at",
        "session",
        "stale",
        "throttled",
        "throttled_until",
        "unqueried",
    )

    def __init__(self, leader_id: int, env: Env) -> None:
        self.leader_id = leader_id
        self.env = env
        # Every partition that is followed here, whatever its phase.
        self.by_key: dict[SessionKey, FetchState] = {}
        # What the leader is asked to send: the FETCHING ones.
        self.session = FollowerSession()
        # FETCHING states whose entry in the session is out of date.
        self.stale: dict[FetchState, None] = {}
        # FETCHING states that no request has listed yet: after a start thousands.
        self.newcomers: dict[FetchState, None] = {}
        # DELAYED states, and when the first of them fetches again, or earlier.
        self.delayed: dict[FetchState, None] = {}
        self.retry_at: Instant | None = None
        # FETCHING states that lack committed records, as far as is known.
        self.lagging: dict[FetchState, None] = {}
        # FETCHING states that lag and got records with the newest answer: how many they lack still.
        self.fed: dict[FetchState, int] = {}
        # Bytes of those records.
        self.fed_bytes = 0
        # THROTTLED states, and when the quota is looked at again for them.
        self.throttled: dict[FetchState, None] = {}
        self.throttled_until: Instant | None = None
        # CUTTING states for which no checkpoint is asked yet.
        self.cutting: list[FetchState] = []
        # States that need a bound of the leader's log and that no request in flight names.
        self.unqueried: dict[FetchState, None] = {}
        # Those that the ListOffsets in flight names.
        self.queried: dict[TopicPartition, FetchState] = {}

    def add(self, state: FetchState) -> None:
        """Follows a partition from now on."""
        self.by_key[state.key] = state
        self.newcomers[state] = None
        self.lagging[state] = None

    def remove(self, partition: Partition) -> None:
        """Follows a partition no longer."""
        state = self.by_key.pop(key_of(partition), None)
        if state is not None:
            self._leave_phase(state)

    def note_start(self, partition: Partition) -> None:
        """The log start has risen without the leader, which has to know it: deletions wait for it,
        and consumers are sent to replicas that have what they ask for."""
        state = self.by_key[key_of(partition)]
        if state.phase is Phase.FETCHING and state.sent_offset != NO_OFFSET:
            self.stale[state] = None

    def enter(self, state: FetchState, phase: Phase) -> None:
        """Changes the phase."""
        self._leave_phase(state)
        state.phase = phase
        if phase is Phase.FETCHING:
            is_new = state.sent_offset == NO_OFFSET
            (self.newcomers if is_new else self.stale)[state] = None
            if state.lags:
                self.lagging[state] = None
        elif phase is Phase.DELAYED:
            self.delayed[state] = None
            self.retry_at = earliest(self.retry_at, state.retry_at)
        elif phase is Phase.THROTTLED:
            self.throttled[state] = None
        elif phase in (Phase.NEEDS_LOG_END, Phase.NEEDS_LOG_START):
            self.unqueried[state] = None

    def delay(self, state: FetchState, until: Instant) -> None:
        """Leaves one out of the fetches for a while."""
        state.retry_at = until
        self.enter(state, Phase.DELAYED)

    def _leave_phase(self, state: FetchState) -> None:
        if state.cut is not None:
            state.partition.log.announced_end = UNCUT
            state.cut = None
        for register in (
            self.stale,
            self.newcomers,
            self.lagging,
            self.fed,
            self.delayed,
            self.throttled,
            self.unqueried,
        ):
            register.pop(state, None)
        self.queried.pop(state.partition.topic_partition, None)
        self.session.drop(state.partition.topic_partition.topic, state.key)

    def resume_due(self, now: Instant) -> None:
        """Fetches again what has waited long enough."""
        if self.retry_at is None or now < self.retry_at:
            return
        for state in list(self.delayed):
            if state.retry_at <= now:
                self.enter(state, Phase.FETCHING)
        self.retry_at = earliest(*(state.retry_at for state in self.delayed))

    def throttle(self, now: Instant) -> None:
        """Takes throttled partitions out of the fetches, or all of them back."""
        quota = self.env.throttles.follower
        if not quota.is_exceeded(now):
            for state in list(self.throttled):
                self.enter(state, Phase.FETCHING)
            return
        self.throttled_until = quota.free_at(now)
        for state in list(self.lagging):
            if self._is_throttled(state):
                self.enter(state, Phase.THROTTLED)

    def note_lag(self, state: FetchState, lags: bool) -> None:
        """What an answer has shown."""
        state.lags = lags
        if state.phase is Phase.THROTTLED:
            if not lags:
                self.enter(state, Phase.FETCHING)
        elif lags:
            self.lagging[state] = None
        else:
            self.lagging.pop(state, None)

    def count_bytes(self, state: FetchState, size_bytes: int, now: Instant) -> None:
        """Counts what was fetched of a partition, if it is a throttled one."""
        if size_bytes and self._is_throttled(state):
            self.env.throttles.follower.record(size_bytes, now)

    def note_fed(self, state: FetchState, size_bytes: int, lacks: int) -> None:
        """One that lags got records, and still lacks so many."""
        self.fed[state] = lacks
        self.fed_bytes += size_bytes

    def rest(self, now: Instant) -> None:
        """An answer is applied: leaves those for a while that got much of what they lack."""
        fed, rest_ms = self.fed, self.fed_bytes * CATCH_UP_REST_MS_PER_MB >> 20
        self.fed, self.fed_bytes = {}, 0
        if not rest_ms:
            return
        for state, lacks in fed.items():
            comes_nearer, state.lacks = lacks < state.lacks, lacks
            if comes_nearer:
                self.delay(state, Instant(now + rest_ms))

    def _is_throttled(self, state: FetchState) -> bool:
        partition = state.partition
        listed = partition.log.config.follower_replication_throttled_replicas
        return self.env.throttles.names(listed, partition.topic_partition.partition)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        self.session.check()
        for key, state in self.by_key.items():
            assert key == state.key, f"{key} holds the state of {state.key}"
            lags = state.phase is Phase.FETCHING and state.lags
            assert lags == (state in self.lagging), f"{key} lags: {lags}"
            if state.phase is Phase.DELAYED:
                assert self.retry_at is not None and self.retry_at <= state.retry_at, f"{key}"
            announced = UNCUT if state.cut is None else state.cut.lowest_end
            assert state.partition.log.announced_end == announced, f"ClaimBeforeCut: {state.cut}"


def key_of(partition: Partition) -> SessionKey:
    """How fetch sessions name a partition."""
    return (partition.topic_id, partition.topic_partition.partition)
