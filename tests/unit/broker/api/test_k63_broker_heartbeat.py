"""BrokerHeartbeat between brokers and controller, as it is served and as it is sent."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, sent, versions
from tidelog.broker.api import k63_broker_heartbeat as module
from tidelog.controller.messages import BrokerHeartbeat, BrokerHeartbeatResult, Refused
from tidelog.errors import ErrorCode
from tidelog.model import Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, uuid_of

KEY = ApiKey.BROKER_HEARTBEAT
MESSAGE = BrokerHeartbeat(2, 77, 1234, True, False, (Uuid(b"d" * 16),))


def test_a_heartbeat_there():
    assert module.API.message_of(sent(module.API.request(MESSAGE))) == MESSAGE


@pytest.mark.parametrize("version", versions(KEY))
def test_every_version_is_understood(version):
    entity = request(
        KEY,
        version,
        broker_id=2,
        broker_epoch=77,
        current_metadata_offset=1234,
        want_fence=False,
        want_shut_down=True,
        offline_log_dirs=(uuid_of(b"d" * 16),),
        cordoned_log_dirs=None,
    )
    offline = (Uuid(b"d" * 16),) if version >= 1 else ()
    assert module.API.message_of(entity) == BrokerHeartbeat(2, 77, 1234, False, True, offline)


@pytest.mark.parametrize("version", versions(KEY))
@pytest.mark.parametrize("bits", range(8))
def test_results_back(broker, version, bits):
    result = BrokerHeartbeatResult(bool(bits & 1), bool(bits & 2), bool(bits & 4))
    entity = answered(KEY, version, module.API.answer(broker, version, None, result))
    assert module.API.response_of(entity) == result


@pytest.mark.parametrize("version", versions(KEY))
def test_a_refused_broker_counts_as_fenced(broker, version):
    refused = Refused(ErrorCode.STALE_BROKER_EPOCH, "stale")
    entity = answered(KEY, version, module.API.answer(broker, version, None, refused))
    assert (entity.is_fenced, entity.should_shut_down) == (True, False)
    assert module.API.response_of(entity).error_code is ErrorCode.STALE_BROKER_EPOCH


def test_end_to_end(node, controller_wire):
    epoch = node.add_broker(2, fenced=True)
    for wanted, fenced in ((epoch - 1, True), (epoch, False)):
        message = BrokerHeartbeat(2, wanted, node.broker.image.offset, False, False)
        frame = controller_wire.ask(KEY, module.API.request(message))
        _, entity = codec.decode_response(KEY, module.API.sent_version, frame)
        assert entity.is_fenced is fenced
    assert error_of(entity.error_code) is ErrorCode.NONE
    assert node.broker.image.is_alive(2)
