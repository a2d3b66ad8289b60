"""DescribeDelegationToken (41), versions 1-3: tokens, with their codes.

No list asks for the tokens of all owners, an empty one for none. A user sees the tokens that it
owns or may renew, those that it may DESCRIBE by their ids, and those of users for whom it has
DESCRIBE_TOKENS. A broker answers from the metadata that it has applied; tokens that have expired
are shown until they are removed. Who may ask at all is in `broker/token_rules.py`.
"""

from typing import Any, Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import InHandler
from tidelog.broker.api.declaration import BROKERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasConfig, HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.instant import Instant
from tidelog.limits import CONFIG_ANSWER_WORK, TOKENS_PER_PIECE
from tidelog.metadata.delegation_tokens import code_of
from tidelog.metadata.records import DelegationTokenRecord
from tidelog.model import Principal, Secret
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity


class Node(HasImage, HasConfig, Protocol):
    """What DescribeDelegationToken needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the image of this moment."""
    secret = node.config.controller.token_secret
    tokens = ArrayWriter(context.response_type, "tokens")
    owners = None
    if request.owners is not None:
        named = (Principal(each.principal_type, each.principal_name) for each in request.owners)
        owners = set(map(str, named))
    for index, token in enumerate(node.image.tokens()):
        if index % TOKENS_PER_PIECE == TOKENS_PER_PIECE - 1:
            yield CONFIG_ANSWER_WORK
        of_token = {token.owner, *token.renewers}
        if (owners is None or not owners.isdisjoint(of_token)) and _is_visible(context, token):
            tokens.add(**_row(token, secret))
    context.answer(reply(context.response_type, tokens=tokens.array()))


def _is_visible(context: RequestContext, token: DelegationTokenRecord) -> bool:
    if str(context.principal) in (token.owner, *token.renewers):
        return True
    rights = (
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner),
    )
    return any(context.access.allows(*right, audits=False) for right in rights)


def _row(token: DelegationTokenRecord, secret: Secret) -> dict[str, Any]:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.requester)
    renewers = map(Principal.parse, token.renewers)
    return {
        "principal_type": owner.principal_type,
        "principal_name": owner.name,
        "token_requester_principal_type": requester.principal_type,
        "token_requester_principal_name": requester.name,
        "issue_timestamp": token.issue_timestamp,
        "expiry_timestamp": token.expiration_timestamp,
        "max_timestamp": token.max_timestamp,
        "token_id": token.token_id,
        "hmac": code_of(secret, token.token_id),
        "renewers": [
            {"principal_type": each.principal_type, "principal_name": each.name}
            for each in renewers
        ],
    }


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_DELEGATION_TOKEN,
    doc=__doc__,
    listeners=BROKERS,
    versions=VersionRange(1, 3),
    requires=(
        InHandler(rights=on(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN)),
        InHandler(rights=on(Operation.DESCRIBE_TOKENS, ResourceType.USER)),
    ),
    handle=handle,
)
