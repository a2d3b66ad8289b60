"""What an administrator sees of a cluster: plain values, ready to be printed or compared, and how
they are read from answers.

Source: KIP-584 (features), KIP-595 (DescribeQuorum), KIP-700 (DescribeCluster), KIP-853 (voters),
KIP-966 (ELR).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from tidelog.client.core.errors import check
from tidelog.client.core.values import Address
from tidelog.model import uuid_to_text
from tidelog.wire.values import bytes_of, error_of

_NAMES_FENCED: Final = 2
"""The first version of DescribeCluster that does."""


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A broker as the cluster knows it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool

    @property
    def address(self) -> Address:
        """Where clients reach it."""
        return Address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as one of its brokers sees it."""

    cluster_id: str
    nodes: tuple[NodeDescription, ...]
    """Registered brokers by id, fenced ones included."""

    @classmethod
    def read(cls, answer: Any) -> Self:
        """From DescribeCluster. Raises `AdminError`."""
        check(error_of(answer.error_code), answer.error_message, "describe the cluster")
        # Brokers before Kafka 4.0 list those only that are not fenced.
        names_fenced = answer.__version__ >= _NAMES_FENCED
        nodes = [
            NodeDescription(
                int(b.broker_id), b.host, int(b.port), b.rack, names_fenced and bool(b.is_fenced)
            )
            for b in answer.brokers
        ]
        return cls(answer.cluster_id, tuple(sorted(nodes, key=lambda node: node.node_id)))

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
    controller answers."""

    @classmethod
    def read(cls, row: Any) -> Self:
        """From a row of DescribeTopicPartitions."""
        return cls(
            partition=int(row.partition_index),
            leader=int(row.leader_id),
            leader_epoch=int(row.leader_epoch),
            replicas=_ids(row.replica_nodes),
            isr=_ids(row.isr_nodes),
            eligible_leaders=_ids(row.eligible_leader_replicas),
            offline=_ids(row.offline_replicas),
        )


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

    @classmethod
    def read(cls, topic: Any, before: Self | None) -> Self:
        """From a page of DescribeTopicPartitions and those before it. Raises `AdminError` for a
        topic that does not exist."""
        check(error_of(topic.error_code), None, f"describe topic `{topic.name}`")
        partitions = [*map(PartitionDescription.read, topic.partitions)]
        partitions += before.partitions if before is not None else ()
        partitions.sort(key=lambda partition: partition.partition)
        topic_id = uuid_to_text(bytes_of(topic.topic_id))
        return cls(str(topic.name), topic_id, bool(topic.is_internal), tuple(partitions))

    def unsettled(self) -> list[int]:
        """Partitions that may be moving: while one does, some replica of it is not in sync."""
        return [p.partition for p in self.partitions if {*p.replicas} - {*p.isr}]

    def with_moves(self, answer: Any) -> Self:
        """The same with the replicas that come and go, from ListPartitionReassignments."""
        found = [topic for topic in answer.topics if topic.name == self.name]
        rows = {int(row.partition_index): row for topic in found for row in topic.partitions}
        partitions = list(self.partitions)
        for index, partition in enumerate(partitions):
            if (row := rows.get(partition.partition)) is not None:
                adding, removing = _ids(row.adding_replicas), _ids(row.removing_replicas)
                partitions[index] = replace(partition, adding=adding, removing=removing)
        return replace(self, partitions=tuple(partitions))


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

    @classmethod
    def read(cls, answer: Any) -> Self:
        """From DescribeQuorum. Raises `AdminError`."""
        check(error_of(answer.error_code), answer.error_message, "describe the quorum")
        found = answer.topics[0].partitions[0]
        check(error_of(found.error_code), found.error_message, "describe the quorum")
        ends = {int(v.replica_id): int(v.log_end_offset) for v in found.current_voters}
        leader_end = ends.get(int(found.leader_id), int(found.high_watermark))
        voters, observers = (
            tuple(
                VoterDescription(
                    int(row.replica_id),
                    int(row.log_end_offset),
                    max(0, leader_end - int(row.log_end_offset)),
                    uuid_to_text(bytes_of(row.replica_directory_id)),
                    int(row.last_fetch_timestamp),
                    int(row.last_caught_up_timestamp),
                )
                for row in rows
            )
            for rows in (found.current_voters, found.observers)
        )
        leader, epoch = int(found.leader_id), int(found.leader_epoch)
        return cls(leader, epoch, int(found.high_watermark), voters, observers)


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """The feature levels of one broker's software and of its cluster (KIP-584)."""

    supported: Mapping[str, tuple[int, int]]
    """The lowest and the highest level that the broker can run."""
    finalised: Mapping[str, int]
    """What the cluster runs, as the broker knows it."""

    @classmethod
    def read(cls, answer: Any) -> Self:
        """From ApiVersions, version 3 or newer. Raises `AdminError`."""
        check(error_of(answer.error_code), None, "describe the features")
        ranges = {
            str(each.name): (int(each.min_version), int(each.max_version))
            for each in answer.supported_features
        }
        levels = {str(each.name): int(each.max_version_level) for each in answer.finalized_features}
        return cls(ranges, levels)


def _ids(nodes: Iterable[int] | None) -> tuple[int, ...]:
    return tuple(int(node) for node in nodes or ())
