"""Envelope (58), version 0: a broker forwards a client's request (KIP-590).

The inner request is a whole frame with its own header. A controller that is not active refuses the
envelope itself with NOT_CONTROLLER, and the forwarding broker looks for the active one. Otherwise
the inner response travels back as a whole frame, and the envelope says NONE even when the inner
response carries errors.
"""

from tidelog.broker.connections import PendingRequest
from tidelog.broker.context import Broker
from tidelog.controller.messages import Refused, Response
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error


def response(code: ErrorCode, inner: bytes | None) -> Entity:
    """The envelope around an inner response frame (without length prefix)."""
    return make(
        codec.response_class(ApiKey.ENVELOPE, 0), response_data=inner, error_code=error(code)
    )


def refuse(broker: Broker, pending: PendingRequest, code: ErrorCode) -> None:
    """Answers the envelope itself with an error."""
    broker.answer(pending, response(code, None))


def is_not_controller(answer: Response) -> bool:
    """Whether the whole answer is that this controller is not, or no longer, active."""
    return isinstance(answer, Refused) and answer.error_code is ErrorCode.NOT_CONTROLLER
