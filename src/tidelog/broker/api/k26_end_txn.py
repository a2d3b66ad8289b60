"""EndTxn (26), versions 0-5: a transaction is committed or aborted.

The answer leaves when the outcome is committed; the markers are written afterwards. From version 5
on (KIP-890) the answer has the producer id and epoch of the next transaction. Fenced is
PRODUCER_FENCED from version 2 on.
"""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import transaction
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasProducerIds, HasTransactions
from tidelog.broker.connections import RequestContext
from tidelog.broker.transaction_calls import ask_for_producer, fenced_code
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.transactions.messages import EndTransaction, ProducerGranted
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_VERSION_WITH_EPOCHS: Final = 5


class Node(HasProducerIds, HasTransactions, Protocol):
    """What EndTxn needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers when the coordinator's record is committed."""
    version = context.header.api_version

    def answer(granted: ProducerGranted) -> None:
        code = fenced_code(granted.error_code, version, FIRST_VERSION_WITH_FENCED)
        context.answer(reply(context.response_type, **granted._replace(error_code=code)._asdict()))

    if not request.transactional_id:
        answer(ProducerGranted(ErrorCode.INVALID_REQUEST))
        return
    asked = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        client_version=2 if version >= FIRST_VERSION_WITH_EPOCHS else 0,
    )
    ask_for_producer(node, asked, answer, now)


API: Final = LocalApi(
    key=ApiKey.END_TXN,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(0, 5),
    requires=(transaction(renamed={"producer_id": -1, "producer_epoch": -1}),),
    handle=handle,
)
