"""The most specific quota holds."""

import pytest

from tidelog.security.quota_index import Share, bounds_of, connection_rate_of, has_client_quotas

RATE = "producer_byte_rate"
LEVELS = [
    ((("client-id", "app"), ("user", "ada")), Share("ada", "app")),
    ((("client-id", None), ("user", "ada")), Share("ada", "app")),
    ((("user", "ada"),), Share("ada", None)),
    ((("client-id", "app"), ("user", None)), Share("ada", "app")),
    ((("client-id", None), ("user", None)), Share("ada", "app")),
    ((("user", None),), Share("ada", None)),
    ((("client-id", "app"),), Share(None, "app")),
    ((("client-id", None),), Share(None, "app")),
]


@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_a_level_hides_those_below(level: int) -> None:
    quotas = {subject: {RATE: float(place)} for place, (subject, _) in enumerate(LEVELS)}
    for subject, _ in LEVELS[:level]:
        del quotas[subject]
    assert bounds_of(quotas, "ada", "app") == {RATE: (float(level), LEVELS[level][1])}


def test_each_quota_has_a_level_of_its_own() -> None:
    quotas = {
        (("user", "ada"),): {RATE: 1.0},
        (("client-id", None),): {RATE: 2.0, "request_percentage": 3.0},
    }
    found = bounds_of(quotas, "ada", "app")
    assert {name: bound.value for name, bound in found.items()} == {
        RATE: 1.0,
        "request_percentage": 3.0,
    }
    assert bounds_of(quotas, "bob", "app")[RATE] == (2.0, Share(None, "app"))


def test_an_address_has_its_own_rate_or_the_default() -> None:
    quotas = {(("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0}}
    assert connection_rate_of(quotas, "10.0.0.1") == 5
    assert connection_rate_of(quotas, "10.0.0.2") is None
    assert not has_client_quotas(quotas)
    quotas[(("ip", None),)] = {"connection_creation_rate": 7.0}
    assert connection_rate_of(quotas, "10.0.0.2") == 7
