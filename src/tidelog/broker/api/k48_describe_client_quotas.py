"""DescribeClientQuotas (48), versions 0-1: the quotas of users, client ids and addresses.

A component asks for one type: for a name, for the default, or for any name and the default. A
quota is found if it has all types that are asked for, and with `strict` no others. Any node answers
from its committed metadata. A component that makes no sense is INVALID_REQUEST, and a type that is
none UNSUPPORTED_VERSION, as in Kafka.
"""

from typing import Final

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import CONFIG_ANSWER_WORK, QUOTAS_PER_PIECE
from tidelog.metadata.quotas import CLIENT_ID, IP, SUBJECT_TYPES, USER
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2

_Filter = tuple[dict[str, str | None], set[str]]
"""Names by type, where `None` is the default; and types of which any will do."""


def handle(node: HasImage, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the image of this moment."""
    try:
        names, kinds = _filter_of(request)
    except ProtocolError as fault:
        refusal = {"error_code": fault.code, "error_message": fault.message}
        context.answer(reply(context.response_type, entries=None, **refusal))
        return
    entries = ArrayWriter(context.response_type, "entries")
    for index, (subject, values) in enumerate(node.image.quotas.items()):
        if index % QUOTAS_PER_PIECE == QUOTAS_PER_PIECE - 1:
            yield CONFIG_ANSWER_WORK
        parts = dict(subject)
        if request.strict and len(parts) != len(names) + len(kinds):
            continue
        if kinds <= parts.keys() and names.items() <= parts.items():
            entries.add(
                entity=[{"entity_type": kind, "entity_name": name} for kind, name in subject],
                values=[{"key": key, "value": value} for key, value in values.items()],
            )
    context.answer(reply(context.response_type, entries=entries.array()))


def _filter_of(request: Entity) -> _Filter:
    names: dict[str, str | None] = {}
    kinds: set[str] = set()
    for part in request.components:
        kind, match = part.entity_type, part.match
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in names or kind in kinds:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in SUBJECT_TYPES:
            text = f"Unsupported entity type {kind}"
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, text)
        if part.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise _invalid(f"Unknown match type {part.match_type}")
        if (match is not None) != (part.match_type == _EXACT):
            raise _invalid("Only an exact match has a string to match, and it must have one.")
        if part.match_type == _ANY:
            kinds.add(kind)
        else:
            names[kind] = match
    asked = names.keys() | kinds
    if IP in asked and asked & {USER, CLIENT_ID}:
        raise _invalid("IP filter component should not be used with user or clientId.")
    return names, kinds


def _invalid(text: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, text)


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 1),
    requires=(cluster(Operation.DESCRIBE_CONFIGS, renamed={"entries": None}),),
    handle=handle,
)
