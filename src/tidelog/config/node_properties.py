"""Node properties that have an effect here: name, type, range, and the fields they set.

How a table is written is in `property_types`. Properties that feed topic configurations are in
`topic_properties`, the names that Kafka knows and this code does not use in `known_names`.
"""

from typing import Final

from tidelog.config.property_types import one_of, optional, rows
from tidelog.config.tls_properties import TLS
from tidelog.config.token_properties import TOKENS
from tidelog.config.values import LEADER_SELECTOR, MIGRATION_POLICIES, RACK_AWARE_SELECTOR

_IDENTITY: Final = rows("""
node.id INT >= 0
    This node's id in the cluster.
broker.id INT >= 0
    The old name of `node.id`.
process.roles LIST
    What the node is: `broker`, `controller`, or both.
listeners LIST = PLAINTEXT://:9092
    What to bind, as NAME://host:port; an empty host is every interface.
advertised.listeners LIST
    Where others reach the broker's listeners.
listener.security.protocol.map STRING
    Protocol of each listener name: PLAINTEXT or SSL.
controller.listener.names LIST
    Listeners that serve the controller's APIs.
inter.broker.listener.name STRING
    The listener on which brokers fetch from each other.
security.inter.broker.protocol STRING
    The same, where that listener is named like its protocol.
controller.quorum.voters LIST
    The controllers, as id@host:port, the same list on every node; fixed for good.
controller.quorum.bootstrap.servers LIST
    Some controllers, as host:port, where the voter set is kept in the metadata log.
controller.quorum.auto.join.enable BOOLEAN -> quorum.auto_join_enable
    Whether a controller that is not a voter asks to become one.
log.dirs LIST
    The log directories, one on each disk; a new log goes where the fewest are.
log.dir STRING
    The log directory, where `log.dirs` is not given.
metadata.log.dir STRING
    The directory of the metadata log; not given, the first of `log.dirs`.
broker.rack STRING
    The rack that placement spreads replicas over.
tidelog.metrics.port INT in 1 65535
    Port of the Prometheus endpoint; not given, there is none.
""")

BROKER: Final = rows("""
broker.heartbeat.interval.ms INT >= 1 -> broker.heartbeat_interval_ms
    Time between two heartbeats to the controller.
broker.session.timeout.ms INT >= 1 -> broker.session_timeout_ms controller.broker_session_timeout_ms
    Silence after which the controller fences a broker.
initial.broker.registration.timeout.ms INT >= 1 -> broker.initial_registration_timeout_ms
    How long a starting broker tries to register before it stops.
log.dir.failure.timeout.ms LONG >= 1 -> broker.log_dir_failure_timeout_ms
    How long a broker with a failed log directory goes on without a controller that knows of it.
controlled.shutdown.enable BOOLEAN -> broker.controlled_shutdown_enable
    Whether a clean stop hands leadership over first.
auto.create.topics.enable BOOLEAN -> broker.auto_create_topics_enable
    Whether a client's first use of a name creates the topic.
request.timeout.ms INT >= 1 -> broker.request_timeout_ms
    How long a request to another node may take.
socket.connection.setup.timeout.ms LONG >= 1 -> broker.connect_timeout_ms
    How long a connection to another node may take to open.
sasl.enabled.mechanisms LIST = GSSAPI
    SASL mechanisms of listeners with logins: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.
sasl.mechanism.inter.broker.protocol STRING = GSSAPI
    The mechanism with which brokers log in to each other.
sasl.mechanism.controller.protocol STRING = GSSAPI
    The mechanism with which nodes log in to controllers.
sasl.jaas.config PASSWORD
    Only counts with a listener and a mechanism before it: the login of this node, and its users.
sasl.server.max.receive.size INT >= 1 -> broker.sasl_max_receive_bytes
    The largest request of a client that has not logged in; never more than 64 KiB.
connection.failed.authentication.delay.ms INT >= 0 -> broker.failed_login_delay_ms
    How long a failed login waits for its answer.
connections.max.reauth.ms LONG >= 0 = 0
    Time after which a client must log in again; 0 for never.
connections.max.idle.ms LONG -> broker.connections_max_idle_ms
    Idle time after which a client's connection is closed.
max.connections INT >= 0 -> connections.most
    Connections of clients at one time; one more is closed at once. Also of one listener, behind its
    prefix.
max.connections.per.ip INT >= 0 -> connections.per_ip
    The same of one address.
max.connections.per.ip.overrides STRING
    The same of single addresses, like `10.0.0.7:100,10.0.0.8:0`.
max.connection.creation.rate INT >= 1 -> connections.creation_rate
    New connections in a second; one more is closed at once. Also of one listener, behind its
    prefix.
socket.listen.backlog.size INT >= 1 -> broker.listen_backlog
    Connections that may wait to be accepted.
socket.request.max.bytes INT >= 1 -> broker.max_request_bytes
    The largest request; a larger one closes its connection.
queued.max.request.bytes LONG -> broker.max_queued_bytes
    Bytes of requests under way, of all connections; beyond it the slowest is closed. `-1`: 256 MiB.
quota.window.num INT >= 1 -> broker.quota_window_num
    Samples over which the rates of clients with quotas are taken; one more than a burst has.
quota.window.size.seconds INT >= 1 -> broker.quota_window_size_seconds
    The time that one of these samples covers.
max.incremental.fetch.session.cache.slots INT >= 0 -> broker.max_fetch_sessions
    Fetch sessions that are remembered.
fetch.max.bytes INT >= 1024 -> broker.fetch_max_bytes replication.fetch_max_bytes
    The most that one fetch answers.
producer.id.expiration.ms INT >= 1 -> log.producer_id_expiration_ms
    How long a silent producer's sequence numbers are remembered.
producer.id.expiration.check.interval.ms INT >= 1 \
    -> replication.producer_expiration_check_interval_ms
    How often silent producers are looked for.
""")

CONTROLLER: Final = rows("""
tidelog.broker.disconnect.grace.ms INT >= 0 \
    -> controller.disconnect_grace_ms quorum.disconnect_grace_ms
    Time after a node's connections broke and are refused until it is taken for dead; 0 waits for
    the session timeout, as Kafka does.
metadata.max.idle.interval.ms INT >= 0 -> controller.max_idle_interval_ms
    Time after which an idle active controller writes a no-op record.
default.replication.factor INT in 1 32767 -> controller.default_replication_factor
    Replicas of a topic that is created without a number of them.
num.partitions INT >= 1 -> controller.num_partitions
    Partitions of a topic that is created without a number of them.
delete.topic.enable BOOLEAN -> controller.delete_topic_enable
    Whether topics can be deleted.
unclean.leader.election.interval.ms LONG >= 1 -> controller.unclean_leader_election_interval_ms
    Time between two looks for partitions without a leader that may get an unclean one.
auto.leader.rebalance.enable BOOLEAN -> controller.auto_leader_rebalance_enable
    Whether leaders go back to their preferred replicas by themselves.
leader.imbalance.check.interval.seconds LONG >= 1 \
    -> controller.leader_imbalance_check_interval_seconds
    Time between two looks for partitions that their preferred replica does not lead.
delegation.token.secret.key PASSWORD
    Makes the secrets of delegation tokens: the same on all nodes; not given, there are no tokens.
controller.quota.window.num INT >= 1 -> controller.quota_window_num
    Samples whose mutations a client may use at once.
controller.quota.window.size.seconds INT >= 1 -> controller.quota_window_size_seconds
    The time that one of these samples covers.
delegation.token.max.lifetime.ms LONG >= 1 -> controller.token_max_lifetime_ms
    The longest that a delegation token lives, however often it is renewed.
delegation.token.expiry.time.ms LONG >= 1 -> controller.token_expiry_time_ms
    How long a delegation token lives before it is renewed, and by how much a renewal extends that.
delegation.token.expiry.check.interval.ms LONG >= 1 -> controller.token_check_interval_ms
    Time between two looks for delegation tokens that have expired.
""")

QUORUM: Final = rows("""
controller.quorum.election.timeout.ms INT >= 1 -> quorum.election_timeout_ms
    Time without a leader before an election.
controller.quorum.fetch.timeout.ms INT >= 1 -> quorum.fetch_timeout_ms
    Time without a successful fetch before a new election.
controller.quorum.election.backoff.max.ms INT >= 0 -> quorum.election_backoff_max_ms
    Longest wait after a lost election.
controller.quorum.append.linger.ms INT >= 0 -> quorum.append_linger_ms
    How long the leader gathers records for one batch.
controller.quorum.request.timeout.ms INT >= 1 -> quorum.request_timeout_ms
    How long a quorum request may take.
controller.quorum.retry.backoff.ms INT >= 0 -> quorum.retry_backoff_ms
    Wait before a quorum request is tried again.
controller.quorum.fetch.max.bytes INT >= 1 -> quorum.fetch_max_bytes
    The most that one quorum fetch asks for.
controller.quorum.fetch.snapshot.max.bytes INT >= 1 -> quorum.fetch_snapshot_max_bytes
    The largest piece of a snapshot in one fetch.
metadata.log.max.record.bytes.between.snapshots LONG >= 1 \
    -> quorum.max_record_bytes_between_snapshots
    Bytes of metadata records after which a snapshot is made.
metadata.log.max.snapshot.interval.ms LONG >= 0 -> quorum.max_snapshot_interval_ms
    Time after which a snapshot is made if there are new records; 0 for never.
metadata.max.retention.bytes LONG -> quorum.max_retention_bytes
    Size of the metadata log and its snapshots above which old ones are deleted; -1 for any.
metadata.max.retention.ms LONG -> quorum.max_retention_ms
    Age above which a metadata snapshot is deleted when there is a newer one; -1 for any.
metadata.log.segment.bytes INT >= 12 -> quorum.segment_bytes
    Size of a segment file of the metadata log.
metadata.log.segment.ms LONG -> quorum.segment_ms
    Time after which the metadata log begins a new segment file.
""")

REPLICATION: Final = rows(
    """
replica.lag.time.max.ms LONG >= 1 -> replication.replica_lag_time_max_ms
    Time without catching up after which a follower leaves the ISR.
replica.fetch.wait.max.ms INT >= 1 -> replication.replica_fetch_wait_max_ms
    How long a follower's fetch may wait for data.
replica.fetch.min.bytes INT >= 0 -> replication.replica_fetch_min_bytes
    Bytes that a follower's fetch waits for.
replica.fetch.max.bytes INT >= 0 -> replication.replica_fetch_max_bytes
    Bytes a follower asks for, per partition.
replica.fetch.response.max.bytes INT >= 0 -> replication.replica_fetch_response_max_bytes
    Bytes a follower asks for, in all.
replica.fetch.backoff.ms INT >= 0 -> replication.replica_fetch_backoff_ms
    Wait after a failed fetch of a partition.
replica.socket.timeout.ms INT >= 1 -> replication.replica_socket_timeout_ms
    How long a follower waits for an answer.
replica.high.watermark.checkpoint.interval.ms LONG >= 1 \
    -> replication.high_watermark_checkpoint_interval_ms
    Time between two writes of the high-watermark checkpoint.
log.flush.offset.checkpoint.interval.ms INT >= 1 \
    -> replication.recovery_point_checkpoint_interval_ms
    Time between two writes of the recovery-point checkpoint.
log.cleaner.enable BOOLEAN -> replication.cleaner_enable
    Whether compacted topics are compacted.
log.cleaner.backoff.ms LONG >= 1 -> replication.cleaner_backoff_ms
    Time between two looks for a log that is worth cleaning.
log.cleaner.dedupe.buffer.size LONG >= 1 -> replication.cleaner_dedupe_buffer_bytes
    Memory for the keys of one round of cleaning.
log.cleaner.io.buffer.load.factor DOUBLE in 0 1 -> replication.cleaner_load_factor
    Share of that memory that is used.
log.cleaner.io.buffer.size INT >= 1 -> replication.cleaner_io_buffer_bytes
    Cleaned bytes that are written at once.
log.cleaner.io.max.bytes.per.second DOUBLE >= 1 -> replication.cleaner_io_max_bytes_per_second
    The most that a cleaner reads and writes in a second.
log.retention.check.interval.ms LONG >= 1 -> replication.retention_check_interval_ms
    Time between two looks for segments that are too old or too many.
replication.quota.window.num INT >= 1 -> replication.replication_quota_window_num
    Samples over which the rate of throttled replicas is taken.
replication.quota.window.size.seconds INT >= 1 -> replication.replication_quota_window_size_seconds
    The time that one of these samples covers.
replica.selector.class CLASS -> replication.replica_selector_class
    The rule for the replica that a consumer reads from; not given, always the leader.
""",
    {"replica.selector.class": optional(one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR))},
)

GROUPS: Final = rows(
    """
offsets.topic.num.partitions INT >= 1 -> groups.offsets_num_partitions
    Partitions of the offsets topic.
offsets.topic.replication.factor SHORT >= 1 -> groups.offsets_replication_factor
    Replicas of the offsets topic.
offsets.topic.segment.bytes INT >= 1 -> groups.offsets_segment_bytes
    Segment size of the offsets topic.
offsets.commit.timeout.ms INT >= 1 -> groups.offsets_commit_timeout_ms
    How long a commit may wait for the replicas of the offsets topic.
offsets.retention.minutes INT >= 1 -> groups.offsets_retention_minutes
    How long a group without members, or a topic without subscribers, keeps committed offsets.
offsets.retention.check.interval.ms LONG >= 1 -> groups.offsets_retention_check_interval_ms
    Time between two looks for offsets that have expired.
offset.metadata.max.bytes INT >= 0 -> groups.offset_metadata_max_bytes
    The longest text that a client may commit beside an offset.
group.initial.rebalance.delay.ms INT >= 0 -> groups.initial_rebalance_delay_ms
    How long the first rebalance of a group waits for more members.
group.min.session.timeout.ms INT >= 1 -> groups.min_session_timeout_ms
    The shortest session timeout that a member of a group may ask for.
group.max.session.timeout.ms INT >= 1 -> groups.max_session_timeout_ms
    The longest session timeout that a member of a group may ask for.
group.max.size INT >= 1 -> groups.max_size
    Members that a group may have.
tidelog.group.disconnect.grace.ms INT >= 0 -> groups.disconnect_grace_ms
    Grace beside a third of its session for a member whose connection ended;
    0 waits for the whole session.
group.consumer.session.timeout.ms INT >= 1 -> groups.consumer_session_timeout_ms
    Silence after which a member of a consumer group is removed.
group.consumer.min.session.timeout.ms INT >= 1 -> groups.consumer_min_session_timeout_ms
    The shortest session timeout of consumer groups that may be set.
group.consumer.max.session.timeout.ms INT >= 1 -> groups.consumer_max_session_timeout_ms
    The longest session timeout of consumer groups that may be set.
group.consumer.heartbeat.interval.ms INT >= 1 -> groups.consumer_heartbeat_interval_ms
    The heartbeat interval that members of consumer groups receive.
group.consumer.min.heartbeat.interval.ms INT >= 1 -> groups.consumer_min_heartbeat_interval_ms
    The shortest heartbeat interval of consumer groups that may be set.
group.consumer.max.heartbeat.interval.ms INT >= 1 -> groups.consumer_max_heartbeat_interval_ms
    The longest heartbeat interval of consumer groups that may be set.
group.consumer.max.size INT >= 1 -> groups.consumer_max_size
    Members that a consumer group may have.
group.consumer.assignors LIST of uniform range -> groups.consumer_assignor_names
    Assignors for consumer groups; the first is used where members ask for none.
group.consumer.migration.policy STRING -> groups.migration_policy
    Whether groups with members may go from the classic to the consumer protocol, or back.
""",
    {"group.consumer.migration.policy": one_of(*MIGRATION_POLICIES, any_case=True)},
)

SHARE_GROUPS: Final = rows("""
group.share.session.timeout.ms INT >= 1 -> groups.share_session_timeout_ms
    How long a member of a share group may be silent.
group.share.min.session.timeout.ms INT >= 1 -> groups.share_min_session_timeout_ms
    The shortest session timeout of share groups that may be set.
group.share.max.session.timeout.ms INT >= 1 -> groups.share_max_session_timeout_ms
    The longest session timeout of share groups that may be set.
group.share.heartbeat.interval.ms INT >= 1 -> groups.share_heartbeat_interval_ms
    How often members of share groups send heartbeats.
group.share.min.heartbeat.interval.ms INT >= 1 -> groups.share_min_heartbeat_interval_ms
    The shortest heartbeat interval of share groups that may be set.
group.share.max.heartbeat.interval.ms INT >= 1 -> groups.share_max_heartbeat_interval_ms
    The longest heartbeat interval of share groups that may be set.
group.share.max.size INT in 1 1000 -> groups.share_max_size
    Members that a share group may have.
group.share.initialize.retry.interval.ms INT >= 1 -> groups.share_initialize_retry_ms
    When the state of share partitions is initialised again that has not been answered.
""")

TRANSACTION_CHECKS: Final = rows("""
transaction.partition.verification.enable BOOLEAN -> replication.transaction_verification_enable
    Whether a leader asks the coordinator of transactions before one begins in its partition.
add.partitions.to.txn.retry.backoff.ms INT >= 1 -> broker.add_partitions_retry_backoff_ms
    Wait before a leader asks again about a producer whose last transaction is just ending.
add.partitions.to.txn.retry.backoff.max.ms INT >= 0 -> broker.add_partitions_retry_max_ms
    How long a leader goes on asking.
""")

TRANSACTIONS: Final = rows("""
transaction.state.log.num.partitions INT >= 1 -> transactions.log_num_partitions
    Partitions of the transaction topic.
transaction.state.log.replication.factor SHORT >= 1 -> transactions.log_replication_factor
    Replicas of the transaction topic.
transaction.state.log.min.isr INT >= 1 -> transactions.log_min_isr
    `min.insync.replicas` of the transaction topic.
transaction.state.log.segment.bytes INT >= 1 -> transactions.log_segment_bytes
    Segment size of the transaction topic.
transaction.max.timeout.ms INT >= 1 -> transactions.max_timeout_ms
    The longest timeout a transaction may ask for.
transactional.id.expiration.ms INT >= 1 -> transactions.id_expiration_ms
    How long a transactional id is remembered that begins no transaction.
transaction.remove.expired.transaction.cleanup.interval.ms INT >= 1 \
    -> transactions.expiration_check_interval_ms
    Time between two looks for transactional ids that have expired.
""")

SHARES: Final = rows("""
share.coordinator.state.topic.num.partitions INT >= 1 -> shares.state_num_partitions
    Partitions of the topic of share groups' state.
share.coordinator.state.topic.replication.factor SHORT >= 1 -> shares.state_replication_factor
    Replicas of the topic of share groups' state.
share.coordinator.state.topic.min.isr SHORT >= 1 -> shares.state_min_isr
    `min.insync.replicas` of the topic of share groups' state.
share.coordinator.state.topic.segment.bytes INT >= 1 -> shares.state_segment_bytes
    Segment size of the topic of share groups' state.
share.coordinator.snapshot.update.records.per.snapshot INT in 0 500 -> shares.updates_per_snapshot
    Updates of a share partition that are written between two snapshots of it.
share.coordinator.write.timeout.ms INT >= 1 -> shares.write_timeout_ms
    How long a share coordinator waits for replicas.
share.coordinator.state.topic.prune.interval.ms INT >= 1 -> shares.prune_interval_ms
    Time between two looks for records of the state topic that are not needed any more.
share.coordinator.cold.partition.snapshot.interval.ms INT >= 1 -> shares.cold_interval_ms
    Age at which such a look writes the snapshot of a share partition again.
""")

SHARING: Final = rows("""
group.share.delivery.count.limit INT in 2 10 -> sharing.delivery_count_limit
    Deliveries of a record to a share group, after which it is not delivered any more.
group.share.min.delivery.count.limit INT in 2 5 -> sharing.min_delivery_count_limit
    The smallest such limit that a group may have.
group.share.max.delivery.count.limit INT in 5 25 -> sharing.max_delivery_count_limit
    The largest such limit that a group may have.
group.share.record.lock.duration.ms INT in 1000 3600000 -> sharing.lock_ms
    How long a member of a share group may have a record without acknowledging it.
group.share.min.record.lock.duration.ms INT in 1000 30000 -> sharing.min_lock_ms
    The shortest such time that a group may have.
group.share.max.record.lock.duration.ms INT in 30000 3600000 -> sharing.max_lock_ms
    The longest such time that a group may have.
group.share.partition.max.record.locks INT in 100 10000 -> sharing.max_locks
    Records of a partition that a share group may have in flight.
group.share.min.partition.max.record.locks INT in 100 2000 -> sharing.min_max_locks
    The smallest such number that a group may have.
group.share.max.partition.max.record.locks INT in 2000 10000 -> sharing.max_max_locks
    The largest such number that a group may have.
group.share.max.share.sessions INT >= 1 -> sharing.max_sessions
    Share sessions of a broker: one for each member that fetches from it.
""")

_EVENTS: Final = rows("""
tidelog.events.enable BOOLEAN -> events.enable
    Whether state changes and sampled figures are kept as JSON lines, for `spark health`.
tidelog.events.dir STRING -> events.directory
    Directory of `events.jsonl`; not given, the data directory.
tidelog.events.segment.bytes INT >= 65536 -> events.segment_bytes
    Size at which `events.jsonl` is set aside for a new file.
tidelog.events.segments INT in 1 1000 -> events.segments
    Files of events that are kept, the one being written included.
tidelog.events.topic.enable BOOLEAN -> events.topic_enable
    Whether events are produced to the topic `__tidelog_events` as well.
""")

AUTHORIZATION: Final = rows("""
authorizer.class.name CLASS -> authorization.authorizer_class
    Who decides what clients may do: `org.apache.kafka.metadata.authorizer.StandardAuthorizer`;
    not given, everything is allowed.
super.users STRING -> authorization.super_users
    Principals that may do everything, as `User:name`, with `;` between them.
allow.everyone.if.no.acl.found BOOLEAN -> authorization.allow_everyone_if_no_acl_found
    Whether everything is allowed on a resource that no access control entry protects.
""")

NODE_PROPERTIES: Final = (
    _IDENTITY
    | BROKER
    | CONTROLLER
    | QUORUM
    | REPLICATION
    | GROUPS
    | SHARE_GROUPS
    | TRANSACTION_CHECKS
    | TRANSACTIONS
    | SHARES
    | SHARING
    | TLS
    | TOKENS
    | _EVENTS
    | AUTHORIZATION
)
"""Every node property with an effect, except for topic synonyms, by name."""
