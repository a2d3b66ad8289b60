"""Node properties that have an effect here: name, type, range, and the fields they set.

The default of a row is the default of its first field, so no number stands in two places.
Properties that feed topic configurations are in `topic_properties`; the names that Kafka knows
and this code does not use are in `known_names`.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.config.property_types import (
    Check,
    Property,
    PropertyType,
    Value,
    at_least,
    between,
    one_of,
    optional,
)
from tidelog.config.values import (
    LEADER_SELECTOR,
    RACK_AWARE_SELECTOR,
    BrokerConfig,
    ControllerConfig,
    CoordinatorConfig,
    EventsConfig,
    LogConfig,
    QuorumConfig,
    ReplicationConfig,
    Section,
)

SECTIONS: Final[Mapping[str, type[Section]]] = {
    "broker": BrokerConfig,
    "log": LogConfig,
    "quorum": QuorumConfig,
    "controller": ControllerConfig,
    "replication": ReplicationConfig,
    "coordinators": CoordinatorConfig,
    "events": EventsConfig,
}
"""The sections of `NodeConfig` that the rows of this table fill."""

_BOOLEAN, _STRING, _INT, _SHORT, _LONG, _LIST = (
    PropertyType.BOOLEAN,
    PropertyType.STRING,
    PropertyType.INT,
    PropertyType.SHORT,
    PropertyType.LONG,
    PropertyType.LIST,
)


def field_default(path: str) -> Value:
    """The default of `section.field`."""
    section, name = path.split(".")
    default: object = SECTIONS[section].__dataclass_fields__[name].default
    assert isinstance(default, bool | int | float | str), f"{path} has no default"
    return default


def _row(
    name: str,
    kind: PropertyType,
    doc: str,
    *fields: str,
    check: Check | None = None,
    default: str | None = None,
) -> Property:
    if fields:
        defaults = {str(field_default(path)) for path in fields}
        assert len(defaults) == 1, f"`{name}`: its fields disagree on the default: {defaults}"
    return Property(name=name, type=kind, doc=doc, fields=fields, check=check, default=default)


_IDENTITY: Final = (
    _row("node.id", _INT, "This node's id in the cluster.", check=at_least(0)),
    _row("broker.id", _INT, "The old name of `node.id`.", check=at_least(0)),
    _row("process.roles", _LIST, "What the node is: `broker`, `controller`, or both."),
    _row(
        "listeners",
        _LIST,
        "What to bind, as NAME://host:port; an empty host is every interface.",
        default="PLAINTEXT://:9092",
    ),
    _row("advertised.listeners", _LIST, "Where others reach the broker's listeners."),
    _row(
        "listener.security.protocol.map",
        _STRING,
        "Protocol of each listener name; only PLAINTEXT is there today.",
    ),
    _row("controller.listener.names", _LIST, "Listeners that speak the controller's APIs."),
    _row(
        "inter.broker.listener.name",
        _STRING,
        "The listener on which brokers fetch from each other.",
    ),
    _row(
        "controller.quorum.voters",
        _LIST,
        "The controllers, as id@host:port, the same list on every node; fixed for good.",
    ),
    _row(
        "controller.quorum.bootstrap.servers",
        _LIST,
        "Some controllers, as host:port, where the voter set is kept in the metadata log.",
    ),
    _row(
        "controller.quorum.auto.join.enable",
        _BOOLEAN,
        "Whether a controller that is no voter asks to become one.",
        "quorum.auto_join_enable",
    ),
    _row("log.dirs", _LIST, "The data directory."),
    _row("log.dir", _STRING, "The data directory, where `log.dirs` is not given."),
    _row("broker.rack", _STRING, "The rack that placement spreads replicas over."),
    _row(
        "tidelog.metrics.port",
        _INT,
        "Port of the Prometheus endpoint; not given, there is none.",
        check=between(1, 65_535),
    ),
)


_BROKER: Final = (
    _row(
        "broker.heartbeat.interval.ms",
        _INT,
        "Time between two heartbeats to the controller.",
        "broker.heartbeat_interval_ms",
        check=at_least(1),
    ),
    _row(
        "broker.session.timeout.ms",
        _INT,
        "Silence after which the controller fences a broker.",
        "broker.session_timeout_ms",
        "controller.broker_session_timeout_ms",
        check=at_least(1),
    ),
    _row(
        "initial.broker.registration.timeout.ms",
        _INT,
        "How long a starting broker tries to register before it stops.",
        "broker.initial_registration_timeout_ms",
        check=at_least(1),
    ),
    _row(
        "controlled.shutdown.enable",
        _BOOLEAN,
        "Whether a clean stop hands leadership over first.",
        "broker.controlled_shutdown_enable",
    ),
    _row(
        "auto.create.topics.enable",
        _BOOLEAN,
        "Whether a client's first use of a name creates the topic.",
        "broker.auto_create_topics_enable",
    ),
    _row(
        "request.timeout.ms",
        _INT,
        "How long a request to another node may take.",
        "broker.request_timeout_ms",
        check=at_least(1),
    ),
    _row(
        "socket.connection.setup.timeout.ms",
        _LONG,
        "How long a connection to another node may take to open.",
        "broker.connect_timeout_ms",
        check=at_least(1),
    ),
    _row(
        "connections.max.idle.ms",
        _LONG,
        "Idle time after which a client's connection is closed.",
        "broker.connections_max_idle_ms",
    ),
    _row(
        "max.connections",
        _INT,
        "Connections at one time; one more is closed at once.",
        "broker.max_connections",
        check=at_least(0),
    ),
    _row(
        "socket.listen.backlog.size",
        _INT,
        "Connections that may wait to be accepted.",
        "broker.listen_backlog",
        check=at_least(1),
    ),
    _row(
        "socket.request.max.bytes",
        _INT,
        "The largest request; a larger one closes its connection.",
        "broker.max_request_bytes",
        check=at_least(1),
    ),
    _row(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        "Fetch sessions that are remembered.",
        "broker.max_fetch_sessions",
        check=at_least(0),
    ),
    _row(
        "fetch.max.bytes",
        _INT,
        "The most that one fetch answers.",
        "broker.fetch_max_bytes",
        "replication.fetch_max_bytes",
        check=at_least(1024),
    ),
    _row(
        "producer.id.expiration.ms",
        _INT,
        "How long a silent producer's sequence numbers are remembered.",
        "log.producer_id_expiration_ms",
        check=at_least(1),
    ),
    _row(
        "producer.id.expiration.check.interval.ms",
        _INT,
        "How often silent producers are looked for.",
        "replication.producer_expiration_check_interval_ms",
        check=at_least(1),
    ),
)


_CONTROLLER: Final = (
    _row(
        "tidelog.broker.disconnect.grace.ms",
        _INT,
        "Time after a node's connections broke and are refused until it is taken for dead; "
        "0 waits for the session timeout, as Kafka does.",
        "controller.disconnect_grace_ms",
        "quorum.disconnect_grace_ms",
        check=at_least(0),
    ),
    _row(
        "metadata.max.idle.interval.ms",
        _INT,
        "Time after which an idle active controller writes a no-op record.",
        "controller.max_idle_interval_ms",
        check=at_least(0),
    ),
    _row(
        "default.replication.factor",
        _INT,
        "Replicas of a topic that does not say.",
        "controller.default_replication_factor",
        check=between(1, 32_767),
    ),
    _row(
        "num.partitions",
        _INT,
        "Partitions of a topic that does not say.",
        "controller.num_partitions",
        check=at_least(1),
    ),
    _row(
        "delete.topic.enable",
        _BOOLEAN,
        "Whether topics can be deleted.",
        "controller.delete_topic_enable",
    ),
    _row(
        "unclean.leader.election.interval.ms",
        _LONG,
        "Time between two looks for partitions without a leader that may get an unclean one.",
        "controller.unclean_leader_election_interval_ms",
        check=at_least(1),
    ),
    _row(
        "auto.leader.rebalance.enable",
        _BOOLEAN,
        "Whether leaders go back to their preferred replicas by themselves.",
        "controller.auto_leader_rebalance_enable",
    ),
    _row(
        "leader.imbalance.check.interval.seconds",
        _LONG,
        "Time between two looks for partitions that their preferred replica does not lead.",
        "controller.leader_imbalance_check_interval_seconds",
        check=at_least(1),
    ),
)


def _quorum() -> tuple[Property, ...]:
    def row(name: str, doc: str, low: int = 1) -> Property:
        field = f"quorum.{name.replace('.', '_')}"
        return _row(f"controller.quorum.{name}", _INT, doc, field, check=at_least(low))

    return (
        row("election.timeout.ms", "Time without a leader before an election."),
        row("fetch.timeout.ms", "Time without a successful fetch before a new election."),
        row("election.backoff.max.ms", "Longest wait after a lost election.", 0),
        row("append.linger.ms", "How long the leader gathers records for one batch.", 0),
        row("request.timeout.ms", "How long a quorum request may take."),
        row("retry.backoff.ms", "Wait before a quorum request is tried again.", 0),
        row("fetch.max.bytes", "The most that one quorum fetch asks for."),
        row("fetch.snapshot.max.bytes", "The most that one piece of a snapshot has."),
    )


_METADATA_LOG: Final = (
    _row(
        "metadata.log.max.record.bytes.between.snapshots",
        _LONG,
        "Bytes of metadata records after which a snapshot is made.",
        "quorum.max_record_bytes_between_snapshots",
        check=at_least(1),
    ),
    _row(
        "metadata.log.max.snapshot.interval.ms",
        _LONG,
        "Time after which a snapshot is made if there are new records; 0 for never.",
        "quorum.max_snapshot_interval_ms",
        check=at_least(0),
    ),
    _row(
        "metadata.max.retention.bytes",
        _LONG,
        "Size of the metadata log and its snapshots above which old ones are deleted; -1 for any.",
        "quorum.max_retention_bytes",
    ),
    _row(
        "metadata.max.retention.ms",
        _LONG,
        "Age above which a metadata snapshot is deleted when there is a newer one; -1 for any.",
        "quorum.max_retention_ms",
    ),
    _row(
        "metadata.log.segment.bytes",
        _INT,
        "Size of a segment file of the metadata log.",
        "quorum.segment_bytes",
        check=at_least(12),
    ),
    _row(
        "metadata.log.segment.ms",
        _LONG,
        "Time after which the metadata log begins a new segment file.",
        "quorum.segment_ms",
    ),
)


def _replication() -> tuple[Property, ...]:
    def row(name: str, kind: PropertyType, doc: str, low: int = 1) -> Property:
        return _row(name, kind, doc, f"replication.{name.replace('.', '_')}", check=at_least(low))

    return (
        row(
            "replica.lag.time.max.ms",
            _LONG,
            "Time without catching up after which a follower leaves the ISR.",
        ),
        row("replica.fetch.wait.max.ms", _INT, "How long a follower's fetch may wait for data."),
        row("replica.fetch.min.bytes", _INT, "Bytes that a follower's fetch waits for.", 0),
        row("replica.fetch.max.bytes", _INT, "Bytes a follower asks for, per partition.", 0),
        row("replica.fetch.response.max.bytes", _INT, "Bytes a follower asks for, in all.", 0),
        row("replica.fetch.backoff.ms", _INT, "Wait after a failed fetch of a partition.", 0),
        row("replica.socket.timeout.ms", _INT, "How long a follower waits for an answer."),
        _row(
            "replica.high.watermark.checkpoint.interval.ms",
            _LONG,
            "Time between two writes of the high-watermark checkpoint.",
            "replication.high_watermark_checkpoint_interval_ms",
            check=at_least(1),
        ),
        _row(
            "log.flush.offset.checkpoint.interval.ms",
            _INT,
            "Time between two writes of the recovery-point checkpoint.",
            "replication.recovery_point_checkpoint_interval_ms",
            check=at_least(1),
        ),
        _row(
            "replication.quota.window.num",
            _INT,
            "Samples over which the rate of throttled replicas is taken.",
            "replication.replication_quota_window_num",
            check=at_least(1),
        ),
        _row(
            "replication.quota.window.size.seconds",
            _INT,
            "The time that one of these samples covers.",
            "replication.replication_quota_window_size_seconds",
            check=at_least(1),
        ),
        _row(
            "replica.selector.class",
            PropertyType.CLASS,
            "Which replica a consumer is told to read from; not given, always the leader.",
            "replication.replica_selector_class",
            check=optional(one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
        ),
    )


def _coordinator_row(name: str, kind: PropertyType, doc: str, field: str, low: int = 1) -> Property:
    return _row(name, kind, doc, f"coordinators.{field}", check=at_least(low))


_COORDINATORS: Final = (
    _coordinator_row(
        "offsets.topic.num.partitions",
        _INT,
        "Partitions of the offsets topic.",
        "offsets_partitions",
    ),
    _coordinator_row(
        "offsets.topic.replication.factor",
        _SHORT,
        "Replicas of the offsets topic.",
        "offsets_replication_factor",
    ),
    _coordinator_row(
        "offsets.topic.segment.bytes",
        _INT,
        "Segment size of the offsets topic.",
        "offsets_segment_bytes",
    ),
    _coordinator_row(
        "transaction.state.log.num.partitions",
        _INT,
        "Partitions of the transaction topic.",
        "transaction_log_partitions",
    ),
    _coordinator_row(
        "transaction.state.log.replication.factor",
        _SHORT,
        "Replicas of the transaction topic.",
        "transaction_log_replication_factor",
    ),
    _coordinator_row(
        "transaction.state.log.min.isr",
        _INT,
        "`min.insync.replicas` of the transaction topic.",
        "transaction_log_min_isr",
    ),
    _coordinator_row(
        "transaction.state.log.segment.bytes",
        _INT,
        "Segment size of the transaction topic.",
        "transaction_log_segment_bytes",
    ),
    _coordinator_row(
        "group.initial.rebalance.delay.ms",
        _INT,
        "How long the first rebalance of a group waits for more members.",
        "group_initial_rebalance_delay_ms",
        0,
    ),
    _coordinator_row(
        "transaction.max.timeout.ms",
        _INT,
        "The longest timeout a transaction may ask for.",
        "transaction_max_timeout_ms",
    ),
)


_EVENTS: Final = (
    _row(
        "tidelog.events.enable",
        _BOOLEAN,
        "Whether state changes and sampled figures are kept as JSON lines, for `spark health`.",
        "events.enable",
    ),
    _row(
        "tidelog.events.dir",
        _STRING,
        "Directory of `events.jsonl`; not given, the data directory.",
        "events.directory",
    ),
    _row(
        "tidelog.events.segment.bytes",
        _INT,
        "Size at which `events.jsonl` is set aside for a new file.",
        "events.segment_bytes",
        check=at_least(1 << 16),
    ),
    _row(
        "tidelog.events.segments",
        _INT,
        "Files of events that are kept, the one being written included.",
        "events.segments",
        check=between(1, 1000),
    ),
    _row(
        "tidelog.events.topic.enable",
        _BOOLEAN,
        "Whether events are produced to the topic `__tidelog_events` as well.",
        "events.topic_enable",
    ),
)


_ROWS: Final = (
    *_IDENTITY,
    *_BROKER,
    *_CONTROLLER,
    *_quorum(),
    *_METADATA_LOG,
    *_replication(),
    *_COORDINATORS,
    *_EVENTS,
)

NODE_PROPERTIES: Final = {prop.name: prop for prop in _ROWS}
"""Every node property with an effect, topic synonyms apart, by name."""

EXTRA_FIELDS: Final = {
    "min.insync.replicas": ("controller.min_insync_replicas",),
    "unclean.leader.election.enable": ("controller.unclean_leader_election_enable",),
}
"""Topic synonyms that the controller obeys too."""
