"""The cluster's metadata at one offset of the metadata log: an immutable image.

Theory. The metadata log is the only truth; an image is the fold of all its records up to an
offset. Two nodes with the same log prefix hold equal images. An image never changes: the next one
is built by `MetadataDelta`, which copies only the dictionaries that a batch of records touches
and shares everything else. So an image can be kept by a reader for as long as it likes, a
controller can hold several of them (the committed one, and one for each batch that waits to be
committed), and going back to an earlier state is a pointer assignment.

Invariants (asserted in `metadata/invariants.py`): ISR within the replicas, leader within the ISR
or absent, ISR and ELR disjoint, epochs never decreasing, both topic maps agree.

SCRAM credentials and delegation tokens are kept as their newest records (`kept_records`).

Source: KIP-500, KIP-631, KIP-966 (eligible leader replicas), KIP-858 (directories).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from tidelog.env.frozen import frozen
from tidelog.metadata.records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    MetadataRecord,
    UserScramCredentialRecord,
)
from tidelog.model import (
    LOST_DIRECTORY,
    NO_LEADER,
    RESERVED_DIRECTORY_IDS,
    ZERO_UUID,
    Endpoint,
    TopicId,
    TopicPartition,
    Uuid,
)

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
"""Config resource types; the broker resource named `""` is the cluster-wide default."""

METADATA_VERSION: Final = "metadata.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"

_SCRAM: Final = UserScramCredentialRecord.__record_id__
_TOKEN: Final = DelegationTokenRecord.__record_id__

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


QuotaSubject = tuple[tuple[str, str | None], ...]
"""Whose quota it is: (type, name) pairs in the order of the types, which are `client-id`, `ip` and
`user`; no name is the default of the type."""


class ConfigResource(NamedTuple):
    """What a set of configs belongs to."""

    resource_type: int
    name: str


CLUSTER_DEFAULT: Final = ConfigResource(BROKER_RESOURCE, "")


@frozen
class PartitionImage:
    """One partition. Every record that touches it adds one to `partition_epoch`; only a record
    that writes the leader field adds one to `leader_epoch`."""

    replicas: tuple[int, ...]
    """Assigned brokers; the first is the preferred leader."""
    isr: tuple[int, ...]
    """Replicas that hold every committed record; may be empty only with ELR."""
    leader: int
    """-1 when no replica may lead."""
    leader_epoch: int
    partition_epoch: int
    eligible_leaders: tuple[int, ...] = ()
    """ELR: left the ISR while it was below the min ISR, hence hold all below the high watermark."""
    last_known_eligible_leaders: tuple[int, ...] = ()
    """The leader when ISR and ELR ran empty; at most one in practice."""
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    recovering: bool = False
    """The leader was elected uncleanly and has not reported RECOVERED yet."""
    directories: tuple[Uuid, ...] = ()
    """The log directory of each replica, in the order of `replicas`."""

    def directory_of(self, replica: int) -> Uuid:
        """Where a replica's log is; `ZERO_UUID` when its broker has not reported it."""
        if len(self.directories) != len(self.replicas) or replica not in self.replicas:
            return ZERO_UUID
        return self.directories[self.replicas.index(replica)]

    def has_lost(self, replica: int) -> bool:
        """Whether the replica's log is gone, so that it may neither lead nor be in sync."""
        return LOST_DIRECTORY in self.directories and self.directory_of(replica) == LOST_DIRECTORY


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; its partitions are numbered from 0 without gaps."""

    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """One registered broker."""

    node_id: int
    broker_epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    features: Mapping[str, tuple[int, int]]
    """(lowest, highest) supported level, both included."""
    log_dirs: tuple[Uuid, ...]
    registration_offset: int = field(compare=False)
    """Where its newest registration record stands: it must have applied it to be unfenced. After a
    snapshot was loaded that is the snapshot's last offset, because the record's own is not known
    any more; so two nodes may differ here."""
    cordoned_log_dirs: tuple[Uuid, ...] = ()
    """Directories that take no new replicas."""

    def has_directory(self, directory_id: Uuid) -> bool:
        """Whether a replica may be in this directory. A broker that names none is one of a cluster
        that does not keep directories yet."""
        if directory_id == LOST_DIRECTORY:
            return False
        is_reserved = int.from_bytes(directory_id) < RESERVED_DIRECTORY_IDS
        return is_reserved or not self.log_dirs or directory_id in self.log_dirs

    @property
    def active(self) -> bool:
        """May lead and be in an ISR."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where the broker is reached on a listener, if it has that listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """One registered controller process."""

    node_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The fold of the metadata log up to `offset`."""

    offset: int = -1
    """The last offset that is contained, inclusive; -1 for the empty image."""
    epoch: int = 0
    """The leader epoch of the batch that holds `offset`."""
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    """Only resources that have at least one config."""
    features: Mapping[str, int] = field(default_factory=dict)
    """Finalised levels; an absent feature has level 0."""
    next_producer_id: int = 0
    """The first producer id that no broker owns."""
    open_transaction: tuple[tuple[MetadataRecord, int], ...] | None = None
    """Records (with offsets) of a metadata transaction that has begun and not ended: they do not
    count yet. `None` outside of a transaction."""
    acls: Mapping[Uuid, AccessControlEntryRecord] = field(default_factory=dict)
    """The access control entries by their ids, the oldest first."""
    quotas: Mapping[QuotaSubject, Mapping[str, float]] = field(default_factory=dict)
    """The quotas of clients by name; only subjects that have at least one."""
    kept_records: Mapping[tuple[object, ...], MetadataRecord] = field(default_factory=dict)
    """The newest record of each thing that is kept as it is, by kind and identity."""
    deleted_topics: int = field(default=0, compare=False)
    """How many topics this process has seen go; it is not of the log, but of how it was followed.
    Topics that come in the same image hide from the number of topics that others went."""

    def topic(self, name: str) -> TopicImage | None:
        """The topic of this name."""
        return self.topics_by_name.get(name)

    def exists(self, topic_partition: TopicPartition) -> bool:
        """Whether there is a partition of this name and number."""
        topic = self.topics_by_name.get(topic_partition.topic)
        return topic is not None and topic_partition.partition in topic.partitions

    def partition(self, topic_id: TopicId, partition: int) -> PartitionImage | None:
        """One partition by topic id."""
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The configs set on a topic itself."""
        return self.configs.get(ConfigResource(TOPIC_RESOURCE, name), _EMPTY)

    def broker_configs(self, node_id: int | None) -> Mapping[str, str]:
        """The configs set on one broker, or with `None` the cluster-wide defaults."""
        name = "" if node_id is None else str(node_id)
        return self.configs.get(ConfigResource(BROKER_RESOURCE, name), _EMPTY)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """The configs set on a group."""
        return self.configs.get(ConfigResource(GROUP_RESOURCE, group_id), _EMPTY)

    def scram_credential(self, name: str, mechanism: int) -> UserScramCredentialRecord | None:
        """What servers keep of a user's password for a mechanism."""
        record = self.kept_records.get((_SCRAM, name, mechanism))
        assert record is None or isinstance(record, UserScramCredentialRecord), f"{record!r}"
        return record

    def scram_credentials(self) -> list[UserScramCredentialRecord]:
        """All of them, by name and mechanism."""
        found = [r for r in self.kept_records.values() if isinstance(r, UserScramCredentialRecord)]
        return sorted(found, key=lambda record: (record.name, record.mechanism))

    def token(self, token_id: str) -> DelegationTokenRecord | None:
        """A delegation token, which may have expired."""
        record = self.kept_records.get((_TOKEN, token_id))
        assert record is None or isinstance(record, DelegationTokenRecord), f"{record!r}"
        return record

    def tokens(self) -> list[DelegationTokenRecord]:
        """All of them, in the order in which they became known."""
        return [r for r in self.kept_records.values() if isinstance(r, DelegationTokenRecord)]

    def is_active(self, node_id: int) -> bool:
        """Whether a broker is registered, unfenced and not in controlled shutdown."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.active

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker is registered and unfenced; it may be in controlled shutdown."""
        broker = self.brokers.get(node_id)
        return broker is not None and not broker.fenced

    def endpoint(self, node_id: int, listener: str) -> Endpoint | None:
        """Where a broker is reached on a listener, if it has that listener."""
        broker = self.brokers.get(node_id)
        return None if broker is None else broker.endpoint(listener)

    def alive_brokers(self, listener: str) -> list[tuple[int, Endpoint, str | None]]:
        """(node id, endpoint, rack) of the unfenced brokers with this listener, by id."""
        found = []
        for node_id in sorted(self.brokers):
            broker = self.brokers[node_id]
            endpoint = broker.endpoint(listener)
            if endpoint is not None and not broker.fenced:
                found.append((node_id, endpoint, broker.rack))
        return found

    def offline_replicas(self, partition: PartitionImage) -> tuple[int, ...]:
        """Replicas on brokers that are fenced or not registered, or in directories that are
        offline."""
        return tuple(
            node_id
            for node_id in partition.replicas
            if not (self.is_alive(node_id) and self.has_directory(partition, node_id))
        )

    def has_directory(self, partition: PartitionImage, node_id: int) -> bool:
        """Whether a broker is registered with the log directory of its replica."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.has_directory(partition.directory_of(node_id))

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are maintained (KIP-966)."""
        return self.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    def leads(self, node_id: int) -> bool:
        """Whether the broker leads any partition; looks at every partition."""
        if node_id == NO_LEADER:
            return False
        return any(
            partition.leader == node_id
            for topic in self.topics_by_id.values()
            for partition in topic.partitions.values()
        )


EMPTY_IMAGE: Final = MetadataImage()
