"""CreateTopics (19), versions 2-7, decided by the active controller."""

from typing import TYPE_CHECKING, Final

from tidelog.broker.api.refusals import refusal
from tidelog.config import BrokerOverrides, describe_topic_config
from tidelog.controller.messages import (
    CreateTopics,
    CreateTopicsResult,
    NewTopic,
    NewTopicResult,
    Response,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.wire import codec
from tidelog.wire.entities import Entity, field, has_field, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of

if TYPE_CHECKING:
    from tidelog.broker.context import Broker

VERSION: Final = 7
TIMEOUT_MS: Final = 30_000


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


def entity_of(broker: "Broker", version: int, request: Entity, response: Response) -> Entity:
    """The reply; a refusal of the whole request becomes every topic's error."""
    if isinstance(response, CreateTopicsResult):
        results = response.topics
    else:
        code, message = refusal(response)
        results = tuple(NewTopicResult(topic.name, code, message) for topic in request.topics)
    response_type = codec.response_class(19, version)
    topic_type = nested(response_type, "topics")
    return make(
        response_type,
        throttle_time=millis(0),
        topics=tuple(_topic(broker, topic_type, result) for result in results),
    )


def _topic(broker: "Broker", topic_type: type, result: NewTopicResult) -> Entity:
    configs: tuple[Entity, ...] = ()
    if has_field(topic_type, "configs") and result.error_code is ErrorCode.NONE:
        config_type = nested(topic_type, "configs")
        image = broker.image
        levels = BrokerOverrides(
            own=image.broker_configs(broker.config.node_id), default=image.broker_configs(None)
        )
        configs = tuple(
            make(
                config_type,
                name=item.name,
                value=item.value,
                read_only=item.read_only,
                config_source=int(item.source),
                is_sensitive=item.sensitive,
            )
            for item in describe_topic_config(result.configs, broker.config, levels)
        )
    return make(
        topic_type,
        name=result.name,
        topic_id=uuid_of(result.topic_id),
        error_code=error(result.error_code),
        error_message=result.message,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=configs,
    )


def request_of(message: CreateTopics) -> Entity:
    """The wire request of a broker that creates topics by itself; no assignments."""
    request_type = codec.request_class(19, VERSION)
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


def response_of(message: CreateTopics, entity: Entity) -> Response:
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
