"""From one metadata image to the next: records replayed on top of an image.

A delta is used once: made from an image, fed with decoded records in log order, then asked for
the next image. It copies a dictionary the first time a record touches it; topics, partitions and
brokers that no record names are shared between the images. Beside the image it reports what
changed, so that replicas, caches and coordinators look at nothing else.

Topics and the cluster's nodes have a part each (`topics_delta.py`, `cluster_delta.py`); configs,
features, producer ids, access control entries, quotas, transactions and the records that are only
kept are here.

A metadata transaction (KIP-868) hides its records until it ends: they are carried by the image as
`open_transaction` and replayed, with their own offsets, by the end record; an abort forgets them.

Replaying never fails for a log that a controller wrote. What cannot be, such as a change of an
unknown partition, is a bug of the writer and an assertion here.

Source: KIP-631, KIP-868; Kafka's metadata deltas.
"""

from collections.abc import Callable, KeysView, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tidelog.metadata import records
from tidelog.metadata.cluster_delta import ClusterDelta
from tidelog.metadata.image import (
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
    QuotaSubject,
    TopicImage,
)
from tidelog.metadata.quotas import subject_of
from tidelog.metadata.records import MetadataRecord
from tidelog.metadata.topics_delta import TopicsDelta
from tidelog.model import TopicId, Uuid

_NOTHING: Final[dict[int, None]] = {}


class MetadataDelta:
    """Collects records on top of `image`; `apply` yields the next image."""

    def __init__(self, image: MetadataImage) -> None:
        # The image below; never changed.
        self.image = image
        self._topics = TopicsDelta(image)
        self._cluster = ClusterDelta(image)
        # An own copy of the image's kept records, made by the first change.
        self._kept: dict[tuple[object, ...], MetadataRecord] | None = None
        # An own copy of the image's access control entries, made by the first change.
        self._acls: dict[Uuid, records.AccessControlEntryRecord] | None = None
        # Likewise of the quotas of clients.
        self._quotas: dict[QuotaSubject, Mapping[str, float]] | None = None
        # An own copy of the image's feature levels, made by the first change.
        self._features: dict[str, int] | None = None
        # Resources with a changed config to their configs, complete; may be empty.
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        # What changed. Topics of the image below that are gone, in the order of their removal.
        self.deleted_topics: Sequence[TopicImage] = self._topics.deleted
        # Topics created or with a changed partition, and still there; ordered, as what follows.
        self.changed_topic_ids: KeysView[TopicId] = self._topics.changed.keys()
        # Brokers registered, changed or unregistered.
        self.changed_brokers: KeysView[int] = self._cluster.changed_brokers.keys()
        # Resources with a config set or removed.
        self.changed_configs: KeysView[ConfigResource] = self._configs.keys()
        # The image that `apply` yields whatever was replayed, for a delta made by `between`.
        self._result: MetadataImage | None = None
        # See `MetadataImage.next_producer_id`.
        self._next_producer_id = image.next_producer_id
        # Records of the open metadata transaction; `None` outside of one.
        self._transaction: list[tuple[MetadataRecord, int]] | None = (
            None if image.open_transaction is None else list(image.open_transaction)
        )

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> "MetadataDelta":
        """The delta that leads from one image to another of the same log, for a snapshot that takes
        the place of what was known. It is not replayed upon, only applied and asked what
        changed."""
        delta = cls(before)
        for topic_id, topic in before.topics_by_id.items():
            if topic_id not in after.topics_by_id:
                delta._topics.deleted.append(topic)
        deleted = before.deleted_topics + len(delta._topics.deleted)
        delta._result = replace(after, deleted_topics=deleted)
        for topic_id, topic in after.topics_by_id.items():
            if before.topics_by_id.get(topic_id) != topic:
                delta._topics.changed[topic_id] = dict(topic.partitions)
                known = before.topics_by_id.get(topic_id)
                held = {} if known is None else known.partitions
                delta._topics.touched[topic_id] = {
                    number: None
                    for number, partition in topic.partitions.items()
                    if held.get(number) != partition
                }
        for broker_id in sorted({*before.brokers, *after.brokers}):
            if before.brokers.get(broker_id) != after.brokers.get(broker_id):
                delta._cluster.changed_brokers[broker_id] = None
        for resource in sorted({*before.configs, *after.configs}):
            values = after.configs.get(resource, {})
            if before.configs.get(resource, {}) != values:
                delta._configs[resource] = dict(values)
        if before.features != after.features:
            delta._features = dict(after.features)
        return delta

    def changed_partitions(self, topic_id: TopicId) -> KeysView[int]:
        """The partitions of one of `changed_topic_ids` that were created or changed, ordered."""
        return self._topics.touched.get(topic_id, _NOTHING).keys()

    # In and out ----------------------------------------------------------------------------

    def replay(self, record: MetadataRecord, offset: int) -> None:
        """Adds one decoded record that stands at `offset`."""
        assert self._result is None, f"{record} replayed on a difference"
        kind = type(record)
        if self._transaction is not None and kind not in _TRANSACTION_ENDS:
            self._transaction.append((record, offset))
            return
        if kind in _TOPIC_REPLAYERS:
            _TOPIC_REPLAYERS[kind](self._topics, record)
        elif isinstance(record, records.RegisterBrokerRecord):
            self._cluster.on_register_broker(record, offset)
        elif kind in _CLUSTER_REPLAYERS:
            _CLUSTER_REPLAYERS[kind](self._cluster, record)
        elif kind in _REPLAYERS:
            _REPLAYERS[kind](self, record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """The image with everything replayed so far; `offset` is the last one contained."""
        if self._result is not None:
            assert (offset, epoch) == (self._result.offset, self._result.epoch), f"{offset} {epoch}"
            return self._result
        image = self.image
        assert offset >= image.offset, f"offset {offset} is before the image's {image.offset}"
        by_name, by_id = self._topics.apply()
        transaction = None if self._transaction is None else tuple(self._transaction)
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            topics_by_name=by_name,
            topics_by_id=by_id,
            brokers=self._cluster.brokers,
            controllers=self._cluster.controllers,
            configs=self._apply_configs(),
            features=image.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
            open_transaction=transaction,
            acls=image.acls if self._acls is None else self._acls,
            quotas=image.quotas if self._quotas is None else self._quotas,
            kept_records=image.kept_records if self._kept is None else self._kept,
            deleted_topics=image.deleted_topics + len(self._topics.deleted),
        )

    def _apply_configs(self) -> Any:
        if not self._configs:
            return self.image.configs
        configs = dict(self.image.configs)
        for resource, values in self._configs.items():
            if values:
                configs[resource] = values
            else:
                configs.pop(resource, None)
        return configs

    # Topics that take their configs with them, configs, features, producer ids ---------------

    def _on_remove_topic(self, record: records.RemoveTopicRecord) -> None:
        resource = ConfigResource(TOPIC_RESOURCE, self._topics.on_remove_topic(record))
        if resource in self._configs or resource in self.image.configs:
            self._configs[resource] = {}

    def _on_config(self, record: records.ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self.image.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _on_feature_level(self, record: records.FeatureLevelRecord) -> None:
        features = dict(self.image.features if self._features is None else self._features)
        if record.feature_level:
            features[record.name] = record.feature_level
        else:
            features.pop(record.name, None)
        self._features = features

    def _on_producer_ids(self, record: records.ProducerIdsRecord) -> None:
        assert record.next_producer_id >= self._next_producer_id, (
            f"next producer id {record.next_producer_id} is below {self._next_producer_id}"
        )
        self._next_producer_id = record.next_producer_id

    # Access control entries ------------------------------------------------------------------

    def _on_acl(self, record: records.AccessControlEntryRecord) -> None:
        self._own_acls()[record.id] = record

    def _on_acl_removed(self, record: records.RemoveAccessControlEntryRecord) -> None:
        self._own_acls().pop(record.id, None)

    def _own_acls(self) -> dict[Uuid, records.AccessControlEntryRecord]:
        if self._acls is None:
            self._acls = dict(self.image.acls)
        return self._acls

    # Quotas ----------------------------------------------------------------------------------

    def _on_quota(self, record: records.ClientQuotaRecord) -> None:
        if self._quotas is None:
            self._quotas = dict(self.image.quotas)
        subject = subject_of((part.entity_type, part.entity_name) for part in record.entity)
        values = dict(self._quotas.get(subject, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas[subject] = values
        else:
            self._quotas.pop(subject, None)

    # Records that are only kept --------------------------------------------------------------

    def _on_kept(self, record: Any) -> None:
        """One is kept under its identity, the number of its kind and what names one of that kind,
        until one with the same identity replaces or removes it."""
        if self._kept is None:
            self._kept = dict(self.image.kept_records)
        kind = _REMOVED.get(type(record), type(record))
        removes = type(record) in _REMOVED
        identity = (kind.__record_id__, *(getattr(record, name) for name in _KEPT[kind]))
        if removes:
            self._kept.pop(identity, None)
        else:
            self._kept[identity] = record

    # Metadata transactions -----------------------------------------------------------------

    def _on_begin_transaction(self, _record: records.BeginTransactionRecord) -> None:
        self._transaction = []

    def _on_end_transaction(self, _record: records.EndTransactionRecord) -> None:
        hidden, self._transaction = self._transaction, None
        assert hidden is not None, "no metadata transaction is open"
        for record, offset in hidden:
            self.replay(record, offset)

    def _on_abort_transaction(self, _record: records.AbortTransactionRecord) -> None:
        assert self._transaction is not None, "no metadata transaction is open"
        self._transaction = None


_TRANSACTION_ENDS: Final = (records.EndTransactionRecord, records.AbortTransactionRecord)

_KEPT: Final[dict[type, tuple[str, ...]]] = {
    records.UserScramCredentialRecord: ("name", "mechanism"),
    records.DelegationTokenRecord: ("token_id",),
}
"""What names one of these kinds (KIP-900, KIP-48)."""
_REMOVED: Final[dict[type, type[MetadataRecord]]] = {
    records.RemoveUserScramCredentialRecord: records.UserScramCredentialRecord,
    records.RemoveDelegationTokenRecord: records.DelegationTokenRecord,
}

# Kinds that are in no table change nothing that the image holds.
_REPLAYERS: Final[dict[type, Callable[[MetadataDelta, Any], None]]] = {
    records.RemoveTopicRecord: MetadataDelta._on_remove_topic,
    records.ConfigRecord: MetadataDelta._on_config,
    records.FeatureLevelRecord: MetadataDelta._on_feature_level,
    records.ProducerIdsRecord: MetadataDelta._on_producer_ids,
    records.AccessControlEntryRecord: MetadataDelta._on_acl,
    records.RemoveAccessControlEntryRecord: MetadataDelta._on_acl_removed,
    records.ClientQuotaRecord: MetadataDelta._on_quota,
    records.BeginTransactionRecord: MetadataDelta._on_begin_transaction,
    records.EndTransactionRecord: MetadataDelta._on_end_transaction,
    records.AbortTransactionRecord: MetadataDelta._on_abort_transaction,
    **dict.fromkeys((*_KEPT, *_REMOVED), MetadataDelta._on_kept),
}

_TOPIC_REPLAYERS: Final[dict[type, Callable[[TopicsDelta, Any], None]]] = {
    records.TopicRecord: TopicsDelta.on_topic,
    records.PartitionRecord: TopicsDelta.on_partition,
    records.PartitionChangeRecord: TopicsDelta.on_partition_change,
    records.ClearElrRecord: TopicsDelta.on_clear_elr,
}

_CLUSTER_REPLAYERS: Final[dict[type, Callable[[ClusterDelta, Any], None]]] = {
    records.UnregisterBrokerRecord: ClusterDelta.on_unregister_broker,
    records.BrokerRegistrationChangeRecord: ClusterDelta.on_broker_change,
    records.FenceBrokerRecord: ClusterDelta.on_old_fencing,
    records.UnfenceBrokerRecord: ClusterDelta.on_old_fencing,
    records.RegisterControllerRecord: ClusterDelta.on_register_controller,
    records.UnregisterControllerRecord: ClusterDelta.on_unregister_controller,
}
