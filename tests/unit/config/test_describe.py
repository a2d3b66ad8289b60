"""Goal: DescribeConfigs shows the effective value first and every other source behind it."""

from tests.unit.config.test_resolve import config_with
from tidelog.config import (
    BrokerOverrides,
    ConfigSource,
    PropertyType,
    describe_broker_config,
    describe_topic_config,
)


def test_a_topic_shows_all_its_sources_by_precedence() -> None:
    config = config_with(log__retention__hours="2", log__retention__ms="9")
    dynamic = BrokerOverrides(own={"log.retention.ms": "8"}, default={"log.retention.ms": "7"})
    described = {d.name: d for d in describe_topic_config({"retention.ms": "5"}, config, dynamic)}
    retention = described["retention.ms"]
    assert (retention.value, retention.source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
        ("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "8", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "7", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "9", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "7200000", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "604800000", ConfigSource.DEFAULT),
    ]
    assert retention.type is PropertyType.LONG
    assert not retention.read_only
    assert described["segment.bytes"].source is ConfigSource.DEFAULT
    assert list(described) == sorted(described)
    assert "internal.segment.bytes" not in described


def test_a_broker_shows_its_own_units_and_what_can_change() -> None:
    config = config_with(log__retention__hours="2")
    described = {d.name: d for d in describe_broker_config(config)}
    hours = described["log.retention.hours"]
    assert (hours.value, hours.source) == ("2", ConfigSource.STATIC_BROKER)
    assert hours.synonyms[1].value == "168"
    assert not hours.read_only
    assert described["node.id"].value == "2"
    assert described["node.id"].read_only
    assert described["log.retention.ms"].value is None
    assert described["broker.rack"].value is None
