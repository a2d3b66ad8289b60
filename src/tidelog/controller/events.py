"""The events of the controller: what it decided about brokers, partitions and topics, and why.

A change of a partition has a *cause* (`Cause`): what happened to a broker, what an operator asked
for, what a leader proposed. An election has an *outcome* beside it (`elections.Outcome`): where the
new leader came from. Both are members of enums, so that a reader asks for them by name.
"""

from enum import StrEnum
from typing import ClassVar

from tidelog.controller.elections import Outcome
from tidelog.env.event import BrokerEvent, Event, Kind, Level, PartitionEvent, Payload, event
from tidelog.env.frozen import frozen
from tidelog.errors import ErrorCode

# Why -----------------------------------------------------------------------------------------


class FenceReason(StrEnum):
    """Why a broker is fenced."""

    SHUTS_DOWN = "it shuts down"
    ASKED_TO_BE_FENCED = "it asked to be"
    SESSION_EXPIRED = "session expired"
    CONNECTIONS_LOST = "connections lost and refused"


class CauseKind(StrEnum):
    """Why the controller changes a partition. The first group happens to a broker."""

    SHUT_DOWN = "fenced: it shuts down"
    FENCED_BY_REQUEST = "fenced: it asked to be"
    SESSION_EXPIRED = "fenced: session expired"
    CONNECTIONS_LOST = "fenced: connections lost and refused"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    RESTARTED = "restarted"
    RESTARTED_UNCLEANLY = "restarted uncleanly"
    UNREGISTERED = "unregistered"
    UNFENCED = "unfenced"
    DIRECTORY_OFFLINE = "has a log directory that is offline"
    LOST_LOG = "has lost its log"
    HAS_LOG = "has its log"

    CONTROLLER_ACTIVATED = "controller activated"
    UNCLEAN_ALLOWED = "unclean elections were allowed"
    STILL_LEADERLESS = "still without a leader"
    PREFERRED_IS_BACK = "preferred replica is back"
    PREFERRED_BY_HAND = "preferred election by hand"
    UNCLEAN_BY_HAND = "unclean election by hand"
    REASSIGNED_BY_HAND = "asked for by hand"
    CANCELLED_BY_HAND = "cancelled by hand"
    NEWCOMERS_IN_SYNC = "its newcomers are in sync"


_OF_A_FENCED_BROKER = {reason: CauseKind(f"fenced: {reason}") for reason in FenceReason}


@frozen
class Cause:
    """Why a partition changes: the kind, and the broker that it happened to."""

    reason: CauseKind
    broker_id: int = -1
    """-1 where no broker is the cause."""
    silent_ms: int | None = None
    """How long the controller had received nothing from a broker that it fences by itself."""

    @classmethod
    def fenced(cls, broker_id: int, reason: FenceReason, silent_ms: int | None) -> "Cause":
        """The cause of what follows from a fenced broker."""
        return cls(_OF_A_FENCED_BROKER[reason], broker_id, silent_ms)

    def __str__(self) -> str:
        subject = "" if self.broker_id < 0 else f"broker {self.broker_id} "
        return f"{subject}{self.reason}{_silence(self.silent_ms)}"


def _silence(silent_ms: int | None) -> str:
    return "" if silent_ms is None else f", silent for {silent_ms} ms"


# The controller ------------------------------------------------------------------------------


@event()
class ControllerEvent(Event):
    """An event about this controller."""

    subject: ClassVar = "controller"


@event("maybe_activate", "active", Kind.CONTROLLER_ACTIVE)
class ControllerActivated(ControllerEvent):
    """The controller decides from now on."""

    epoch: int
    offset: int
    """The last metadata offset that it has applied."""


class ResignReason(StrEnum):
    """Why a controller stops deciding."""

    OTHER_LEADER = "another leader or epoch"
    APPEND_REFUSED = "the log refused an append"


@event("resign", "inactive", Kind.CONTROLLER_INACTIVE)
class ControllerResigned(ControllerEvent):
    """The controller decides nothing from now on."""

    reason: ResignReason
    epoch: int
    leader: int
    """The quorum's leader now; -1 where the controller knows of none."""


# Brokers -------------------------------------------------------------------------------------


@event()
class _BrokerChanged(BrokerEvent):
    """Something changed about a registered broker."""

    broker_epoch: int


@event("decide_registration")
class _BrokerRegistration(_BrokerChanged):
    """A broker process is known by its incarnation."""

    incarnation: str
    was: int | None
    """The broker epoch before; `None` for a broker that the controller did not know."""


@event(decision="registered")
class BrokerRegistered(_BrokerRegistration):
    """A broker process registered."""


@event(decision="amended")
class BrokerAmended(_BrokerRegistration):
    """A registered process registered again, with other listeners or directories."""


@event("decide_unregistration", "unregistered")
class BrokerUnregistered(_BrokerChanged):
    """The controller forgets a broker."""


@event("on_broker_suspected", "suspected")
class BrokerSuspected(BrokerEvent):
    """This node's failure detector lost the broker; the controller may fence it."""


@event("fence", "fenced", Kind.FENCED, about=("node_id", "silent_ms"))
class BrokerFenced(_BrokerChanged):
    """A broker left all ISRs and may lead nothing."""

    reason: FenceReason
    silent_ms: int | None
    partitions: int
    """How many partitions changed."""

    def why(self) -> str:
        """The reason, and how long the broker was silent."""
        return f"{self.reason}{_silence(self.silent_ms)}"


class UnfenceReason(StrEnum):
    """Why a broker is unfenced."""

    CAUGHT_UP = "it caught up"


@event("unfence", "unfenced", Kind.UNFENCED)
class BrokerUnfenced(_BrokerChanged):
    """A broker may lead again."""

    reason: UnfenceReason = UnfenceReason.CAUGHT_UP
    elections: int
    """How many partitions found a leader by it."""


class ShutdownReason(StrEnum):
    """Why a controlled shutdown begins."""

    ASKED = "it asked to"


@event("begin_controlled_shutdown", "leaving", Kind.CONTROLLED_SHUTDOWN)
class ControlledShutdownBegun(_BrokerChanged):
    """A broker hands over what it leads, and stops then."""

    reason: ShutdownReason = ShutdownReason.ASKED
    partitions: int
    """How many partitions changed."""


# Partitions ----------------------------------------------------------------------------------


@event("change_partition", "elected")
class LeaderElected(PartitionEvent):
    """The controller chose a leader, or kept it in a new leader epoch."""

    reason: Outcome
    leader: int
    was: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    cause: Cause


@event(decision="leaderless")
class LeaderLost(LeaderElected):
    """The partition has no leader: no replica may lead it."""


@event("change_partition", "gave up records", Kind.UNCLEAN_ELECTION, level=Level.WARN)
class UncleanLeaderElected(PartitionEvent):
    """The new leader may lack committed records: which replicas would have had them."""

    reason: Outcome
    leader: int | None
    instead_of: tuple[int, ...]
    last_leader: tuple[int, ...]
    cause: Cause

    def payload(self) -> Payload:
        """With the cause in words."""
        return {**PartitionEvent.payload(self), "cause": str(self.cause)}


@event(about=("partition", "cause"))
class _CausedEvent(PartitionEvent):
    """An event whose reason is the kind of its cause."""

    cause: Cause

    @property
    def reason(self) -> CauseKind:
        """The kind of the cause."""
        return self.cause.reason

    def why(self) -> str:
        """The cause in words."""
        return str(self.cause)


@event("change_partition", "changed")
class IsrChanged(_CausedEvent):
    """The controller changed the ISR without an election."""

    isr: tuple[int, ...]
    was: tuple[int, ...]
    elr: tuple[int, ...]
    partition_epoch: int


@event("decide_alter_partition", "accepted")
class IsrProposalAccepted(PartitionEvent):
    """A leader's proposal became the ISR."""

    isr: tuple[int, ...]
    was: tuple[int, ...]
    elr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int


class RefusedProposal(StrEnum):
    """Why a leader's proposal is refused, in the order in which it is looked for."""

    TWICE = "proposed twice in one request"
    UNKNOWN_TOPIC = "unknown topic id"
    UNKNOWN_PARTITION = "unknown partition"
    LEADER_EPOCH_AHEAD = "leader_epoch is ahead of this controller"
    PARTITION_EPOCH_AHEAD = "partition_epoch is ahead of this controller"
    STALE_LEADER_EPOCH = "stale leader_epoch"
    NOT_THE_LEADER = "the sender does not lead"
    STALE_PARTITION_EPOCH = "stale partition_epoch"
    NOT_REPLICAS = "the ISR is not a subset of the replicas"
    WITHOUT_LEADER = "the ISR lacks its leader"
    RECOVERING_SHARES = "a recovering leader shares its ISR"
    RECOVERING_AGAIN = "a recovered leader would recover again"
    INELIGIBLE = "a replica may not join"


@event("decide_alter_partition", "refused", about=("partition", "ineligible"))
class IsrProposalRefused(PartitionEvent):
    """A leader's proposal was refused. The topic is its id where the controller knows no name."""

    reason: RefusedProposal
    ineligible: str
    """Which broker may not join and why; empty for the other reasons."""
    error: ErrorCode
    sender: int
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int

    def why(self) -> str:
        """The reason; which broker may not join where that is the reason."""
        return self.ineligible or str(self.reason)

    def shown(self) -> tuple[tuple[str, object], ...]:
        """With the error by its name."""
        return (("error", self.error.name), *PartitionEvent.shown(self)[1:])


@event("change_partition", "reassignment in progress")
class ReassignmentProgressed(_CausedEvent):
    """The replicas of a partition change, and others must catch up first."""

    replicas: tuple[int, ...]
    was: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int


@event(decision="reassignment complete")
class ReassignmentCompleted(ReassignmentProgressed):
    """The partition has the replicas that it was to have."""


@event("decide_directories_offline", "offline", level=Level.WARN)
class DirectoriesOffline(_BrokerChanged):
    """Log directories of a broker have failed; its replicas there have left all ISRs."""

    left: int
    """How many directories the broker has left."""
    partitions: int
    """How many partitions changed."""


@event("decide_assign_replicas")
class DirectoryAssigned(_CausedEvent):
    """A broker reported the directory of its replica, or that the replica's log is lost."""

    @property
    def decision(self) -> str:
        """`lost` or `assigned`."""
        return "lost" if self.cause.reason is CauseKind.LOST_LOG else "assigned"


@event("measure_unhealthy", "partition_state", Kind.PARTITION_STATE, level=Level.MEASURE)
class PartitionState(PartitionEvent):
    """Everything about a partition that its health depends on; a new controller's clock begins
    with the states of the partitions that are not whole."""

    cause: str
    topic_id: str
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    eligible_leaders: tuple[int, ...]
    min_isr: int


@event("measure_change", "isr_change", Kind.ISR_CHANGE)
class PartitionChanged(PartitionState):
    """What a partition was and what it became: an election where the leader epoch rose, else a
    change of its ISR."""

    old_leader: int
    old_isr: tuple[int, ...]
    reason: Outcome | None
    """Where the leader came from; `None` where there was no election."""

    def payload(self) -> Payload:
        """With a reason always, which may be empty."""
        return {"reason": "", **PartitionState.payload(self)}

    def why(self) -> str:
        """The outcome of the election, if there was one."""
        return "" if self.reason is None else str(self.reason)


@event(decision="election", kind=Kind.ELECTION)
class PartitionElected(PartitionChanged):
    """The same, where the leader epoch rose."""


# Topics and configurations -------------------------------------------------------------------


@event(about=("topic",), noun="topic")
class TopicEvent(Event):
    """An event about a whole topic."""

    topic: str

    @property
    def place(self) -> tuple[str, None]:
        """The topic."""
        return self.topic, None


@event("decide_create_topics", "created")
class TopicCreated(TopicEvent):
    """A topic exists."""

    topic_id: str
    partitions: int
    replicas: int


@event("decide_create_partitions", "grown")
class TopicGrown(TopicEvent):
    """A topic has more partitions."""

    partitions: int
    """How many it has now."""


@event("decide_delete_topics", "deleted", Kind.TOPIC_DELETED)
class TopicDeleted(TopicEvent):
    """A topic is gone."""

    topic_id: str


@event("decide_alter_configs", "altered", about=("resource_type", "resource_name"))
class ConfigsAltered(Event):
    """Configurations of a topic, a broker or all brokers were set or removed."""

    resource_type: int
    resource_name: str
    names: str

    @property
    def subject(self) -> str:
        """`config 2:orders`."""
        return f"config {self.resource_type}:{self.resource_name}"
