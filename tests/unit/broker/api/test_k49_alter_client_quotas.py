"""AlterClientQuotas: from the wire to the image, entity by entity."""

import pytest

from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of


@pytest.mark.parametrize("version", [0, 1])
def test_each_entity_is_answered_and_the_good_ones_are_written(node: OneNode, version: int) -> None:
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": "10.0.0.1"}],
            "ops": [{"key": key, "value": 5.0, "remove": False}],
        }
        for kind, key in (
            ("user", "producer_byte_rate"),
            ("user", "connection_creation_rate"),
            ("ip", "connection_creation_rate"),
        )
    ]
    answer = node.client().call(
        ApiKey.ALTER_CLIENT_QUOTAS, version, entries=entries, validate_only=False
    )
    codes = [error_of(row.error_code) for row in answer.entries]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert [row.entity[0].entity_type for row in answer.entries] == ["user", "user", "ip"]
    assert node.broker.image.quotas == {
        (("user", "10.0.0.1"),): {"producer_byte_rate": 5.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
    }
