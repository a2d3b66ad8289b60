"""ControllerRegistration between controllers, as it is served and as it is sent."""

from tests.unit.broker.api.wire_turns import answered, sent
from tidelog.broker.api import k70_controller_registration as module
from tidelog.controller.messages import (
    FeatureRange,
    Refused,
    RegisterController,
    RegisterControllerResult,
)
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey

KEY = ApiKey.CONTROLLER_REGISTRATION
MESSAGE = RegisterController(
    controller_id=3,
    incarnation_id=Uuid(b"i" * 16),
    endpoints=(Endpoint("CONTROLLER", "host3", 9093),),
    features={"metadata.version": FeatureRange(7, 30)},
)


def test_there_and_back(broker):
    assert module.API.message_of(sent(module.API.request(MESSAGE))) == MESSAGE
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, RegisterControllerResult()))
    assert module.API.response_of(entity) == RegisterControllerResult()
    refused = Refused(ErrorCode.UNSUPPORTED_VERSION, "too old")
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, refused))
    assert module.API.response_of(entity) == refused


def test_end_to_end(controller_wire):
    frame = controller_wire.ask(KEY, module.API.request(MESSAGE))
    _, entity = codec.decode_response(KEY, 0, frame)
    assert module.API.response_of(entity) == RegisterControllerResult()
