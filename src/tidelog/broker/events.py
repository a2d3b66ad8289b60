"""What the node itself decides, as events (`env/event.py`): which peers are dead, what requests of
clients lead to, the steps of a broker's life, and why a node stops.

Left out: lines that only people read, which stay text where they are written.
"""

from typing import ClassVar

from tidelog.broker.features import METADATA, OLDEST_PARTNER, UnservedFeature, lowering
from tidelog.env.event import BrokerEvent, Event, Kind, Level, PartitionEvent, event
from tidelog.errors import ErrorCode

# Peers ---------------------------------------------------------------------------------------


@event(noun="node")
class PeerEvent(BrokerEvent):
    """An event about another node, whatever its roles."""


@event("flow", "lost_contact", Kind.LOST_CONTACT, level=Level.MEASURE)
class PeerLostContact(PeerEvent):
    """A connection to or from the peer was cut or refused; nothing is decided yet."""


@event("on_suspected", "suspected", Kind.SUSPECTED)
class PeerSuspected(PeerEvent):
    """The peer refused every connect during the grace period."""

    reason: ClassVar = "connects refused"


@event("on_reached", "reached", Kind.REACHED)
class PeerReached(PeerEvent):
    """A suspected peer accepted a connection, or made one."""


@event("on_answered", "ignored", level=Level.WARN, about=("peer_id",), noun="peer")
class AnswerIgnored(Event):
    """A peer's response is malformed, and counts as no response."""

    peer_id: int
    reason: str


@event("on_answered", "login_refused", level=Level.WARN, about=("peer_id",), noun="peer")
class OwnLoginRefused(Event):
    """A peer does not let this node in."""

    peer_id: int
    listener: str
    reason: str
    hint: str = (
        "compare `sasl.jaas.config` of this listener on both nodes; a user of SCRAM is in "
        "`tidelog users list`"
    )


# Requests of clients -----------------------------------------------------------------------


@event(level=Level.WARN, about=("connection_id",), noun="connection")
class ConnectionEvent(Event):
    """An event about an accepted connection."""

    connection_id: int


@event("on_frame", "closed")
class RequestMalformed(ConnectionEvent):
    """A frame is not a request that is served here; the connection is closed."""

    reason: str
    peer: str


@event("authenticate", "failed")
class LoginFailed(ConnectionEvent):
    """A client of a listener with logins has not proved who it is."""

    reason: str
    listener: str
    mechanism: str
    peer: str


@event("authenticate", "logged_in", level=Level.DEBUG)
class LoggedIn(ConnectionEvent):
    """A client has proved who it is."""

    principal: str
    mechanism: str
    peer: str


@event("on_opened", "closed")
class CertificateUnnamed(ConnectionEvent):
    """The client's certificate makes no principal; the connection is closed."""

    reason: ClassVar = "no rule of ssl.principal.mapping.rules matches"
    peer: str


@event("on_reply", "refused", about=("connection_id", "error_code", "message"))
class BatchesRefused(ConnectionEvent):
    """Batches of a Produce request are at fault, which only the sender can fix."""

    error_code: ErrorCode
    """Of the first batch that was refused."""
    message: str
    partition: str
    """Of the same batch."""
    batches: int
    peer: str

    def why(self) -> str:
        """The first error."""
        return f"{self.error_code.name}: {self.message or 'no record batch'}"


# Rights ------------------------------------------------------------------------------------


@event(about=("principal",))
class AuditEvent(Event):
    """What a principal may do, or may not. Texts of clients are escaped and bounded."""

    principal: str
    """Of the connection, or of the client whose request a broker forwards."""
    host: str
    operation: str
    """A denied operation, or the API of a change."""
    resource: str
    """Type and name of what was denied, or what is changed; of access control entries the entry or
    the filter."""
    rule: str
    """The entry that decided, or Kafka's word for another reason: `SuperUser`, `DefaultAllow`,
    `DefaultDeny`."""


@event("on_denied", "denied")
class AccessDenied(AuditEvent):
    """A principal asked for what it may not do."""


@event("on_change", "allowed")
class AdministrativeChange(AuditEvent):
    """A principal may make a change that the controller decides next."""


# The life of the broker ----------------------------------------------------------------------


@event()
class LifecycleEvent(Event):
    """A step in the life of this node's broker."""

    subject: ClassVar = "broker"


@event("on_response", "registered")
class BrokerRegistered(LifecycleEvent):
    """The controller registered the broker."""

    broker_epoch: int


@event("on_response", "unfenced")
class BrokerUnfenced(LifecycleEvent):
    """The controller unfenced the broker."""

    broker_epoch: int


@event("on_response", "fenced", level=Level.WARN)
class BrokerFenced(LifecycleEvent):
    """The controller fenced the broker while it was running."""

    broker_epoch: int


@event("on_response", "refused", level=Level.WARN)
class CallRefused(LifecycleEvent):
    """The controller refused a registration or a heartbeat."""

    code: ErrorCode
    reason: str

    def shown(self) -> tuple[tuple[str, object], ...]:
        """The code by its name."""
        return (("code", self.code.name),)


@event("on_response", "not admitted", level=Level.ERROR)
class FeaturesNotServed(LifecycleEvent):
    """The cluster has finalised features that this software cannot run."""

    features: tuple[UnservedFeature, ...]

    def why(self) -> str:
        """Each by its name, with the command that lowers them."""
        named = "; ".join(map(str, self.features))
        return f"{named}; hint: `{lowering(self.features)}`"

    def shown(self) -> tuple[tuple[str, object], ...]:
        """All of it is said before."""
        return ()


@event("publish", "untried partner", level=Level.WARN)
class PartnerTooOld(BrokerEvent):
    """Another broker is of an older Kafka than was tried beside ours."""

    highest: int

    def why(self) -> str:
        """What it runs, and what to do."""
        return (
            f"it runs `{METADATA}` {self.highest} at most, older than Kafka 3.9's "
            f"{OLDEST_PARTNER}; hint: upgrade it to Kafka 3.9 or later"
        )

    def shown(self) -> tuple[tuple[str, object], ...]:
        """All of it is said before."""
        return ()


@event("begin_shutdown", "leaving")
class ShutdownBegun(LifecycleEvent):
    """The operator asked for a clean stop."""

    broker_epoch: int


@event("on_response", "gone")
class ShutdownGranted(LifecycleEvent):
    """The controller has moved all leaderships away and lets the broker go."""

    reason: ClassVar = "the controller let us go"


@event("next_call", "gone", level=Level.WARN)
class ShutdownForced(LifecycleEvent):
    """No controller let the broker go in time: it leaves anyway."""

    reason: ClassVar = "no controller let us go"


@event("maybe_give_up", "gone", level=Level.ERROR, about=("last_refusal",))
class RegistrationTimedOut(LifecycleEvent):
    """No controller registered the broker in time: it ends."""

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


# Coordinators ------------------------------------------------------------------------------


@event("load_step", "loaded")
class CoordinatorLoaded(PartitionEvent):
    """This node coordinates the groups or transactions of a partition of an internal topic from now
    on."""

    leader_epoch: int
    entries: int
    """Groups, or transactional ids."""
    offset: int
    """Where the leadership began: everything below was replayed."""


@event("retire", "unloaded")
class CoordinatorUnloaded(PartitionEvent):
    """This node does not coordinate what belongs to a partition of an internal topic any longer."""

    leader_epoch: int


@event("on_read_state", "loaded")
class SharePartitionLoaded(PartitionEvent):
    """This node, which leads the partition, serves it to a share group from now on."""

    group_id: str
    leader_epoch: int
    offset: int
    """The first offset that the group is not done with."""


@event("drop", "dropped")
class SharePartitionDropped(PartitionEvent):
    """This node does not serve the partition to the share group any longer; acquired records are
    available again on the next leader."""

    group_id: str
    leader_epoch: int
    reason: str


@event("load_step", "not loaded", level=Level.ERROR)
class CoordinatorNotLoaded(PartitionEvent):
    """A record of an internal topic cannot be read: its partition has no coordinator here."""

    reason: str
    offset: int
    """The first offset behind the batch."""
    hint: str = (
        "its bytes are sound: was it written by a newer version? upgrade this node, or have "
        "another replica lead"
    )


@event("on_created", "not created", level=Level.WARN)
class InternalTopicNotCreated(Event):
    """The controller refused to create an internal topic; clients wait, and it is asked again."""

    subject: ClassVar = "broker"
    topic: str
    reason: str


# The end of the node -------------------------------------------------------------------------


@event("on_closed", "stopped")
class NodeStopped(Event):
    """A clean stop is complete: its last disk effect is durable."""

    subject: ClassVar = "node"
    broker_epoch: int


@event("on_storage_error", "stopping", level=Level.ERROR)
class DirectoryFailed(Event):
    """The metadata log or the log directory as a whole failed: the node stops at once."""

    subject: ClassVar = "disk"
    reason: str


@event("on_flush_failed")
class MetadataFlushFailed(DirectoryFailed):
    """Metadata could not be made durable: the node stops at once."""

    what: str


@event("open_directories", "directory offline", level=Level.ERROR)
class DirectoryOfflineAtStart(Event):
    """A log directory cannot be used; the node starts without it."""

    subject: ClassVar = "disk"
    root: str
    reason: str
    hint: str = "repair the disk, or take the directory out of `log.dirs`, then start again"


@event("on_directory_offline", "directory offline", level=Level.ERROR)
class DirectoryWentOffline(Event):
    """A log directory has failed; the node goes on without it."""

    subject: ClassVar = "disk"
    root: str
    reason: str
    hint: str = "repair the disk, then start the node again"


@event("on_log_dir_failed", "stopping", level=Level.ERROR)
class LogFailed(PartitionEvent):
    """The device failed under a partition's log, and with it the log directory: the broker
    stops."""

    reason: str
