"""Answers to whole requests, with the fields that most answers have."""

from collections.abc import Callable
from typing import Final

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


def refused_at_top(**values: object) -> Callable[[type, Entity, Refused], Entity]:
    """`refusal_of` of an API whose answer has the error at its top level, and these values."""

    def refusal_of(response_type: type, _: Entity, refused: Refused) -> Entity:
        code = error(refused.error_code)
        return reply(response_type, error_code=code, error_message=refused.message, **values)

    return refusal_of


def bare_reply(node: object, response_type: type, request: Entity, result: object) -> Entity:
    """`entity_of` of an API whose answer says no more than that it is done."""
    return reply(response_type)


refused_plainly: Final = refused_at_top()
"""`refusal_of` of an API whose answer has nothing else."""
