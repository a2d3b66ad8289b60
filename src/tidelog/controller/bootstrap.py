"""What a new active controller writes first.

An empty log gets the bootstrap records in one metadata transaction: the finalised feature levels
and, because eligible leader replicas depend on it, the cluster-wide `min.insync.replicas`. Only
features that this software serves are finalised.

Formatting may leave `bootstrap.checkpoint` behind beside the metadata log, a file of Kafka's. Its
users are written with the bootstrap records, and so are its feature levels: an older Kafka may have
formatted the directory, whose nodes end at a level that they do not know. A level above those that
this software serves becomes the highest that it does.

A log that ends inside a metadata transaction was left by a controller that failed: the
transaction is aborted, and if it was the bootstrap one, done again.

Source: KIP-584, KIP-868, KIP-966; Kafka's activation records.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.config import ControllerConfig
from tidelog.controller.records import config_record
from tidelog.controller.view import MIN_INSYNC_REPLICAS
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, encode_snapshot, read_snapshot
from tidelog.metadata.image import (
    CLUSTER_DEFAULT,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    TRANSACTION_VERSION,
    MetadataImage,
)
from tidelog.metadata.record_codec import decode_record, encode_record
from tidelog.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    UserScramCredentialRecord,
)

BOOTSTRAP_FEATURES: Final = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    "group.version": 1,
    SHARE_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""Level 30 is 4.3-IV0."""


BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"


def bootstrap_file(users: Sequence[UserScramCredentialRecord], wall_ms: int) -> bytes:
    """What formatting writes for the first active controller."""
    levels = BOOTSTRAP_FEATURES.items()
    records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels]
    values = [encode_record(record) for record in (*records, *users)]
    return encode_snapshot(BOOTSTRAP_SNAPSHOT, wall_ms, values)


class FirstRecords(NamedTuple):
    """What formatting has left behind for the first active controller."""

    levels: Mapping[str, int] = BOOTSTRAP_FEATURES
    """The features to finalise."""
    users: tuple[UserScramCredentialRecord, ...] = ()


NOTHING_LEFT: Final = FirstRecords()


def first_records(data: bytes) -> FirstRecords:
    """What is in such a file. Raises `CorruptBatch`."""
    records = [decode_record(each) for each in read_snapshot(data, BOOTSTRAP_SNAPSHOT).records]
    asked = {one.name: one.feature_level for one in records if isinstance(one, FeatureLevelRecord)}
    levels = {
        name: min(level, asked[name])
        for name, level in BOOTSTRAP_FEATURES.items()
        if asked.get(name, 0) > 0
    }
    users = tuple(one for one in records if isinstance(one, UserScramCredentialRecord))
    return FirstRecords(levels if METADATA_VERSION in levels else BOOTSTRAP_FEATURES, users)


def activation_records(
    image: MetadataImage, config: ControllerConfig, first: FirstRecords = NOTHING_LEFT
) -> list[MetadataRecord]:
    """The records to write before anything is decided; often none."""
    records: list[MetadataRecord] = []
    if image.open_transaction is not None:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if METADATA_VERSION in image.features:
        return records
    min_isr = str(config.min_insync_replicas)
    levels = first.levels.items()
    return [
        *records,
        BeginTransactionRecord(name="Bootstrap records"),
        *(FeatureLevelRecord(name=name, feature_level=level) for name, level in levels),
        config_record(CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, min_isr),
        *first.users,
        EndTransactionRecord(),
    ]
