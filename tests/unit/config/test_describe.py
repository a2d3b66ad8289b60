"""Goal: DescribeConfigs shows the effective value first and every other source behind it."""

from tests.unit.config.test_resolve import config_with
from tidelog.config import (
    BrokerOverrides,
    ConfigSource,
    PropertyType,
    describe_broker_config,
    describe_cluster_defaults,
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
        ("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
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
    assert hours.read_only
    assert not described["log.retention.ms"].read_only
    assert described["node.id"].value == "2"
    assert described["node.id"].read_only
    assert described["log.retention.ms"].value is None
    assert described["broker.rack"].value is None


def test_a_value_from_a_property_in_hours_has_no_synonyms() -> None:
    """As Kafka answers: the list begins with `log.retention.ms`, which has no value."""
    config = config_with(log__retention__hours="2")
    described = {d.name: d for d in describe_topic_config({}, config)}
    retention = described["retention.ms"]
    assert (retention.value, retention.synonyms) == ("7200000", ())
    assert described["leader.replication.throttled.replicas"].synonyms == ()
    segment = described["segment.bytes"].synonyms
    assert [(s.name, s.value) for s in segment] == [("log.segment.bytes", "1073741824")]


def test_a_broker_shows_dynamic_values_of_every_kind() -> None:
    """Those of a rate, of what has no effect here, and above what is in the file."""
    config = config_with(producer__id__expiration__ms="50")
    rate, threads = "leader.replication.throttled.rate", "num.io.threads"
    assert not {rate, threads} & {d.name for d in describe_broker_config(config)}
    dynamic = BrokerOverrides(
        own={rate: "9", "producer.id.expiration.ms": "7"}, default={rate: "8", threads: "4"}
    )
    described = {d.name: d for d in describe_broker_config(config, dynamic)}
    assert (described[rate].value, described[rate].source) == ("9", ConfigSource.DYNAMIC_BROKER)
    assert [s.value for s in described[rate].synonyms] == ["9", "8"]
    assert described[threads].source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    expiration = described["producer.id.expiration.ms"]
    assert [s.value for s in expiration.synonyms] == ["7", "50", "86400000"]
    assert not (expiration.read_only or described[rate].read_only)


def test_a_default_of_an_unknown_type_may_be_a_secret():
    """A node of Kafka has set it, and this one has taken its place."""
    (found,) = describe_cluster_defaults({"listener.name.x.ssl.keystore.password": "s3cret"})
    assert found.sensitive
    assert "s3cret" not in repr(found)
