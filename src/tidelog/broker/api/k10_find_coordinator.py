"""FindCoordinator (10), versions 0-6: which broker coordinates a group, a transactional id or a
share partition.

| key type | key | topic |
| --- | --- | --- |
| 0 | group | `__consumer_offsets` |
| 1 | transactional id | `__transaction_state` |
| 2, from version 6 on | share partition, `group:topic id:partition` | `__share_group_state` |

A key belongs to a partition of its topic, and the coordinator is the leader of that partition. The
first question creates the topic, as the properties `offsets.topic.*`, `transaction.state.log.*` and
`share.coordinator.state.topic.*` say. While the topic is being created, and while the partition has
no leader that can be reached, the answer is COORDINATOR_NOT_AVAILABLE, which clients retry. Another
key type, and a key that names no share partition, are INVALID_REQUEST. Held as Metadata is, for the
same reason: a client that has just lost its coordinator would be sent to it again.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Check, Each, Whole
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasAutoTopics, HasConfig, HasImage, HasUnreachable
from tidelog.broker.connections import RequestContext
from tidelog.config import GroupsConfig, NodeConfig, SharesConfig, TransactionsConfig
from tidelog.controller.topic_messages import NewTopic
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.image import TopicImage
from tidelog.model import OFFSETS_TOPIC, SHARES_TOPIC, TRANSACTIONS_TOPIC, TopicId, uuid_from_text
from tidelog.rsm.placement import partition_of
from tidelog.security.rights import Operation, Requirement, ResourceType, on
from tidelog.shares.records import SharePartition
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
FIRST_VERSION_WITH_SHARES: Final = 6


class Node(HasAutoTopics, HasConfig, HasImage, HasUnreachable, Protocol):
    """What FindCoordinator needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers from the committed image."""
    key_type = field(request, "key_type", GROUP)
    if key_type == SHARE and context.header.api_version < FIRST_VERSION_WITH_SHARES:
        key_type = _UNKNOWN
    keys = field(request, "coordinator_keys", None)

    def place(key: str) -> dict[str, object]:
        make = _TOPICS.get(key_type)
        if make is None:
            return _nowhere("unknown key type", ErrorCode.INVALID_REQUEST)
        known = _share_partition(key) if key_type == SHARE else key
        if known is None:
            text = f"`{key}` is not `group:topic id:partition`"
            return _nowhere(text, ErrorCode.INVALID_REQUEST)
        wanted = make(node.config)
        topic = node.image.topics_by_name.get(wanted.name)
        if topic is None:
            node.auto_topics.create_internal(wanted, now)
            return _nowhere(f"`{wanted.name}` is being created")
        return _place(node, context, topic, known)

    if keys is None:
        context.answer(reply(context.response_type, **place(request.key)))
    else:
        places = [{"key": key, **place(key)} for key in keys]
        context.answer(reply(context.response_type, coordinators=places))


def _share_partition(key: str) -> str | None:
    """The name of a share partition as every broker hashes it; a group may have colons."""
    try:
        group_id, topic_id, number = key.rsplit(":", 2)
        partition = SharePartition(group_id, TopicId(uuid_from_text(topic_id)), int(number))
    except ValueError:
        return None
    return partition.key if group_id.strip() else None


def _place(node: Node, context: RequestContext, topic: TopicImage, key: str) -> dict[str, object]:
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


def shares_topic(config: SharesConfig) -> NewTopic:
    """`__share_group_state`, as Kafka creates it; but for the size, which a broker's own default
    would limit. Only its coordinator knows what may go (`shares/upkeep.py`)."""
    configs = (
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("min.insync.replicas", str(config.state_min_isr)),
        ("retention.bytes", "-1"),
        ("retention.ms", "-1"),
        ("segment.bytes", str(config.state_segment_bytes)),
    )
    return NewTopic(
        SHARES_TOPIC, config.state_num_partitions, config.state_replication_factor, configs=configs
    )


_UNKNOWN: Final = -1
_TOPICS: Final[Mapping[int, Callable[[NodeConfig], NewTopic]]] = {
    GROUP: lambda config: offsets_topic(config.groups),
    TRANSACTION: lambda config: transactions_topic(config.transactions),
    SHARE: lambda config: shares_topic(config.shares),
}


def _about(key_type: int, rights: Requirement) -> tuple[Check, ...]:
    """What a question about keys of a type needs: about one, or about each of several."""

    def is_of_type(request: Entity) -> bool:
        return bool(field(request, "key_type", GROUP) == key_type)

    def has_one(request: Entity) -> bool:
        return hasattr(request, "key") and is_of_type(request)

    each = Each(rights=rights, rows="coordinator_keys", answer="coordinators", when=is_of_type)
    if key_type == SHARE:
        return (each,)
    return (Whole(rights=rights, name="key", when=has_one), each)


API: Final = LocalApi(
    key=ApiKey.FIND_COORDINATOR,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 6),
    requires=(
        *_about(GROUP, on(Operation.DESCRIBE, ResourceType.GROUP, condition="key type 0")),
        *_about(
            TRANSACTION,
            on(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, condition="key type 1"),
        ),
        *_about(SHARE, on(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, condition="key type 2")),
    ),
    handle=handle,
    is_held=True,
)
