"""Properties that a broker obeys: connections and topics, replication, coordinators."""

from typing import Final

from tidelog.config.property_rows import BOOLEAN, INT, LONG, SHORT, row
from tidelog.config.property_types import Property, PropertyType, at_least, one_of, optional
from tidelog.config.values import LEADER_SELECTOR, RACK_AWARE_SELECTOR

BROKER: Final = (
    row(
        "broker.heartbeat.interval.ms",
        INT,
        "Time between two heartbeats to the controller.",
        "broker.heartbeat_interval_ms",
        check=at_least(1),
    ),
    row(
        "broker.session.timeout.ms",
        INT,
        "Silence after which the controller fences a broker.",
        "broker.session_timeout_ms",
        "controller.broker_session_timeout_ms",
        check=at_least(1),
    ),
    row(
        "initial.broker.registration.timeout.ms",
        INT,
        "How long a starting broker tries to register before it stops.",
        "broker.initial_registration_timeout_ms",
        check=at_least(1),
    ),
    row(
        "controlled.shutdown.enable",
        BOOLEAN,
        "Whether a clean stop hands leadership over first.",
        "broker.controlled_shutdown_enable",
    ),
    row(
        "auto.create.topics.enable",
        BOOLEAN,
        "Whether a client's first use of a name creates the topic.",
        "broker.auto_create_topics_enable",
    ),
    row(
        "request.timeout.ms",
        INT,
        "How long a request to another node may take.",
        "broker.request_timeout_ms",
        check=at_least(1),
    ),
    row(
        "socket.connection.setup.timeout.ms",
        LONG,
        "How long a connection to another node may take to open.",
        "broker.connect_timeout_ms",
        check=at_least(1),
    ),
    row(
        "connections.max.idle.ms",
        LONG,
        "Idle time after which a client's connection is closed.",
        "broker.connections_max_idle_ms",
    ),
    row(
        "max.connections",
        INT,
        "Connections at one time; one more is closed at once.",
        "broker.max_connections",
        check=at_least(0),
    ),
    row(
        "socket.listen.backlog.size",
        INT,
        "Connections that may wait to be accepted.",
        "broker.listen_backlog",
        check=at_least(1),
    ),
    row(
        "socket.request.max.bytes",
        INT,
        "The largest request; a larger one closes its connection.",
        "broker.max_request_bytes",
        check=at_least(1),
    ),
    row(
        "max.incremental.fetch.session.cache.slots",
        INT,
        "Fetch sessions that are remembered.",
        "broker.max_fetch_sessions",
        check=at_least(0),
    ),
    row(
        "fetch.max.bytes",
        INT,
        "The most that one fetch answers.",
        "broker.fetch_max_bytes",
        "replication.fetch_max_bytes",
        check=at_least(1024),
    ),
    row(
        "producer.id.expiration.ms",
        INT,
        "How long a silent producer's sequence numbers are remembered.",
        "log.producer_id_expiration_ms",
        check=at_least(1),
    ),
    row(
        "producer.id.expiration.check.interval.ms",
        INT,
        "How often silent producers are looked for.",
        "replication.producer_expiration_check_interval_ms",
        check=at_least(1),
    ),
)


def _replication_row(name: str, kind: PropertyType, doc: str, low: int = 1) -> Property:
    return row(name, kind, doc, f"replication.{name.replace('.', '_')}", check=at_least(low))


REPLICATION: Final = (
    _replication_row(
        "replica.lag.time.max.ms",
        LONG,
        "Time without catching up after which a follower leaves the ISR.",
    ),
    _replication_row(
        "replica.fetch.wait.max.ms", INT, "How long a follower's fetch may wait for data."
    ),
    _replication_row("replica.fetch.min.bytes", INT, "Bytes that a follower's fetch waits for.", 0),
    _replication_row(
        "replica.fetch.max.bytes", INT, "Bytes a follower asks for, per partition.", 0
    ),
    _replication_row(
        "replica.fetch.response.max.bytes", INT, "Bytes a follower asks for, in all.", 0
    ),
    _replication_row(
        "replica.fetch.backoff.ms", INT, "Wait after a failed fetch of a partition.", 0
    ),
    _replication_row("replica.socket.timeout.ms", INT, "How long a follower waits for an answer."),
    row(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        "Time between two writes of the high-watermark checkpoint.",
        "replication.high_watermark_checkpoint_interval_ms",
        check=at_least(1),
    ),
    row(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        "Time between two writes of the recovery-point checkpoint.",
        "replication.recovery_point_checkpoint_interval_ms",
        check=at_least(1),
    ),
    row(
        "replication.quota.window.num",
        INT,
        "Samples over which the rate of throttled replicas is taken.",
        "replication.replication_quota_window_num",
        check=at_least(1),
    ),
    row(
        "replication.quota.window.size.seconds",
        INT,
        "The time that one of these samples covers.",
        "replication.replication_quota_window_size_seconds",
        check=at_least(1),
    ),
    row(
        "replica.selector.class",
        PropertyType.CLASS,
        "The rule for the replica that a consumer reads from; not given, always the leader.",
        "replication.replica_selector_class",
        check=optional(one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR)),
    ),
)


def _coordinator_row(name: str, kind: PropertyType, doc: str, field: str, low: int = 1) -> Property:
    return row(name, kind, doc, f"coordinators.{field}", check=at_least(low))


COORDINATORS: Final = (
    _coordinator_row(
        "offsets.topic.num.partitions",
        INT,
        "Partitions of the offsets topic.",
        "offsets_partitions",
    ),
    _coordinator_row(
        "offsets.topic.replication.factor",
        SHORT,
        "Replicas of the offsets topic.",
        "offsets_replication_factor",
    ),
    _coordinator_row(
        "offsets.topic.segment.bytes",
        INT,
        "Segment size of the offsets topic.",
        "offsets_segment_bytes",
    ),
    _coordinator_row(
        "transaction.state.log.num.partitions",
        INT,
        "Partitions of the transaction topic.",
        "transaction_log_partitions",
    ),
    _coordinator_row(
        "transaction.state.log.replication.factor",
        SHORT,
        "Replicas of the transaction topic.",
        "transaction_log_replication_factor",
    ),
    _coordinator_row(
        "transaction.state.log.min.isr",
        INT,
        "`min.insync.replicas` of the transaction topic.",
        "transaction_log_min_isr",
    ),
    _coordinator_row(
        "transaction.state.log.segment.bytes",
        INT,
        "Segment size of the transaction topic.",
        "transaction_log_segment_bytes",
    ),
    _coordinator_row(
        "group.initial.rebalance.delay.ms",
        INT,
        "How long the first rebalance of a group waits for more members.",
        "group_initial_rebalance_delay_ms",
        0,
    ),
    _coordinator_row(
        "transaction.max.timeout.ms",
        INT,
        "The longest timeout a transaction may ask for.",
        "transaction_max_timeout_ms",
    ),
)
