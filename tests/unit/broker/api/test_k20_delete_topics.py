"""DeleteTopics between wire and controller: by name, and by id from version 6 on."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, versions
from tidelog.broker.api import k20_delete_topics as module
from tidelog.controller.messages import Refused
from tidelog.controller.topic_messages import (
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    TopicRef,
)
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_TOPIC_ID, TopicId
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import bytes_of, error_of, millis, uuid_of

KEY = ApiKey.DELETE_TOPICS
ID = TopicId(b"i" * 16)


def by_name(version):
    if version < 6:
        return request(KEY, version, topic_names=("a", "b"), timeout=millis(1))
    topics = tuple({"name": name, "topic_id": None} for name in ("a", "b"))
    return request(KEY, version, topics=topics, timeout=millis(1))


def by_id():
    topics = ({"name": None, "topic_id": uuid_of(ID)},)
    return request(KEY, 6, topics=topics, timeout=millis(1))


@pytest.mark.parametrize("version", versions(KEY))
def test_a_request_by_name(version):
    assert module.API.message_of(by_name(version)) == DeleteTopics((TopicRef("a"), TopicRef("b")))


def test_a_request_by_id():
    assert module.API.message_of(by_id()) == DeleteTopics((TopicRef(None, ID),))


@pytest.mark.parametrize("version", versions(KEY))
def test_results(broker, version):
    result = DeleteTopicsResult(
        (
            DeletedTopic("a", ID, ErrorCode.NONE),
            DeletedTopic("b", ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no `b`"),
        )
    )
    entity = module.API.answer(broker, version, by_name(version), result)
    gone, failed = answered(KEY, version, entity).responses
    assert (gone.name, error_of(gone.error_code)) == ("a", ErrorCode.NONE)
    assert (failed.name, error_of(failed.error_code)) == ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert field(failed, "error_message", "no `b`") == "no `b`"
    if version >= 6:
        assert bytes_of(gone.topic_id) == ID


def test_a_result_without_a_name(broker):
    result = DeleteTopicsResult((DeletedTopic(None, ID, ErrorCode.UNKNOWN_TOPIC_ID),))
    entity = module.API.answer(broker, 6, by_id(), result)
    (failed,) = answered(KEY, 6, entity).responses
    assert (failed.name, bytes_of(failed.topic_id)) == (None, ID)


@pytest.mark.parametrize("version", versions(KEY))
def test_a_refusal_is_every_topics_error(broker, version):
    refused = Refused(ErrorCode.NOT_CONTROLLER, "not me")
    entity = module.API.answer(broker, version, by_name(version), refused)
    responses = answered(KEY, version, entity).responses
    assert {error_of(item.error_code) for item in responses} == {ErrorCode.NOT_CONTROLLER}
    assert [item.name for item in responses] == ["a", "b"]


@pytest.mark.parametrize("version", versions(KEY))
def test_end_to_end(node, wire, version):
    wire.create_topic("a")
    response = wire.call(KEY, version, **vars_of(by_name(version)))
    assert [error_of(item.error_code) for item in response.responses] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert set(node.broker.image.topics_by_name) == {"t"}


def vars_of(entity):
    return {
        name: getattr(entity, name)
        for name in ("topics", "topic_names", "timeout")
        if hasattr(entity, name)
    }
