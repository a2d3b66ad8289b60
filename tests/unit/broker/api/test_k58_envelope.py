"""Envelope: a request inside a request, and its answer the same way back."""

import pytest

from tests.unit.broker.one_node import OneNode
from tidelog.broker.api import k19_create_topics, k63_broker_heartbeat
from tidelog.broker.api.answers import reply
from tidelog.broker.api.k58_envelope import EnvelopedContext, request_of
from tidelog.broker.router import ControllerRequest, Router
from tidelog.controller.messages import BrokerHeartbeat, BrokerHeartbeatResult, Refused
from tidelog.controller.topic_messages import CreateTopics, NewTopic
from tidelog.errors import ErrorCode
from tidelog.model import ANONYMOUS, Principal
from tidelog.wire import codec, principal_data
from tidelog.wire.api import ApiKey, RequestHeader, pack_header
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

ENVELOPE = codec.request_class(ApiKey.ENVELOPE, 0)
ROW = {"error_code": ErrorCode.NONE, "error_message": None, "configs": ()}
ALICE = principal_data.pack("User", "alice")
HOST = b"\x7f\0\0\x01"


def wrap(frame: bytes, principal: bytes | None = ALICE, address: bytes = HOST):
    return make(
        ENVELOPE, request_data=frame, request_principal=principal, client_host_address=address
    )


def create(name="new"):
    message = CreateTopics((NewTopic(name, 1, 1),))
    return codec.encode_request(k19_create_topics.API.request(message), 321, "inner")[4:]


def unwrap(frame):
    _, entity = codec.decode_response(ApiKey.ENVELOPE, 0, frame)
    return error_of(entity.error_code), entity.response_data


def test_the_inner_response_answers_the_inner_request(node, controller_wire):
    code, inner = unwrap(controller_wire.ask(ApiKey.ENVELOPE, wrap(create())))
    assert code is ErrorCode.NONE
    correlation_id, response = codec.decode_response(ApiKey.CREATE_TOPICS, 7, inner)
    assert correlation_id == 321
    assert error_of(response.topics[0].error_code) is ErrorCode.NONE
    assert "new" in node.broker.image.topics_by_name


def test_an_error_inside_is_not_an_error_of_the_envelope(controller_wire):
    code, inner = unwrap(controller_wire.ask(ApiKey.ENVELOPE, wrap(create("t"))))
    _, response = codec.decode_response(ApiKey.CREATE_TOPICS, 7, inner)
    assert code is ErrorCode.NONE
    assert error_of(response.topics[0].error_code) is ErrorCode.TOPIC_ALREADY_EXISTS


def heartbeat_frame():
    message = BrokerHeartbeat(1, 0, 0, False, False)
    return codec.encode_request(k63_broker_heartbeat.API.request(message), 1, "inner")[4:]


UNPARSABLE, NOT_FORWARDED = ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        pytest.param(b"", UNPARSABLE, id="empty"),
        pytest.param(b"\x00", UNPARSABLE, id="short"),
        pytest.param(create()[:-1], UNPARSABLE, id="cut"),
        pytest.param(create() + b"\x00", UNPARSABLE, id="long"),
        pytest.param(pack_header(ApiKey.CREATE_TOPICS, 1, 1, "a"), UNPARSABLE, id="old"),
        pytest.param(pack_header(ApiKey.CREATE_TOPICS, 8, 1, "a"), UNPARSABLE, id="new"),
        pytest.param(pack_header(ApiKey.PRODUCE, 9, 1, "a"), NOT_FORWARDED, id="produce"),
        pytest.param(pack_header(ApiKey.ENVELOPE, 0, 1, "a"), NOT_FORWARDED, id="envelope"),
        pytest.param(pack_header(ApiKey.API_VERSIONS, 3, 1, "a"), NOT_FORWARDED, id="hello"),
    ],
)
def test_what_may_not_be_inside_is_refused(controller_wire, inner, code):
    assert unwrap(controller_wire.ask(ApiKey.ENVELOPE, wrap(inner))) == (code, None)
    assert not controller_wire.closed


@pytest.mark.parametrize(
    ("principal", "address", "code"),
    [
        (None, HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (b"", HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (b"\0\1" + ALICE[2:], HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (ALICE[:-1], HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (ALICE + b"\0", HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (ALICE, b"", ErrorCode.INVALID_REQUEST),
        (ALICE, b"\x7f\0\1", ErrorCode.INVALID_REQUEST),
    ],
    ids=["null", "empty", "version", "cut", "long", "no-address", "short-address"],
)
def test_who_asks_must_be_named(controller_wire, principal, address, code):
    envelope = wrap(create(), principal, address)
    assert unwrap(controller_wire.ask(ApiKey.ENVELOPE, envelope)) == (code, None)


def test_an_envelope_of_ours_names_the_client():
    sixteen = request_of(b"frame", Principal("User", "bob"), "::1")
    assert sixteen.client_host_address == bytes(15) + b"\x01"
    assert principal_data.parse(sixteen.request_principal) == ("User", "bob", False)
    by_token = request_of(b"frame", Principal("User", "bob"), "::1", is_delegated=True)
    assert principal_data.parse(by_token.request_principal) == ("User", "bob", True)
    assert request_of(b"frame", ANONYMOUS, "10.0.0.7").client_host_address == b"\x0a\0\0\x07"


def test_a_node_without_the_active_controller_refuses_the_envelope(node: OneNode, controller_wire):
    node.broker.controller.on_leader_change(2, 99, -1, node.now)
    code, inner = unwrap(controller_wire.ask(ApiKey.ENVELOPE, wrap(create())))
    assert (code, inner) == (ErrorCode.NOT_CONTROLLER, None)
    assert not controller_wire.closed


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (Refused(ErrorCode.NOT_CONTROLLER, "not me"), ErrorCode.NOT_CONTROLLER),
        (Refused(ErrorCode.REQUEST_TIMED_OUT, "busy"), ErrorCode.NONE),
        (BrokerHeartbeatResult(True, False, False), ErrorCode.NONE),
    ],
)
def test_which_answers_mean_that_another_controller_must_be_found(
    node, controller_wire, response, code
):
    connection = node.broker.connections.get(controller_wire.connection_id)
    outer = node.broker.connections.admit(
        connection, RequestHeader(ApiKey.ENVELOPE, 0, 5, "broker")
    )
    header = RequestHeader(ApiKey.BROKER_HEARTBEAT, 1, 6, "inner")
    inner = EnvelopedContext(outer, header, unchecked=False)
    asked = ControllerRequest(inner, k63_broker_heartbeat.API, None)
    Router(node.broker, node.broker.trace).on_controller_reply(asked, response)
    node.settle()
    (frame,) = controller_wire.frames()
    assert unwrap(frame)[0] is code


def test_an_answer_with_a_text_that_is_too_long_is_refused_to_the_broker(node, controller_wire):
    """Which refuses the client; the connection between them goes on."""
    connection = node.broker.connections.get(controller_wire.connection_id)
    outer = node.broker.connections.admit(connection, RequestHeader(ApiKey.ENVELOPE, 0, 7, "b"))
    context = EnvelopedContext(outer, RequestHeader(ApiKey.CREATE_TOPICS, 7, 1, "c"))
    context.unchecked = False
    row = {"name": "x" * 40_000, "topic_id": None, "topic_config_error_code": ErrorCode.NONE}
    context.answer(reply(codec.response_class(ApiKey.CREATE_TOPICS, 7), topics=[row | ROW]))
    node.settle()
    (frame,) = controller_wire.frames()
    assert unwrap(frame) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
