"""How an answer looks when the whole request is refused and has a field for that."""

from tidelog.controller.messages import Refused
from tidelog.wire.entities import Entity, make
from tidelog.wire.values import error, millis


def refused_at_top(response_type: type, refused: Refused, **values: object) -> Entity:
    """The answer with the error at its top level, and the other fields as given."""
    return make(
        response_type,
        throttle_time=millis(0),
        error_code=error(refused.error_code),
        error_message=refused.message,
        **values,
    )
