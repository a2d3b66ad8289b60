"""CreateTopics between wire and controller, in every version."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, sent, versions
from tidelog.broker.api import k19_create_topics as module
from tidelog.controller.messages import Refused
from tidelog.controller.topic_messages import (
    CreateTopics,
    CreateTopicsResult,
    NewTopic,
    NewTopicResult,
)
from tidelog.errors import ErrorCode
from tidelog.model import TopicId
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import bytes_of, error_of, millis

KEY = ApiKey.CREATE_TOPICS
VERSIONS = versions(KEY)
DYNAMIC_TOPIC, DEFAULT = 1, 5


def two_topics(version):
    """A request for `a` by count and `b` by assignment."""
    config = {"name": "retention.ms", "value": None}
    return request(
        KEY,
        version,
        topics=(
            {
                "name": "a",
                "num_partitions": 3,
                "replication_factor": 2,
                "assignments": (),
                "configs": (config,),
            },
            {
                "name": "b",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": (
                    {"partition_index": 1, "broker_ids": (2, 3)},
                    {"partition_index": 0, "broker_ids": (3, 1)},
                ),
                "configs": (),
            },
        ),
        timeout=millis(100),
        validate_only=True,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request(version):
    assert module.API.message_of(two_topics(version)) == CreateTopics(
        (
            NewTopic("a", 3, 2, (), (("retention.ms", None),)),
            NewTopic("b", -1, -1, ((1, (2, 3)), (0, (3, 1)))),
        ),
        validate_only=True,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_results(broker, version):
    result = CreateTopicsResult(
        (
            NewTopicResult(
                "a", ErrorCode.NONE, None, TopicId(b"a" * 16), 3, 2, {"retention.ms": "1"}
            ),
            NewTopicResult("b", ErrorCode.TOPIC_ALREADY_EXISTS, "there is one"),
        )
    )
    entity = module.API.answer(broker, version, two_topics(version), result)
    made, failed = answered(KEY, version, entity).topics
    assert (made.name, error_of(made.error_code)) == ("a", ErrorCode.NONE)
    assert (failed.name, error_of(failed.error_code)) == ("b", ErrorCode.TOPIC_ALREADY_EXISTS)
    assert field(failed, "error_message", "there is one") == "there is one"
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 2)
        configs = {item.name: (item.value, item.config_source) for item in made.configs}
        assert configs["retention.ms"] == ("1", DYNAMIC_TOPIC)
        assert configs["cleanup.policy"] == ("delete", DEFAULT)
        assert failed.configs == ()
        assert (failed.num_partitions, failed.replication_factor) == (-1, -1)
    if version >= 7:
        assert bytes_of(made.topic_id) == b"a" * 16
        assert failed.topic_id is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_is_every_topics_error(broker, version):
    refused = Refused(ErrorCode.REQUEST_TIMED_OUT, "busy")
    entity = module.API.answer(broker, version, two_topics(version), refused)
    topics = answered(KEY, version, entity).topics
    assert [(topic.name, error_of(topic.error_code)) for topic in topics] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT),
        ("b", ErrorCode.REQUEST_TIMED_OUT),
    ]


def test_a_brokers_own_request_there_and_back(broker):
    message = CreateTopics((NewTopic("a"), NewTopic("b", 2, 1, (), (("k", "v"),))))
    assert module.API.message_of(sent(module.API.request(message))) == message
    result = CreateTopicsResult(
        (NewTopicResult("a", ErrorCode.NONE, None, TopicId(b"a" * 16), 1, 1),)
    )
    request_entity = module.API.request(message)
    entity = module.API.answer(broker, module.API.sent_version, request_entity, result)
    assert module.API.response_of(answered(KEY, module.API.sent_version, entity)) == result


def test_end_to_end(node, wire):
    wire.create_topic("new", 3, min_insync_replicas="1")
    assert len(node.broker.image.topics_by_name["new"].partitions) == 3
    assert node.broker.image.topic_configs("new") == {"min.insync.replicas": "1"}
