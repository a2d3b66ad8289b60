"""ListConfigResources: the names of what has configs, by type."""

import pytest

from tests.unit.broker.api.test_k32_describe_configs import alter
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def ask(wire, version, **values):
    response = wire.call(ApiKey.LIST_CONFIG_RESOURCES, version, **values)
    rows = [(row.resource_type, row.resource_name) for row in response.config_resources]
    return error_of(response.error_code), rows


def test_the_first_version_knows_only_subscriptions_to_metrics(wire):
    wire.create_topic("a")
    assert wire.call(ApiKey.LIST_CONFIG_RESOURCES, 0).config_resources == ()


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [
        ((TOPIC,), [(TOPIC, "a"), (TOPIC, "t")]),
        ((LOGGER, BROKER, LOGGER), [(LOGGER, "1"), (LOGGER, "2"), (BROKER, "1"), (BROKER, "2")]),
        ((CLIENT_METRICS,), []),
        ((GROUP,), [(GROUP, "g")]),
    ],
)
def test_the_types_that_are_asked_for(node, wire, kinds, rows):
    wire.create_topic("a")
    alter(wire, GROUP, "g", "consumer.session.timeout.ms", "50000")
    node.add_broker(2)
    node.add_broker(3, fenced=True)
    assert ask(wire, 1, resource_types=kinds) == (ErrorCode.NONE, rows)


def test_all_types_when_none_is_named(wire):
    code, rows = ask(wire, 1, resource_types=())
    assert (code, rows) == (ErrorCode.NONE, [(TOPIC, "t"), (BROKER, "1"), (LOGGER, "1")])


@pytest.mark.parametrize("kinds", [(TOPIC, 0), (-1,)])
def test_types_that_have_no_configs_here(wire, kinds):
    assert ask(wire, 1, resource_types=kinds) == (ErrorCode.UNSUPPORTED_VERSION, [])
