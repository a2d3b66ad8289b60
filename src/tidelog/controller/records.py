"""Decisions as metadata records, where more is to say than which field is which.

How a record says "unchanged", and what a registration keeps, is settled here. Deciders write short
records themselves; those of a whole partition are in `metadata/image_records.py`.
"""

from tidelog.controller.elections import PartitionChange
from tidelog.controller.messages import RegisterBroker
from tidelog.metadata import records
from tidelog.metadata.image import BrokerImage, ConfigResource
from tidelog.metadata.image_records import endpoint_entries, feature_entries
from tidelog.model import TopicId, Uuid


def partition_change_record(
    topic_id: TopicId,
    number: int,
    change: PartitionChange,
    directories: tuple[Uuid, ...] | None = None,
) -> records.PartitionChangeRecord:
    """What a decision changes about a partition; new replicas come with their directories."""
    recovery = records.RECOVERY_UNCHANGED
    if change.recovering is not None:
        recovery = records.RECOVERING if change.recovering else records.RECOVERED
    return records.PartitionChangeRecord(
        partition_id=number,
        topic_id=topic_id,
        isr=change.isr,
        leader=records.LEADER_UNCHANGED if change.leader is None else change.leader,
        leader_recovery_state=recovery,
        eligible_leader_replicas=change.eligible_leaders,
        last_known_elr=change.last_known_eligible_leaders,
        replicas=None if change.assignment is None else change.assignment.replicas,
        adding_replicas=None if change.assignment is None else change.assignment.adding,
        removing_replicas=None if change.assignment is None else change.assignment.removing,
        directories=directories,
    )


def is_unclean_election(record: records.MetadataRecord) -> bool:
    """Whether the record makes a replica leader that may lack committed records."""
    return (
        isinstance(record, records.PartitionChangeRecord)
        and record.leader_recovery_state == records.RECOVERING
    )


def config_record(resource: ConfigResource, name: str, value: str | None) -> records.ConfigRecord:
    """A config is set, or with `None` removed."""
    return records.ConfigRecord(
        resource_type=resource.resource_type, resource_name=resource.name, name=name, value=value
    )


def broker_change_record(
    broker: BrokerImage,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: tuple[Uuid, ...] = (),
) -> records.BrokerRegistrationChangeRecord:
    """The broker is fenced (`FENCE`), unfenced (`UNFENCE`), leaving (1), or has only these log
    directories, where there are any."""
    return records.BrokerRegistrationChangeRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=log_dirs,
    )


def register_broker_record(
    request: RegisterBroker, broker_epoch: int, kept: BrokerImage | None
) -> records.RegisterBrokerRecord:
    """A registration: fenced, unless the same incarnation (`kept`) amends its own."""
    return records.RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=endpoint_entries(request.endpoints),
        features=feature_entries(request.features.items()),
        rack=request.rack,
        fenced=kept is None or kept.fenced,
        in_controlled_shutdown=kept is not None and kept.in_controlled_shutdown,
        log_dirs=request.log_dirs,
    )
