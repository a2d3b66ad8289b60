"""DescribeUserScramCredentials (50), version 0: which users log in by SCRAM, and how.

Mechanisms and iterations, never keys. No list, or an empty one, asks for all users. A user without
a credential is RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE. A broker answers
from the metadata that it has applied.
"""

from collections import Counter
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasImage
from tidelog.broker.connections import RequestContext
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity


class Node(HasImage, Protocol):
    """What DescribeUserScramCredentials needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers at once."""
    found: dict[str, list[dict[str, int]]] = {}
    for record in node.image.scram_credentials():
        row = {"mechanism": record.mechanism, "iterations": record.iterations}
        found.setdefault(record.name, []).append(row)
    named = Counter(user.name for user in request.users or ())
    rows = [_row(user, times, found.get(user, [])) for user, times in named.items()]
    if not named:
        rows = [_row(user, 1, credentials) for user, credentials in found.items()]
    context.answer(reply(context.response_type, results=rows))


def _row(user: str, times: int, credentials: list[dict[str, int]]) -> dict[str, object]:
    code, message = ErrorCode.NONE, None
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice: {user}"
    elif not credentials:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {user}"
    return {
        "user": user,
        "error_code": code,
        "error_message": message,
        "credential_infos": [] if code is not ErrorCode.NONE else credentials,
    }


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 0),
    requires=(cluster(Operation.DESCRIBE, renamed={"results": ("",)}),),
    handle=handle,
)
