"""DeleteTopics (20), versions 1-6, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.checks import Each
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import topic_messages as messages
from tidelog.controller.messages import Refused
from tidelog.security.rights import Operation, ResourceType, Right, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field
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


API: Final = ControllerApi(
    key=ApiKey.DELETE_TOPICS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(1, 6),
    requires=tuple(
        Each(rights=rights, rows=rows, answer="responses", shows_name=rights is _DELETE)
        for rights in (_DESCRIBE, _DELETE)
        for rows in ("topic_names", "topics")
    ),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)
