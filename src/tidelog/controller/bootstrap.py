"""What a new active controller writes first.

An empty log gets the bootstrap records in one metadata transaction: the finalised feature levels
and, because eligible leader replicas depend on it, the cluster-wide `min.insync.replicas`. Only
features that this software serves are finalised.

A log that ends inside a metadata transaction was left by a controller that failed: the
transaction is aborted, and if it was the bootstrap one, done again.

Source: KIP-584, KIP-868, KIP-966; Kafka's activation records.
"""

from typing import Final

from tidelog.config import ControllerConfig
from tidelog.controller.records import config_record
from tidelog.controller.view import MIN_INSYNC_REPLICAS
from tidelog.metadata.image import (
    CLUSTER_DEFAULT,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    MetadataImage,
)
from tidelog.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)

BOOTSTRAP_FEATURES: Final = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    "group.version": 1,
    TRANSACTION_VERSION: 2,
}
"""Level 30 is 4.3-IV0."""


def activation_records(image: MetadataImage, config: ControllerConfig) -> list[MetadataRecord]:
    """The records to write before anything is decided; often none."""
    records: list[MetadataRecord] = []
    if image.open_transaction is not None:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if METADATA_VERSION in image.features:
        return records
    min_isr = str(config.min_insync_replicas)
    levels = BOOTSTRAP_FEATURES.items()
    return [
        *records,
        BeginTransactionRecord(name="Bootstrap records"),
        *(FeatureLevelRecord(name=name, feature_level=level) for name, level in levels),
        config_record(CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, min_isr),
        EndTransactionRecord(),
    ]
