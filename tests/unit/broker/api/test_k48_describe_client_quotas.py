"""DescribeClientQuotas: what a filter finds, and filters that make no sense."""

import pytest

from tests.unit.broker.one_node import OneNode
from tests.unit.broker.test_throttling import alter
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

EXACT, DEFAULT, ANY = 0, 1, 2
ENTITIES = [
    {"user": "ada"},
    {"user": None},
    {"user": "ada", "client-id": "app"},
    {"client-id": "app"},
    {"ip": "10.0.0.1"},
]


@pytest.fixture
def quotas(node: OneNode) -> OneNode:
    for entity in ENTITIES:
        key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
        assert alter(node.client(), entity, **{key: 7}) == [ErrorCode.NONE]
    return node


def describe(node: OneNode, *parts: tuple[str, int, str | None], strict: bool = False):
    names = ("entity_type", "match_type", "match")
    rows = [dict(zip(names, part, strict=True)) for part in parts]
    return node.client().call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=rows, strict=strict)


@pytest.mark.parametrize(
    ("parts", "strict", "found"),
    [
        ([], False, [0, 1, 2, 3, 4]),
        ([("user", EXACT, "ada")], False, [0, 2]),
        ([("user", EXACT, "ada")], True, [0]),
        ([("user", DEFAULT, None)], False, [1]),
        ([("user", ANY, None)], False, [0, 1, 2]),
        ([("user", ANY, None), ("client-id", EXACT, "app")], True, [2]),
        ([("ip", ANY, None)], True, [4]),
        ([("user", EXACT, "eve")], False, []),
    ],
)
def test_a_filter_finds_what_has_all_its_types(quotas, parts, strict, found) -> None:
    answer = describe(quotas, *parts, strict=strict)
    assert error_of(answer.error_code) is ErrorCode.NONE
    entities = [{part.entity_type: part.entity_name for part in e.entity} for e in answer.entries]
    assert entities == [ENTITIES[place] for place in found]
    assert all(value.value == 7 for entry in answer.entries for value in entry.values)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("topic", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(node, parts, code) -> None:
    answer = describe(node, *parts)
    assert error_of(answer.error_code) is code
    assert answer.entries is None
