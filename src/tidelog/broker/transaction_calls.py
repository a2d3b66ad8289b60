"""Requests to transaction coordinators that may need a new producer id.

Only the controller has producer ids. A coordinator that needs one says so and changes nothing; then
the request waits for an id and comes again with it. An id that turns out not to be needed is lost.
"""

from collections.abc import Callable
from typing import Protocol

from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.transaction_seats import TransactionCall, TransactionSeats
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.rsm.coordinator import Refused
from tidelog.transactions.messages import (
    EndTransaction,
    InitProducerId,
    ProducerGranted,
    ProducerIdNeeded,
    Response,
)


class Node(Protocol):
    """What such a request needs."""

    producer_ids: ProducerIds
    transactions: TransactionSeats


def ask_for_producer(
    node: Node,
    request: InitProducerId | EndTransaction,
    answer: Callable[[ProducerGranted], None],
    now: Instant,
) -> None:
    """Has the coordinator decide; `answer` is called once."""

    def on_response(response: Response) -> None:
        if isinstance(response, ProducerIdNeeded):
            node.producer_ids.request(again, now)
        elif isinstance(response, Refused):
            answer(ProducerGranted(response.error_code))
        else:
            assert isinstance(response, ProducerGranted), f"{response}"
            answer(response)

    def again(producer_id: int, now: Instant) -> None:
        with_id = request._replace(fresh_producer_id=producer_id)
        node.transactions.ask(with_id, TransactionCall(on_response), now)

    node.transactions.ask(request, TransactionCall(on_response), now)


def fenced_code(code: ErrorCode, version: int, first_version: int) -> ErrorCode:
    """Clients of older versions do not know PRODUCER_FENCED (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
