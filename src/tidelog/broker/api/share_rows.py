"""What ShareFetch and ShareAcknowledge have in common: who may send them, and acknowledgements."""

from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.api.gathering import Gathering
from tidelog.broker.sharing import Sharing
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import MetadataImage
from tidelog.model import TopicId
from tidelog.security.authorizer import Access
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.sharing.sessions import Member, SharedPartition
from tidelog.sharing.values import REJECT, RENEW, Acknowledgement, ShareKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import bytes_of

MAX_MEMBER_ID_LENGTH: Final = 36
STALE_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""With these codes a member learns who leads instead."""

Codes = dict[SharedPartition, ErrorCode]
"""What became of the acknowledgements of each partition."""

READ_TOPIC: Final = on(Operation.READ, ResourceType.TOPIC)

_Outcome = tuple[ErrorCode, Instant]


def member_of(sharing: Sharing, request: Entity) -> Member:
    """Who asks. Raises UNSUPPORTED_VERSION without the feature, and INVALID_REQUEST."""
    if not sharing.held.is_enabled:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "share groups are switched off")
    if request.group_id is None:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    member_id = request.member_id
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return Member(request.group_id, member_id)


def places_of(topics: Iterable[Entity]) -> list[tuple[SharedPartition, Entity]]:
    """The partitions of a request, and what it says of each."""
    return [
        (SharedPartition(TopicId(bytes_of(topic.topic_id)), row.partition_index), row)
        for topic in topics
        for row in topic.partitions
    ]


def acknowledge(
    sharing: Sharing,
    image: MetadataImage,
    access: Access,
    member: Member,
    request: Entity,
    on_done: Callable[[Codes, Instant], None],
    now: Instant,
) -> None:
    """Hands the acknowledgements of a request that are allowed to their share partitions; `on_done`
    is called when the last of them is written, or refused."""
    asked = places_of(request.topics)
    may_renew = field(request, "is_renew_ack", False)

    def finish(outcomes: list[_Outcome]) -> None:
        # As in Kafka: where nothing was acknowledged, only errors are rows.
        codes = {
            place: code
            for (place, _), (code, _) in zip(asked, outcomes, strict=True)
            if handed or code is not ErrorCode.NONE
        }
        on_done(codes, max((at for _, at in outcomes), default=now))

    handed: list[SharedPartition] = []
    gathering = Gathering[_Outcome](len(asked), finish)
    for index, (place, row) in enumerate(asked):
        take = gathering.part(index)
        batches = row.acknowledgement_batches
        code = _objection(image, place, batches, may_renew=may_renew)
        topic = image.topics_by_id.get(place.topic_id)
        if topic is not None and not access.meets(READ_TOPIC, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if code is not ErrorCode.NONE or not batches:
            take((code, now))
            continue
        wanted = [
            Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
            for each in batches
        ]
        handed.append(place)
        sharing.held.acknowledge(
            ShareKey(member.group_id, *place), member.member_id, wanted, _as_pair(take), now
        )


def _as_pair(take: Callable[[_Outcome], None]) -> Callable[[ErrorCode, Instant], None]:
    return lambda code, at: take((code, at))


def _objection(
    image: MetadataImage, place: SharedPartition, batches: Iterable[Entity], *, may_renew: bool
) -> ErrorCode:
    """Why the acknowledgements of a partition are not looked at; NONE if they are."""
    if place.topic_id not in image.topics_by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    reached = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if (
            not reached <= first <= last
            or len(types) not in (1, last - first + 1)
            or any(not 0 <= kind <= (RENEW if may_renew else REJECT) for kind in types)
        ):
            return ErrorCode.INVALID_REQUEST
        reached = last
    if image.partition(*place) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def text_of(code: ErrorCode) -> str | None:
    """The message beside a code."""
    return None if code is ErrorCode.NONE else code.name
