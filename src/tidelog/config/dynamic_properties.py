"""Broker properties that may change while brokers run (KIP-226), and what they change.

A dynamic value is in the metadata log. Under a broker's id it is for that broker, under the empty
name for every broker. Precedence: the broker's own, every broker's, the file, the default.

| kind | properties |
| --- | --- |
| of logs | the first broker synonym of each topic configuration, `producer.id.expiration.ms` |
| of replication | the two throttled rates, which have no effect in a file |
| without an effect here | pools of threads, the cleaner's buffers, limits of connections |

Everything else is read only. So are the synonyms in minutes and hours: they are for files, and a
change of `log.retention.ms` overrules them.

Those without an effect are accepted, and described where they are set: configurations that were
written for Kafka must work (`known_names`).

Left out: `listeners` and the key stores, which Kafka can change and this code cannot yet.

Source: KIP-226. Which are read only: Kafka's own answers to DescribeConfigs.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.config.node_properties import NODE_PROPERTIES
from tidelog.config.property_types import (
    LONG_MAX,
    Property,
    PropertyType,
    Value,
    at_least,
    parse_value,
)
from tidelog.config.topic_properties import TOPIC_PROPERTIES, TOPIC_SYNONYMS
from tidelog.config.values import DynamicBrokerConfig

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"


def _rate(name: str, doc: str) -> Property:
    return Property(
        name=name, type=PropertyType.LONG, doc=doc, check=at_least(0), default=str(LONG_MAX)
    )


def _without_effect(kind: PropertyType, low: int, *names: str) -> list[Property]:
    doc = "Taken for Kafka's sake, without an effect here."
    return [Property(name=name, type=kind, doc=doc, check=at_least(low)) for name in names]


_ROWS: Final = (
    _rate(LEADER_RATE, "Bytes a second that leaders here send to throttled followers."),
    _rate(FOLLOWER_RATE, "Bytes a second that throttled followers here fetch."),
    _rate(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "Taken for Kafka's sake: there is one log directory.",
    ),
    *_without_effect(
        PropertyType.INT,
        1,
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    ),
    *_without_effect(
        PropertyType.INT,
        0,
        "log.cleaner.threads",
        "log.cleaner.io.buffer.size",
        "max.connection.creation.rate",
        "max.connections.per.ip",
    ),
    *_without_effect(
        PropertyType.LONG, 0, "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size"
    ),
    *_without_effect(
        PropertyType.DOUBLE,
        0,
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
    ),
)

_FIRST_SYNONYMS: Final = {
    row.synonyms[0].name: TOPIC_SYNONYMS[row.synonyms[0].name][0]
    for row in TOPIC_PROPERTIES.values()
    if row.synonyms
}

DYNAMIC_PROPERTIES: Final[Mapping[str, Property]] = {
    **_FIRST_SYNONYMS,
    PRODUCER_EXPIRATION: NODE_PROPERTIES[PRODUCER_EXPIRATION],
    **{prop.name: prop for prop in _ROWS},
}
"""Every property that running brokers accept, by name."""


def resolve_dynamic_config(*levels: Mapping[str, str]) -> DynamicBrokerConfig:
    """What a broker obeys under these dynamic values, the first level before the others."""

    def rate(name: str) -> int:
        for level in levels:
            if name in level:
                value: Value = parse_value(DYNAMIC_PROPERTIES[name], level[name])
                assert isinstance(value, int), f"`{name}` is {value!r}"
                return value
        return LONG_MAX

    return DynamicBrokerConfig(rate(LEADER_RATE), rate(FOLLOWER_RATE))
