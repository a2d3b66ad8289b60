"""CreatePartitions (37), versions 0-3, decided by the active controller."""

from typing import Final

from tidelog.broker.api.answers import answer, refused_each
from tidelog.broker.api.checks import topics
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.controller import topic_messages as messages
from tidelog.controller.messages import Refused
from tidelog.security.rights import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity
from tidelog.wire.shapes import Shape, tuples

MESSAGE: Final = Shape(
    messages.CreatePartitions,
    topics=Shape(messages.MorePartitions, assignments=tuples("assignments", "broker_ids")),
)
RESULT: Final = answer(messages.CreatePartitionsResult, topics="results")


def _refused(request: Entity, refused: Refused) -> messages.CreatePartitionsResult:
    code, message = refused.error_code, refused.message
    topics = (messages.MorePartitionsResult(topic.name, code, message) for topic in request.topics)
    return messages.CreatePartitionsResult(tuple(topics))


API: Final = ControllerApi(
    key=ApiKey.CREATE_PARTITIONS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(0, 3),
    requires=(topics(Operation.ALTER, answer="results"),),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)
