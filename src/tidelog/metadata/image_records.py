"""An image as records: the inverse of folding the log, for snapshots.

Replaying the records of `image_records(image)` on the empty image gives `image` again
(*SnapshotIsImage*). The order is Kafka's, so that each record finds what it speaks of: features
first (`metadata.version` before all), then nodes, topics with their partitions, configs, producer
ids, access control entries, and last what no component reads yet. Within a kind the order is that
of names and numbers: equal images give equal bytes on every node.

Records come one by one from a generator: an image never changes, so it can be written as slowly as
its node likes.

An image inside of a metadata transaction has no snapshot: half of it does not count yet.

Source: KIP-630, KIP-631; Kafka's `MetadataImage.write`.
"""

from collections.abc import Iterable, Iterator

from tidelog.metadata import records
from tidelog.metadata.image import (
    METADATA_VERSION,
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from tidelog.metadata.quotas import quota_record
from tidelog.metadata.records import MetadataRecord
from tidelog.model import Endpoint, TopicId

_NO_BROKER = -1


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """The records that make this image out of nothing."""
    assert image.open_transaction is None, "a snapshot inside of a metadata transaction"
    yield from _features(image)
    for broker_id in sorted(image.brokers):
        yield _broker(image.brokers[broker_id])
    for controller_id in sorted(image.controllers):
        yield _controller(image.controllers[controller_id])
    for name in sorted(image.topics_by_name):
        yield from _topic(image.topics_by_name[name])
    for resource in sorted(image.configs):
        for name in sorted(image.configs[resource]):
            yield records.ConfigRecord(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                name=name,
                value=image.configs[resource][name],
            )
    if image.next_producer_id > 0:
        yield records.ProducerIdsRecord(
            broker_id=_NO_BROKER, broker_epoch=_NO_BROKER, next_producer_id=image.next_producer_id
        )
    for acl_id in sorted(image.acls):
        yield image.acls[acl_id]
    for subject in sorted(image.quotas, key=repr):
        for key, value in sorted(image.quotas[subject].items()):
            yield quota_record(subject, key, value)
    for identity in sorted(image.kept_records, key=repr):
        yield image.kept_records[identity]


def _features(image: MetadataImage) -> Iterator[MetadataRecord]:
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield records.FeatureLevelRecord(name=name, feature_level=image.features[name])


def _broker(broker: BrokerImage) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=endpoint_entries(broker.endpoints),
        features=feature_entries(sorted(broker.features.items())),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs or None,
    )


def _controller(controller: ControllerImage) -> records.RegisterControllerRecord:
    return records.RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        end_points=endpoint_entries(controller.endpoints),
        features=feature_entries(sorted(controller.features.items())),
    )


def _topic(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield records.TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for number in sorted(topic.partitions):
        yield partition_record(topic.topic_id, number, topic.partitions[number])


# Forms that the controller writes too ------------------------------------------------------


def partition_record(
    topic_id: TopicId, number: int, partition: PartitionImage
) -> records.PartitionRecord:
    """A partition, whole."""
    return records.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=records.RECOVERING if partition.recovering else records.RECOVERED,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible_leaders or None,
        last_known_elr=partition.last_known_eligible_leaders or None,
    )


def endpoint_entries(endpoints: tuple[Endpoint, ...]) -> tuple[records.EndpointEntry, ...]:
    """The listeners of a node."""
    return tuple(
        records.EndpointEntry(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints
    )


def feature_entries(
    features: Iterable[tuple[str, tuple[int, int]]],
) -> tuple[records.FeatureEntry, ...]:
    """The levels that a node supports, in the order given."""
    return tuple(
        records.FeatureEntry(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features
    )
