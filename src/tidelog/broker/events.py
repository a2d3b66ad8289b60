"""What the node itself decides, as events (`env/event.py`): which peers are dead, the steps of a
broker's life, and why a node stops.

Left out: lines that only people read, which stay text where they are written.
"""

from dataclasses import dataclass
from typing import ClassVar

from tidelog.env.event import BrokerEvent, Event, Kind, Level, PartitionEvent
from tidelog.errors import ErrorCode

# Peers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerEvent(BrokerEvent):
    """An event about another node, whatever its roles."""

    @property
    def subject(self) -> str:
        """`node 2`."""
        return f"node {self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLostContact(PeerEvent):
    """A connection to or from the peer was cut or refused; nothing is decided yet."""

    level: ClassVar = Level.MEASURE
    handler: ClassVar = "flow"
    decision: ClassVar = "lost_contact"
    kind: ClassVar = Kind.LOST_CONTACT


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSuspected(PeerEvent):
    """The peer refused every connect during the grace period."""

    handler: ClassVar = "on_suspected"
    decision: ClassVar = "suspected"
    kind: ClassVar = Kind.SUSPECTED
    reason: ClassVar = "connects refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerReached(PeerEvent):
    """A suspected peer accepted a connection, or made one."""

    handler: ClassVar = "on_reached"
    decision: ClassVar = "reached"
    kind: ClassVar = Kind.REACHED


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerIgnored(Event):
    """A peer's response is malformed, and counts as no response."""

    level: ClassVar = Level.WARN
    about: ClassVar = ("peer_id",)
    handler: ClassVar = "on_answered"
    decision: ClassVar = "ignored"
    peer_id: int
    reason: str

    @property
    def subject(self) -> str:
        """`peer 2`."""
        return f"peer {self.peer_id}"


# The life of the broker ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent(Event):
    """A step in the life of this node's broker."""

    subject: ClassVar = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistered(LifecycleEvent):
    """The controller registered the broker."""

    handler: ClassVar = "on_response"
    decision: ClassVar = "registered"
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced(LifecycleEvent):
    """The controller unfenced the broker."""

    handler: ClassVar = "on_response"
    decision: ClassVar = "unfenced"
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced(LifecycleEvent):
    """The controller fenced the broker while it was running."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "on_response"
    decision: ClassVar = "fenced"
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRefused(LifecycleEvent):
    """The controller refused a registration or a heartbeat."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "on_response"
    decision: ClassVar = "refused"
    code: ErrorCode
    reason: str

    def shown(self) -> tuple[tuple[str, object], ...]:
        """The code by its name."""
        return (("code", self.code.name),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownBegun(LifecycleEvent):
    """The operator asked for a clean stop."""

    handler: ClassVar = "begin_shutdown"
    decision: ClassVar = "leaving"
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownGranted(LifecycleEvent):
    """The controller has moved all leaderships away and lets the broker go."""

    handler: ClassVar = "on_response"
    decision: ClassVar = "gone"
    reason: ClassVar = "the controller let us go"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownForced(LifecycleEvent):
    """No controller let the broker go in time: it leaves anyway."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "next_call"
    decision: ClassVar = "gone"
    reason: ClassVar = "no controller let us go"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationTimedOut(LifecycleEvent):
    """No controller registered the broker in time: it ends."""

    level: ClassVar = Level.ERROR
    about: ClassVar = ("last_refusal",)
    handler: ClassVar = "maybe_give_up"
    decision: ClassVar = "gone"
    last_refusal: ErrorCode

    @property
    def answer(self) -> str:
        """What the controllers answered last."""
        if self.last_refusal is ErrorCode.NONE:
            return "no controller answered"
        return f"refused with {self.last_refusal.name}"

    def why(self) -> str:
        """With the last answer."""
        return f"not registered, {self.answer}"


# The end of the node -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStopped(Event):
    """A clean stop is complete: its last disk effect is durable."""

    subject: ClassVar = "node"
    handler: ClassVar = "on_closed"
    decision: ClassVar = "stopped"
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFailed(Event):
    """The metadata log or the log directory as a whole failed: the node stops at once."""

    level: ClassVar = Level.ERROR
    subject: ClassVar = "disk"
    handler: ClassVar = "on_storage_error"
    decision: ClassVar = "stopping"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFlushFailed(DirectoryFailed):
    """Metadata could not be made durable: the node stops at once."""

    handler: ClassVar = "on_flush_failed"
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFailed(PartitionEvent):
    """The device failed under a partition's log, and with it the log directory: the broker
    stops."""

    level: ClassVar = Level.ERROR
    handler: ClassVar = "on_log_dir_failed"
    decision: ClassVar = "stopping"
    reason: str
