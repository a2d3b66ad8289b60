"""Goal: the tables of names agree with the values and with each other."""

import pytest

from tests.unit.config.test_resolve import config_with
from tidelog.config import profile_settings
from tidelog.config.known_names import KNOWN_NAMES, REMOVED_NAMES
from tidelog.config.node_properties import NODE_PROPERTIES
from tidelog.config.property_types import PropertyType, parse_value, value_text
from tidelog.config.resolve import default_text
from tidelog.config.topic_properties import TOPIC_PROPERTIES, TOPIC_SYNONYMS
from tidelog.config.values import LogConfig
from tidelog.errors import UsageError


def test_no_name_stands_in_two_tables() -> None:
    tables = [set(NODE_PROPERTIES), set(TOPIC_SYNONYMS), set(KNOWN_NAMES), set(REMOVED_NAMES)]
    assert sum(map(len, tables)) == len(set().union(*tables))


def test_every_default_passes_its_own_check() -> None:
    for prop in (*NODE_PROPERTIES.values(), *TOPIC_PROPERTIES.values()):
        text = default_text(prop)
        if text is not None:
            assert value_text(parse_value(prop, text)) == text, prop.name


def test_every_field_of_a_log_is_set_by_some_property() -> None:
    properties = (*NODE_PROPERTIES.values(), *TOPIC_PROPERTIES.values())
    paths = {path for prop in properties for path in prop.fields}
    assert {f"log.{field}" for field in LogConfig.__dataclass_fields__} <= paths


def test_every_row_has_a_sentence() -> None:
    for prop in (*NODE_PROPERTIES.values(), *TOPIC_PROPERTIES.values()):
        assert prop.doc.endswith("."), prop.name
        ends = ".password", ".secret", ".secret.key", ".keystore.key", ".jaas.config"
        secret = prop.name.endswith(ends)
        assert (prop.type is PropertyType.PASSWORD) == secret, prop.name


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
@pytest.mark.parametrize("profile", ["default", "test"])
def test_profiles_are_valid_and_fit_the_cluster(profile: str, brokers: int) -> None:
    settings = profile_settings(profile, brokers)
    config = config_with(**{name.replace(".", "__"): value for name, value in settings.items()})
    assert config.settings["offsets.topic.replication.factor"] == str(min(3, brokers))
    assert config.controller.min_insync_replicas == max(1, min(3, brokers) - 1)
    if profile == "test":
        assert config.broker.session_timeout_ms == 500
        assert config.broker.heartbeat_interval_ms == 100
        assert config.replication.replica_lag_time_max_ms == 500


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown profile `fast`"):
        profile_settings("fast", 3)
