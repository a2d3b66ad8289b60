"""OffsetCommit (8), versions 2-10: up to where a group has read.

The coordinator of the group decides (`groups/offsets.py`) and answers when the offsets are
committed to `__consumer_offsets`. Refused here: partitions that the metadata does not have, with
UNKNOWN_TOPIC_OR_PARTITION, and topic ids (version 10) with UNKNOWN_TOPIC_ID. A generation of a
group that does not exist is GROUP_ID_NOT_FOUND, before version 9 ILLEGAL_GENERATION. Versions 2 to
4 may give an expiry of their own, which is kept with the offset. Members of consumer groups
(KIP-848) need version 9, in which they name their epoch.
"""

from typing import Final, NamedTuple, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group, topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasClock, HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import CommitOffsets, CommitOffsetsResult, Response
from tidelog.groups.records import CommittedOffset
from tidelog.metadata.image import TopicImage
from tidelog.model import NO_EPOCH, NO_TIMESTAMP, TopicId, TopicPartition
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import bytes_of, to_millis

FIRST_VERSION_WITH_MEMBER_EPOCHS: Final = 9
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


class Node(HasClock, HasGroups, HasImage, Protocol):
    """What OffsetCommit needs."""


class _Topic(NamedTuple):
    """A topic of the request."""

    entity: Entity
    image: TopicImage | None


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the offsets of known topics to the coordinator."""
    by_id = context.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    image = node.image
    topics = [
        _Topic(
            each,
            image.topics_by_id.get(TopicId(bytes_of(each.topic_id)))
            if by_id
            else image.topics_by_name.get(each.name),
        )
        for each in request.topics
    ]
    retention = field(request, "retention_time", None)
    expiry = NO_TIMESTAMP
    if retention is not None and to_millis(retention) >= 0:
        expiry = node.wall_ms(now) + to_millis(retention)
    offsets = tuple(
        (TopicPartition(topic.image.name, row.partition_index), _offset(row, topic.image, expiry))
        for topic in topics
        if topic.image is not None
        for row in topic.entity.partitions
        if row.partition_index in topic.image.partitions
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def answer(response: Response) -> None:
        context.answer(_response(context, topics, unknown, response))

    if not offsets:
        answer(CommitOffsetsResult(()))
        return
    asked = CommitOffsets(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        field(request, "group_instance_id", None),
        offsets,
        may_name_epoch=context.header.api_version >= FIRST_VERSION_WITH_MEMBER_EPOCHS,
    )
    node.groups.ask(asked, GroupCall(answer), now)


def _offset(row: Entity, topic: TopicImage, expiry: int) -> CommittedOffset:
    return CommittedOffset(
        row.committed_offset,
        field(row, "committed_leader_epoch", NO_EPOCH),
        row.committed_metadata or "",
        expire_timestamp_ms=expiry,
        topic_id=topic.topic_id,
    )


def _response(
    context: RequestContext, topics: list[_Topic], unknown: ErrorCode, response: Response
) -> Entity:
    codes, every = {}, ErrorCode.NONE
    if isinstance(response, Refused):
        every = response.error_code
    else:
        assert isinstance(response, CommitOffsetsResult), f"{response}"
        codes = dict(response.partitions)
    rows = []
    for topic, image in topics:
        found = []
        for row in topic.partitions:
            code = unknown
            if image is not None and row.partition_index not in image.partitions:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif image is not None:
                code = codes.get(TopicPartition(image.name, row.partition_index), every)
            found.append({"partition_index": row.partition_index, "error_code": code})
        identity = {
            name: getattr(topic, name) for name in ("name", "topic_id") if hasattr(topic, name)
        }
        rows.append({**identity, "partitions": found})
    return reply(context.response_type, topics=rows)


API: Final = LocalApi(
    key=ApiKey.OFFSET_COMMIT,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(2, 10),
    requires=(group(Operation.READ), topics(Operation.READ)),
    handle=handle,
)
