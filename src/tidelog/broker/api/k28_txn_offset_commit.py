"""TxnOffsetCommit (28), versions 0-5: up to where a group has read, as part of a transaction.

The offsets wait in the group until the transaction ends (`groups/transactions.py`). Before the
first of a transaction, its coordinator is asked whether the group's partition of
`__consumer_offsets` belongs to it; version 5 is of clients that leave it to the broker to add it
(KIP-890). Refused here: partitions that the metadata does not have, with
UNKNOWN_TOPIC_OR_PARTITION, and a group without a name.
"""

from collections.abc import Container, Mapping
from typing import Final, Protocol

from tidelog.broker.api import transaction_errors
from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group, topics, transaction
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import (
    NO_GENERATION,
    NO_MEMBER,
    CommitInTransaction,
    CommitOffsets,
    CommitOffsetsResult,
    Response,
)
from tidelog.groups.records import CommittedOffset
from tidelog.model import NO_EPOCH, TopicPartition
from tidelog.replication.messages import TransactionalProducer
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field


class Node(HasGroups, HasImage, Protocol):
    """What TxnOffsetCommit needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the offsets of known topics to the coordinator of the group."""
    version, image = context.header.api_version, node.image
    offsets = tuple(
        (
            TopicPartition(topic.name, row.partition_index),
            CommittedOffset(
                row.committed_offset,
                field(row, "committed_leader_epoch", NO_EPOCH),
                row.committed_metadata or "",
                topic_id=image.topics_by_name[topic.name].topic_id,
            ),
        )
        for topic in request.topics
        for row in topic.partitions
        if image.exists(TopicPartition(topic.name, row.partition_index))
    )

    def answer(response: Response) -> None:
        context.answer(_response(context, request, dict(offsets), response))

    if not offsets or not request.group_id:
        answer(Refused(ErrorCode.INVALID_GROUP_ID))
        return
    commit = CommitOffsets(
        request.group_id,
        field(request, "generation_id", NO_GENERATION),
        field(request, "member_id", NO_MEMBER),
        field(request, "group_instance_id", None),
        offsets,
    )
    producer = TransactionalProducer(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        bumps_epoch=version >= transaction_errors.FIRST_COMMIT_THAT_ADDS,
    )
    asked = CommitInTransaction(
        commit.group_id, producer.producer_id, producer.producer_epoch, commit
    )
    node.groups.ask_in_transaction(asked, producer, GroupCall(answer), now)


def _response(
    context: RequestContext, request: Entity, known: Container[TopicPartition], response: Response
) -> Entity:
    codes: Mapping[TopicPartition, ErrorCode] = {}
    other = ErrorCode.NONE
    if isinstance(response, Refused):
        other = transaction_errors.of_commit(response.error_code, context.header.api_version)
        if other is ErrorCode.GROUP_ID_NOT_FOUND:
            other = ErrorCode.ILLEGAL_GENERATION
    else:
        assert isinstance(response, CommitOffsetsResult), f"{response}"
        codes = dict(response.partitions)

    def code_of(partition: TopicPartition) -> ErrorCode:
        if partition not in known:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return codes.get(partition, other)

    topics = [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": row.partition_index,
                    "error_code": code_of(TopicPartition(topic.name, row.partition_index)),
                }
                for row in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return reply(context.response_type, topics=topics)


API: Final = LocalApi(
    key=ApiKey.TXN_OFFSET_COMMIT,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(transaction(), group(Operation.READ), topics(Operation.READ)),
    handle=handle,
)
