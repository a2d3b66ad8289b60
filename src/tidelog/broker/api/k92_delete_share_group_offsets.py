"""DeleteShareGroupOffsets (92), version 0: a share group forgets topics (KIP-932).

Sent to the coordinator of the group, which must have no members. The share coordinators forget the
states of the partitions. A topic of which the group knows nothing is UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import Final, Protocol

from tidelog.broker import share_group_calls
from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group, topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasGroups, HasImage, HasShareStates
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import has_share_groups
from tidelog.broker.group_seats import GroupCall
from tidelog.broker.share_state_calls import Answers
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import DeleteShareOffsets, Response, StatesDeleted, WantedStates
from tidelog.model import ZERO_TOPIC_ID, TopicId
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

_NOTHING: Final = "There is no offset information to delete."


class Node(HasGroups, HasImage, HasShareStates, Protocol):
    """What DeleteShareGroupOffsets needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Hands the topics that exist to the coordinator."""
    group_id, images = request.group_id, node.image.topics_by_name
    known = {
        each.topic_name: images[each.topic_name].topic_id
        for each in request.topics
        if each.topic_name in images
    }
    codes: dict[TopicId, ErrorCode] = {}

    def refuse(code: ErrorCode, text: str | None = None) -> None:
        context.answer(
            reply(context.response_type, error_code=code, error_message=text, responses=[])
        )

    def finish(_: Response) -> None:
        rows = []
        for topic in request.topics:
            topic_id = known.get(topic.topic_name, ZERO_TOPIC_ID)
            code = codes.get(topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            is_unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            rows.append(
                {
                    "topic_name": topic.topic_name,
                    "topic_id": ZERO_TOPIC_ID if is_unknown else topic_id,
                    "error_code": code,
                    "error_message": _NOTHING if is_unknown else None,
                }
            )
        context.answer(reply(context.response_type, responses=rows))

    def on_deleted(answers: Answers, now: Instant) -> None:
        for each, found in answers.items():
            code = codes.get(each.topic_id, ErrorCode.NONE)
            codes[each.topic_id] = code if code is not ErrorCode.NONE else found.error_code
        done = tuple(it for it, code in codes.items() if code is ErrorCode.NONE)
        node.groups.ask(StatesDeleted(group_id, done), GroupCall(finish), now)

    def go_on(wanted: WantedStates) -> None:
        share_group_calls.delete(node, wanted, on_deleted, now)

    if not has_share_groups(node.image.features):
        refuse(ErrorCode.UNSUPPORTED_VERSION)
    elif not group_id:
        refuse(ErrorCode.INVALID_GROUP_ID)
    else:
        asked = DeleteShareOffsets(group_id, tuple(known.values()))
        node.groups.ask(asked, share_group_calls.decided(refuse, go_on), now)


API: Final = LocalApi(
    key=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 0),
    requires=(
        group(Operation.DELETE),
        topics(Operation.READ, name="topic_name", answer="responses"),
    ),
    handle=handle,
)
