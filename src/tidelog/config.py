"""Kafka's configuration names with types, defaults and validation, resolved into small values.

A node reads a properties file once and hands each room the frozen value made for it; no room
reads configuration by name deep in its code. `tidelog.` names are ours (design §10).
"""

from dataclasses import dataclass

LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What one partition's log obeys; resolved from topic, broker and default levels."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
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
    unclean_leader_election_enable: bool = False
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    producer_id_expiration_ms: int = 86_400_000


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """Timers and bounds of the metadata quorum (`controller.quorum.*`)."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1 << 20
    fetch_max_wait_ms: int = 500
    disconnect_grace_ms: int = 500
    """`tidelog.broker.disconnect.grace.ms`: 0 turns early detection off."""
    first_election_max_ms: int = 150
    """A voter that has not yet heard of any leader since it started holds its first pre-vote
    after a random wait of at most this (pre-votes disturb nobody, KIP-996)."""


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
    delete_topic_enable: bool = True
    max_records_per_batch: int = 10_000
    producer_id_block_size: int = 1000


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
    fetch_max_bytes: int = 55 << 20
    alter_partition_retry_ms: int = 50
