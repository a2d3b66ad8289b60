"""FindCoordinator: none lives here, in either shape of the answer."""

import pytest

from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import has_field
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.FIND_COORDINATOR)


@pytest.mark.parametrize("version", [v for v in VERSIONS if v < 4])
def test_one_key(wire, version):
    response = wire.call(ApiKey.FIND_COORDINATOR, version, key="group", key_type=0)
    assert error_of(response.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (response.node_id, response.host, response.port) == (-1, "", -1)
    if version == 0:
        assert not has_field(type(response), "error_message")
    else:
        assert response.error_message == "this broker hosts no coordinators"


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 4])
def test_many_keys(wire, version):
    keys = ("a", "b", "a")
    response = wire.call(ApiKey.FIND_COORDINATOR, version, coordinator_keys=keys, key_type=1)
    assert [item.key for item in response.coordinators] == list(keys)
    codes = {error_of(item.error_code) for item in response.coordinators}
    assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    messages = {item.error_message for item in response.coordinators}
    assert messages == {"this broker hosts no coordinators"}


@pytest.mark.parametrize("key_type", [3, -1, 127])
def test_unknown_kinds_of_keys(wire, key_type):
    single = wire.call(ApiKey.FIND_COORDINATOR, 1, key="k", key_type=key_type)
    assert error_of(single.error_code) is ErrorCode.INVALID_REQUEST
    many = wire.call(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=("k",), key_type=key_type)
    assert error_of(many.coordinators[0].error_code) is ErrorCode.INVALID_REQUEST
