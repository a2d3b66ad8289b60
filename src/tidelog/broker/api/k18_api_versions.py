"""ApiVersions (18), versions 0-4: which APIs this listener serves.

An unsupported version is answered in the format of version 0 with UNSUPPORTED_VERSION and the
list, so that any client can find common ground; the router does that part. From version 3 on the
client must name itself (KIP-511). Supported features with minimum level 0 are hidden below
version 4, whose clients would take 0 for "absent".
"""

import re
from typing import Final

from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.broker.features import FEATURES
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.voters import KRAFT_VERSION
from tidelog.wire import codec
from tidelog.wire.api import BROKER_APIS, CONTROLLER_APIS
from tidelog.wire.entities import Entity, has_field, make, nested
from tidelog.wire.values import error, millis

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, pending: PendingRequest, request: Entity, now: Instant) -> None:
    """Answers with the list of the listener that the request came in by."""
    code = ErrorCode.NONE
    if pending.header.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        code = ErrorCode.INVALID_REQUEST
    broker.answer(pending, response(broker, pending, pending.header.api_version, code))


def response(broker: Broker, pending: PendingRequest, version: int, code: ErrorCode) -> Entity:
    """The response entity of `version`."""
    response_type = codec.response_class(18, version)
    api_type = nested(response_type, "api_keys")
    on_controller = pending.connection.listener in broker.config.controller_listener_names
    apis = CONTROLLER_APIS if on_controller else BROKER_APIS
    if code is ErrorCode.INVALID_REQUEST:
        apis = {}
    values: dict[str, object] = {
        "error_code": error(code),
        "throttle_time": millis(0),
        "api_keys": tuple(
            make(api_type, api_key=int(key), min_version=low, max_version=high)
            for key, (low, high) in sorted(apis.items())
        ),
    }
    if has_field(response_type, "finalized_features"):
        values |= _features(broker, response_type, version)
    return make(response_type, **values)


def _features(broker: Broker, response_type: type, version: int) -> dict[str, object]:
    supported_type = nested(response_type, "supported_features")
    finalized_type = nested(response_type, "finalized_features")
    # The quorum's own feature is in its log and not in the image.
    levels = {**broker.image.features, KRAFT_VERSION: broker.quorum.kraft_version}
    return {
        "supported_features": tuple(
            make(supported_type, name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(FEATURES.items())
            if low > 0 or version >= 4
        ),
        "finalized_features_epoch": broker.image.offset,
        "finalized_features": tuple(
            make(finalized_type, name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(levels.items())
            if level > 0
        ),
    }
