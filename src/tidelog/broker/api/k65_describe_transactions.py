"""DescribeTransactions (65), version 0: what coordinators know about transactional ids.

Of a transaction that is ending, the partitions are those that still wait for its marker. An id that
is not known is TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST.
"""

from collections.abc import Callable
from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Each, ListedInside
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.gathering import Gathering
from tidelog.broker.api.needs import HasTransactions
from tidelog.broker.connections import RequestContext
from tidelog.broker.transaction_seats import TransactionCall
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.rsm.coordinator import Refused
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.transactions.messages import DescribeTransaction, Description, Response
from tidelog.transactions.records import by_topic
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.values import timestamp


def handle(node: HasTransactions, context: RequestContext, request: Entity, now: Instant) -> None:
    """Asks the coordinators of all ids."""
    ids = request.transactional_ids
    gathering = Gathering[dict[str, object]](
        len(ids), lambda rows: context.answer(reply(context.response_type, transaction_states=rows))
    )
    for index, transactional_id in enumerate(ids):
        answer = _answer(transactional_id, gathering.part(index))
        if transactional_id:
            asked = DescribeTransaction(transactional_id)
            node.transactions.ask(asked, TransactionCall(answer), now)
        else:
            answer(Refused(ErrorCode.INVALID_REQUEST))


def _answer(
    transactional_id: str, take: Callable[[dict[str, object]], None]
) -> Callable[[Response], None]:
    def answer(response: Response) -> None:
        assert isinstance(response, Description | Refused), f"{response}"
        if isinstance(response, Refused):
            take(_unknown(transactional_id, response.error_code))
        elif response.transaction is None:
            take(_unknown(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
        else:
            found = response.transaction
            take(
                {
                    "error_code": ErrorCode.NONE,
                    "transactional_id": transactional_id,
                    "transaction_state": found.state.label,
                    "transaction_timeout": found.timeout_ms,
                    "transaction_start_time": timestamp(found.start_ms),
                    "producer_id": found.producer_id,
                    "producer_epoch": found.producer_epoch,
                    "topics": [
                        {"topic": topic, "partitions": numbers}
                        for topic, numbers in by_topic(found.partitions).items()
                    ],
                }
            )

    return answer


def _unknown(transactional_id: str, code: ErrorCode) -> dict[str, object]:
    return {
        "error_code": code,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": timestamp(0),
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": (),
    }


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 0),
    requires=(
        Each(
            rights=on(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
            rows="transactional_ids",
            answer="transaction_states",
            blank=0,
        ),
        ListedInside(
            rights=on(Operation.DESCRIBE, ResourceType.TOPIC, condition="topics in the answer"),
            outer="transaction_states",
            rows="topics",
            name="topic",
        ),
    ),
    handle=handle,
)
