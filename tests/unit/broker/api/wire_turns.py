"""Entities through the codec and back, as the other end would see them."""

from collections.abc import Mapping
from typing import Any

from tests.served import BROKER_APIS, CONTROLLER_APIS
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import make


def versions(key: ApiKey) -> range:
    """Every version of the API that some listener serves."""
    low, high = (BROKER_APIS.get(key) or CONTROLLER_APIS[key])[:2]
    return range(low, high + 1)


def request(key: ApiKey, version: int, /, **values: Any) -> Any:
    """A request as the handler gets it, from those values that this version has."""
    return sent(make(codec.request_class(key, version), **values))


def sent(entity: Any) -> Any:
    """A request entity as the handler gets it."""
    frame = codec.encode_request(entity, 7, "client")[4:]
    header, offset = parse_header(frame)
    assert header == RequestHeader(ApiKey(entity.__api_key__), entity.__version__, 7, "client")
    return codec.decode_request(header, frame, offset)


def answered(key: ApiKey, version: int, entity: Any) -> Any:
    """A response entity as the client gets it."""
    header = RequestHeader(key, version, 7, "client")
    correlation_id, found = codec.decode_response(
        key, version, codec.encode_response(header, entity)[4:]
    )
    assert correlation_id == 7
    return found


def shown(entity: Any, *names: str) -> Mapping[str, Any]:
    """Those of the fields that this version has."""
    return {name: getattr(entity, name) for name in names if hasattr(entity, name)}
