"""AlterConfigs: all the values of a resource at once, in every version."""

import pytest

from tests.unit.broker.api.wire_turns import versions
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

KEY = ApiKey.ALTER_CONFIGS
TOPIC, BROKER = 2, 4


def alter(wire, version, kind, name, validate_only=False, **configs):
    resource = {
        "resource_type": kind,
        "resource_name": name,
        "configs": tuple(
            {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
        ),
    }
    (answer,) = wire.call(
        KEY, version, resources=(resource,), validate_only=validate_only
    ).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return error_of(answer.error_code)


@pytest.mark.parametrize("version", versions(KEY))
def test_what_is_not_named_is_deleted(node, wire, version):
    wire.create_topic("c", retention_ms="1234", flush_messages="1")
    assert alter(wire, version, TOPIC, "c", True, retention_ms="7") is ErrorCode.NONE
    assert node.broker.image.topic_configs("c")["retention.ms"] == "1234"
    assert alter(wire, version, TOPIC, "c", retention_ms="7") is ErrorCode.NONE
    assert node.broker.image.topic_configs("c") == {"retention.ms": "7"}
    assert alter(wire, version, TOPIC, "c") is ErrorCode.NONE
    assert node.broker.image.topic_configs("c") == {}


@pytest.mark.parametrize("version", versions(KEY))
def test_refusals(node, wire, version):
    assert alter(wire, version, TOPIC, "absent") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(wire, version, TOPIC, "t", retention_ms="x") is ErrorCode.INVALID_CONFIG
    assert alter(wire, version, TOPIC, "t", retention_ms=None) is ErrorCode.INVALID_REQUEST
    assert alter(wire, version, BROKER, "", num_partitions="3") is ErrorCode.INVALID_CONFIG
    assert node.broker.image.topic_configs("t") == {}
