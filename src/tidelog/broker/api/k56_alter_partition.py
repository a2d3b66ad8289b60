"""AlterPartition (56), versions 2-3 (sent at 3): a leader asks for another ISR.

Version 2 names members without their broker epochs, which then go unchecked (-1).
"""

from typing import Final

from tidelog.broker.api.answers import refused_at_top, reply
from tidelog.broker.api.declaration import CONTROLLERS, ControllerApi, Sending, VersionRange
from tidelog.controller.messages import (
    AlterPartition,
    AlterPartitionResult,
    IsrMember,
    IsrProposal,
    IsrResult,
)
from tidelog.model import TopicId
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import bytes_of, error, error_of, uuid_of


def message_of(request: Entity) -> AlterPartition:
    """The controller's message."""
    return AlterPartition(
        request.broker_id,
        request.broker_epoch,
        tuple(
            IsrProposal(
                TopicId(bytes_of(topic.topic_id)),
                partition.partition_index,
                partition.leader_epoch,
                partition.partition_epoch,
                _members(partition),
                bool(partition.leader_recovery_state),
            )
            for topic in request.topics
            for partition in topic.partitions
        ),
    )


def _members(partition: Entity) -> tuple[IsrMember, ...]:
    members = field(partition, "new_isr_with_epochs", None)
    if members is not None:
        return tuple(IsrMember(item.broker_id, item.broker_epoch) for item in members)
    return tuple(IsrMember(broker_id, -1) for broker_id in partition.new_isr)


def entity_of(
    node: object, response_type: type, request: Entity, result: AlterPartitionResult
) -> Entity:
    """The reply, grouped by topic in the order of the proposals."""
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    by_topic: dict[TopicId, list[Entity]] = {}
    for each in result.results:
        by_topic.setdefault(each.topic_id, []).append(
            make(
                partition_type,
                partition_index=each.partition,
                error_code=error(each.error_code),
                leader_id=each.leader_id,
                leader_epoch=each.leader_epoch,
                isr=tuple(each.isr),
                leader_recovery_state=int(each.recovering),
                partition_epoch=each.partition_epoch,
            )
        )
    return reply(
        response_type,
        topics=tuple(
            make(topic_type, topic_id=uuid_of(topic_id), partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        ),
    )


def request_of(request_type: type, message: AlterPartition) -> Entity:
    """The wire request."""
    topic_type = nested(request_type, "topics")
    partition_type = nested(topic_type, "partitions")
    member_type = nested(partition_type, "new_isr_with_epochs")
    by_topic: dict[TopicId, list[Entity]] = {}
    for proposal in message.proposals:
        members = tuple(
            make(member_type, broker_id=member.broker_id, broker_epoch=member.broker_epoch)
            for member in proposal.new_isr
        )
        by_topic.setdefault(proposal.topic_id, []).append(
            make(
                partition_type,
                partition_index=proposal.partition,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=members,
                leader_recovery_state=int(proposal.recovering),
                partition_epoch=proposal.partition_epoch,
            )
        )
    return make(
        request_type,
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        topics=tuple(
            make(topic_type, topic_id=uuid_of(topic_id), partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        ),
    )


def result_of(entity: Entity) -> AlterPartitionResult:
    """The result of every proposal."""
    return AlterPartitionResult(
        tuple(
            IsrResult(
                TopicId(bytes_of(topic.topic_id)),
                partition.partition_index,
                error_of(partition.error_code),
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.isr),
                bool(partition.leader_recovery_state),
                partition.partition_epoch,
            )
            for topic in entity.topics
            for partition in topic.partitions
        )
    )


API: Final = ControllerApi(
    key=ApiKey.ALTER_PARTITION,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(2, 3),
    sent_version=3,
    requires=CLUSTER_ACTION,
    message=AlterPartition,
    result=AlterPartitionResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refused_at_top(topics=()),
    sending=Sending(request_of=request_of, result_of=result_of),
)
