"""OffsetFetch (9), versions 1-10: up to where groups have read.

The coordinator of each group answers with what is committed; -1 stands for a partition without.
While it is not there, the answer is an error and never an offset: a client that took -1 for the
truth would begin from its `auto.offset.reset` (KAFKA-7190). With `require_stable` (version 7 and
up) an offset that an open transaction may move is UNSTABLE_OFFSET_COMMIT.

Version 8 and up ask for several groups. Version 10 names topics by id; one that the metadata does
not have is UNKNOWN_TOPIC_ID, and left out when all are asked for. From version 9 on a member of a
consumer group (KIP-848) names itself and its epoch, and is refused when they are not the present
ones.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Each, Inside, group, topics
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasGroups, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.group_seats import GroupCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.messages import NO_GENERATION, FetchOffsets, FetchOffsetsResult, Response
from tidelog.groups.records import CommittedOffset
from tidelog.metadata.image import MetadataImage
from tidelog.model import NO_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, TopicId, TopicPartition
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import bytes_of

FIRST_VERSION_WITH_GROUP_ERROR: Final = 2
FIRST_VERSION_WITH_GROUPS: Final = 8
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


class Node(HasGroups, HasImage, Protocol):
    """What OffsetFetch needs."""


class _Topic(NamedTuple):
    """A topic of a question, by the name and id that are known of it."""

    name: str | None
    topic_id: TopicId
    partitions: tuple[int, ...]


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all groups."""
    version = context.header.api_version
    groups = request.groups if version >= FIRST_VERSION_WITH_GROUPS else [request]

    def finish(rows: list[dict[str, object]]) -> None:
        if version >= FIRST_VERSION_WITH_GROUPS:
            context.answer(reply(context.response_type, groups=rows))
        else:
            context.answer(reply(context.response_type, **rows[0]))

    gathering = Gathering[dict[str, object]](len(groups), finish)
    require_stable: bool = field(request, "require_stable", False)
    for index, each in enumerate(groups):
        _ask(node, each, version, gathering.part(index), now, require_stable=require_stable)


def _ask(
    node: Node,
    group: Entity,
    version: int,
    take: Callable[[dict[str, object]], None],
    now: Instant,
    *,
    require_stable: bool,
) -> None:
    wanted = None if group.topics is None else [_resolve(node.image, each) for each in group.topics]
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS

    def answer(response: Response) -> None:
        row: dict[str, object] = {"group_id": group.group_id, "error_code": ErrorCode.NONE}
        if isinstance(response, Refused):
            code = response.error_code
            row["error_code"] = code
            failed = wanted if version < FIRST_VERSION_WITH_GROUP_ERROR else None
            row["topics"] = [_topic_row(each, {}, code) for each in failed or ()]
            take(row)
            return
        assert isinstance(response, FetchOffsetsResult), f"{response}"
        offsets = dict(response.offsets)
        topics = _all_topics(node.image, offsets, by_id) if wanted is None else wanted
        row["topics"] = [
            _topic_row(
                each,
                offsets,
                ErrorCode.UNKNOWN_TOPIC_ID if each.name is None else ErrorCode.NONE,
                response.unstable,
            )
            for each in topics
        ]
        take(row)

    partitions = None
    if wanted is not None:
        partitions = tuple(
            TopicPartition(each.name, number)
            for each in wanted
            if each.name is not None
            for number in each.partitions
        )
    asked = FetchOffsets(
        group.group_id,
        partitions,
        require_stable,
        field(group, "member_id", None),
        field(group, "member_epoch", NO_GENERATION),
    )
    node.groups.ask(asked, GroupCall(answer), now)


def _resolve(image: MetadataImage, topic: Entity) -> _Topic:
    name: str | None = field(topic, "name", None)
    topic_id = TopicId(bytes_of(field(topic, "topic_id", None)))
    if name is None:
        known = image.topics_by_id.get(topic_id)
        name = None if known is None else known.name
    return _Topic(name, topic_id, topic.partition_indexes)


def _all_topics(
    image: MetadataImage, offsets: Mapping[TopicPartition, CommittedOffset | None], by_id: bool
) -> list[_Topic]:
    partitions: dict[str, list[int]] = {}
    for topic, number in offsets:
        partitions.setdefault(topic, []).append(number)
    found = []
    for name, numbers in partitions.items():
        known = image.topics_by_name.get(name)
        if known is not None or not by_id:
            topic_id = ZERO_TOPIC_ID if known is None else known.topic_id
            found.append(_Topic(name, topic_id, tuple(numbers)))
    return found


def _topic_row(
    topic: _Topic,
    offsets: Mapping[TopicPartition, CommittedOffset | None],
    code: ErrorCode,
    unstable: frozenset[TopicPartition] = frozenset(),
) -> dict[str, object]:
    rows = []
    for number in topic.partitions:
        key = TopicPartition(topic.name or "", number)
        found = offsets.get(key)
        rows.append(
            {
                "partition_index": number,
                "committed_offset": NO_OFFSET if found is None else found.offset,
                "committed_leader_epoch": NO_EPOCH if found is None else found.leader_epoch,
                "metadata": "" if found is None else found.metadata,
                "error_code": ErrorCode.UNSTABLE_OFFSET_COMMIT if key in unstable else code,
            }
        )
    return {"name": topic.name or "", "topic_id": topic.topic_id, "partitions": rows}


_DESCRIBE_GROUP: Final = on(Operation.DESCRIBE, ResourceType.GROUP)
_PARTITIONS: Final = {"partitions": "partition_indexes"}


def _has_one_group(request: Entity) -> bool:
    return not hasattr(request, "groups")


API: Final = LocalApi(
    key=ApiKey.OFFSET_FETCH,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 10),
    requires=(
        group(Operation.DESCRIBE, when=_has_one_group, renamed=_PARTITIONS),
        Each(rights=_DESCRIBE_GROUP, rows="groups", name="group_id"),
        topics(Operation.DESCRIBE, when=_has_one_group, renamed=_PARTITIONS),
        Inside(
            outer="groups", key="group_id", inner=topics(Operation.DESCRIBE, renamed=_PARTITIONS)
        ),
    ),
    handle=handle,
)
