"""Who may ask about delegation tokens, and for whom.

A token is worth a password, so it travels only where a user has logged in, not with a token itself:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on PLAINTEXT, on SSL without a client's certificate, and in a
session that a token began. Of a request in an envelope the broker has seen the client's connection;
the controller asks only whether a token began the session, whatever the nodes' own connection is. A
token of another user needs CREATE_TOKENS on that user.

Each node looks, the one that is asked and the controller, before anything else is asked of the
request. The answers have the names that Kafka's have, which only this module knows.

Source: KIP-48, KIP-373; Kafka's `KafkaApis.allowTokenRequests`, `ControllerApis`.
"""

from typing import Any, Final

from tidelog.broker.api.k58_envelope import EnvelopedContext
from tidelog.broker.authorization import Authorization
from tidelog.broker.connections import RequestContext
from tidelog.config import NodeConfig
from tidelog.errors import ErrorCode
from tidelog.model import ANONYMOUS, Principal, SecurityProtocol
from tidelog.security.authorizer import Access
from tidelog.security.rights import Operation, ResourceType
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make
from tidelog.wire.values import timestamp

_APIS: Final = frozenset(
    (
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    )
)
_USER: Final = "User"
_NO_TIME_MS: Final = -1
_UNSET_MS: Final = 0
"""What Kafka's controller answers where a time is not set."""


class TokenRules:
    """The rules of one node."""

    def __init__(self, config: NodeConfig, authorization: Authorization) -> None:
        self._protocols = config.security_protocols
        self._is_enabled = bool(config.controller.token_secret)
        self._controller_listeners = config.controller_listener_names
        self._authorization = authorization

    def refuses(self, context: RequestContext | EnvelopedContext, request: Entity) -> bool:
        """Whether a request is one about tokens that may not be made; then it is answered."""
        if context.header.api_key not in _APIS:
            return False
        code = self._objection(context, request)
        if code is not None:
            context.unchecked = False
            at_ms = _UNSET_MS if self._is_unset(context, code) else _NO_TIME_MS
            context.answer(_refused(context, request, code, at_ms))
        return code is not None

    def _is_unset(self, context: RequestContext | EnvelopedContext, code: ErrorCode) -> bool:
        """Whether Kafka leaves the times of a refusal at 0: its controllers do, where they and not
        an authorizer refuse."""
        if code is ErrorCode.INVALID_PRINCIPAL_TYPE:
            if isinstance(context, EnvelopedContext):
                return True
            return context.connection.listener in self._controller_listeners
        return code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    def _objection(
        self, context: RequestContext | EnvelopedContext, request: Entity
    ) -> ErrorCode | None:
        key, asker = context.header.api_key, context.principal
        if isinstance(context, EnvelopedContext):
            is_refused = context.is_delegated
            access = self._authorization.at(asker, context.host)
        else:
            connection = context.connection
            protocol = self._protocols[connection.listener]
            is_unknown = protocol is SecurityProtocol.SSL and asker == ANONYMOUS
            is_plain = protocol is SecurityProtocol.PLAINTEXT
            is_refused = connection.is_delegated or is_unknown or is_plain
            access = self._authorization.of(connection)
        if is_refused:
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        if key is ApiKey.CREATE_DELEGATION_TOKEN:
            return self._objection_to_owner(access, asker, request)
        return None if self._is_enabled else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

    def _objection_to_owner(
        self, access: Access, asker: Principal, request: Entity
    ) -> ErrorCode | None:
        owner = _owner_of(request, asker)
        right = Operation.CREATE_TOKENS, ResourceType.USER
        if owner != asker and not (access.is_known and access.allows(*right, str(owner))):
            return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        if any(renewer.principal_type != _USER for renewer in request.renewers):
            return ErrorCode.INVALID_PRINCIPAL_TYPE
        return None if self._is_enabled else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def _owner_of(request: Entity, asker: Principal) -> Principal:
    name: str | None = field(request, "owner_principal_name", None)
    return Principal(field(request, "owner_principal_type", None) or "", name) if name else asker


def _refused(
    context: RequestContext | EnvelopedContext, request: Entity, code: ErrorCode, at_ms: int
) -> Entity:
    key, version = context.header.api_key, context.header.api_version
    values: dict[str, Any] = {"error_code": code, "throttle_time": 0, "tokens": ()}
    times = ("issue_timestamp", "expiry_timestamp", "max_timestamp")
    values |= dict.fromkeys(times, timestamp(at_ms))
    if key is ApiKey.CREATE_DELEGATION_TOKEN:
        values |= {"token_id": "", "hmac": b""}
        values["principal_type"], values["principal_name"] = _owner_of(request, context.principal)
        asker_type, asker_name = context.principal
        values["token_requester_principal_type"] = asker_type
        values["token_requester_principal_name"] = asker_name
    return make(codec.response_class(key, version), **values)
