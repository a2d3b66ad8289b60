"""What is counted is shared, kept over changes, and bounded."""

import pytest

from tidelog.env.instant import Instant
from tidelog.security import client_quotas
from tidelog.security.client_quotas import ClientQuotas

NOW = Instant(1000)
EVERYBODY = {(("user", None),): {"producer_byte_rate": 100.0}}


def test_connections_of_a_user_share_and_users_do_not() -> None:
    quotas = ClientQuotas()
    quotas.follow(EVERYBODY)
    one, other = (quotas.limits_of("ada", client_id, NOW) for client_id in "xy")
    assert one.produce is not None and other.produce is not None
    assert one.produce.meter is other.produce.meter
    bob = quotas.limits_of("bob", "x", NOW).produce
    assert bob is not None and bob.meter is not one.produce.meter


def test_a_change_makes_connections_look_again_and_forgets_nothing() -> None:
    quotas = ClientQuotas()
    quotas.follow(EVERYBODY)
    before = quotas.limits_of("ada", "x", NOW)
    quotas.follow(EVERYBODY)
    assert quotas.version == before.version
    quotas.follow({(("user", None),): {"producer_byte_rate": 200.0}})
    after = quotas.limits_of("ada", "x", NOW)
    assert after.version > before.version
    assert before.produce is not None
    assert after.produce == (200.0, before.produce.meter)
    quotas.follow({})
    assert not quotas.limits_clients
    assert quotas.limits_of("ada", "x", NOW).produce is None


def test_what_is_counted_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_QUOTA_METERS", 3)
    quotas = ClientQuotas()
    quotas.follow(EVERYBODY)
    used = quotas.limits_of("u0", "", NOW)
    assert used.produce is not None
    used.produce.meter.record(1, NOW)
    for number in range(1, 4):
        limit = quotas.limits_of(f"u{number}", "", NOW).produce
        assert limit is not None
    assert quotas.version > used.version
    again = quotas.limits_of("u0", "", NOW)
    assert again.produce is not None and again.produce.meter is used.produce.meter


def test_connections_of_an_address_are_counted_when_they_are_in_time() -> None:
    quotas = ClientQuotas()
    quotas.follow({(("ip", "h"),): {"connection_creation_rate": 2.0}})
    pauses = [quotas.on_connected("h", NOW) for _ in range(22)]
    assert pauses[:20] == [0] * 20 and pauses[20:] == [500, 500]
    assert quotas.on_connected("other", NOW) == 0
