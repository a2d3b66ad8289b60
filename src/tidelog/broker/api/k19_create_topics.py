"""CreateTopics (19), versions 2-7, decided by the active controller."""

from typing import Final, Protocol

from tidelog.broker.api.answers import reply
from tidelog.broker.api.declaration import (
    BROKERS_AND_CONTROLLERS,
    ControllerApi,
    Sending,
    VersionRange,
)
from tidelog.broker.api.needs import HasConfig, HasImage
from tidelog.config import BrokerOverrides, describe_topic_config
from tidelog.controller.messages import Refused
from tidelog.controller.topic_messages import (
    CreateTopics,
    CreateTopicsResult,
    NewTopic,
    NewTopicResult,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.security.rights import Operation, ResourceType, on
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, has_field, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of

TIMEOUT_MS: Final = 30_000


class Node(HasConfig, HasImage, Protocol):
    """What the answer shows is of the node's configuration."""


def message_of(request: Entity) -> CreateTopics:
    """The controller's message."""
    topics = tuple(
        NewTopic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            tuple((item.partition_index, tuple(item.broker_ids)) for item in topic.assignments),
            tuple((config.name, config.value) for config in topic.configs),
        )
        for topic in request.topics
    )
    return CreateTopics(topics, field(request, "validate_only", False))


def entity_of(
    node: Node, response_type: type, request: Entity, result: CreateTopicsResult
) -> Entity:
    """The reply; a topic that was made is shown with its configs."""
    topic_type = nested(response_type, "topics")
    return reply(
        response_type,
        topics=tuple(
            _topic(topic_type, topic, _configs(node, topic_type, topic)) for topic in result.topics
        ),
    )


def refusal_of(response_type: type, request: Entity, refused: Refused) -> Entity:
    """A refusal of the whole request becomes every topic's error."""
    topic_type = nested(response_type, "topics")
    return reply(
        response_type,
        topics=tuple(
            _topic(topic_type, NewTopicResult(topic.name, refused.error_code, refused.message))
            for topic in request.topics
        ),
    )


def _configs(node: Node, topic_type: type, topic: NewTopicResult) -> tuple[Entity, ...]:
    if not has_field(topic_type, "configs") or topic.error_code is not ErrorCode.NONE:
        return ()
    config_type = nested(topic_type, "configs")
    levels = BrokerOverrides(
        own=node.image.broker_configs(node.config.node_id), default=node.image.broker_configs(None)
    )
    return tuple(
        make(
            config_type,
            name=item.name,
            value=item.value,
            read_only=item.read_only,
            config_source=int(item.source),
            is_sensitive=item.sensitive,
        )
        for item in describe_topic_config(topic.configs, node.config, levels)
    )


def _topic(topic_type: type, topic: NewTopicResult, configs: tuple[Entity, ...] = ()) -> Entity:
    return make(
        topic_type,
        name=topic.name,
        topic_id=uuid_of(topic.topic_id),
        error_code=error(topic.error_code),
        error_message=topic.message,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=configs,
    )


def request_of(request_type: type, message: CreateTopics) -> Entity:
    """The wire request of a broker that creates topics by itself; no assignments."""
    topic_type = nested(request_type, "topics")
    config_type = nested(topic_type, "configs")
    return make(
        request_type,
        topics=tuple(
            make(
                topic_type,
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=(),
                configs=tuple(
                    make(config_type, name=name, value=value) for name, value in topic.configs
                ),
            )
            for topic in message.topics
        ),
        timeout=millis(TIMEOUT_MS),
        validate_only=message.validate_only,
    )


def result_of(entity: Entity) -> CreateTopicsResult:
    """The controller's answer."""
    return CreateTopicsResult(
        tuple(
            NewTopicResult(
                topic.name,
                error_of(topic.error_code),
                topic.error_message,
                TopicId(bytes_of(topic.topic_id)),
                topic.num_partitions,
                topic.replication_factor,
            )
            for topic in entity.topics
        )
    )


API: Final = ControllerApi(
    key=ApiKey.CREATE_TOPICS,
    doc=__doc__,
    listeners=BROKERS_AND_CONTROLLERS,
    versions=VersionRange(2, 7),
    sent_version=7,
    requires=(on(Operation.CREATE, ResourceType.CLUSTER, ResourceType.TOPIC),),
    message=CreateTopics,
    result=CreateTopicsResult,
    message_of=message_of,
    entity_of=entity_of,
    refusal_of=refusal_of,
    sending=Sending(request_of=request_of, result_of=result_of),
)
