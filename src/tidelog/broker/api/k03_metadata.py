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

Left out: authorised operations (no ACLs yet: the field has "not asked", -2**31).
"""

from collections.abc import Iterable
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.cluster_rows import (
    OPERATIONS_NOT_ASKED,
    any_alive_broker,
    brokers_to_name,
    partition_row,
    topic_row,
)
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import (
    HasAutoTopics,
    HasClusterId,
    HasConfig,
    HasImage,
    HasUnreachable,
)
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.image import PartitionImage, TopicImage
from tidelog.metadata.topic_names import name_fault
from tidelog.model import NO_LEADER, ZERO_TOPIC_ID, TopicId
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import bytes_of

FIRST_VERSION_WITH_MISSING_LISTENERS: Final = 6
FIRST_VERSION_BY_TOPIC_ID: Final = 12


class Node(HasAutoTopics, HasClusterId, HasConfig, HasImage, HasUnreachable, Protocol):
    """What Metadata needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the committed image."""
    version = context.header.api_version
    if version < FIRST_VERSION_BY_TOPIC_ID and _asks_by_id(request):
        code = ErrorCode.INVALID_REQUEST
        topics = [topic_row(code, wanted.name or "", ZERO_TOPIC_ID) for wanted in request.topics]
    else:
        wanted = list(_wanted(node, request, version))
        topics = [_topic(node, context, name, topic_id, topic) for name, topic_id, topic in wanted]
        missing = [
            name
            for name, _, topic in wanted
            if topic is None and name is not None and name_fault(name) is None
        ]
        if missing and field(request, "allow_auto_topic_creation", True):
            node.auto_topics.create(missing, now)
    brokers = brokers_to_name(node, context.listener)
    context.answer(
        reply(
            context.response_type,
            brokers=[
                {"node_id": node_id, "host": end.host, "port": end.port, "rack": rack}
                for node_id, end, rack in brokers
            ],
            cluster_id=node.cluster_id,
            controller_id=any_alive_broker(node),
            topics=topics,
            cluster_authorized_operations=OPERATIONS_NOT_ASKED,
        )
    )


def _asks_by_id(request: Entity) -> bool:
    return any(
        wanted.name is None or field(wanted, "topic_id", None) is not None
        for wanted in request.topics or ()
    )


def _wanted(
    node: Node, request: Entity, version: int
) -> Iterable[tuple[str | None, TopicId, TopicImage | None]]:
    image = node.image
    if request.topics is None or (version == 0 and not request.topics):
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


def _topic(
    node: Node,
    context: RequestContext,
    name: str | None,
    topic_id: TopicId,
    topic: TopicImage | None,
) -> dict[str, object]:
    if topic is not None:
        partitions = [
            _partition(node, context, index, topic.partitions[index])
            for index in sorted(topic.partitions)
        ]
        return topic_row(ErrorCode.NONE, name, topic_id, partitions)
    if topic_id != ZERO_TOPIC_ID:
        return topic_row(ErrorCode.UNKNOWN_TOPIC_ID, name, topic_id)
    is_valid = name_fault(name or "") is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return topic_row(code, name, topic_id)


def _partition(
    node: Node, context: RequestContext, index: int, partition: PartitionImage
) -> dict[str, object]:
    code, leader_id = ErrorCode.NONE, partition.leader
    if not node.image.is_alive(partition.leader) or partition.leader in node.unreachable:
        code, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif node.image.endpoint(partition.leader, context.listener) is None:
        # Older clients take the new code for a fatal one.
        is_known = context.header.api_version >= FIRST_VERSION_WITH_MISSING_LISTENERS
        code = ErrorCode.LISTENER_NOT_FOUND if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        leader_id = NO_LEADER
    return partition_row(node.image, code, leader_id, index, partition)


API: Final = LocalApi(
    key=ApiKey.METADATA,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 13),
    requires=(
        on(Operation.DESCRIBE, ResourceType.TOPIC),
        on(
            Operation.CREATE,
            ResourceType.CLUSTER,
            ResourceType.TOPIC,
            condition="automatic creation",
        ),
    ),
    handle=handle,
    is_held=True,
)
