"""Domain values into metadata records: the one place of the controller that names record fields.

Deciders speak of partitions, brokers and configs; what a record calls them, and how it says
"unchanged", is settled here.
"""

from tidelog.controller.elections import PartitionChange
from tidelog.controller.messages import RegisterBroker, RegisterController
from tidelog.metadata.image import BrokerImage, ConfigResource, PartitionImage
from tidelog.metadata.records import (
    FENCE,
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERING,
    RECOVERY_UNCHANGED,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndpointEntry,
    FeatureEntry,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tidelog.model import TopicId, Uuid


def topic_record(name: str, topic_id: TopicId) -> TopicRecord:
    """A topic exists."""
    return TopicRecord(name=name, topic_id=topic_id)


def remove_topic_record(topic_id: TopicId) -> RemoveTopicRecord:
    """A topic and its partitions are gone; its configs go with it."""
    return RemoveTopicRecord(topic_id=topic_id)


def partition_record(topic_id: TopicId, number: int, partition: PartitionImage) -> PartitionRecord:
    """A new partition, whole."""
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
    )


def partition_change_record(
    topic_id: TopicId,
    number: int,
    change: PartitionChange,
    directories: tuple[Uuid, ...] | None = None,
) -> PartitionChangeRecord:
    """What a decision changes about a partition; new replicas come with their directories."""
    recovery = RECOVERY_UNCHANGED
    if change.recovering is not None:
        recovery = RECOVERING if change.recovering else RECOVERED
    return PartitionChangeRecord(
        partition_id=number,
        topic_id=topic_id,
        isr=change.isr,
        leader=LEADER_UNCHANGED if change.leader is None else change.leader,
        leader_recovery_state=recovery,
        eligible_leader_replicas=change.eligible_leaders,
        last_known_elr=change.last_known_eligible_leaders,
        replicas=None if change.assignment is None else change.assignment.replicas,
        adding_replicas=None if change.assignment is None else change.assignment.adding,
        removing_replicas=None if change.assignment is None else change.assignment.removing,
        directories=directories,
    )


def is_unclean_election(record: MetadataRecord) -> bool:
    """Whether the record makes a replica leader that may lack committed records."""
    return isinstance(record, PartitionChangeRecord) and record.leader_recovery_state == RECOVERING


def config_record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    """A config is set, or with `None` removed."""
    return ConfigRecord(
        resource_type=resource.resource_type, resource_name=resource.name, name=name, value=value
    )


def clear_elr_record(topic: str) -> ClearElrRecord:
    """The ELRs of a topic, or with `""` of all topics, are forgotten."""
    return ClearElrRecord(topic_name=topic)


def fence_record(broker: BrokerImage) -> BrokerRegistrationChangeRecord:
    """The broker is fenced."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id, broker_epoch=broker.broker_epoch, fenced=FENCE
    )


def unfence_record(broker: BrokerImage) -> BrokerRegistrationChangeRecord:
    """The broker is unfenced."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id, broker_epoch=broker.broker_epoch, fenced=UNFENCE
    )


def controlled_shutdown_record(broker: BrokerImage) -> BrokerRegistrationChangeRecord:
    """The broker is leaving."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=1
    )


def _endpoint_entries(request: RegisterBroker | RegisterController) -> tuple[EndpointEntry, ...]:
    return tuple(
        EndpointEntry(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in request.endpoints
    )


def _feature_entries(request: RegisterBroker | RegisterController) -> tuple[FeatureEntry, ...]:
    return tuple(
        FeatureEntry(
            name=name,
            min_supported_version=levels.min_level,
            max_supported_version=levels.max_level,
        )
        for name, levels in request.features.items()
    )


def register_broker_record(
    request: RegisterBroker, broker_epoch: int, kept: BrokerImage | None
) -> RegisterBrokerRecord:
    """A registration: fenced, unless the same incarnation (`kept`) amends its own."""
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=_endpoint_entries(request),
        features=_feature_entries(request),
        rack=request.rack,
        fenced=kept is None or kept.fenced,
        in_controlled_shutdown=kept is not None and kept.in_controlled_shutdown,
        log_dirs=request.log_dirs,
    )


def unregister_broker_record(broker: BrokerImage) -> UnregisterBrokerRecord:
    """The broker is forgotten."""
    return UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.broker_epoch)


def register_controller_record(request: RegisterController) -> RegisterControllerRecord:
    """A controller process is known."""
    return RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=_endpoint_entries(request),
        features=_feature_entries(request),
    )


def producer_ids_record(broker: BrokerImage, next_producer_id: int) -> ProducerIdsRecord:
    """Everything below `next_producer_id` belongs to some broker now."""
    return ProducerIdsRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.broker_epoch,
        next_producer_id=next_producer_id,
    )
