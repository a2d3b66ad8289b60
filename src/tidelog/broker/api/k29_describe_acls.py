"""DescribeAcls (29), versions 1-3: the access control entries that a filter finds.

Any node answers, from its committed metadata. A number that is none of the protocol's is
INVALID_REQUEST; Kafka closes the connection for 0. Without an authorizer it is SECURITY_DISABLED.
"""

from typing import Final

from tidelog.broker.api.acl_rows import FILTER
from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import cluster
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, LocalApi, VersionRange
from tidelog.broker.api.needs import HasImage
from tidelog.broker.connections import RequestContext
from tidelog.broker.long_answers import Pieces
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import ACLS_PER_PIECE, CONFIG_ANSWER_WORK
from tidelog.metadata.acls import AclEntry, entry_of, fault_of_filter, matches
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import ArrayWriter, Entity


def handle(node: HasImage, context: RequestContext, request: Entity, now: Instant) -> Pieces:
    """Answers from the image of this moment."""
    wanted = FILTER.read(request)
    fault = fault_of_filter(wanted)
    if context.access.is_unlimited:
        _refuse(context, ErrorCode.SECURITY_DISABLED, "No authorizer is configured.")
        return
    if fault is not None:
        _refuse(context, ErrorCode.INVALID_REQUEST, fault)
        return
    found: dict[tuple[int, str, int], list[AclEntry]] = {}
    for index, record in enumerate(node.image.acls.values()):
        entry = entry_of(record)
        if matches(wanted, entry):
            found.setdefault(entry[:3], []).append(entry)
        if index % ACLS_PER_PIECE == ACLS_PER_PIECE - 1:
            yield CONFIG_ANSWER_WORK
    resources = ArrayWriter(context.response_type, "resources")
    for (resource_type, name, pattern_type), entries in found.items():
        resources.add(
            resource_type=resource_type,
            resource_name=name,
            pattern_type=pattern_type,
            acls=[entry._asdict() for entry in entries],
        )
        yield CONFIG_ANSWER_WORK
    context.answer(reply(context.response_type, resources=resources.array()))


def _refuse(context: RequestContext, code: ErrorCode, text: str) -> None:
    refusal = {"error_code": code, "error_message": text}
    context.answer(reply(context.response_type, resources=(), **refusal))


API: Final = LocalApi(
    key=ApiKey.DESCRIBE_ACLS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 3),
    requires=(cluster(Operation.DESCRIBE),),
    handle=handle,
)
