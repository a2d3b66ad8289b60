"""Metadata (3), versions 0-13: brokers, topics and who leads what.

A partition without a leader, or with a leader that is fenced, answers LEADER_NOT_AVAILABLE with
leader -1; replicas and ISR are listed all the same, and replicas on fenced brokers are offline. A
leader that has just cut this node's connections counts as not available too (decision 0003):
clients ask again soon while no leader is known, but only once a second while they know a dead one.

The "controller" named in the answer is an alive broker, because clients cannot talk to controllers.
Unknown topics are created when both the request and `auto.create.topics.enable` allow it; until the
creation is committed they answer UNKNOWN_TOPIC_OR_PARTITION, which clients retry. A name that no
topic can have is INVALID_TOPIC_EXCEPTION, so that clients stop asking. Internal topics are left to
their coordinators. Versions 10 and 11 have a field for topic ids and no answer for an
unknown one, because their responses cannot do without a name: in them, a request that asks by id
or without a name is INVALID_REQUEST as a whole.

An answer is held for a moment. A broker that has just started holds it until it has caught up with
the metadata (`broker/held_questions.py`).

While all brokers are fenced, the one that answers names itself, because it can be reached. Kafka's
answer has no brokers then, which its Java clients ignore; librdkafka 2.16 gives up every broker
that an answer leaves out, and after the last one it may never ask again.

Topics that exist are packed by hand and kept (`broker/metadata_rows.py`). Brokers and topics of an
answer are those of one image.

A client sees the topics that it may describe. One that it names and may not is
TOPIC_AUTHORIZATION_FAILED, whether it exists or not; of one that it asks for by its id the name is
left out. All clients see the brokers.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import SHOWN, InHandler
from tidelog.broker.api.cluster_rows import any_alive_broker, brokers_to_name, topic_row
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import (
    HasAutoTopics,
    HasClusterId,
    HasConfig,
    HasImage,
    HasMetadataRows,
    HasUnreachable,
)
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.image import TopicImage
from tidelog.metadata.topic_names import code_of_unknown, name_fault
from tidelog.model import ZERO_TOPIC_ID, TopicId
from tidelog.security.rights import NOT_ASKED, Operation, ResourceType, authorized_operations, on
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.metadata import with_topics
from tidelog.wire.schema import write_entity
from tidelog.wire.values import bytes_of

FIRST_VERSION_BY_TOPIC_ID: Final = 12

_DESCRIBE: Final = on(Operation.DESCRIBE, ResourceType.TOPIC)
_CREATE: Final = on(
    Operation.CREATE, ResourceType.CLUSTER, ResourceType.TOPIC, condition="automatic creation"
)
_Wanted = tuple[str | None, TopicId, TopicImage | None]
"""A topic by name and id, and what it is."""


class Node(
    HasAutoTopics, HasClusterId, HasConfig, HasImage, HasMetadataRows, HasUnreachable, Protocol
):
    """What Metadata needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the committed image."""
    image = node.image
    version = context.header.api_version
    if version < FIRST_VERSION_BY_TOPIC_ID and _asks_by_id(request):
        code = ErrorCode.INVALID_REQUEST
        rows = [topic_row(code, wanted.name or "", ZERO_TOPIC_ID) for wanted in request.topics]
        context.answer(_answer(node, context, request, rows))
        return
    wanted, denied = _allowed(node, context, request, list(_wanted(node, request, version)))
    missing = [
        name
        for name, _, topic in wanted
        if topic is None and name is not None and name_fault(name) is None
    ]
    if missing and field(request, "allow_auto_topic_creation", True) and node.auto_topics.enabled:
        barred = {name for name in missing if not context.access.meets(_CREATE, name)}
        denied += [each for each in wanted if each[0] in barred]
        wanted = [each for each in wanted if each[0] not in barred]
        node.auto_topics.create([name for name in missing if name not in barred], now)
    around = _answer(node, context, request, ())
    rows_with = partial(node.metadata_rows.of, image, node.unreachable, context.listener, version)
    asks = field(request, "include_topic_authorized_operations", False)
    everything = authorized_operations(ResourceType.TOPIC, asked=asks)
    topics = []
    for name, topic_id, topic in wanted:
        operations = everything
        if asks and not context.access.is_unlimited:
            operations = context.access.operations(ResourceType.TOPIC, name or "", asked=True)
        if topic is None:
            topics.append(_absent(context, name, topic_id, operations))
        else:
            topics.append((yield from rows_with(operations).of(image, topic)))
    topics += [
        _row(context, ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic_id, NOT_ASKED)
        for name, topic_id, _ in denied
    ]
    empty = codec.encode_response(context.header, context.whole(around))
    context.fill(list(with_topics(version, empty, topics)))


def _allowed(
    node: Node, context: RequestContext, request: Entity, wanted: list[_Wanted]
) -> tuple[list[_Wanted], list[_Wanted]]:
    """What the client may know of, and what it asked for and may not: as it was asked for, by name
    or by id. Of all topics, those that it may not know of are left out."""
    access = context.access
    if access.is_unlimited:
        return wanted, []
    asks_for_all = _asks_for_all(request, context.header.api_version)
    known: list[_Wanted] = []
    denied: list[_Wanted] = []
    ids = [ZERO_TOPIC_ID] * len(wanted)
    if not asks_for_all:
        ids = [TopicId(bytes_of(field(each, "topic_id", None))) for each in request.topics]
    for asked_id, each in zip(ids, wanted, strict=True):
        by_id = asked_id != ZERO_TOPIC_ID
        is_unknown_id = by_id and each[2] is None
        if is_unknown_id or access.meets(_DESCRIBE, each[0] or "", audits=not asks_for_all):
            known.append(each)
        elif not asks_for_all:
            denied.append((None if by_id else each[0], asked_id, None))
    return known, denied


def _answer(
    node: Node, context: RequestContext, request: Entity, topics: Sequence[object]
) -> Entity:
    brokers = brokers_to_name(node, context.listener)
    return reply(
        context.response_type,
        brokers=[
            {"node_id": node_id, "host": end.host, "port": end.port, "rack": rack}
            for node_id, end, rack in brokers
        ],
        cluster_id=node.cluster_id,
        controller_id=any_alive_broker(node),
        topics=topics,
        cluster_authorized_operations=authorized_operations(
            ResourceType.CLUSTER,
            asked=field(request, "include_cluster_authorized_operations", False),
        ),
    )


def _asks_by_id(request: Entity) -> bool:
    return any(
        wanted.name is None or field(wanted, "topic_id", None) is not None
        for wanted in request.topics or ()
    )


def _asks_for_all(request: Entity, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _wanted(node: Node, request: Entity, version: int) -> Iterable[_Wanted]:
    image = node.image
    if _asks_for_all(request, version):
        for name in sorted(image.topics_by_name):
            topic = image.topics_by_name[name]
            yield name, topic.topic_id, topic
        return
    for wanted in request.topics:
        topic_id = TopicId(bytes_of(field(wanted, "topic_id", None)))
        if topic_id != ZERO_TOPIC_ID:
            found = image.topics_by_id.get(topic_id)
            yield (found.name if found else None), topic_id, found
        else:
            found = image.topics_by_name.get(wanted.name)
            yield wanted.name, (found.topic_id if found else ZERO_TOPIC_ID), found


def _absent(context: RequestContext, name: str | None, topic_id: TopicId, operations: int) -> bytes:
    """A topic that is not there; of one that is asked for by id nothing is known to be allowed."""
    if topic_id != ZERO_TOPIC_ID:
        code, operations = ErrorCode.UNKNOWN_TOPIC_ID, NOT_ASKED
    else:
        code = code_of_unknown(name or "")
    return _row(context, code, name, topic_id, operations)


def _row(
    context: RequestContext, code: ErrorCode, name: str | None, topic_id: TopicId, operations: int
) -> bytes:
    """A topic of which nothing is said but its name or id."""
    out = bytearray()
    row = topic_row(code, name, topic_id, operations=operations)
    write_entity(out, make(nested(context.response_type, "topics"), **row))
    return bytes(out)


API: Final = LocalApi(
    key=ApiKey.METADATA,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 13),
    requires=(InHandler(rights=_DESCRIBE), InHandler(rights=_CREATE), SHOWN),
    handle=handle,
    is_held=True,
)
