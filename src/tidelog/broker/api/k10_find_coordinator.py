"""FindCoordinator (10), versions 0-6: which broker coordinates a group or a transactional id.

A group belongs to a partition of `__consumer_offsets`, a transactional id to one of
`__transaction_state`, and the coordinator is the leader of that partition. The first question
creates the topic, as the properties `offsets.topic.*` and `transaction.state.log.*` say; while it
is being created, and while the partition has no leader that can be reached, the answer is
COORDINATOR_NOT_AVAILABLE, which clients retry.

Key types: 0 group; 1 transaction; 2 share group, which has no coordinator in this version of the
broker and is answered the same; any other is INVALID_REQUEST. Held as Metadata is, for the same
reason: a client that has just lost its coordinator would be sent to it again.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasAutoTopics, HasConfig, HasImage, HasUnreachable
from tidelog.broker.connections import RequestContext
from tidelog.config import GroupsConfig, NodeConfig, TransactionsConfig
from tidelog.controller.topic_messages import NewTopic
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.rsm.placement import partition_of
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
_TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}


class Node(HasAutoTopics, HasConfig, HasImage, HasUnreachable, Protocol):
    """What FindCoordinator needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the committed image."""
    key_type = field(request, "key_type", GROUP)
    keys = field(request, "coordinator_keys", None)
    if keys is None:
        context.answer(reply(context.response_type, **_place(node, context, key_type, request.key)))
    else:
        places = [{"key": key, **_place(node, context, key_type, key)} for key in keys]
        context.answer(reply(context.response_type, coordinators=places))
    topic = _topic(node.config, key_type)
    if topic is not None and topic.name not in node.image.topics_by_name:
        node.auto_topics.create_internal(topic, now)


def _topic(config: NodeConfig, key_type: int) -> NewTopic | None:
    """The topic that coordinators of this type live on."""
    if key_type == GROUP:
        return offsets_topic(config.groups)
    return transactions_topic(config.transactions) if key_type == TRANSACTION else None


def _place(node: Node, context: RequestContext, key_type: int, key: str) -> dict[str, object]:
    if key_type == SHARE:
        return _nowhere("this broker hosts no such coordinators")
    name = _TOPICS.get(key_type)
    if name is None:
        return _nowhere("unknown key type", ErrorCode.INVALID_REQUEST)
    topic = node.image.topics_by_name.get(name)
    if topic is None:
        return _nowhere(f"`{name}` is being created")
    leader_id = topic.partitions[partition_of(key, len(topic.partitions))].leader
    endpoint = node.image.endpoint(leader_id, context.listener)
    if endpoint is None or not node.image.is_alive(leader_id) or leader_id in node.unreachable:
        return _nowhere("the partition of the key has no leader")
    return {
        "node_id": leader_id,
        "host": endpoint.host,
        "port": endpoint.port,
        "error_code": ErrorCode.NONE,
        "error_message": None,
    }


def _nowhere(
    message: str, code: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
) -> dict[str, object]:
    return {"node_id": -1, "host": "", "port": -1, "error_code": code, "error_message": message}


def offsets_topic(config: GroupsConfig) -> NewTopic:
    """`__consumer_offsets`, as Kafka creates it."""
    configs = (
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("segment.bytes", str(config.offsets_segment_bytes)),
    )
    return NewTopic(
        OFFSETS_TOPIC,
        config.offsets_num_partitions,
        config.offsets_replication_factor,
        configs=configs,
    )


def transactions_topic(config: TransactionsConfig) -> NewTopic:
    """`__transaction_state`, as Kafka creates it."""
    configs = (
        ("cleanup.policy", "compact"),
        ("compression.type", "uncompressed"),
        ("min.insync.replicas", str(config.log_min_isr)),
        ("segment.bytes", str(config.log_segment_bytes)),
        ("unclean.leader.election.enable", "false"),
    )
    return NewTopic(
        TRANSACTIONS_TOPIC,
        config.log_num_partitions,
        config.log_replication_factor,
        configs=configs,
    )


API: Final = LocalApi(
    key=ApiKey.FIND_COORDINATOR,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 6),
    requires=(
        on(Operation.DESCRIBE, ResourceType.GROUP, condition="key type 0"),
        on(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, condition="key type 1"),
        on(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, condition="key type 2"),
    ),
    handle=handle,
    is_held=True,
)
