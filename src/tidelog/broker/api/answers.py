"""Answers to whole requests, with the fields that most answers have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from tidelog.broker.api.mirroring import Others, mirrored
from tidelog.broker.long_answers import Pieces
from tidelog.controller.messages import Refused
from tidelog.errors import ErrorCode
from tidelog.limits import ANSWER_WORK_PER_TURN, PARTITION_ANSWER_WORK
from tidelog.wire.entities import Entity, make
from tidelog.wire.shapes import AnyPlace, Shape

NodeT = TypeVar("NodeT", contravariant=True)
ResultT = TypeVar("ResultT")


def reply(response_type: type, **values: object) -> Entity:
    """The answer from the values that its version has; no error and no pause if not given."""
    usual = {"throttle_time": 0, "error_code": ErrorCode.NONE, "error_message": None}
    return make(response_type, **usual | values)


@dataclass(frozen=True, slots=True)
class Answer(Generic[NodeT, ResultT]):
    """The answer to a request that was decided, and the result in an answer to our own."""

    shape: Shape[ResultT]
    entity_of: Callable[[NodeT, type, Entity, ResultT], Entity]
    """From the answer's entity class, the request and the result."""
    is_plain: bool = False
    """Whether an answer has the fields of the result and nothing else."""

    def is_long(self, result: ResultT) -> bool:
        """Whether it has more rows than a turn should encode; only of those that are plain."""
        most_rows = ANSWER_WORK_PER_TURN // PARTITION_ANSWER_WORK
        return self.is_plain and self.shape.count_rows(result) > most_rows

    def pieces(
        self, response_type: type, result: ResultT, give: Callable[[Entity], None]
    ) -> Pieces:
        """The work of encoding a plain answer, which is given away in the end."""
        values = yield from self.shape.write_encoded(response_type, result, PARTITION_ANSWER_WORK)
        give(reply(response_type, **values))


def answer(result_type: type[ResultT], /, **places: AnyPlace) -> Answer[object, ResultT]:
    """An answer that has the fields of the result."""
    shape = Shape(result_type, fixed=None, absent=None, **places)
    return Answer(
        shape,
        lambda node, response_type, _, result: reply(response_type, **shape.write(result)),
        is_plain=True,
    )


def refused_at_top(**values: object) -> Callable[[type, Entity, Refused], Entity]:
    """`refusal_of` of an API whose answer has the error at its top level, and these values."""

    def refusal_of(response_type: type, _: Entity, refused: Refused) -> Entity:
        code, message = refused.error_code, refused.message
        return reply(response_type, error_code=code, error_message=message, **values)

    return refusal_of


def refused_rows(renamed: Others) -> Callable[[type, Entity, Refused], Entity]:
    """`refusal_of` of an API whose answer has the error at its top level and in its rows."""

    def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
        code, message = refused.error_code, refused.message
        return mirrored(response_type, request, code, renamed=renamed, message=message)

    return refusal_of


refused_plainly: Final = refused_at_top()
"""`refusal_of` of an API whose answer has nothing else."""


def refused_each(
    result: Answer[Any, ResultT], refused_result: Callable[[Entity, Refused], ResultT]
) -> Callable[[type, Entity, Refused], Entity]:
    """`refusal_of` of an API in whose answer everything that was asked for has the error."""

    def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
        rows = result.shape.write(refused_result(request, refused))
        return reply(response_type, error_code=refused.error_code, **rows)

    return refusal_of
