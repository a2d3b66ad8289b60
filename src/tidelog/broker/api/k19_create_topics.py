"""CreateTopics (19), versions 2-7, decided by the active controller."""

from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from tidelog.broker.api.answers import Answer, refused_each, reply
from tidelog.broker.api.checks import Asked, Check, Each
from tidelog.broker.api.config_rows import ConfigRows, Row
from tidelog.broker.api.declaration import BROKERS_AND_CONTROLLERS, ControllerApi, VersionRange
from tidelog.broker.api.k32_describe_configs import CONFIG
from tidelog.broker.api.needs import HasConfig, HasImage
from tidelog.config import BrokerOverrides, describe_topic_config
from tidelog.controller import topic_messages as messages
from tidelog.controller.messages import Refused
from tidelog.errors import ErrorCode
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, nested
from tidelog.wire.shapes import Place, Shape, tuples
from tidelog.wire.values import error_of

TIMEOUT_MS: Final = 30_000
_FIRST_WITH_CONFIGS: Final = 5


class Node(HasConfig, HasImage, Protocol):
    """What the answer shows is of the node's configuration."""


_CONFIGS: Final = Place(lambda topic: {}, lambda configs: {"configs": ()})
"""Of a topic that was made; `entity_of` shows them, and our own nodes do not read them."""

MESSAGE: Final = Shape(
    messages.CreateTopics,
    topics=Shape(
        messages.NewTopic,
        assignments=tuples("assignments", "partition_index", "broker_ids"),
        configs=tuples("configs", "name", "value"),
    ),
    fixed={"timeout": TIMEOUT_MS},
)
_RESULT: Final = Shape(
    messages.CreateTopicsResult, topics=Shape(messages.NewTopicResult, configs=_CONFIGS)
)


def entity_of(
    node: Node, response_type: type, request: Entity, result: messages.CreateTopicsResult
) -> Entity:
    """The reply; a topic that was made is shown with its configs."""
    topics = _RESULT.write(result)["topics"]
    if response_type.__version__ >= _FIRST_WITH_CONFIGS:  # type: ignore[attr-defined]
        rows = ConfigRows(nested(response_type, "topics"))
        for topic, made in zip(topics, result.topics, strict=True):
            if made.error_code is ErrorCode.NONE:
                topic["configs"] = rows.of(made.configs, partial(_configs, node, made))
    return reply(response_type, topics=topics)


def _configs(node: Node, topic: messages.NewTopicResult) -> list[Row]:
    levels = BrokerOverrides(
        own=node.image.broker_configs(node.config.node_id), default=node.image.broker_configs(None)
    )
    described = describe_topic_config(topic.configs, node.config, levels)
    return [CONFIG.write(item) for item in described]


RESULT: Final = Answer(_RESULT, entity_of)


def _refused(request: Entity, refused: Refused) -> messages.CreateTopicsResult:
    code, message = refused.error_code, refused.message
    topics = (messages.NewTopicResult(topic.name, code, message) for topic in request.topics)
    return messages.CreateTopicsResult(tuple(topics))


class _ShownConfigs(Check):
    """A topic that was made is shown with its configs to those who may describe them."""

    rights = on(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, condition="configs in the answer")

    def apply(self, asked: Asked) -> None:
        """Hides configs and counts."""
        if asked.response_type.__version__ >= _FIRST_WITH_CONFIGS:  # type: ignore[attr-defined]
            asked.amendments.append(self._hidden)

    def _hidden(self, asked: Asked, answer: Entity) -> Entity:
        topics = [
            topic
            if error_of(topic.error_code) is not ErrorCode.NONE
            or asked.access.meets(self.rights, topic.name, audits=False)
            else replace(
                topic,
                configs=(),
                topic_config_error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                num_partitions=-1,
                replication_factor=-1,
            )
            for topic in answer.topics
        ]
        return replace(answer, topics=tuple(topics))


API: Final = ControllerApi(
    key=ApiKey.CREATE_TOPICS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(2, 7),
    sent_version=7,
    requires=(
        Each(
            rights=on(Operation.CREATE, ResourceType.CLUSTER, ResourceType.TOPIC),
            rows="topics",
            renamed={"num_partitions": -1, "replication_factor": -1},
        ),
        _ShownConfigs(),
    ),
    message=MESSAGE,
    result=RESULT,
    refusal_of=refused_each(RESULT, _refused),
)
