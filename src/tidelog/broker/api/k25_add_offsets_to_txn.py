"""AddOffsetsToTxn (25), versions 0-4: a transaction is about to commit offsets of a group.

Adds the partition of `__consumer_offsets` that the group belongs to. Before this topic exists the
answer is COORDINATOR_NOT_AVAILABLE; a client that commits offsets makes FindCoordinator create it.
Fenced is PRODUCER_FENCED from version 2 on.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import group, transaction
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.k10_find_coordinator import offsets_topic
from tidelog.broker.api.needs import HasAutoTopics, HasConfig, HasImage, HasTransactions
from tidelog.broker.connections import RequestContext
from tidelog.broker.transaction_calls import fenced_code
from tidelog.broker.transaction_seats import TransactionCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC, TopicPartition
from tidelog.rsm.coordinator import Refused
from tidelog.rsm.placement import partition_of
from tidelog.security.rights import Operation
from tidelog.transactions.messages import AddPartitions, PartitionsResult, Response
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

FIRST_VERSION_WITH_FENCED: Final = 2


class Node(HasAutoTopics, HasConfig, HasImage, HasTransactions, Protocol):
    """What AddOffsetsToTxn needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers when the coordinator's record is committed."""

    def on_response(response: Response) -> None:
        assert isinstance(response, PartitionsResult | Refused), f"{response}"
        version = context.header.api_version
        code = fenced_code(response.error_code, version, FIRST_VERSION_WITH_FENCED)
        context.answer(reply(context.response_type, error_code=code))

    topic = node.image.topics_by_name.get(OFFSETS_TOPIC)
    if not request.transactional_id:
        on_response(Refused(ErrorCode.INVALID_REQUEST))
    elif topic is None:
        node.auto_topics.create_internal(offsets_topic(node.config.groups), now)
        on_response(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    else:
        number = partition_of(request.group_id, len(topic.partitions))
        asked = AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset((TopicPartition(OFFSETS_TOPIC, number),)),
            client_version=0,
        )
        node.transactions.ask(asked, TransactionCall(on_response), now)


API: Final = LocalApi(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 4),
    requires=(transaction(), group(Operation.READ)),
    handle=handle,
)
