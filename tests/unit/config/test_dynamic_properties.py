"""Goal: running brokers take what Kafka's take, and what they take counts by precedence."""

import pytest

from tidelog.config import (
    DYNAMIC_PROPERTIES,
    LONG_MAX,
    PropertyType,
    resolve_dynamic_config,
    validate_broker_config,
)
from tidelog.config.dynamic_properties import FOLLOWER_RATE, LEADER_RATE, dynamic_property
from tidelog.errors import ErrorCode, ProtocolError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.retention.ms", "5"),
        ("min.insync.replicas", "2"),
        ("unclean.leader.election.enable", "true"),
        ("message.max.bytes", "9"),
        ("producer.id.expiration.ms", "1000"),
        ("leader.replication.throttled.rate", "0"),
        ("follower.replication.throttled.rate", str(LONG_MAX)),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "1"),
        ("num.io.threads", "16"),
        ("log.cleaner.threads", "2"),
    ],
)
def test_what_running_brokers_take(name: str, value: str) -> None:
    validate_broker_config(name, value)
    assert name in DYNAMIC_PROPERTIES


def test_running_brokers_take_the_stores_of_a_listener() -> None:
    kinds = {
        "keystore.type": PropertyType.STRING,
        "keystore.location": PropertyType.STRING,
        "keystore.password": PropertyType.PASSWORD,
        "keystore.key": PropertyType.PASSWORD,
        "keystore.certificate.chain": PropertyType.STRING,
        "key.password": PropertyType.PASSWORD,
        "truststore.type": PropertyType.STRING,
        "truststore.location": PropertyType.STRING,
        "truststore.password": PropertyType.PASSWORD,
        "truststore.certificates": PropertyType.STRING,
    }
    for inner, kind in kinds.items():
        name = f"listener.name.external.ssl.{inner}"
        validate_broker_config(name, "PEM")
        prop = dynamic_property(name)
        assert prop is not None
        assert (prop.name, prop.type) == (name, kind)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("log.retention.hours", "5", "Cannot update these configs dynamically"),
        ("log.roll.hours", "5", "Cannot update these configs dynamically"),
        ("broker.rack", "a", "Cannot update these configs dynamically"),
        ("replica.selector.class", "a", "Cannot update these configs dynamically"),
        ("num.partitions", "3", "Cannot update these configs dynamically"),
        ("ssl.keystore.location", "a", "Cannot update these configs dynamically"),
        ("listener.name.ssl.ssl.keystore.type", "JKX", "must be one of"),
        ("listener.name.ssl.ssl.client.auth", "none", "Unknown broker config name"),
        ("listener.name.ssl.keystore.location", "a", "Unknown broker config name"),
        ("zip.zap", "3", "Unknown broker config name"),
        ("leader.replication.throttled.rate", "-1", "must be at least 0"),
        ("num.io.threads", "0", "must be at least 1"),
        ("min.insync.replicas", "0", "must be at least 1"),
    ],
)
def test_what_running_brokers_refuse(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint) as caught:
        validate_broker_config(name, value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_brokers_own_rate_comes_before_everybodys() -> None:
    own, everybodys = {LEADER_RATE: "7"}, {LEADER_RATE: "8", FOLLOWER_RATE: "9"}
    dynamic = resolve_dynamic_config(own, everybodys)
    assert (dynamic.leader_throttled_rate, dynamic.follower_throttled_rate) == (7, 9)
    assert resolve_dynamic_config({}, {}).leader_throttled_rate == LONG_MAX
