"""Answers to whole requests, with the fields that most answers have."""

from tidelog.controller.messages import Refused
from tidelog.errors import ErrorCode
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error, millis


def reply(response_type: type, **values: object) -> Entity:
    """The answer from the values that its version has; no error and no pause if not given."""
    return make(
        response_type,
        **{"throttle_time": millis(0), "error_code": error(ErrorCode.NONE), "error_message": None}
        | values,
    )


def refused_at_top(response_type: type, refused: Refused, **values: object) -> Entity:
    """The answer with the error at its top level, and the other fields as given."""
    code = error(refused.error_code)
    return reply(response_type, error_code=code, error_message=refused.message, **values)
