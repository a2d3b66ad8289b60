"""CreateDelegationToken (38), versions 1-3, decided by the active controller.

A token of the user who asks, or of another one with CREATE_TOKENS on that user (version 3). The
answer has its code, which is the password of who logs in with it. It lives for
`delegation.token.expiry.time.ms` unless it is renewed, and never longer than
`delegation.token.max.lifetime.ms` or what was asked for. Renewers must be of the type `User`. Who
may ask at all is in `broker/token_rules.py`. A cluster has `limits.MAX_DELEGATION_TOKENS` of them
at most; one more is POLICY_VIOLATION. Kafka has no such limit.
"""

from typing import Final

from tidelog.broker.api.answers import Answer, answer
from tidelog.broker.api.checks import InHandler
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.mirroring import mirrored
from tidelog.controller.messages import Refused
from tidelog.controller.token_messages import CreateToken, CreateTokenResult
from tidelog.model import Principal
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
from tidelog.wire.shapes import Place, Shape
from tidelog.wire.values import timestamp, to_timestamp_ms

_OTHERS: Final = on(Operation.CREATE_TOKENS, ResourceType.USER, condition="for another user")


def time_at(name: str) -> Place:
    """The place of a time in wall milliseconds."""
    return Place(
        lambda entity: to_timestamp_ms(getattr(entity, name)),
        lambda value: {name: timestamp(value)},
    )


def _principal(prefix: str) -> Place:
    names = f"{prefix}principal_type", f"{prefix}principal_name"
    return Place(
        lambda entity: Principal(*(field(entity, name, None) or "" for name in names)),
        lambda value: dict(zip(names, value, strict=True)),
    )


MESSAGE: Final = Shape(
    CreateToken,
    owner=_principal("owner_"),
    renewers=Shape(Principal, name="principal_name"),
    max_lifetime_ms="max_lifetime",
)
RESULT: Final[Answer[object, CreateTokenResult]] = answer(
    CreateTokenResult,
    owner=_principal(""),
    requester=_principal("token_requester_"),
    issue_ms=time_at("issue_timestamp"),
    expiry_ms=time_at("expiry_timestamp"),
    max_ms=time_at("max_timestamp"),
)


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """The answer with the code, and the owner where the request names one."""
    owner = {f"principal_{part}": f"owner_principal_{part}" for part in ("type", "name")}
    return mirrored(response_type, request, refused.error_code, renamed=owner)


API: Final = ControllerApi(
    key=ApiKey.CREATE_DELEGATION_TOKEN,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 3),
    requires=(InHandler(rights=_OTHERS),),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refusal_of,
)
