"""ApiVersions (18), versions 0-4: which APIs this listener serves.

An unsupported version is answered in the format of version 0 with UNSUPPORTED_VERSION and the
versions of this API alone, so that any client can find common ground (KIP-511); the router does
that part. From version 3 on the
client must name itself (KIP-511). Supported features with minimum level 0 are hidden below
version 4, whose clients would take 0 for "absent".
"""

import re
from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.checks import NOTHING
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, Listener, LocalApi, VersionRange
from tidelog.broker.api.needs import HasApis, HasConfig, HasImage, HasLogins, HasQuorum
from tidelog.broker.connections import RequestContext
from tidelog.broker.features import FEATURES
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.codec import SENT_VERSIONS
from tidelog.kraft.voters import KRAFT_VERSION
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

FIRST_VERSION_WITH_LEVEL_0: Final = 4

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Node(HasApis, HasConfig, HasImage, HasLogins, HasQuorum, Protocol):
    """What ApiVersions needs."""


def handle(node: Node, context: RequestContext, request: Entity, now: Instant) -> None:
    """Answers with the list of the listener that the request came in by."""
    illegal = node.logins.illegal_greeting(context)
    if illegal is not None:
        refusal = _refusal(context.response_type, illegal.code)
        framed = codec.encode_response(context.header, refusal)
        node.logins.answer(context, illegal, framed, now)
        return
    if context.header.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        context.answer(_refusal(context.response_type, ErrorCode.INVALID_REQUEST))
        return
    on_controller = context.listener in node.config.controller_listener_names
    apis = node.apis.advertised(Listener.CONTROLLER if on_controller else Listener.BROKER)
    shows_all = context.header.api_version >= FIRST_VERSION_WITH_LEVEL_0
    # The quorum's own feature is in its log and not in the image.
    levels = {**node.image.features, KRAFT_VERSION: node.quorum.kraft_version}
    response = reply(
        context.response_type,
        api_keys=[_row(key, versions) for key, versions in sorted(apis.items())],
        supported_features=[
            {"name": name, "min_version": low, "max_version": high}
            for name, (low, high) in sorted(FEATURES.items())
            if low > 0 or shows_all
        ],
        finalized_features_epoch=node.image.offset,
        finalized_features=[
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in sorted(levels.items())
            if level > 0
        ],
    )
    context.answer(response)
    node.logins.on_greeted(context)


def unsupported(node: Node, context: RequestContext) -> None:
    """Answers a version that does not exist in the format of version 0."""
    response_type: type = codec.response_class(ApiKey.API_VERSIONS, 0)
    own = _row(API.key, API.versions)
    context.answer(_refusal(response_type, ErrorCode.UNSUPPORTED_VERSION, own))


def _refusal(response_type: type, code: ErrorCode, *rows: dict[str, int]) -> Entity:
    return reply(
        response_type,
        error_code=code,
        api_keys=rows,
        supported_features=(),
        finalized_features_epoch=-1,
        finalized_features=(),
    )


def _row(key: ApiKey, versions: VersionRange) -> dict[str, int]:
    return {"api_key": int(key), **versions._asdict()}


API: Final = LocalApi(
    key=ApiKey.API_VERSIONS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 4),
    sent_version=SENT_VERSIONS[ApiKey.API_VERSIONS],
    requires=NOTHING,
    handle=handle,
    unsupported=unsupported,
)
