"""A group's configuration, within what the broker permits."""

import pytest

from tidelog.config import SharingConfig
from tidelog.sharing.settings import settings_of
from tidelog.sharing.values import ShareSettings

CONFIG = SharingConfig()


def test_without_a_configuration_the_broker_decides():
    assert settings_of(CONFIG, {}) == ShareSettings()


def test_a_group_has_values_of_its_own():
    own = {
        "share.delivery.count.limit": "7",
        "share.record.lock.duration.ms": "20000",
        "share.partition.max.record.locks": "300",
        "share.renew.acknowledge.enable": "false",
        "share.isolation.level": "read_committed",
        "share.auto.offset.reset": "earliest",
    }
    assert settings_of(CONFIG, own) == ShareSettings(7, 20_000, 300, False, True, "earliest")


@pytest.mark.parametrize(("own", "found"), [("1", 2), ("99", 10), ("x", 5), ("", 5)])
def test_the_broker_has_the_last_word(own, found):
    assert settings_of(CONFIG, {"share.delivery.count.limit": own}).delivery_count_limit == found
