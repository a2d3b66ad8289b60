"""The frozen values that components obey. Each component gets its own and reads no names.

The defaults here are Kafka's and the only ones: the tables of names (`node_properties`,
`topic_properties`) refer to these fields instead of repeating a number, and say what most of them
mean.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog import limits
from tidelog.config.token_values import TokenOrigin, TokenRules
from tidelog.model import NO_SECRET, Endpoint, Mechanism, Secret, SecurityProtocol

LONG_MAX: Final = 2**63 - 1

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""What `authorizer.class.name` may be."""

BROKER_ROLE: Final = "broker"
CONTROLLER_ROLE: Final = "controller"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What one partition's log obeys; resolved from topic, broker and default levels."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    file_delete_delay_ms: int = 60_000
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    max_message_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    compression_type: str = "producer"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    cleanup_policy: str = "delete"
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    unclean_leader_election_enable: bool = False
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    producer_id_expiration_ms: int = 86_400_000
    leader_replication_throttled_replicas: str = ""
    follower_replication_throttled_replicas: str = ""


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """Timers and bounds of the metadata quorum (`controller.quorum.*`)."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    auto_join_enable: bool = False
    fetch_max_bytes: int = 1 << 20
    fetch_max_wait_ms: int = 500
    disconnect_grace_ms: int = 500
    fetch_snapshot_max_bytes: int = 1 << 20
    """The most that one FetchSnapshot asks for and answers."""
    max_record_bytes_between_snapshots: int = 20 << 20
    max_snapshot_interval_ms: int = 3_600_000
    max_retention_bytes: int = 100 << 20
    max_retention_ms: int = 7 * 24 * 3600 * 1000
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    first_election_max_ms: int = 150
    """A voter that has not known any leader since it started holds its first pre-vote after a
    random wait of at most this. A pre-vote does not disturb a leader (KIP-996)."""


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What the controller obeys."""

    broker_session_timeout_ms: int = 9000
    disconnect_grace_ms: int = 500
    max_idle_interval_ms: int = 500
    default_replication_factor: int = 1
    num_partitions: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    unclean_leader_election_interval_ms: int = 300_000
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    max_records_per_batch: int = 10_000
    producer_id_block_size: int = 1000
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    token_secret: Secret = NO_SECRET
    """Makes the secrets of delegation tokens; the same on all nodes, and none: no tokens."""
    token_max_lifetime_ms: int = 604_800_000
    token_expiry_time_ms: int = 86_400_000
    token_check_interval_ms: int = 3_600_000


LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The replica selectors that Kafka ships; here they are names for rules, not classes."""


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """What replicas, fetchers and purgatories obey."""

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1000
    replica_socket_timeout_ms: int = 30_000
    high_watermark_checkpoint_interval_ms: int = 5000
    recovery_point_checkpoint_interval_ms: int = 60_000
    producer_expiration_check_interval_ms: int = 600_000
    retention_check_interval_ms: int = 300_000
    cleaner_enable: bool = True
    cleaner_backoff_ms: int = 15_000
    cleaner_dedupe_buffer_bytes: int = 128 << 20
    cleaner_load_factor: float = 0.9
    cleaner_io_buffer_bytes: int = 512 << 10
    cleaner_io_max_bytes_per_second: float = sys.float_info.max
    fetch_max_bytes: int = 55 << 20
    alter_partition_retry_ms: int = 50
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    replica_selector_class: str = ""
    transaction_verification_enable: bool = True
    metadata_work_per_turn: int = limits.REPLICA_WORK_PER_TURN
    """No property; the simulator makes it small, so that everything happens in slices."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What the broker's request handling and its life towards the controller obey."""

    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    initial_registration_timeout_ms: int = 60_000
    log_dir_failure_timeout_ms: int = 30_000
    controlled_shutdown_enable: bool = True
    auto_create_topics_enable: bool = True
    request_timeout_ms: int = 30_000
    connections_max_idle_ms: int = 600_000
    max_request_bytes: int = 100 << 20
    max_queued_bytes: int = -1
    max_fetch_sessions: int = 1000
    fetch_max_bytes: int = 55 << 20
    connect_timeout_ms: int = 10_000
    sasl_max_receive_bytes: int = 524_288
    failed_login_delay_ms: int = 100
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    add_partitions_retry_backoff_ms: int = 20
    add_partitions_retry_max_ms: int = 100
    listen_backlog: int = 1024
    """More than Kafka's 50, which a few hundred clients overflow when they all come back after a
    failover. A client that is turned away tries again after a second."""


MIGRATION_POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """What group coordinators obey."""

    offsets_num_partitions: int = 50
    offsets_replication_factor: int = 3
    offsets_segment_bytes: int = 100 << 20
    offsets_commit_timeout_ms: int = 5000
    offset_metadata_max_bytes: int = 4096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    disconnect_grace_ms: int = 500
    max_size: int = 2**31 - 1
    consumer_session_timeout_ms: int = 45_000
    """Of members of consumer groups (KIP-848)."""
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_min_heartbeat_interval_ms: int = 5000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignor_names: str = "uniform,range"
    """Those that members may ask for; the first is the one of groups that ask for none."""
    migration_policy: str = MIGRATION_POLICIES[0]
    """Which way a group may go while it has members, in any case (`groups/migration.py`)."""

    share_session_timeout_ms: int = 45_000
    """Of members of share groups (KIP-932)."""
    share_min_session_timeout_ms: int = 45_000
    share_max_session_timeout_ms: int = 60_000
    share_heartbeat_interval_ms: int = 5000
    share_min_heartbeat_interval_ms: int = 5000
    share_max_heartbeat_interval_ms: int = 15_000
    share_max_size: int = 200
    share_initialize_retry_ms: int = 30_000

    @property
    def consumer_assignors(self) -> list[str]:
        """The names one by one."""
        return [each.strip() for each in self.consumer_assignor_names.split(",")]


@dataclass(frozen=True, slots=True)
class TransactionsConfig:
    """What transaction coordinators obey."""

    log_num_partitions: int = 50
    log_replication_factor: int = 3
    log_min_isr: int = 2
    log_segment_bytes: int = 100 << 20
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    expiration_check_interval_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class SharesConfig:
    """What share coordinators obey."""

    state_num_partitions: int = 50
    state_replication_factor: int = 3
    state_min_isr: int = 2
    state_segment_bytes: int = 100 << 20
    updates_per_snapshot: int = 500
    write_timeout_ms: int = 5000
    prune_interval_ms: int = 300_000
    cold_interval_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class SharingConfig:
    """What leaders of partitions obey that share groups read; groups may have values of their own,
    between the least and the greatest here."""

    delivery_count_limit: int = 5
    min_delivery_count_limit: int = 2
    max_delivery_count_limit: int = 10
    lock_ms: int = 30_000
    min_lock_ms: int = 15_000
    max_lock_ms: int = 60_000
    max_locks: int = 2000
    min_max_locks: int = 100
    max_max_locks: int = 4000
    max_sessions: int = 2000


@dataclass(frozen=True, slots=True)
class EventsConfig:
    """Where a node's events go (`docs/how-to/replication-health.md`)."""

    enable: bool = False
    directory: str = ""
    """Empty is the log directory."""
    segment_bytes: int = 16 << 20
    segments: int = 4
    topic_enable: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionsConfig:
    """How many connections clients may open (`max.connection*`)."""

    most: int = 2**31 - 1
    creation_rate: int = 2**31 - 1
    per_ip: int = 2**31 - 1
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """By address."""
    listeners: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of a listener with limits of its own: the most, and the creation rate."""


@dataclass(frozen=True, slots=True)
class AuthorizationConfig:
    """Who may do what (`security/authorizer.py`)."""

    authorizer_class: str = ""
    """Empty: there is no authorizer, and everything is allowed."""
    super_users: str = ""
    """As written, with `;` between principals."""
    allow_everyone_if_no_acl_found: bool = False


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where keys and certificates are: in a file, or as PEM text in the configuration itself."""

    type: str = "JKS"
    location: str = ""
    password: Secret = NO_SECRET
    certificates: str = ""
    """PEM text: the own chain of a key store, or the authorities of a trust store."""
    key: Secret = NO_SECRET
    """PEM text of the private key; only in a key store."""

    def __bool__(self) -> bool:
        return bool(self.location or self.certificates or self.key)


NO_STORE: Final = StoreConfig()


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """What TLS of one listener, or of a client, obeys (`ssl.*`)."""

    keystore: StoreConfig = NO_STORE
    truststore: StoreConfig = NO_STORE
    key_password: Secret = NO_SECRET
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    """IANA names; none: those of the library."""
    checks_host_name: bool = True
    """Of outgoing connections: whether the certificate must name the host that was dialled."""
    principal_mapping_rules: str = "DEFAULT"
    allows_dn_changes: bool = False
    allows_san_changes: bool = False


@dataclass(frozen=True, slots=True)
class DynamicBrokerConfig:
    """What a broker obeys of its dynamic configuration, except for logs."""

    leader_throttled_rate: int = LONG_MAX
    """Bytes a second to throttled followers (`leader.replication.throttled.rate`)."""
    follower_throttled_rate: int = LONG_MAX
    """Bytes a second by throttled followers (`follower.replication.throttled.rate`)."""
    moves_rate: int = LONG_MAX
    """Bytes a second by moves (`replica.alter.log.dirs.io.max.bytes.per.second`)."""


@dataclass(frozen=True, slots=True)
class JaasSetting:
    """A JAAS string, and the property that has it."""

    setting: str
    text: Secret


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """What one listener obeys, or what this node obeys that logs in at it."""

    mechanisms: tuple[Mechanism, ...] = ()
    """Which a client may choose from."""
    jaas: Mapping[Mechanism, JaasSetting] = field(default_factory=dict)
    """Of each mechanism that has one."""
    session_ms: Mapping[Mechanism, int] = field(default_factory=dict)
    """Lifetime of a session by mechanism; 0 is for ever."""
    own_mechanism: Mechanism | None = None
    """With which this node logs in at this listener of other nodes; `None` where it never does."""
    tokens: TokenRules | None = None
    """How tokens of OAUTHBEARER are judged; `None` where the listener takes none."""
    own_token: TokenOrigin | None = None
    """Where this node has its own token from; `None` where it logs in by something else."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Everything one node obeys, resolved from its properties file.

    A node is a broker, a controller, or both at once (`roles`). Controller listeners and broker
    listeners share `listeners`; `controller_listener_names` distinguishes them.
    """

    node_id: int
    log_dir: str
    """The directory of the metadata log, as written: relative to the working directory of the
    process. The first of `log.dirs`, unless `metadata.log.dir` names another."""
    listeners: tuple[Endpoint, ...]
    """What the node binds; a host of `""` means every interface."""
    advertised_listeners: tuple[Endpoint, ...]
    """Where others reach those listeners: same names, same order, never an empty host."""
    controller_listener_names: tuple[str, ...]
    """Which listeners serve the controller's APIs; voters use the first. On a node that is only a
    broker: the names that the controllers give to theirs."""
    inter_broker_listener_name: str
    """The broker listener that replica fetchers of the other brokers use; empty on a node that is
    only a controller."""
    voters: Mapping[int, Endpoint]
    """The static voters: node id to controller endpoint; the listener of all is
    `controller_listener_names[0]`. Empty when the voter set is in the metadata log (KIP-853)."""
    roles: tuple[str, ...] = (BROKER_ROLE, CONTROLLER_ROLE)
    """`process.roles`: `broker`, `controller`, or both."""
    bootstrap_servers: tuple[Endpoint, ...] = ()
    """`controller.quorum.bootstrap.servers`: servers that know the leader of the quorum."""
    security_protocols: Mapping[str, SecurityProtocol] = field(default_factory=dict)
    """The protocol of each of these listeners by its name, the controllers' included."""
    tls: Mapping[str, TlsConfig] = field(default_factory=dict)
    """What TLS obeys on those of them that use it, and towards the other nodes' ones."""
    sasl: Mapping[str, ListenerSasl] = field(default_factory=dict)
    """Of each listener, here and elsewhere, where clients or this node log in."""
    rack: str | None = None
    more_log_dirs: tuple[str, ...] = ()
    """The other directories of `log.dirs`, in their order."""
    metadata_dir_takes_logs: bool = True
    """Whether the directory of the metadata log is one of `log.dirs`."""
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    log: LogConfig = field(default_factory=LogConfig)
    """What a topic without overrides obeys on this broker."""
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    connections: ConnectionsConfig = field(default_factory=ConnectionsConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    transactions: TransactionsConfig = field(default_factory=TransactionsConfig)
    shares: SharesConfig = field(default_factory=SharesConfig)
    sharing: SharingConfig = field(default_factory=SharingConfig)
    events: EventsConfig = field(default_factory=EventsConfig)
    authorization: AuthorizationConfig = field(default_factory=AuthorizationConfig)
    metrics_port: int | None = None
    """`tidelog.metrics.port`: where Prometheus scrapes; `None`: there is no endpoint."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The properties as they were written, known names only; for DescribeConfigs."""
    without_effect: Mapping[str, str] = field(default_factory=dict)
    """Properties that were set and have no effect: what holds instead."""
    ignored: tuple[str, ...] = ()
    """Properties that were set and that only Kafka's own parts would read: threads, plug-ins."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Properties that were set and that neither Kafka 4.3 nor this code knows, in order of name,
    and what may have been meant, or an empty text."""
    exposed: tuple[str, ...] = ()
    """Secrets in the node's file, if every user of the machine may read that file."""

    @property
    def all_log_dirs(self) -> tuple[str, ...]:
        """Every directory of the node, that of the metadata log first."""
        return (self.log_dir, *self.more_log_dirs)

    @property
    def is_broker(self) -> bool:
        """Whether the node holds partitions and serves clients."""
        return BROKER_ROLE in self.roles

    @property
    def is_controller(self) -> bool:
        """Whether the node may vote in the metadata quorum and lead it."""
        return CONTROLLER_ROLE in self.roles

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        """The bound listeners that serve the controller's APIs."""
        return tuple(e for e in self.listeners if e.listener in self.controller_listener_names)

    @property
    def listeners_between_nodes(self) -> frozenset[str]:
        """The names of the listeners that clients do not use: the controllers', and that between
        brokers where there is another one. Limits of clients do not hold there."""
        between = frozenset((self.inter_broker_listener_name, *self.controller_listener_names))
        names = {endpoint.listener for endpoint in self.listeners}
        return between if names - between else frozenset(self.controller_listener_names)

    @property
    def advertised_broker_listeners(self) -> tuple[Endpoint, ...]:
        """What this broker registers: the endpoints that clients and brokers connect to."""
        names = self.controller_listener_names
        return tuple(e for e in self.advertised_listeners if e.listener not in names)

    @property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """What this controller registers, and its entry in a voter set; the default one first."""
        by_name = {e.listener: e for e in self.advertised_listeners}
        return tuple(by_name[name] for name in self.controller_listener_names if name in by_name)
