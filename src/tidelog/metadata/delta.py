"""From one metadata image to the next: records replayed on top of an image.

A delta is used once: made from an image, fed with decoded records in log order, then asked for
the next image. It copies a dictionary the first time a record touches it; topics, partitions and
brokers that no record names are shared between the images. Beside the image it tells what
changed, so that replicas, caches and coordinators look at nothing else.

A metadata transaction (KIP-868) hides its records until it ends: they are carried by the image as
`open_transaction` and replayed, with their own offsets, by the end record; an abort forgets them.

Replaying never fails for a log that a controller wrote. What cannot be, such as a change of an
unknown partition, is a bug of the writer and an assertion here.

Source: KIP-631, KIP-868; Kafka's metadata deltas.
"""

from collections.abc import Callable, KeysView
from dataclasses import replace
from typing import Any, Final, TypeVar

from tidelog.metadata.image import (
    TOPIC_RESOURCE,
    BrokerImage,
    ConfigResource,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.metadata.records import (
    FENCE,
    LEADER_UNCHANGED,
    RECOVERING,
    RECOVERY_UNCHANGED,
    UNFENCE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndpointEntry,
    EndTransactionRecord,
    FeatureEntry,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)
from tidelog.model import Endpoint, TopicId

_Item = TypeVar("_Item")


def merge_partition(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition after a change record: one partition epoch on, and with a leader field, even
    an unchanged one, one leader epoch on."""
    elected = record.leader != LEADER_UNCHANGED
    recovering = partition.recovering
    if record.leader_recovery_state != RECOVERY_UNCHANGED:
        recovering = record.leader_recovery_state == RECOVERING
    return PartitionImage(
        replicas=_or(record.replicas, partition.replicas),
        isr=_or(record.isr, partition.isr),
        leader=record.leader if elected else partition.leader,
        leader_epoch=partition.leader_epoch + elected,
        partition_epoch=partition.partition_epoch + 1,
        eligible_leaders=_or(record.eligible_leader_replicas, partition.eligible_leaders),
        last_known_eligible_leaders=_or(
            record.last_known_elr, partition.last_known_eligible_leaders
        ),
        removing_replicas=_or(record.removing_replicas, partition.removing_replicas),
        adding_replicas=_or(record.adding_replicas, partition.adding_replicas),
        recovering=recovering,
        directories=_or(record.directories, partition.directories),
    )


def _or(written: tuple[_Item, ...] | None, old: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return old if written is None else written


class MetadataDelta:
    """Collects records on top of `image`; `apply` yields the next image."""

    def __init__(self, image: MetadataImage) -> None:
        # The image below; never changed.
        self.image = image
        # Topics of `image` that are gone, in the order of their removal.
        self.deleted_topics: list[TopicImage] = []
        # Topic ids with a created or changed partition (or just created) to their partitions,
        # complete, and ours to change.
        self._partitions: dict[TopicId, dict[int, PartitionImage]] = {}
        # Names of topics that are not in `image`, and the other way round.
        self._created: dict[TopicId, str] = {}
        self._created_ids: dict[str, TopicId] = {}
        # Own copies of the image's dictionaries, made by the first change.
        self._brokers: dict[int, BrokerImage] | None = None
        self._controllers: dict[int, ControllerImage] | None = None
        self._features: dict[str, int] | None = None
        # Resources with a changed config to their configs, complete; may be empty.
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        # See `MetadataImage.kept_records`; an own copy made by the first change.
        self._kept: dict[tuple[object, ...], MetadataRecord] | None = None
        # The image that `apply` yields whatever was replayed, for a delta made by `between`.
        self._result: MetadataImage | None = None
        # Brokers registered, changed or unregistered, in the order of the first change.
        self._changed_brokers: dict[int, None] = {}
        # See `MetadataImage.next_producer_id`.
        self._next_producer_id = image.next_producer_id
        # Records of the open metadata transaction; `None` outside of one.
        self._transaction: list[tuple[MetadataRecord, int]] | None = (
            None if image.open_transaction is None else list(image.open_transaction)
        )

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> "MetadataDelta":
        """The delta that leads from one image to another of the same log: what a snapshot says
        beside what was known. It is not replayed upon, only applied and asked what changed."""
        delta = cls(before)
        delta._result = after
        for topic_id, topic in before.topics_by_id.items():
            if topic_id not in after.topics_by_id:
                delta.deleted_topics.append(topic)
        for topic_id, topic in after.topics_by_id.items():
            if before.topics_by_id.get(topic_id) != topic:
                delta._partitions[topic_id] = dict(topic.partitions)
        for broker_id in sorted({*before.brokers, *after.brokers}):
            if before.brokers.get(broker_id) != after.brokers.get(broker_id):
                delta._changed_brokers[broker_id] = None
        for resource in sorted({*before.configs, *after.configs}):
            values = after.configs.get(resource, {})
            if before.configs.get(resource, {}) != values:
                delta._configs[resource] = dict(values)
        if before.features != after.features:
            delta._features = dict(after.features)
        return delta

    # What changed --------------------------------------------------------------------------

    @property
    def changed_topic_ids(self) -> KeysView[TopicId]:
        """Topics created or with a changed partition, and still there; ordered."""
        return self._partitions.keys()

    @property
    def changed_brokers(self) -> KeysView[int]:
        """Brokers registered, changed or unregistered; ordered."""
        return self._changed_brokers.keys()

    @property
    def changed_configs(self) -> KeysView[ConfigResource]:
        """Resources with a config set or removed; ordered."""
        return self._configs.keys()

    @property
    def features_changed(self) -> bool:
        """Whether a feature level was written."""
        return self._features is not None

    # In and out ----------------------------------------------------------------------------

    def replay(self, record: MetadataRecord, offset: int) -> None:
        """Adds one decoded record that stands at `offset`."""
        assert self._result is None, f"{record} replayed on a difference"
        kind = type(record)
        if self._transaction is not None and kind not in _TRANSACTION_ENDS:
            self._transaction.append((record, offset))
            return
        replayer = _REPLAYERS.get(kind)
        if replayer is not None:
            replayer(self, record, offset)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """The image with everything replayed so far; `offset` is the last one contained."""
        if self._result is not None:
            assert (offset, epoch) == (self._result.offset, self._result.epoch), f"{offset} {epoch}"
            return self._result
        image = self.image
        assert offset >= image.offset, f"offset {offset} is before the image's {image.offset}"
        by_name, by_id = self._apply_topics()
        transaction = None if self._transaction is None else tuple(self._transaction)
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            topics_by_name=by_name,
            topics_by_id=by_id,
            brokers=image.brokers if self._brokers is None else self._brokers,
            controllers=image.controllers if self._controllers is None else self._controllers,
            configs=self._apply_configs(),
            features=image.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
            open_transaction=transaction,
            kept_records=image.kept_records if self._kept is None else self._kept,
        )

    def _apply_topics(self) -> tuple[Any, Any]:
        image = self.image
        if not self._partitions and not self.deleted_topics:
            return image.topics_by_name, image.topics_by_id
        by_name, by_id = dict(image.topics_by_name), dict(image.topics_by_id)
        for topic in self.deleted_topics:
            del by_name[topic.name], by_id[topic.topic_id]
        for topic_id, partitions in self._partitions.items():
            name = self._created.get(topic_id)
            if name is None:
                name = image.topics_by_id[topic_id].name
            by_name[name] = by_id[topic_id] = TopicImage(name, topic_id, partitions)
        return by_name, by_id

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

    # Topics --------------------------------------------------------------------------------

    def _on_topic(self, record: TopicRecord, _offset: int) -> None:
        assert self._topic_id(record.name) is None, f"topic `{record.name}` exists already"
        self._created[record.topic_id] = record.name
        self._created_ids[record.name] = record.topic_id
        self._partitions[record.topic_id] = {}

    def _on_partition(self, record: PartitionRecord, _offset: int) -> None:
        self._partitions_of(record.topic_id)[record.partition_id] = PartitionImage(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            eligible_leaders=record.eligible_leader_replicas or (),
            last_known_eligible_leaders=record.last_known_elr or (),
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            recovering=record.leader_recovery_state == RECOVERING,
            directories=record.directories,
        )

    def _on_partition_change(self, record: PartitionChangeRecord, _offset: int) -> None:
        partitions = self._partitions_of(record.topic_id)
        partition = partitions.get(record.partition_id)
        assert partition is not None, f"no partition {record.partition_id} for {record}"
        partitions[record.partition_id] = merge_partition(partition, record)

    def _on_remove_topic(self, record: RemoveTopicRecord, _offset: int) -> None:
        topic_id = record.topic_id
        self._partitions.pop(topic_id, None)
        name = self._created.pop(topic_id, None)
        if name is None:
            topic = self.image.topics_by_id.get(topic_id)
            assert topic is not None, f"no topic {topic_id.hex()} to remove"
            self.deleted_topics.append(topic)
            name = topic.name
        else:
            del self._created_ids[name]
        resource = ConfigResource(TOPIC_RESOURCE, name)
        if resource in self._configs or resource in self.image.configs:
            self._configs[resource] = {}

    def _on_clear_elr(self, record: ClearElrRecord, _offset: int) -> None:
        if record.topic_name:
            topic_id = self._topic_id(record.topic_name)
            assert topic_id is not None, f"no topic `{record.topic_name}` to clear the ELR of"
            self._clear_elr(topic_id)
            return
        gone = {topic.topic_id for topic in self.deleted_topics}
        for topic_id in (*self.image.topics_by_id, *self._created):
            if topic_id not in gone:
                self._clear_elr(topic_id)

    def _clear_elr(self, topic_id: TopicId) -> None:
        held = self._partitions.get(topic_id)
        partitions = self.image.topics_by_id[topic_id].partitions if held is None else held
        for number, partition in list(partitions.items()):
            if partition.eligible_leaders or partition.last_known_eligible_leaders:
                # Kafka counts this as a change of the partition.
                self._partitions_of(topic_id)[number] = replace(
                    partition,
                    partition_epoch=partition.partition_epoch + 1,
                    eligible_leaders=(),
                    last_known_eligible_leaders=(),
                )

    def _topic_id(self, name: str) -> TopicId | None:
        """The topic that has this name after what was replayed."""
        if name in self._created_ids:
            return self._created_ids[name]
        topic = self.image.topics_by_name.get(name)
        gone = topic is None or any(deleted is topic for deleted in self.deleted_topics)
        return None if topic is None or gone else topic.topic_id

    def _partitions_of(self, topic_id: TopicId) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = self.image.topics_by_id.get(topic_id)
            assert topic is not None, f"no topic {topic_id.hex()}"
            partitions = self._partitions[topic_id] = dict(topic.partitions)
        return partitions

    # Brokers and controllers ---------------------------------------------------------------

    def _on_register_broker(self, record: RegisterBrokerRecord, offset: int) -> None:
        self._change_broker(
            BrokerImage(
                node_id=record.broker_id,
                broker_epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record.end_points),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                features=_features(record.features),
                log_dirs=record.log_dirs,
                registration_offset=offset,
                cordoned_log_dirs=record.cordoned_log_dirs or (),
            )
        )

    def _on_unregister_broker(self, record: UnregisterBrokerRecord, _offset: int) -> None:
        self._registered(record.broker_id, record.broker_epoch)
        assert self._brokers is not None, "copied by the look-up"
        del self._brokers[record.broker_id]
        self._changed_brokers[record.broker_id] = None

    def _on_broker_change(self, record: BrokerRegistrationChangeRecord, _offset: int) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        self._change_broker(
            replace(
                broker,
                fenced={FENCE: True, UNFENCE: False}.get(record.fenced, broker.fenced),
                in_controlled_shutdown=(
                    broker.in_controlled_shutdown or record.in_controlled_shutdown == 1
                ),
                log_dirs=record.log_dirs or broker.log_dirs,
                cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else cordoned,
            )
        )

    def _on_fence_broker(self, record: FenceBrokerRecord, _offset: int) -> None:
        self._change_broker(replace(self._registered(record.id, record.epoch), fenced=True))

    def _on_unfence_broker(self, record: UnfenceBrokerRecord, _offset: int) -> None:
        self._change_broker(replace(self._registered(record.id, record.epoch), fenced=False))

    def _registered(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        if self._brokers is None:
            self._brokers = dict(self.image.brokers)
        broker = self._brokers.get(broker_id)
        assert broker is not None, f"broker {broker_id} is not registered"
        assert broker.broker_epoch == broker_epoch, (
            f"broker {broker_id} is registered with epoch {broker.broker_epoch}, not {broker_epoch}"
        )
        return broker

    def _change_broker(self, broker: BrokerImage) -> None:
        if self._brokers is None:
            self._brokers = dict(self.image.brokers)
        self._brokers[broker.node_id] = broker
        self._changed_brokers[broker.node_id] = None

    def _on_register_controller(self, record: RegisterControllerRecord, _offset: int) -> None:
        controllers = dict(
            self.image.controllers if self._controllers is None else self._controllers
        )
        controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            _endpoints(record.end_points),
            _features(record.features),
        )
        self._controllers = controllers

    def _on_unregister_controller(self, record: UnregisterControllerRecord, _offset: int) -> None:
        controllers = dict(
            self.image.controllers if self._controllers is None else self._controllers
        )
        controllers.pop(record.controller_id, None)
        self._controllers = controllers

    # Configs, features, producer ids -------------------------------------------------------

    def _on_config(self, record: ConfigRecord, _offset: int) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self.image.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _on_feature_level(self, record: FeatureLevelRecord, _offset: int) -> None:
        features = dict(self.image.features if self._features is None else self._features)
        if record.feature_level:
            features[record.name] = record.feature_level
        else:
            features.pop(record.name, None)
        self._features = features

    def _on_producer_ids(self, record: ProducerIdsRecord, _offset: int) -> None:
        assert record.next_producer_id >= self._next_producer_id, (
            f"next producer id {record.next_producer_id} is below {self._next_producer_id}"
        )
        self._next_producer_id = record.next_producer_id

    # Kept as they are ----------------------------------------------------------------------

    def _keep(self, identity: tuple[object, ...], record: MetadataRecord | None) -> None:
        if self._kept is None:
            self._kept = dict(self.image.kept_records)
        if record is None:
            self._kept.pop(identity, None)
        else:
            self._kept[identity] = record

    def _on_access_control_entry(self, record: AccessControlEntryRecord, _offset: int) -> None:
        self._keep((AccessControlEntryRecord.__record_id__, record.id), record)

    def _on_remove_access_control_entry(
        self, record: RemoveAccessControlEntryRecord, _offset: int
    ) -> None:
        self._keep((AccessControlEntryRecord.__record_id__, record.id), None)

    def _on_scram_credential(self, record: UserScramCredentialRecord, _offset: int) -> None:
        kind = UserScramCredentialRecord.__record_id__
        self._keep((kind, record.name, record.mechanism), record)

    def _on_remove_scram_credential(
        self, record: RemoveUserScramCredentialRecord, _offset: int
    ) -> None:
        kind = UserScramCredentialRecord.__record_id__
        self._keep((kind, record.name, record.mechanism), None)

    def _on_delegation_token(self, record: DelegationTokenRecord, _offset: int) -> None:
        self._keep((DelegationTokenRecord.__record_id__, record.token_id), record)

    def _on_remove_delegation_token(
        self, record: RemoveDelegationTokenRecord, _offset: int
    ) -> None:
        self._keep((DelegationTokenRecord.__record_id__, record.token_id), None)

    def _on_client_quota(self, record: ClientQuotaRecord, _offset: int) -> None:
        # Kafka compares entities as maps: the order of their parts says nothing.
        parts = sorted((part.entity_type, part.entity_name or "") for part in record.entity)
        nameless = sorted(part.entity_type for part in record.entity if part.entity_name is None)
        identity = (ClientQuotaRecord.__record_id__, *parts, *nameless, record.key)
        self._keep(identity, None if record.remove else record)

    # Metadata transactions -----------------------------------------------------------------

    def _on_begin_transaction(self, _record: BeginTransactionRecord, _offset: int) -> None:
        self._transaction = []

    def _on_end_transaction(self, _record: EndTransactionRecord, _offset: int) -> None:
        hidden, self._transaction = self._transaction, None
        assert hidden is not None, "no metadata transaction is open"
        for record, offset in hidden:
            self.replay(record, offset)

    def _on_abort_transaction(self, _record: AbortTransactionRecord, _offset: int) -> None:
        assert self._transaction is not None, "no metadata transaction is open"
        self._transaction = None


def _endpoints(entries: tuple[EndpointEntry, ...]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in entries)


def _features(entries: tuple[FeatureEntry, ...]) -> dict[str, tuple[int, int]]:
    return {e.name: (e.min_supported_version, e.max_supported_version) for e in entries}


_TRANSACTION_ENDS: Final = (EndTransactionRecord, AbortTransactionRecord)

# Kinds that are not here say nothing that the image holds.
_REPLAYERS: Final[dict[type, Callable[[MetadataDelta, Any, int], None]]] = {
    TopicRecord: MetadataDelta._on_topic,
    PartitionRecord: MetadataDelta._on_partition,
    PartitionChangeRecord: MetadataDelta._on_partition_change,
    RemoveTopicRecord: MetadataDelta._on_remove_topic,
    ClearElrRecord: MetadataDelta._on_clear_elr,
    RegisterBrokerRecord: MetadataDelta._on_register_broker,
    UnregisterBrokerRecord: MetadataDelta._on_unregister_broker,
    BrokerRegistrationChangeRecord: MetadataDelta._on_broker_change,
    FenceBrokerRecord: MetadataDelta._on_fence_broker,
    UnfenceBrokerRecord: MetadataDelta._on_unfence_broker,
    RegisterControllerRecord: MetadataDelta._on_register_controller,
    UnregisterControllerRecord: MetadataDelta._on_unregister_controller,
    ConfigRecord: MetadataDelta._on_config,
    FeatureLevelRecord: MetadataDelta._on_feature_level,
    ProducerIdsRecord: MetadataDelta._on_producer_ids,
    BeginTransactionRecord: MetadataDelta._on_begin_transaction,
    EndTransactionRecord: MetadataDelta._on_end_transaction,
    AbortTransactionRecord: MetadataDelta._on_abort_transaction,
    AccessControlEntryRecord: MetadataDelta._on_access_control_entry,
    RemoveAccessControlEntryRecord: MetadataDelta._on_remove_access_control_entry,
    UserScramCredentialRecord: MetadataDelta._on_scram_credential,
    RemoveUserScramCredentialRecord: MetadataDelta._on_remove_scram_credential,
    DelegationTokenRecord: MetadataDelta._on_delegation_token,
    RemoveDelegationTokenRecord: MetadataDelta._on_remove_delegation_token,
    ClientQuotaRecord: MetadataDelta._on_client_quota,
}
