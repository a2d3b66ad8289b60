"""What a follower remembers of the partitions that it fetches from one leader.

A partition is in one of these phases:

| phase | what it waits for |
| --- | --- |
| FETCHING | the next answer |
| DELAYED | the end of a pause after an error of its own |
| THROTTLED | the exceeded quota of this node's throttled followers (`follower_throttle`) |
| NEEDS_LOG_END, NEEDS_LOG_START | the bounds of the leader's log, after OFFSET_OUT_OF_RANGE \
(`leader_bounds`) |
| CUTTING | a recovery point on the disk that does not claim what is to be cut |
| FAILED | new metadata: its leader epoch is fenced, or its log is broken |

A new leader epoch makes a new `FetchState`, so an answer to the old one finds a state that has sent
nothing.

Invariant: a state is in the registers of its own phase and in no other; only FETCHING ones are in
the session. `enter` is the only way from one phase to another.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tidelog.config import ReplicationConfig
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import LogDamaged, StorageError
from tidelog.log.state import UNCUT
from tidelog.model import NO_OFFSET, EpochEndOffset, TopicPartition
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.events.following import RestartReason, TruncationReason
from tidelog.replication.fetch_session import FollowerSession, SessionKey
from tidelog.replication.outbox import Outbox
from tidelog.replication.partition import Partition
from tidelog.replication.throttle import Throttles

FIRST_BACKOFF_MS: Final = 20
"""The first pause after an error; each further one doubles it."""


@dataclass(frozen=True, slots=True)
class FetcherEnv:
    """What all fetchers of a node share."""

    node_id: int
    config: ReplicationConfig
    brokers: BrokerEpochs
    outbox: Outbox
    trace: Trace
    throttles: Throttles


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


class Cut(NamedTuple):
    """Where a log is to be cut and why."""

    target: int
    reason: TruncationReason | RestartReason
    """With a `RestartReason` nothing is kept: the log begins anew at the target."""
    diverging: EpochEndOffset | None = None


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


@dataclass(slots=True)
class FetchOutcome:
    """What answers did to this node's followers."""

    changed: list[Partition] = field(default_factory=list)
    """Log end, high watermark or log start changed."""
    failed: list[tuple[Partition, StorageError | LogDamaged]] = field(default_factory=list)
    """The device failed under them, or their own logs are damaged."""
    cutting: list[FetchState] = field(default_factory=list)
    """They are to be cut once the recovery points are checkpointed."""


class FollowedPartitions:
    """Every partition that is fetched from one leader, by its phase."""

    __slots__ = ("by_key", "delayed", "queried", "session", "stale", "throttled", "unqueried")

    def __init__(self) -> None:
        # Every partition that is followed here, whatever its phase.
        self.by_key: dict[SessionKey, FetchState] = {}
        # What the leader is asked to send: the FETCHING ones.
        self.session = FollowerSession()
        # FETCHING states whose entry in the session is out of date.
        self.stale: dict[FetchState, None] = {}
        # DELAYED states.
        self.delayed: dict[FetchState, None] = {}
        # THROTTLED states.
        self.throttled: dict[FetchState, None] = {}
        # States that need a bound of the leader's log and that no request in flight names.
        self.unqueried: dict[FetchState, None] = {}
        # Those that the ListOffsets in flight names.
        self.queried: dict[TopicPartition, FetchState] = {}

    def add(self, state: FetchState) -> None:
        """Follows a partition from now on."""
        self.by_key[state.key] = state
        self.stale[state] = None

    def remove(self, partition: Partition) -> None:
        """Follows a partition no longer."""
        state = self.by_key.pop(key_of(partition), None)
        if state is not None:
            self._leave_phase(state)

    def is_followed(self, state: FetchState) -> bool:
        """Whether this is still the partition's state."""
        return self.by_key.get(state.key) is state

    def enter(self, state: FetchState, phase: Phase) -> None:
        """Changes the phase."""
        self._leave_phase(state)
        state.phase = phase
        if phase is Phase.FETCHING:
            self.stale[state] = None
        elif phase is Phase.DELAYED:
            self.delayed[state] = None
        elif phase is Phase.THROTTLED:
            self.throttled[state] = None
        elif phase in (Phase.NEEDS_LOG_END, Phase.NEEDS_LOG_START):
            self.unqueried[state] = None

    def _leave_phase(self, state: FetchState) -> None:
        if state.cut is not None:
            state.partition.log.announced_end = UNCUT
            state.cut = None
        self.stale.pop(state, None)
        self.delayed.pop(state, None)
        self.throttled.pop(state, None)
        self.unqueried.pop(state, None)
        self.queried.pop(state.partition.topic_partition, None)
        self.session.drop(state.partition.topic_partition.topic, state.key)

    def resume_due(self, now: Instant) -> None:
        """Fetches again what has waited long enough after an error."""
        for state in list(self.delayed):
            if state.retry_at <= now:
                self.enter(state, Phase.FETCHING)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        self.session.check()
        for key, state in self.by_key.items():
            assert key == state.key, f"{key} holds the state of {state.key}"
            announced = UNCUT if state.cut is None else state.cut.target
            assert state.partition.log.announced_end == announced, f"ClaimBeforeCut: {state.cut}"


def key_of(partition: Partition) -> SessionKey:
    """How fetch sessions name a partition."""
    return (partition.topic_id, partition.topic_partition.partition)
