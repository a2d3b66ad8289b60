"""AddPartitionsToTxn (24), versions 0-5: partitions that a transaction is about to write to.

Producers add partitions themselves (versions 0-3). Brokers ask on behalf of producers (versions 4
and up, several transactions at once): whether partitions are in the transaction (`verify_only`), or
to add them, which is how transactions of version 2 begin (KIP-890). A partition that a verification
does not find is TRANSACTION_ABORTABLE.

If a partition does not exist, nothing is added, and the others get OPERATION_NOT_ATTEMPTED. Fenced
is PRODUCER_FENCED from version 2 on.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Asked, Check, Each, cluster, transaction
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.mirroring import mirrored
from tidelog.broker.api.needs import HasImage, HasTransactions
from tidelog.broker.connections import RequestContext
from tidelog.broker.transaction_calls import fenced_code
from tidelog.broker.transaction_seats import TransactionCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.transactions.messages import (
    AddPartitions,
    PartitionsResult,
    Response,
    VerifyPartitions,
)
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, nested

FIRST_VERSION_WITH_BATCHES: Final = 4
FIRST_VERSION_WITH_FENCED: Final = 2
_CLIENT_VERSION_OF_BROKERS: Final = 2


class Node(HasImage, HasTransactions, Protocol):
    """What AddPartitionsToTxn needs."""


class _Asked(NamedTuple):
    """What is asked about one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: Sequence[Entity]
    verify_only: bool = False


Rows = list[dict[str, object]]


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers when the coordinator's records are committed."""
    version = context.header.api_version
    if version < FIRST_VERSION_WITH_BATCHES:
        asked = _Asked(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
        )

        def answer(rows: Rows) -> None:
            context.answer(reply(context.response_type, results_by_topic_v3_and_below=rows))

        _ask(node, asked, version, answer, now)
        return
    gathering = Gathering[dict[str, object]](
        len(request.transactions),
        lambda rows: context.answer(reply(context.response_type, results_by_transaction=rows)),
    )
    for index, each in enumerate(request.transactions):
        asked = _Asked(
            each.transactional_id,
            each.producer_id,
            each.producer_epoch,
            each.topics,
            each.verify_only,
        )
        _ask(node, asked, version, _part(each.transactional_id, gathering.part(index)), now)


def _part(
    transactional_id: str, take: Callable[[dict[str, object]], None]
) -> Callable[[Rows], None]:
    return lambda rows: take({"transactional_id": transactional_id, "topic_results": rows})


def _ask(
    node: Node, asked: _Asked, version: int, answer: Callable[[Rows], None], now: Instant
) -> None:
    partitions = frozenset(
        TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partitions
    )
    unknown = frozenset(each for each in partitions if not node.image.exists(each))

    def on_response(response: Response) -> None:
        missing: frozenset[TopicPartition] = frozenset()
        if isinstance(response, PartitionsResult):
            missing = response.missing
        else:
            assert isinstance(response, Refused), f"{response}"
        code = fenced_code(response.error_code, version, FIRST_VERSION_WITH_FENCED)
        answer(_rows(asked, code, missing, ErrorCode.TRANSACTION_ABORTABLE))

    if unknown:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer(_rows(asked, ErrorCode.OPERATION_NOT_ATTEMPTED, unknown, code))
    elif not asked.transactional_id:
        answer(_rows(asked, ErrorCode.INVALID_REQUEST))
    else:
        call = TransactionCall(on_response)
        producer = asked[:3]
        if asked.verify_only:
            node.transactions.ask(VerifyPartitions(*producer, partitions), call, now)
        else:
            of_broker = version >= FIRST_VERSION_WITH_BATCHES
            client_version = _CLIENT_VERSION_OF_BROKERS if of_broker else 0
            node.transactions.ask(AddPartitions(*producer, partitions, client_version), call, now)


def _rows(
    asked: _Asked,
    code: ErrorCode,
    others: frozenset[TopicPartition] = frozenset(),
    code_of_others: ErrorCode = ErrorCode.NONE,
) -> Rows:
    """The result of each partition: `code`, and another one for some of them."""
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": number,
                    "partition_error_code": code_of_others
                    if TopicPartition(topic.name, number) in others
                    else code,
                }
                for number in topic.partitions
            ],
        }
        for topic in asked.topics
    ]


def _is_of_producer(request: Entity) -> bool:
    return hasattr(request, "v3_and_below_topics")


_ROWS_OF_PRODUCERS: Final = {
    "results_by_topic_v3_and_below": "v3_and_below_topics",
    "results_by_partition": "partitions",
}


class _EachTopic(Check):
    """WRITE on each topic; if one is denied, nothing is attempted."""

    rights = on(Operation.WRITE, ResourceType.TOPIC, condition="versions 0-3")
    _rows = Each(
        rights=rights,
        rows="v3_and_below_topics",
        answer="results_by_topic_v3_and_below",
        renamed=_ROWS_OF_PRODUCERS,
    )

    def apply(self, asked: Asked) -> None:
        """Takes out all topics if one is denied."""
        if not _is_of_producer(asked.request):
            return
        before = asked.request
        self._rows.apply(asked)
        if asked.request is not before:
            left = asked.request.v3_and_below_topics
            row_type = nested(asked.response_type, "results_by_topic_v3_and_below")
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            rows = tuple(mirrored(row_type, row, code, renamed=_ROWS_OF_PRODUCERS) for row in left)
            asked.leave_out("v3_and_below_topics", "results_by_topic_v3_and_below", rows)


API: Final = LocalApi(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(
        transaction(
            name="v3_and_below_transactional_id", when=_is_of_producer, renamed=_ROWS_OF_PRODUCERS
        ),
        _EachTopic(),
        cluster(Operation.CLUSTER_ACTION, when=lambda request: not _is_of_producer(request)),
    ),
    handle=handle,
)
