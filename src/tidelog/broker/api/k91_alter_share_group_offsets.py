"""AlterShareGroupOffsets (91), version 0: from where a share group reads on (KIP-932).

Sent to the coordinator of the group, which must have no members; a group that does not exist is
made. The share coordinators begin the states of the partitions anew.
"""

from typing import Final, Protocol

from tidelog.broker import share_group_calls
from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group, topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasGroups, HasImage, HasShareStates
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_share_groups
from tidelog.broker.share_state_calls import Answers, StateAnswer
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import AlterShareOffsets, WantedStates
from tidelog.metadata.image import MetadataImage
from tidelog.model import ZERO_TOPIC_ID
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

_UNKNOWN: Final = StateAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Node(HasGroups, HasImage, HasShareStates, Protocol):
    """What AlterShareGroupOffsets needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the partitions that exist to the coordinator."""
    wanted = {
        IdPartition(known.topic_id, row.partition_index): row.start_offset
        for topic in request.topics
        if (known := node.image.topics_by_name.get(topic.topic_name)) is not None
        for row in topic.partitions
        if row.partition_index in known.partitions
    }

    def refuse(code: ErrorCode, text: str | None = None) -> None:
        context.answer(
            reply(context.response_type, error_code=code, error_message=text, responses=[])
        )

    def finish(answers: Answers, _: Instant) -> None:
        responses = _rows(request, node.image, answers)
        context.answer(reply(context.response_type, responses=responses))

    def go_on(wanted: WantedStates) -> None:
        share_group_calls.initialize(node, wanted, now, finish)

    if not has_share_groups(node.image.features):
        refuse(ErrorCode.UNSUPPORTED_VERSION)
    elif not request.group_id:
        refuse(ErrorCode.INVALID_GROUP_ID)
    else:
        knows_topics = any(
            topic.topic_name in node.image.topics_by_name for topic in request.topics
        )
        asked = AlterShareOffsets(request.group_id, tuple(wanted.items()), knows_topics)
        node.groups.ask(asked, share_group_calls.decided(refuse, go_on), now)


def _rows(request: Entity, image: MetadataImage, answers: Answers) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for topic in request.topics:
        known = image.topics_by_name.get(topic.topic_name)
        topic_id = ZERO_TOPIC_ID if known is None else known.topic_id
        found = {
            row.partition_index: answers.get(IdPartition(topic_id, row.partition_index), _UNKNOWN)
            for row in topic.partitions
        }
        partitions = [
            {"partition_index": number, "error_code": each.error_code, "error_message": None}
            for number, each in found.items()
        ]
        name = topic.topic_name
        rows.append({"topic_name": name, "topic_id": topic_id, "partitions": partitions})
    return rows


API: Final = LocalApi(
    key=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 0),
    requires=(group(Operation.READ), topics(Operation.READ, name="topic_name", answer="responses")),
    handle=handle,
)
