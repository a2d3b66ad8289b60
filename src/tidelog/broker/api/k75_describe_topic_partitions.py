"""DescribeTopicPartitions (75), version 0: partitions with their eligible leaders (KIP-966).

Topics come in name order from the cursor on, at most `response_partition_limit` partitions
(never more than 2000) a response; when more remain, the response ends with the next cursor.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.named_brokers import OPERATIONS_NOT_ASKED
from tidelog.broker.api.needs import HasHeldQuestions, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.model import INTERNAL_TOPICS, NO_LEADER
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make, nested
from tidelog.wire.values import error, uuid_of

MAX_PARTITIONS: Final = 2000


class Node(HasHeldQuestions, HasImage, Protocol):
    """What DescribeTopicPartitions needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Holds the request until this broker has caught up; `answer` answers it."""
    node.held_questions.hold(context, lambda _: answer(node, context, request), now)


def answer(node: Node, context: RequestContext, request: Entity) -> None:
    """Answers one page."""
    response_type = context.response_type
    topic_type = nested(response_type, "topics")
    all_names = node.image.topics_by_name
    names = sorted({topic.name for topic in request.topics} or all_names)
    first_partition = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first_partition = max(0, request.cursor.partition_index)
    budget = min(max(1, request.response_partition_limit), MAX_PARTITIONS)
    topics: list[Entity] = []
    next_cursor = None
    for name in names:
        topic = all_names.get(name)
        if topic is None:
            topics.append(_unknown(topic_type, name))
            continue
        start = first_partition if request.cursor and name == request.cursor.topic_name else 0
        indexes = [index for index in sorted(topic.partitions) if index >= start]
        if indexes and budget == 0:
            next_cursor = _cursor(response_type, name, indexes[0])
            break
        page = indexes[:budget]
        budget -= len(page)
        topics.append(_known(node, topic_type, topic, page))
        if len(page) < len(indexes):
            next_cursor = _cursor(response_type, name, indexes[len(page)])
            break
    context.answer(reply(response_type, topics=tuple(topics), next_cursor=next_cursor))


def _cursor(response_type: type, name: str, partition: int) -> Entity:
    return make(nested(response_type, "next_cursor"), topic_name=name, partition_index=partition)


def _unknown(topic_type: type, name: str) -> Entity:
    return make(
        topic_type,
        error_code=error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        name=name,
        topic_id=None,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=OPERATIONS_NOT_ASKED,
    )


def _known(node: Node, topic_type: type, topic: TopicImage, page: list[int]) -> Entity:
    partition_type = nested(topic_type, "partitions")
    return make(
        topic_type,
        error_code=error(ErrorCode.NONE),
        name=topic.name,
        topic_id=uuid_of(topic.topic_id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            _partition(node, partition_type, index, topic.partitions[index]) for index in page
        ),
        topic_authorized_operations=OPERATIONS_NOT_ASKED,
    )


def _partition(node: Node, partition_type: type, index: int, partition: PartitionImage) -> Entity:
    led = node.image.is_alive(partition.leader)
    return make(
        partition_type,
        error_code=error(ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE),
        partition_index=index,
        leader_id=partition.leader if led else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=tuple(partition.replicas),
        isr_nodes=tuple(partition.isr),
        eligible_leader_replicas=tuple(partition.eligible_leaders),
        last_known_elr=tuple(partition.last_known_eligible_leaders),
        offline_replicas=node.image.offline_replicas(partition),
    )


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 0),
    requires=(on(Operation.DESCRIBE, ResourceType.TOPIC),),
    handle=handle,
)
