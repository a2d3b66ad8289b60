"""UnregisterBroker: the operator removes a broker that will not come back."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request
from tests.unit.broker.one_node import BROKER, CONTROLLER
from tidelog.broker.api import k64_unregister_broker as module
from tidelog.controller.messages import Refused, UnregisterBroker, UnregisterBrokerResult
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.UNREGISTER_BROKER


def test_there_and_back(broker):
    assert module.API.message_of(request(KEY, 0, broker_id=7)) == UnregisterBroker(7)
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, UnregisterBrokerResult()))
    assert (error_of(entity.error_code), entity.error_message) == (ErrorCode.NONE, None)
    refused = Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, "no 7")
    entity = answered(KEY, 0, module.API.answer(broker, 0, None, refused))
    assert error_of(entity.error_code) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert entity.error_message == "no 7"


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
def test_end_to_end(node, listener):
    """Clients ask brokers, which forward it; Kafka's tools may ask controllers too."""
    wire = node.client(listener)
    node.add_broker(2, fenced=True)
    response = wire.call(KEY, 0, broker_id=2)
    assert error_of(response.error_code) is ErrorCode.NONE
    assert 2 not in node.broker.image.brokers
    response = wire.call(KEY, 0, broker_id=2)
    assert error_of(response.error_code) is ErrorCode.BROKER_ID_NOT_REGISTERED
