"""The records of the metadata log as entities.

The metadata log (`__cluster_metadata`) is the only truth about brokers, topics, partitions,
configs and features; every node replays it.

One class stands for all versions of a kind. A field that came later declares from which version on
it exists, and has its default in entities read from older records. UUIDs are 16 raw bytes; `()` is
an empty list, `None` one that the record leaves unchanged.

What this leaves out: the framing of records (`record_codec.py`), what they mean (`image.py`,
`delta.py`), and the control records that the quorum writes between them (`records/control.py`).

Source: KIP-631 (the metadata log), KIP-858 (directories), KIP-866 (migration), KIP-868 (metadata
transactions), KIP-966 (eligible leader replicas), KIP-1066 (cordoned directories).
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, Final, TypeVar, cast, dataclass_transform

from tidelog.model import TopicId, Uuid

LEADER_UNCHANGED: Final = -2
"""`PartitionChangeRecord.leader`: the record does not touch the leader."""
RECOVERED: Final = 0
RECOVERING: Final = 1
"""`leader_recovery_state`: elected uncleanly, and not yet recovered."""
RECOVERY_UNCHANGED: Final = -1

UNFENCE: Final = -1
FENCE: Final = 1
"""`BrokerRegistrationChangeRecord.fenced`; 0 means no change."""


def of(
    kafka_type: str,
    *,
    tag: int | None = None,
    since: int = 0,
    default: Any = MISSING,
    is_secret: bool = False,
) -> Any:
    """A field, and how it is written. A tagged one is not written when it has its default; one
    that came after version 0 needs a default. A record prints without what may be secret."""
    metadata: dict[str, Any] = {"kafka_type": kafka_type, "since": since}
    if tag is not None:
        metadata["tag"] = tag
    return field(default=default, metadata=metadata, repr=not is_secret)


class _Entity:
    """An entity in the flexible encoding of KIP-482."""

    __slots__ = ()
    __flexible__: ClassVar[bool] = True


class MetadataRecord(_Entity):
    """An entity that is the body of a record. Subclasses are declared with `record`."""

    __slots__ = ()
    __record_id__: ClassVar[int]
    """The number of its kind."""
    __latest__: ClassVar[int]
    """The newest version that is known here."""


_EntityType = TypeVar("_EntityType", bound=type[_Entity])
_RecordType = TypeVar("_RecordType", bound=type[MetadataRecord])

RECORD_TYPES: Final[dict[int, type[Any]]] = {}
"""By the number of the kind; filled by `record`."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(of,))
def _entity(declared: _EntityType) -> _EntityType:
    # As `env.frozen`: mypy keeps the fields, and a record is made in a quarter of the time.
    return cast(_EntityType, dataclass(slots=True, kw_only=True, unsafe_hash=True)(declared))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(of,))
def record(number: int, *, latest: int = 0) -> Callable[[_RecordType], _RecordType]:
    """Declares a kind of record: a slotted dataclass with keywords only, frozen for mypy."""

    def declare(declared: _RecordType) -> _RecordType:
        declared.__record_id__, declared.__latest__ = number, latest
        entity = RECORD_TYPES[number] = _entity(declared)
        return entity

    return declare


# Parts of records --------------------------------------------------------------------------


@_entity
class EndpointEntry(_Entity):
    """A listener of a registered broker or controller."""

    name: str = of("string")
    host: str = of("string")
    port: int = of("uint16")
    security_protocol: int = of("int16")
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


@_entity
class FeatureEntry(_Entity):
    """The levels of a feature that a node supports, both ends included."""

    name: str = of("string")
    min_supported_version: int = of("int16")
    max_supported_version: int = of("int16")


# Brokers and controllers -------------------------------------------------------------------


@record(0, latest=4)
class RegisterBrokerRecord(MetadataRecord):
    """A broker process is known; it begins fenced."""

    broker_id: int = of("int32")
    is_migrating_zk_broker: bool = of("bool", since=2, default=False)
    incarnation_id: Uuid = of("uuid_bytes")
    broker_epoch: int = of("int64")
    """The offset of this record."""
    end_points: tuple[EndpointEntry, ...] = ()
    features: tuple[FeatureEntry, ...] = ()
    rack: str | None = of("string")
    fenced: bool = of("bool", default=True)
    in_controlled_shutdown: bool = of("bool", since=1, default=False)
    log_dirs: tuple[Uuid, ...] = of("uuid_bytes", tag=0, since=3, default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = of("uuid_bytes", tag=1, since=4, default=None)


@record(1)
class UnregisterBrokerRecord(MetadataRecord):
    """A broker is forgotten."""

    broker_id: int = of("int32")
    broker_epoch: int = of("int64")


@record(7)
class FenceBrokerRecord(MetadataRecord):
    """What there was before `BrokerRegistrationChangeRecord`; read, not written."""

    id: int = of("int32")
    epoch: int = of("int64")


@record(8)
class UnfenceBrokerRecord(MetadataRecord):
    """What there was before `BrokerRegistrationChangeRecord`; read, not written."""

    id: int = of("int32")
    epoch: int = of("int64")


@record(17, latest=3)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """A registered broker was fenced or unfenced, leaves, or has other directories."""

    broker_id: int = of("int32")
    broker_epoch: int = of("int64")
    fenced: int = of("int8", tag=0, default=0)
    """`FENCE`, `UNFENCE`, or 0: no change."""
    in_controlled_shutdown: int = of("int8", tag=1, since=1, default=0)
    """1: it began a controlled shutdown; 0: no change."""
    log_dirs: tuple[Uuid, ...] = of("uuid_bytes", tag=2, since=2, default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = of("uuid_bytes", tag=3, since=3, default=None)


@record(27)
class RegisterControllerRecord(MetadataRecord):
    """A controller process is known (KIP-919)."""

    controller_id: int = of("int32")
    incarnation_id: Uuid = of("uuid_bytes")
    zk_migration_ready: bool = of("bool", default=False)
    end_points: tuple[EndpointEntry, ...] = ()
    features: tuple[FeatureEntry, ...] = ()


@record(29)
class UnregisterControllerRecord(MetadataRecord):
    """A controller is forgotten."""

    controller_id: int = of("int32")


# Topics and partitions ---------------------------------------------------------------------


@record(2)
class TopicRecord(MetadataRecord):
    """A topic exists; its partitions follow in the same batch."""

    name: str = of("string")
    topic_id: TopicId = of("uuid_bytes")


@record(3, latest=2)
class PartitionRecord(MetadataRecord):
    """A whole partition: at its creation, and in snapshots."""

    partition_id: int = of("int32")
    topic_id: TopicId = of("uuid_bytes")
    replicas: tuple[int, ...] = of("int32")
    """The first one is the preferred leader."""
    isr: tuple[int, ...] = of("int32")
    removing_replicas: tuple[int, ...] = of("int32", default=())
    adding_replicas: tuple[int, ...] = of("int32", default=())
    leader: int = of("int32")
    """-1: no leader."""
    leader_recovery_state: int = of("int8", tag=0, default=RECOVERED)
    leader_epoch: int = of("int32")
    partition_epoch: int = of("int32")
    directories: tuple[Uuid, ...] = of("uuid_bytes", since=1, default=())
    """Beside `replicas`: which directory holds each."""
    eligible_leader_replicas: tuple[int, ...] | None = of("int32", tag=1, since=2, default=None)
    last_known_elr: tuple[int, ...] | None = of("int32", tag=2, since=2, default=None)


@record(5, latest=2)
class PartitionChangeRecord(MetadataRecord):
    """What changed of a partition; the partition epoch grows by one, and with a `leader` the
    leader epoch too, even when it is the leader there was."""

    partition_id: int = of("int32")
    topic_id: TopicId = of("uuid_bytes")
    isr: tuple[int, ...] | None = of("int32", tag=0, default=None)
    leader: int = of("int32", tag=1, default=LEADER_UNCHANGED)
    """-1: no leader any more."""
    replicas: tuple[int, ...] | None = of("int32", tag=2, default=None)
    removing_replicas: tuple[int, ...] | None = of("int32", tag=3, default=None)
    adding_replicas: tuple[int, ...] | None = of("int32", tag=4, default=None)
    leader_recovery_state: int = of("int8", tag=5, default=RECOVERY_UNCHANGED)
    directories: tuple[Uuid, ...] | None = of("uuid_bytes", tag=8, since=1, default=None)
    eligible_leader_replicas: tuple[int, ...] | None = of("int32", tag=6, since=2, default=None)
    last_known_elr: tuple[int, ...] | None = of("int32", tag=7, since=2, default=None)


@record(9)
class RemoveTopicRecord(MetadataRecord):
    """A topic and all its partitions are gone."""

    topic_id: TopicId = of("uuid_bytes")


@record(28)
class ClearElrRecord(MetadataRecord):
    """Forgets the eligible leader replicas of a topic, of all topics when the name is empty."""

    topic_name: str = of("string", default="")


# Configs, features, quotas, producer ids ---------------------------------------------------


@record(4)
class ConfigRecord(MetadataRecord):
    """One config of one resource; the value `None` removes it."""

    resource_type: int = of("int8")
    """2 topic, 4 broker (name "": the default of all), 16 client metrics, 32 group."""
    resource_name: str = of("string")
    name: str = of("string")
    value: str | None = of("string", is_secret=True)
    """May be the password of a key store."""


@record(12)
class FeatureLevelRecord(MetadataRecord):
    """A feature of the cluster is finalized at a level; level 0 removes it."""

    name: str = of("string")
    feature_level: int = of("int16")


@_entity
class QuotaEntity(_Entity):
    """One part of a quota's subject: a user, client id or ip; no name is the default."""

    entity_type: str = of("string")
    entity_name: str | None = of("string")


@record(14)
class ClientQuotaRecord(MetadataRecord):
    """A quota is set, or removed."""

    entity: tuple[QuotaEntity, ...] = ()
    key: str = of("string")
    value: float = of("float64")
    remove: bool = of("bool", default=False)


@record(15)
class ProducerIdsRecord(MetadataRecord):
    """A block of producer ids was given to a broker."""

    broker_id: int = of("int32")
    broker_epoch: int = of("int64")
    next_producer_id: int = of("int64")
    """The first id that no block contains yet."""


# Security ----------------------------------------------------------------------------------


@record(10)
class DelegationTokenRecord(MetadataRecord):
    """A delegation token exists (KIP-48)."""

    owner: str = of("string")
    requester: str = of("string")
    renewers: tuple[str, ...] = of("string", default=())
    issue_timestamp: int = of("int64")
    max_timestamp: int = of("int64")
    expiration_timestamp: int = of("int64")
    token_id: str = of("string")


@record(26)
class RemoveDelegationTokenRecord(MetadataRecord):
    """A delegation token is gone."""

    token_id: str = of("string")


@record(11)
class UserScramCredentialRecord(MetadataRecord):
    """How a user proves a password (KIP-900)."""

    name: str = of("string")
    mechanism: int = of("int8")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    salt: bytes = of("bytes")
    stored_key: bytes = of("bytes", is_secret=True)
    server_key: bytes = of("bytes", is_secret=True)
    iterations: int = of("int32")


@record(22)
class RemoveUserScramCredentialRecord(MetadataRecord):
    """A credential is gone."""

    name: str = of("string")
    mechanism: int = of("int8")


@record(18)
class AccessControlEntryRecord(MetadataRecord):
    """An access control entry exists (KIP-801)."""

    id: Uuid = of("uuid_bytes")
    resource_type: int = of("int8")
    resource_name: str = of("string")
    pattern_type: int = of("int8")
    principal: str = of("string")
    host: str = of("string")
    operation: int = of("int8")
    permission_type: int = of("int8")


@record(19)
class RemoveAccessControlEntryRecord(MetadataRecord):
    """An access control entry is gone."""

    id: Uuid = of("uuid_bytes")


# The log itself ----------------------------------------------------------------------------


@record(20)
class NoOpRecord(MetadataRecord):
    """Nothing; lets brokers measure how far they are behind."""


@record(21)
class ZkMigrationStateRecord(MetadataRecord):
    """A trace of Kafka's move away from ZooKeeper; read and skipped."""

    zk_migration_state: int = of("int8")


@record(23)
class BeginTransactionRecord(MetadataRecord):
    """What follows takes effect together, at the `EndTransactionRecord`."""

    name: str | None = of("string", tag=0, default=None)


@record(24)
class EndTransactionRecord(MetadataRecord):
    """The transaction takes effect."""


@record(25)
class AbortTransactionRecord(MetadataRecord):
    """The transaction never happened."""

    reason: str | None = of("string", tag=0, default=None)
