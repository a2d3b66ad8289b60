"""DeleteTopics (20), versions 1-6, decided by the active controller.

The controller is ahead of the metadata by which a request is checked. So an id that is unknown
there is UNKNOWN_TOPIC_ID for all who may not delete any topic: the controller is not asked about
it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.checks import Asked, Check, Each
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.mirroring import mirrored
from tidelog.controller import topic_messages as messages
from tidelog.controller.messages import Refused
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, Right, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, extended, field, nested
from tidelog.wire.shapes import Place, Rows, Shape

_BY_NAME_OR_ID: Final = Rows("topics", Shape(messages.TopicRef))


def _refs(request: Entity) -> tuple[messages.TopicRef, ...]:
    names = field(request, "topic_names", None)
    if names is not None:
        return tuple(messages.TopicRef(name) for name in names)
    return _BY_NAME_OR_ID.read(request)


MESSAGE: Final = Shape(messages.DeleteTopics, topics=Place(_refs))
RESULT: Final = answer(messages.DeleteTopicsResult, topics="responses")


def _refused(request: Entity, refused: Refused) -> messages.DeleteTopicsResult:
    code, message = refused.error_code, refused.message
    topics = MESSAGE.read(request).topics
    return messages.DeleteTopicsResult(
        tuple(messages.DeletedTopic(*ref, code, message) for ref in topics)
    )


_DESCRIBE: Final = (
    Right(Operation.DELETE, ResourceType.CLUSTER),
    Right(Operation.DESCRIBE, ResourceType.TOPIC),
)
_DELETE: Final = on(Operation.DELETE, ResourceType.CLUSTER, ResourceType.TOPIC)


def _has_name(row: Any) -> bool:
    return isinstance(row, str) or row.name is not None


class _Deletable(Each):
    """DELETE on each topic. Who gives an id is shown the name only with DESCRIBE. Who may describe
    a topic that does not exist learns that."""

    def denied_rows(self, asked: Asked, row_type: type, rows: Iterable[Any]) -> tuple[Entity, ...]:
        """The rows of the answer."""
        made = []
        for row in rows:
            name = asked.name_of(row, self.name) or ""
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if name not in asked.image.topics_by_name:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            shows = _has_name(row) or asked.access.meets(_DESCRIBE, name, audits=False)
            made.append(replace(mirrored(row_type, row, code), name=name if shows else None))
        return tuple(made)


class _KnownIds(Check):
    """Takes out ids that nothing is known of."""

    rights = on(Operation.DELETE, ResourceType.CLUSTER)

    def apply(self, asked: Asked) -> None:
        """Answers them."""
        rows = field(asked.request, "topics", ())
        unknown = [row for row in rows if asked.name_of(row, "name") is None]
        if not unknown or asked.access.meets(self.rights, "", audits=False):
            return
        kept = tuple(row for row in rows if asked.name_of(row, "name") is not None)
        asked.request = replace(asked.request, topics=kept)
        row_type = nested(asked.response_type, "responses")
        code = ErrorCode.UNKNOWN_TOPIC_ID
        answers = tuple(replace(mirrored(row_type, row, code), name=None) for row in unknown)
        asked.amendments.append(lambda _, answer: extended(answer, "responses", answers))


API: Final = ControllerApi(
    key=ApiKey.DELETE_TOPICS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 6),
    requires=(
        *(
            check
            for rows in ("topic_names", "topics")
            for check in (
                Each(rights=_DESCRIBE, rows=rows, answer="responses", about=_has_name),
                _Deletable(rights=_DELETE, rows=rows, answer="responses"),
            )
        ),
        _KnownIds(),
    ),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)
