"""DescribeCluster: brokers on one listener, controllers on the other."""

import pytest

from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.one_node import CLUSTER_ID
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

VERSIONS = versions(ApiKey.DESCRIBE_CLUSTER)
BROKERS, CONTROLLERS = 1, 2


def ask(wire, version, endpoint_type=BROKERS, fenced=False, operations=False):
    return wire.call(
        ApiKey.DESCRIBE_CLUSTER,
        version,
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=fenced,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers(node, wire, version):
    node.add_broker(2)
    node.add_broker(3, fenced=True)
    response = ask(wire, version)
    assert error_of(response.error_code) is ErrorCode.NONE
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "host1", 9092, None),
        (2, "host2", 9092, "rack2"),
    ]


def test_every_operation_is_allowed_to_who_asks(wire):
    assert ask(wire, 2).cluster_authorized_operations == -(2**31)
    assert ask(wire, 2, operations=True).cluster_authorized_operations == 8096


def test_fenced_brokers_when_asked(node, wire):
    node.add_broker(2, fenced=True)
    response = ask(wire, 2, fenced=True)
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, True)]


@pytest.mark.parametrize("version", [1, 2])
def test_controllers(controller_wire, version):
    response = ask(controller_wire, version, CONTROLLERS)
    assert error_of(response.error_code) is ErrorCode.NONE
    assert response.endpoint_type == CONTROLLERS
    assert response.controller_id == 1
    assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "host1", 9093)]


@pytest.mark.parametrize("version", [1, 2])
def test_the_wrong_listener_for_the_question(wire, controller_wire, version):
    for response in (ask(wire, version, CONTROLLERS), ask(controller_wire, version, BROKERS)):
        assert error_of(response.error_code) is ErrorCode.MISMATCHED_ENDPOINT_TYPE
        assert response.brokers == ()
        assert (response.cluster_id, response.controller_id) == ("", -1)


@pytest.mark.parametrize("endpoint_type", [0, 3, -1])
def test_endpoints_of_no_kind(wire, controller_wire, endpoint_type):
    for asked in (wire, controller_wire):
        code = error_of(ask(asked, 2, endpoint_type).error_code)
        assert code is ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
