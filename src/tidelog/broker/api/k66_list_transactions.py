"""ListTransactions (66), versions 0-2: the transactional ids that this broker coordinates.

Clients ask every broker. While some of the ids are being loaded, the answer is
COORDINATOR_LOAD_IN_PROGRESS. The list may be limited to states (those that do not exist come back
in the answer), to producer ids, from version 1 on to transactions that began longer ago than a
duration (as in Kafka, an id without a transaction is one of them), and from version 2 on to ids
that a regular expression matches as a whole (KIP-1152).
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Listed
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasClock, HasTransactions
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.groups.regexes import matching
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.transactions.records import TransactionState
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field

_NAMES: Final = frozenset(
    (*(state.label for state in TransactionState), "Dead", "PrepareEpochFence")
)
"""Kafka's coordinator has two more states, which are in no log."""


class Node(HasClock, HasTransactions, Protocol):
    """What ListTransactions needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers at once."""
    listed = node.transactions.list_transactions()
    if listed is None:
        _refuse(context, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    if pattern := field(request, "transactional_id_pattern", None):
        try:
            found = matching(pattern, (each for each, _ in listed), what="TransactionalIdPattern")
        except ProtocolError as error:
            _refuse(context, error.code)
            return
        names = frozenset(found)
        listed = [pair for pair in listed if pair[0] in names]
    producer_ids = set(request.producer_id_filters)
    states = set(request.state_filters)
    duration_ms = field(request, "duration_filter", -1)
    latest_start_ms = node.wall_ms(now) - duration_ms
    rows = [
        {
            "transactional_id": transactional_id,
            "producer_id": found.producer_id,
            "transaction_state": found.state.label,
        }
        for transactional_id, found in sorted(listed, key=lambda pair: pair[0])
        if (not producer_ids or found.producer_id in producer_ids)
        and (not states or found.state.label in states)
        and (duration_ms < 0 or found.state.is_idle or found.start_ms < latest_start_ms)
    ]
    unknown = [name for name in request.state_filters if name not in _NAMES]
    context.answer(
        reply(context.response_type, unknown_state_filters=unknown, transaction_states=rows)
    )


def _refuse(context: RequestContext, code: ErrorCode) -> None:
    context.answer(
        reply(
            context.response_type, error_code=code, unknown_state_filters=(), transaction_states=()
        )
    )


API: Final = LocalApi(
    key=ApiKey.LIST_TRANSACTIONS,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 2),
    requires=(
        Listed(
            rights=on(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
            rows="transaction_states",
            name="transactional_id",
        ),
    ),
    handle=handle,
)
