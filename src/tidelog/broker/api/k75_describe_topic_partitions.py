"""DescribeTopicPartitions (75), version 0: partitions with their eligible leaders (KIP-966).

Topics come in name order from the cursor on, at most `response_partition_limit` partitions
(never more than `limits.MAX_DESCRIBED_PARTITIONS`) a response; when more remain, the
response ends with the next cursor. A cursor before the first partition is INVALID_REQUEST, and so
is one at a topic that is not among those that are asked for.
"""

from bisect import bisect_left
from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import InHandler
from tidelog.broker.api.cluster_rows import partition_row, topic_row
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_DESCRIBED_PARTITIONS, PARTITION_ANSWER_WORK
from tidelog.metadata.image import MetadataImage, PartitionImage
from tidelog.metadata.topic_names import code_of_unknown
from tidelog.model import NO_LEADER
from tidelog.security.rights import Operation, ResourceType, authorized_operations, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity, nested

_DESCRIBE: Final = on(Operation.DESCRIBE, ResourceType.TOPIC)


def handle(node: HasImage, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers one page, from the image of this moment."""
    if request.cursor is not None and _is_elsewhere(request.cursor, request.topics):
        rows = [topic_row(ErrorCode.INVALID_REQUEST, topic.name) for topic in request.topics]
        context.answer(reply(context.response_type, topics=rows))
        return
    image = node.image
    all_names = image.topics_by_name
    access = context.access
    asked = sorted({topic.name for topic in request.topics})
    names = asked or sorted(all_names)
    denied: list[str] = []
    if not access.is_unlimited:
        allowed = [name for name in names if access.meets(_DESCRIBE, name, audits=bool(asked))]
        denied = sorted(set(asked) - set(allowed))
        names = allowed
    first_partition = 0
    if request.cursor is not None:
        names = names[bisect_left(names, request.cursor.topic_name) :]
        first_partition = request.cursor.partition_index
    budget = min(max(1, request.response_partition_limit), MAX_DESCRIBED_PARTITIONS)
    topics = ArrayWriter(context.response_type, "topics")
    next_cursor = None
    operations = authorized_operations(ResourceType.TOPIC, asked=True)
    for name in denied:
        topics.add(**topic_row(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
    for name in names:
        if not access.is_unlimited:
            operations = access.operations(ResourceType.TOPIC, name, asked=True)
        topic = all_names.get(name)
        if topic is None:
            topics.add(**topic_row(code_of_unknown(name), name, operations=operations))
            continue
        start = first_partition if request.cursor and name == request.cursor.topic_name else 0
        indexes = [index for index in sorted(topic.partitions) if index >= start]
        if indexes and budget == 0:
            next_cursor = {"topic_name": name, "partition_index": indexes[0]}
            break
        page = indexes[:budget]
        budget -= len(page)
        partitions = ArrayWriter(nested(context.response_type, "topics"), "partitions")
        for index in page:
            partitions.add(**_partition(image, index, topic.partitions[index]))
            yield PARTITION_ANSWER_WORK
        row = topic_row(ErrorCode.NONE, name, topic.topic_id, partitions.array(), operations)
        topics.add(**row)
        if len(page) < len(indexes):
            next_cursor = {"topic_name": name, "partition_index": indexes[len(page)]}
            break
    context.answer(reply(context.response_type, topics=topics.array(), next_cursor=next_cursor))


def _is_elsewhere(cursor: Entity, topics: tuple[Entity, ...]) -> bool:
    """Whether no answer of these topics, or of all when there are none, could have ended there."""
    is_asked = not topics or any(topic.name == cursor.topic_name for topic in topics)
    return cursor.partition_index < 0 or not is_asked


def _partition(image: MetadataImage, index: int, partition: PartitionImage) -> dict[str, object]:
    led = image.is_alive(partition.leader)
    code = ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE
    leader_id = partition.leader if led else NO_LEADER
    return partition_row(image, code, leader_id, index, partition)


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 0),
    requires=(InHandler(rights=_DESCRIBE),),
    handle=handle,
    is_held=True,
)
