"""Envelope (58), version 0: a broker forwards a client's request (KIP-590).

The inner request is a whole frame with its own header. A controller that is not active refuses the
envelope itself with NOT_CONTROLLER, and the forwarding broker looks for the active one. Otherwise
the inner response travels back as a whole frame, and the envelope says NONE even when the inner
response carries errors.

An envelope that cannot be opened is answered as Kafka answers it: PRINCIPAL_DESERIALIZATION_FAILURE
for a principal that does not parse, INVALID_REQUEST for an address of neither 4 nor 16 bytes or an
API that is not forwarded, UNSUPPORTED_VERSION for a request that does not parse.
"""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from tidelog.broker.api.checks import CLUSTER_ACTION
from tidelog.broker.api.declaration import (
    CONTROLLERS,
    Api,
    ControllerApi,
    EnvelopeApi,
    ForwardedApi,
    QuorumQueryApi,
    VersionRange,
    VoterChangeApi,
)
from tidelog.broker.connections import RequestContext, throttled
from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError, UnwritableText
from tidelog.model import ANONYMOUS, Principal
from tidelog.wire import codec, principal_data
from tidelog.wire.api import ApiKey, RequestHeader, parse_header
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error_of

VERSION: Final = 0
_LOOPBACK: Final = b"\x7f\x00\x00\x01"
_ADDRESS_BYTES: Final = (4, 16)


@dataclass(slots=True, eq=False)
class EnvelopedContext:
    """The context of a request inside an envelope: it answers inside of the envelope's answer."""

    outer: RequestContext
    header: RequestHeader
    """The header of the inner request."""
    principal: Principal = ANONYMOUS
    """Who asked the broker that forwards."""
    host: str = ""
    """From which address."""
    is_delegated: bool = False
    """Whether a delegation token has proved who that is."""
    amend: Callable[[Entity], Entity] | None = None
    """Completes an answer with what was denied."""
    throttle_ms: int = 0
    """For how long the client must wait, by the quota of what it changes here."""
    unchecked: bool = True
    """Whether checks of its API lie before it still: no answer may leave."""

    def answer(self, entity: Entity) -> None:
        """Answers with an entity."""
        assert not self.unchecked, f"AuthorizedFirst: {self.header} has passed no checks"
        whole = entity if self.amend is None else self.amend(entity)
        if self.throttle_ms:
            whole = throttled(whole, self.throttle_ms)
        try:
            inner = codec.encode_response(self.header, whole)[4:]
        except UnwritableText as fault:
            self.refuse(fault.code)
        else:
            _answer(self.outer, ErrorCode.NONE, inner)

    def refuse(self, code: ErrorCode) -> None:
        """Answers the envelope itself with an error."""
        _answer(self.outer, code, None)


def _answer(outer: RequestContext, code: ErrorCode, inner: bytes | None) -> None:
    outer.answer(make(outer.response_type, response_data=inner, error_code=code))


def refuse(outer: RequestContext, code: ErrorCode) -> None:
    """Answers an envelope with an error."""
    _answer(outer, code, None)


def request_of(
    frame: bytes, principal: Principal, host: str, *, is_delegated: bool = False
) -> Entity:
    """An envelope around the request of a client at this address, header included."""
    return make(
        codec.request_class(ApiKey.ENVELOPE, VERSION),
        request_data=frame,
        request_principal=principal_data.pack(*principal, by_token=is_delegated),
        client_host_address=_packed(host),
    )


def _packed(host: str) -> bytes:
    """The 4 or 16 bytes of an address. Only a simulated client has a name instead."""
    try:
        return ip_address(host).packed
    except ValueError:
        return _LOOPBACK


class Opened(NamedTuple):
    """What was in an envelope."""

    principal: Principal
    is_delegated: bool
    host: str
    header: RequestHeader
    api: ForwardedApi[Any]
    request: Entity


def open_envelope(envelope: Entity, api_of: Callable[[ApiKey], Api[Any] | None]) -> Opened:
    """The request in an envelope. Raises `ProtocolError` with the code that refuses it."""
    try:
        kind, name, is_delegated = principal_data.parse(bytes(envelope.request_principal or b""))
    except MalformedFrame as fault:
        raise ProtocolError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, fault.message) from fault
    if len(envelope.client_host_address) not in _ADDRESS_BYTES:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "an address of neither IPv4 nor IPv6")
    frame = memoryview(envelope.request_data)
    try:
        header, offset = parse_header(frame)
        api = api_of(header.api_key)
        if not isinstance(api, ControllerApi | QuorumQueryApi | VoterChangeApi):
            text = f"an envelope around `{header.api_key.name}`"
            raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
        low, high = api.versions
        if not low <= header.api_version <= high:
            raise MalformedFrame(f"an envelope around version `{header.api_version}`")
        host = str(ip_address(envelope.client_host_address))
        request = codec.decode_request(header, frame, offset)
        return Opened(Principal(kind, name), is_delegated, host, header, api, request)
    except MalformedFrame as fault:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, fault.message) from fault


def outcome_of(frame: Buffer) -> bytes | ErrorCode:
    """The inner response of an envelope's answer, without length prefix, or why the envelope itself
    was refused. Raises `MalformedFrame`."""
    _, entity = codec.decode_response(ApiKey.ENVELOPE, VERSION, frame)
    code = error_of(entity.error_code)
    if code is ErrorCode.NONE and entity.response_data is None:
        raise MalformedFrame("an envelope without a response or an error")
    return bytes(entity.response_data) if code is ErrorCode.NONE else code


API: Final = EnvelopeApi(
    key=ApiKey.ENVELOPE,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(VERSION, VERSION),
    sent_version=VERSION,
    requires=CLUSTER_ACTION,
)
