"""Reachability marks: rare states, and which of them a campaign has seen.

A mark is a type of event, or an event for one of its reasons. A campaign that never reaches a state
says nothing about it, whatever it counts; so it prints the marks that it never hit. New events need
a line here only when they are rare or matter; what is not listed is not counted.

The table is typed: a reason of a foreign enum does not type-check. A member that the event never
has still does. A mark's name is made of the package, the event and the reason's member, so
rewording a message keeps the mark's name.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from tidelog.broker import events as broker
from tidelog.controller import events as controller
from tidelog.controller.elections import Outcome
from tidelog.controller.events import CauseKind, FenceReason, RefusedProposal, ResignReason
from tidelog.env.event import Event
from tidelog.env.trace import TraceLine
from tidelog.errors import ErrorCode
from tidelog.kraft import events as kraft
from tidelog.kraft.events import DoubtReason, RoleReason, VoteReason
from tidelog.kraft.quorum_state import RoleName
from tidelog.log import events as log
from tidelog.log.checkpoint import IdentityFault
from tidelog.log.events import LastStop
from tidelog.model import NO_LEADER
from tidelog.replication.events import damage, following, in_sync, moves, roles
from tidelog.replication.events.damage import DamagedLogReason
from tidelog.replication.events.following import TruncationReason
from tidelog.replication.events.in_sync import IsrUpdateReason, StallReason
from tidelog.replication.events.roles import DropReason
from tidelog.replication.events.shape import NoAnswer

E = TypeVar("E", bound=Event)
Q = TypeVar("Q", bound=Enum)
Q_co = TypeVar("Q_co", bound=Enum, covariant=True)


class _Row(NamedTuple):
    """One mark."""

    event: type
    reason: Enum | None
    """`None` for the event whatever its reason."""

    @property
    def name(self) -> str:
        """`controller.LeaderElected.FROM_ELR`."""
        name = f"{self.event.__module__.split('.')[1]}.{self.event.__name__}"
        return name if self.reason is None else f"{name}.{self.reason.name}"


class _Because(Protocol[Q_co]):
    """An event with reasons."""

    @property
    def reason(self) -> Q_co: ...


class _Marks(Generic[Q]):
    """Marks of one event, by its reasons."""

    def __init__(self, event: type[_Because[Q]]) -> None:
        self._event = event

    def because(self, *reasons: Q) -> Iterator[_Row]:
        """One mark for each of these."""
        return (_Row(self._event, reason) for reason in reasons)


class _Sorted(Generic[E, Q]):
    """Marks of one event, by something else that separates its cases."""

    def __init__(self, event: type[E], case_of: Callable[[E], Q]) -> None:
        self._event = event
        _CASE_OF[event] = case_of

    def into(self, *cases: Q) -> Iterator[_Row]:
        """One mark for each of these."""
        return (_Row(self._event, case) for case in cases)


def _whenever(*events: type[Event]) -> Iterator[_Row]:
    """One mark for each of these, whatever the reason."""
    return (_Row(event, None) for event in events)


_CASE_OF: Final[dict[type, Callable[..., Enum]]] = {}
"""What separates the cases of an event, where that is not its reason."""


class _Role(Enum):
    """What a replica became, and what it was."""

    FOLLOWS = auto()
    FOLLOWS_AFTER_LEADING = auto()
    WAITS = auto()
    WAITS_AFTER_LEADING = auto()


def _role_of(event: roles.FollowingBegan) -> _Role:
    if event.leader == NO_LEADER:
        return _Role.WAITS_AFTER_LEADING if event.was_leader else _Role.WAITS
    return _Role.FOLLOWS_AFTER_LEADING if event.was_leader else _Role.FOLLOWS


_ROWS: Final[tuple[_Row, ...]] = (
    # The controller.
    *_whenever(controller.ControllerActivated, controller.BrokerRegistered),
    *_whenever(controller.BrokerAmended, controller.BrokerSuspected, controller.BrokerUnfenced),
    *_whenever(controller.ControlledShutdownBegun, controller.LeaderLost),
    *_whenever(controller.IsrProposalAccepted, controller.ConfigsAltered),
    *_whenever(controller.TopicGrown, controller.TopicDeleted),
    *_Marks(controller.ControllerResigned).because(ResignReason.OTHER_LEADER),
    *_Marks(controller.BrokerFenced).because(
        FenceReason.SHUTS_DOWN, FenceReason.SESSION_EXPIRED, FenceReason.CONNECTIONS_LOST
    ),
    *_Marks(controller.LeaderElected).because(
        Outcome.KEPT, Outcome.FROM_ISR, Outcome.FROM_ELR, Outcome.LAST_KNOWN, Outcome.UNCLEAN
    ),
    *_Marks(controller.UncleanLeaderElected).because(Outcome.LAST_KNOWN, Outcome.UNCLEAN),
    *_Marks(controller.IsrChanged).because(CauseKind.SHUT_DOWN, CauseKind.CONTROLLED_SHUTDOWN),
    *_Marks(controller.IsrChanged).because(
        CauseKind.SESSION_EXPIRED, CauseKind.RESTARTED_UNCLEANLY
    ),
    *_Marks(controller.IsrProposalRefused).because(
        RefusedProposal.STALE_LEADER_EPOCH, RefusedProposal.STALE_PARTITION_EPOCH
    ),
    *_Marks(controller.IsrProposalRefused).because(RefusedProposal.INELIGIBLE),
    *_Marks(controller.ReassignmentProgressed).because(CauseKind.REASSIGNED_BY_HAND),
    *_Marks(controller.ReassignmentCompleted).because(
        CauseKind.REASSIGNED_BY_HAND, CauseKind.CANCELLED_BY_HAND, CauseKind.NEWCOMERS_IN_SYNC
    ),
    # The metadata quorum.
    *_whenever(kraft.FetchDiverged, kraft.LeaderResigned, kraft.LogTruncated),
    *_Sorted(kraft.RoleAtStart, lambda event: RoleName(event.role)).into(
        RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.RESIGNED
    ),
    *_Marks(kraft.BecameUnattached).because(RoleReason.LEADER_SILENT, RoleReason.NAMED_BY_PEER),
    *_Marks(kraft.BecameUnattached).because(
        RoleReason.PRE_VOTE_LOST, RoleReason.PRE_VOTE_TIMED_OUT, RoleReason.RESTED
    ),
    *_Marks(kraft.BecameUnattached).because(RoleReason.VOTE_ASKED, RoleReason.VOTED),
    *_Marks(kraft.BecameFollower).because(
        RoleReason.LEADER_ANNOUNCED, RoleReason.NAMED_BY_LEADER, RoleReason.NAMED_BY_PEER
    ),
    *_Marks(kraft.BecameFollower).because(RoleReason.PRE_VOTE_LOST, RoleReason.PRE_VOTE_TIMED_OUT),
    *_Marks(kraft.BecameProspective).because(
        RoleReason.ELECTION_TIMED_OUT, RoleReason.LEADER_SILENT, RoleReason.NO_LEADER
    ),
    *_Marks(kraft.BecameCandidate).because(RoleReason.PRE_VOTE_WON),
    *_Marks(kraft.BecameLeader).because(RoleReason.ELECTED),
    *_Marks(kraft.BecameResigned).because(RoleReason.ASKED_TO_RESIGN, RoleReason.MAJORITY_SILENT),
    *_Marks(kraft.LeaderDoubted).because(
        DoubtReason.NOT_LEADER_OR_FOLLOWER, DoubtReason.NEVER_REACHED, DoubtReason.SUSPECTED_DEAD
    ),
    *_Marks(kraft.VoteGranted).because(VoteReason.LOG_FRESH),
    *_Marks(kraft.VoteRefused).because(
        VoteReason.FENCED_LEADER_EPOCH, VoteReason.LOG_STALE, VoteReason.FOLLOWING
    ),
    *_Marks(kraft.VoteRefused).because(VoteReason.LEADER_KNOWN, VoteReason.LEADING),
    *_Marks(kraft.VoteRefused).because(VoteReason.VOTED_FOR_ITSELF, VoteReason.VOTED_FOR_OTHER),
    # The node.
    *_whenever(broker.BrokerFenced, broker.BrokerRegistered, broker.BrokerUnfenced),
    *_whenever(broker.DirectoryFailed, broker.LogFailed, broker.MetadataFlushFailed),
    *_whenever(broker.PeerReached, broker.PeerSuspected),
    *_whenever(broker.ShutdownBegun, broker.ShutdownForced, broker.ShutdownGranted),
    *_whenever(broker.NodeStopped),
    *_Sorted(broker.CallRefused, lambda event: event.code).into(
        ErrorCode.DUPLICATE_BROKER_REGISTRATION
    ),
    # Replicas.
    *_whenever(roles.ClearingPostponed, roles.LeadershipBegan, roles.OldLogDeleted),
    *_whenever(roles.ReplicaOffline, roles.StraySetAside, roles.CopySetAside),
    *_whenever(moves.MoveBegan, moves.MoveEnded, moves.MoveGivenUp),
    *_whenever(in_sync.IsrCheckSkipped, in_sync.IsrCommitted),
    *_whenever(in_sync.IsrExpansionProposed, in_sync.IsrShrinkProposed),
    *_Sorted(roles.FollowingBegan, _role_of).into(*_Role),
    *_Marks(roles.ReplicaDropped).because(DropReason.ASSIGNED_ELSEWHERE, DropReason.TOPIC_DELETED),
    *_Marks(in_sync.IsrUpdated).because(*IsrUpdateReason),
    *_Marks(in_sync.IsrProposalPending).because(
        ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NEW_LEADER_ELECTED
    ),
    *_Marks(in_sync.AlterPartitionRetried).because(
        NoAnswer.NO_CONTROLLER, ErrorCode.NOT_CONTROLLER
    ),
    *_Marks(in_sync.HighWatermarkStalled).because(
        StallReason.REPLICAS_LACK_RECORDS, StallReason.UNDER_MIN_ISR
    ),
    *_Marks(following.LogTruncated).because(TruncationReason.DIVERGED),
    *_Marks(following.FetchesPaused).because(
        NoAnswer.NO_ANSWER, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    ),
    *_Marks(following.FetchDelayed).because(
        ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
    ),
    *_Marks(following.FetchDelayed).because(
        ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ),
    *_Marks(following.FetchDelayed).because(
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE
    ),
    *_Marks(damage.DamagedLogDeleted).because(DamagedLogReason.NOT_PLACED),
    # Logs.
    *_whenever(
        log.EpochsRebuilt, log.LogDeleted, log.LogTruncated, log.RecoveryPointsMissing, log.TailCut
    ),
    *_Marks(log.DirectoryLoaded).because(*LastStop),
    *_Marks(log.TopicIdUnknown).because(*IdentityFault),
)

if TYPE_CHECKING:
    # What the type checker refuses; an `ignore` that it does not need fails the check.
    _Marks(kraft.VoteGranted).because(RoleReason.ELECTED)  # type: ignore[arg-type]
    _Marks(in_sync.IsrProposalPending).because(NoAnswer.NO_ANSWER)  # type: ignore[arg-type]
    _Marks(following.FetchesPaused).because(RoleReason.ELECTED)  # type: ignore[arg-type]
    _Marks(roles.LeadershipBegan)  # type: ignore[arg-type]

MARKS: Final = frozenset(row.name for row in _ROWS)

_NAMES: Final = {(row.event, row.reason): row.name for row in _ROWS}
_EVENTS: Final = frozenset(row.event for row in _ROWS)


class MarksHit:
    """The marks of one run."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        # In the order of the first hit.
        self.names: dict[str, None] = {}

    def note(self, event: Event | TraceLine) -> None:
        """Looks at one decision."""
        kind = type(event)
        if kind not in _EVENTS:
            return
        case_of = _CASE_OF.get(kind)
        case = getattr(event, "reason", None) if case_of is None else case_of(event)
        name = _NAMES.get((kind, None)) or _NAMES.get((kind, case))
        if name is not None:
            self.names[name] = None
