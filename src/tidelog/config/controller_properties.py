"""Properties that a controller and the metadata quorum obey."""

from typing import Final

from tidelog.config.property_rows import BOOLEAN, INT, LONG, row
from tidelog.config.property_types import Property, at_least, between

CONTROLLER: Final = (
    row(
        "tidelog.broker.disconnect.grace.ms",
        INT,
        "Time after a node's connections broke and are refused until it is taken for dead; "
        "0 waits for the session timeout, as Kafka does.",
        "controller.disconnect_grace_ms",
        "quorum.disconnect_grace_ms",
        check=at_least(0),
    ),
    row(
        "metadata.max.idle.interval.ms",
        INT,
        "Time after which an idle active controller writes a no-op record.",
        "controller.max_idle_interval_ms",
        check=at_least(0),
    ),
    row(
        "default.replication.factor",
        INT,
        "Replicas of a topic that is created without a number of them.",
        "controller.default_replication_factor",
        check=between(1, 32_767),
    ),
    row(
        "num.partitions",
        INT,
        "Partitions of a topic that is created without a number of them.",
        "controller.num_partitions",
        check=at_least(1),
    ),
    row(
        "delete.topic.enable",
        BOOLEAN,
        "Whether topics can be deleted.",
        "controller.delete_topic_enable",
    ),
    row(
        "unclean.leader.election.interval.ms",
        LONG,
        "Time between two looks for partitions without a leader that may get an unclean one.",
        "controller.unclean_leader_election_interval_ms",
        check=at_least(1),
    ),
    row(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        "Whether leaders go back to their preferred replicas by themselves.",
        "controller.auto_leader_rebalance_enable",
    ),
    row(
        "leader.imbalance.check.interval.seconds",
        LONG,
        "Time between two looks for partitions that their preferred replica does not lead.",
        "controller.leader_imbalance_check_interval_seconds",
        check=at_least(1),
    ),
)


def _quorum_row(name: str, doc: str, low: int = 1) -> Property:
    field = f"quorum.{name.replace('.', '_')}"
    return row(f"controller.quorum.{name}", INT, doc, field, check=at_least(low))


QUORUM: Final = (
    _quorum_row("election.timeout.ms", "Time without a leader before an election."),
    _quorum_row("fetch.timeout.ms", "Time without a successful fetch before a new election."),
    _quorum_row("election.backoff.max.ms", "Longest wait after a lost election.", 0),
    _quorum_row("append.linger.ms", "How long the leader gathers records for one batch.", 0),
    _quorum_row("request.timeout.ms", "How long a quorum request may take."),
    _quorum_row("retry.backoff.ms", "Wait before a quorum request is tried again.", 0),
    _quorum_row("fetch.max.bytes", "The most that one quorum fetch asks for."),
    _quorum_row("fetch.snapshot.max.bytes", "The largest piece of a snapshot in one fetch."),
)


METADATA_LOG: Final = (
    row(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        "Bytes of metadata records after which a snapshot is made.",
        "quorum.max_record_bytes_between_snapshots",
        check=at_least(1),
    ),
    row(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        "Time after which a snapshot is made if there are new records; 0 for never.",
        "quorum.max_snapshot_interval_ms",
        check=at_least(0),
    ),
    row(
        "metadata.max.retention.bytes",
        LONG,
        "Size of the metadata log and its snapshots above which old ones are deleted; -1 for any.",
        "quorum.max_retention_bytes",
    ),
    row(
        "metadata.max.retention.ms",
        LONG,
        "Age above which a metadata snapshot is deleted when there is a newer one; -1 for any.",
        "quorum.max_retention_ms",
    ),
    row(
        "metadata.log.segment.bytes",
        INT,
        "Size of a segment file of the metadata log.",
        "quorum.segment_bytes",
        check=at_least(12),
    ),
    row(
        "metadata.log.segment.ms",
        LONG,
        "Time after which the metadata log begins a new segment file.",
        "quorum.segment_ms",
    ),
)
