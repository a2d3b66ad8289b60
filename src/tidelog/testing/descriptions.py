"""What an administrator sees of a cluster: plain values, ready to be printed or compared."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A broker as the cluster knows it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as one of its brokers sees it."""

    cluster_id: str
    nodes: tuple[NodeDescription, ...]
    """Registered brokers by id, fenced ones included."""

    def node(self, node_id: int) -> NodeDescription | None:
        """The broker with this id."""
        return next((node for node in self.nodes if node.node_id == node_id), None)


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One replica's own view of its log; -1 where the node did not answer."""

    node_id: int
    log_start_offset: int = -1
    high_watermark: int = -1
    log_end_offset: int = -1


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition as the metadata knows it, and its replicas as they know themselves."""

    partition: int
    leader: int
    """-1 when there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible_leaders: tuple[int, ...]
    offline: tuple[int, ...]
    replica_logs: tuple[ReplicaDescription, ...] = ()
    """One a replica, in the order of `replicas`; empty unless asked for."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """Replicas that come and go with a reassignment; empty unless asked for, and while no
    controller is there to tell."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions by number."""

    name: str
    topic_id: str
    """In Kafka's text form."""
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    configs: dict[str, str] = field(default_factory=dict)
    """The topic's own overrides; empty unless asked for."""


@dataclass(frozen=True, slots=True)
class VoterDescription:
    """A voter or observer of the metadata quorum, as the quorum's leader sees it."""

    node_id: int
    log_end_offset: int
    lag: int
    """Records behind the leader."""
    directory_id: str = ""
    """In Kafka's text form; zeros where the leader does not know it."""
    last_fetch_ms: int = -1
    """Wall time of its last fetch; -1 for none in this epoch."""
    last_caught_up_ms: int = -1
    """Wall time at which it last had everything; -1 for never in this epoch."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The metadata quorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[VoterDescription, ...]
    observers: tuple[VoterDescription, ...]
