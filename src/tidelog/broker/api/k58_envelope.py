"""Envelope (58), version 0: a broker forwards a client's request (KIP-590).

The inner request is a whole frame with its own header. A controller that is not active refuses the
envelope itself with NOT_CONTROLLER, and the forwarding broker looks for the active one. Otherwise
the inner response travels back as a whole frame, and the envelope says NONE even when the inner
response carries errors.

Left out: the client's principal and address; without authentication they decide nothing.
"""

from dataclasses import dataclass
from typing import Final

from tidelog.broker.api.declaration import CONTROLLERS, EnvelopeApi, VersionRange
from tidelog.broker.connections import RequestContext
from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode
from tidelog.security.principal import ANONYMOUS, Principal
from tidelog.security.rights import CLUSTER_ACTION
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error_of

VERSION: Final = 0
_LOOPBACK: Final = b"\x7f\x00\x00\x01"


@dataclass(frozen=True, slots=True, eq=False)
class EnvelopedContext:
    """The context of a request inside an envelope: it answers inside of the envelope's answer."""

    outer: RequestContext
    header: RequestHeader
    """The header of the inner request."""
    principal: Principal = ANONYMOUS
    """Who asked the broker that forwards."""

    def answer(self, entity: Entity) -> None:
        """Answers with an entity."""
        inner = codec.encode_response(self.header, entity)[4:]
        _answer(self.outer, ErrorCode.NONE, inner)

    def refuse(self, code: ErrorCode) -> None:
        """Answers the envelope itself with an error."""
        _answer(self.outer, code, None)


def _answer(outer: RequestContext, code: ErrorCode, inner: bytes | None) -> None:
    outer.answer(make(outer.response_type, response_data=inner, error_code=code))


def refuse(outer: RequestContext, code: ErrorCode) -> None:
    """Answers an envelope with an error."""
    _answer(outer, code, None)


def request_of(frame: bytes) -> Entity:
    """An envelope around a client's request, header included."""
    return make(
        codec.request_class(ApiKey.ENVELOPE, VERSION),
        request_data=frame,
        request_principal=None,
        client_host_address=_LOOPBACK,
    )


def inner_response(frame: Buffer) -> bytes | None:
    """The inner response of an envelope's answer, without length prefix; `None` when the envelope
    itself was refused. Raises `MalformedFrame`."""
    _, entity = codec.decode_response(ApiKey.ENVELOPE, VERSION, frame)
    if error_of(entity.error_code) is not ErrorCode.NONE or entity.response_data is None:
        return None
    return bytes(entity.response_data)


API: Final = EnvelopeApi(
    key=ApiKey.ENVELOPE,
    doc=__doc__,
    listeners=CONTROLLERS,
    versions=VersionRange(VERSION, VERSION),
    sent_version=VERSION,
    requires=CLUSTER_ACTION,
)
