"""BrokerRegistration between brokers and controller, as it is served and as it is sent."""

import pytest

from tests.unit.broker.api.wire_turns import answered, request, sent, versions
from tests.unit.broker.one_node import CLUSTER_ID
from tidelog.broker.api import k62_broker_registration as module
from tidelog.broker.features import FEATURES
from tidelog.controller.messages import FeatureRange, Refused, RegisterBroker, RegisterBrokerResult
from tidelog.errors import ErrorCode
from tidelog.model import Endpoint, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, uuid_of

KEY = ApiKey.BROKER_REGISTRATION
MESSAGE = RegisterBroker(
    broker_id=2,
    cluster_id=CLUSTER_ID,
    incarnation_id=Uuid(b"i" * 16),
    endpoints=(Endpoint("PLAINTEXT", "host2", 9092), Endpoint("OTHER", "::1", 65535)),
    rack="r",
    features={name: FeatureRange(*levels) for name, levels in FEATURES.items()},
    log_dirs=(Uuid(b"e" * 16),),
    previous_broker_epoch=41,
)


def test_a_registration_there():
    assert module.API.message_of(sent(module.API.request(MESSAGE))) == MESSAGE


@pytest.mark.parametrize("version", versions(KEY))
def test_older_brokers_say_less(version):
    listener = {"name": "L", "host": "h", "port": 40000, "security_protocol": 0}
    feature = {"name": "metadata.version", "min_supported_version": 1, "max_supported_version": 2}
    message = module.API.message_of(
        request(
            KEY,
            version,
            broker_id=2,
            cluster_id="c",
            incarnation_id=uuid_of(b"i" * 16),
            listeners=(listener,),
            features=(feature,),
            rack=None,
            is_migrating_zk_broker=False,
            log_dirs=(uuid_of(b"d" * 16),),
            previous_broker_epoch=41,
        )
    )
    assert message.endpoints == (Endpoint("L", "h", 40000),)
    assert message.features == {"metadata.version": FeatureRange(1, 2)}
    assert message.log_dirs == ((b"d" * 16,) if version >= 2 else ())
    assert message.previous_broker_epoch == (41 if version >= 3 else -1)


@pytest.mark.parametrize("version", versions(KEY))
def test_results_back(broker, version):
    result = RegisterBrokerResult(77)
    entity = answered(KEY, version, module.API.answer(broker, version, None, result))
    assert module.API.response_of(entity) == result
    refused = Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "alive")
    entity = answered(KEY, version, module.API.answer(broker, version, None, refused))
    assert entity.broker_epoch == -1
    assert module.API.response_of(entity).error_code is refused.error_code


def test_end_to_end(node, controller_wire):
    frame = controller_wire.ask(KEY, module.API.request(MESSAGE))
    _, entity = codec.decode_response(KEY, module.API.sent_version, frame)
    assert error_of(entity.error_code) is ErrorCode.NONE
    registered = node.broker.image.brokers[2]
    assert registered.broker_epoch == entity.broker_epoch
    assert registered.fenced
    assert registered.endpoints == MESSAGE.endpoints


def test_brokers_of_another_cluster_stay_outside(node, controller_wire):
    entity = module.API.request(MESSAGE)
    foreign = make(
        type(entity),
        **{name: getattr(entity, name) for name in entity.__dataclass_fields__}
        | {"cluster_id": "another"},
    )
    _, response = codec.decode_response(KEY, 4, controller_wire.ask(KEY, foreign))
    assert error_of(response.error_code) is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert 2 not in node.broker.image.brokers
