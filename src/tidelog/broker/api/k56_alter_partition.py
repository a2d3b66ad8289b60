"""AlterPartition (56), versions 2-3 (sent at 3): a leader asks for another ISR.

Version 2 names members without their broker epochs, which then go unchecked (-1).
"""

from typing import TYPE_CHECKING, Final

from tidelog.broker.api.refusals import code_of
from tidelog.controller.messages import (
    AlterPartition,
    AlterPartitionResult,
    IsrMember,
    IsrProposal,
    IsrResult,
    Refused,
    Response,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.wire import codec
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

VERSION: Final = 3


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
    if hasattr(partition, "new_isr_with_epochs"):
        return tuple(
            IsrMember(item.broker_id, item.broker_epoch) for item in partition.new_isr_with_epochs
        )
    return tuple(IsrMember(broker_id, -1) for broker_id in partition.new_isr)


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply, grouped by topic in the order of the proposals."""
    response_type = codec.response_class(56, version)
    topic_type = nested(response_type, "topics")
    partition_type = nested(topic_type, "partitions")
    by_topic: dict[TopicId, list[Entity]] = {}
    results = response.results if isinstance(response, AlterPartitionResult) else ()
    for result in results:
        by_topic.setdefault(result.topic_id, []).append(
            make(
                partition_type,
                partition_index=result.partition,
                error_code=error(result.error_code),
                leader_id=result.leader_id,
                leader_epoch=result.leader_epoch,
                isr=tuple(result.isr),
                leader_recovery_state=int(result.recovering),
                partition_epoch=result.partition_epoch,
            )
        )
    return make(
        response_type,
        throttle_time=millis(0),
        error_code=error(code_of(response)),
        topics=tuple(
            make(topic_type, topic_id=uuid_of(topic_id), partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        ),
    )


def request_of(message: AlterPartition) -> Entity:
    """The wire request."""
    request_type = codec.request_class(56, VERSION)
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


def response_of(message: AlterPartition, entity: Entity) -> Response:
    """The controller's answer."""
    code = error_of(entity.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, code.name)
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
