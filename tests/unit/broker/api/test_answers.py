"""Answers to requests that are refused as a whole."""

from tidelog.broker.api.answers import refused_at_top
from tidelog.controller.messages import Refused
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


def test_a_refusal_stands_at_the_top_with_its_message():
    refused = Refused(ErrorCode.NOT_CONTROLLER, "why")
    response_type = codec.response_class(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    entity = refused_at_top(topics=())(response_type, None, refused)
    assert error_of(entity.error_code) is ErrorCode.NOT_CONTROLLER
    assert (entity.error_message, entity.topics) == ("why", ())


def test_an_answer_without_a_message_has_the_code():
    refused = Refused(ErrorCode.NOT_CONTROLLER, "why")
    response_type = codec.response_class(ApiKey.BROKER_REGISTRATION, 0)
    entity = refused_at_top(broker_epoch=-1)(response_type, None, refused)
    assert error_of(entity.error_code) is ErrorCode.NOT_CONTROLLER
    assert not hasattr(entity, "error_message")
