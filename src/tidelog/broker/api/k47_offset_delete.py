"""OffsetDelete (47), version 0: forgets how far a group has read (KIP-496).

The coordinator of the group decides (`groups/offsets.py`). Topics that a member is subscribed to
are GROUP_SUBSCRIBED_TO_TOPIC; a group of other members than consumers is NON_EMPTY_GROUP. Refused
here: partitions that the metadata does not have, with UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group, topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import call_for
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import DeleteOffsets, DeleteOffsetsResult
from tidelog.model import TopicPartition
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


class Node(HasGroups, HasImage, Protocol):
    """What OffsetDelete needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the partitions that exist to the coordinator."""
    wanted = [
        TopicPartition(topic.name, row.partition_index)
        for topic in request.topics
        for row in topic.partitions
    ]
    known = tuple(each for each in wanted if node.image.exists(each))

    def answer(result: DeleteOffsetsResult) -> None:
        topics: dict[str, list[dict[str, object]]] = {}
        if result.error_code is ErrorCode.NONE:
            codes = dict(result.partitions)
            for each in wanted:
                code = codes.get(each, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                row: dict[str, object] = {"partition_index": each.partition, "error_code": code}
                topics.setdefault(each.topic, []).append(row)
        rows = [{"name": name, "partitions": found} for name, found in topics.items()]
        context.answer(reply(context.response_type, error_code=result.error_code, topics=rows))

    asked = DeleteOffsets(request.group_id, known)
    node.groups.ask(asked, call_for(DeleteOffsetsResult, answer), now)


API: Final = LocalApi(
    key=ApiKey.OFFSET_DELETE,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 0),
    requires=(group(Operation.DELETE), topics(Operation.READ)),
    handle=handle,
)
