"""InitProducerId (22), versions 0-5: a producer id and an epoch to write with.

Without a transactional id the producer gets a fresh id with epoch 0. With one, the transaction
coordinator decides (`transactions/transitions.py`): each new producer of a transactional id gets a
higher epoch, which fences those before it, and their transaction is aborted; meanwhile the answer
is CONCURRENT_TRANSACTIONS. Giving only one of producer id and epoch is INVALID_REQUEST, as is an
empty transactional id. Fenced is PRODUCER_FENCED from version 4 on.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import Whole, transaction
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasProducerIds, HasTransactions
from tidelog.broker.connections import RequestContext
from tidelog.broker.transaction_calls import ask_for_producer, fenced_code
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, Right
from tidelog.transactions.messages import InitProducerId, ProducerGranted
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.values import to_millis

FIRST_VERSION_WITH_FENCED: Final = 4


class Node(HasProducerIds, HasTransactions, Protocol):
    """What InitProducerId needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers when there is an id, and when the coordinator's record is committed."""
    producer_id, epoch = field(request, "producer_id", -1), field(request, "producer_epoch", -1)
    if (producer_id == -1) != (epoch == -1) or request.transactional_id == "":
        _answer(context, ProducerGranted(ErrorCode.INVALID_REQUEST))
    elif request.transactional_id is None:
        node.producer_ids.request(
            lambda granted, _: _answer(context, ProducerGranted(ErrorCode.NONE, granted, 0)), now
        )
    else:
        asked = InitProducerId(
            request.transactional_id, to_millis(request.transaction_timeout), producer_id, epoch
        )
        ask_for_producer(node, asked, lambda granted: _answer(context, granted), now)


def _answer(context: RequestContext, granted: ProducerGranted) -> None:
    code = fenced_code(granted.error_code, context.header.api_version, FIRST_VERSION_WITH_FENCED)
    context.answer(reply(context.response_type, **granted._replace(error_code=code)._asdict()))


def _is_transactional(request: Entity) -> bool:
    return request.transactional_id is not None


_DENIED: Final = {"producer_id": -1, "producer_epoch": -1}

API: Final = LocalApi(
    key=ApiKey.INIT_PRODUCER_ID,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(
        transaction(when=_is_transactional, renamed=_DENIED),
        Whole(
            rights=(
                Right(Operation.WRITE, ResourceType.TOPIC, "no transactional id"),
                Right(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "no transactional id"),
            ),
            any_name=True,
            renamed=_DENIED,
            when=lambda request: not _is_transactional(request),
        ),
    ),
    handle=handle,
)
