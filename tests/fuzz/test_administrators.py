"""Damaged requests of a client that may do everything: they are refused, and the node goes on.

A stranger's requests end at the checks, so what lies behind them (deciders, the audit) meets only
those of an administrator. The controller had ended at an access control entry with a number that
names nothing.
"""

import pytest

from tests.fuzz.mutations import REQUEST_MUTATIONS, mutated
from tests.fuzz.strangers import FOR_OTHERS, framed
from tests.unit.broker.one_node import BROKER, CONTROLLER
from tests.unit.broker.secured_node import READ, a_filter, a_node, entry
from tests.wire_corpus import wire_corpus
from tidelog.env.prng import Prng
from tidelog.wire.api import ApiKey

CASES = 1500
ADMINISTRATION = [
    framed(ApiKey.DESCRIBE_ACLS, 3, **a_filter()),
    framed(ApiKey.CREATE_ACLS, 3, creations=[entry(READ), entry(READ, "*")]),
    framed(ApiKey.DELETE_ACLS, 3, filters=[a_filter(), a_filter()]),
    framed(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}],
            }
            for kind, name in ((2, "orders"), (4, "1"), (4, ""))
        ],
        validate_only=False,
    ),
    framed(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        entries=[
            {
                "entity": [{"entity_type": "user", "entity_name": "ada"}],
                "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
            }
        ],
        validate_only=False,
    ),
    framed(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        components=[{"entity_type": "user", "match_type": 0, "match": "ada"}],
        strict=False,
    ),
    framed(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": "ada"}]),
    framed(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=[{"name": "bob", "mechanism": 1}],
        upsertions=[
            {
                "name": "ada",
                "mechanism": 2,
                "iterations": 4096,
                "salt": b"salt",
                "salted_password": b"x" * 64,
            }
        ],
    ),
    framed(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=b"x" * 64, renew_period=1),
    framed(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None),
]
"""Which no recorded client has sent."""


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
@pytest.mark.parametrize("first", [1, 2])
def test_the_node_goes_on(listener: str, first: int) -> None:
    node = a_node()
    requests = [each.request for each in wire_corpus() if each.api_key not in FOR_OTHERS]
    for case in range(first * CASES, (first + 1) * CASES):
        prng = Prng(case)
        known = ADMINISTRATION if prng.below(2) else requests
        frame = mutated(prng, prng.choice(known), REQUEST_MUTATIONS)
        wire = node.client(listener)
        try:
            wire.send(len(frame).to_bytes(4, "big") + frame)
            node.advance(1)
        except BaseException as cause:
            raise AssertionError(f"case {case}: {cause!r}") from cause
        assert not node.exits
