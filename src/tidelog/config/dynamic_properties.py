"""Broker properties that may change while brokers run (KIP-226), and what they change.

A dynamic value is in the metadata log. Under a broker's id it is for that broker, under the empty
name for every broker. Precedence: the broker's own, every broker's, the file, the default.

| kind | properties |
| --- | --- |
| of logs | the first broker synonym of each topic configuration, `producer.id.expiration.ms` |
| of replication | the three throttled rates, which have no effect in a file |
| of TLS | the key and the trust store of a listener, with its prefix, for one broker |
| without an effect here | pools of threads, the cleaner's buffers, limits of connections |

Everything else is read only. So are the synonyms in minutes and hours: they are for files, and a
change of `log.retention.ms` overrules them.

Those without an effect are accepted, and described where they are set: configurations that were
written for Kafka must work (`known_names`).

Left out: `listeners`, which Kafka can change and this code cannot yet.

Source: KIP-226. Which are read only: Kafka's own answers to DescribeConfigs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidelog.config.node_properties import NODE_PROPERTIES
from tidelog.config.property_types import Property, parse_value, rows
from tidelog.config.tls_properties import store_property
from tidelog.config.topic_properties import TOPIC_PROPERTIES, TOPIC_SYNONYMS
from tidelog.config.values import LONG_MAX, DynamicBrokerConfig

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
PRODUCER_EXPIRATION: Final = "producer.id.expiration.ms"

_RATES: Final = rows("""
leader.replication.throttled.rate LONG >= 0 = 9223372036854775807
    Bytes a second that leaders here send to throttled followers.
follower.replication.throttled.rate LONG >= 0 = 9223372036854775807
    Bytes a second that throttled followers here fetch.
replica.alter.log.dirs.io.max.bytes.per.second LONG >= 0 = 9223372036854775807
    Bytes a second that replicas here copy that move to another log directory.
""")

_WITHOUT_EFFECT: Final = rows("""
background.threads INT >= 1
num.io.threads INT >= 1
num.network.threads INT >= 1
num.recovery.threads.per.data.dir INT >= 1
num.replica.fetchers INT >= 1
log.cleaner.threads INT >= 0
log.cleaner.io.buffer.size INT >= 0
max.connection.creation.rate INT >= 0
max.connections.per.ip INT >= 0
log.cleaner.backoff.ms LONG >= 0
log.cleaner.dedupe.buffer.size LONG >= 0
log.cleaner.io.buffer.load.factor DOUBLE >= 0
log.cleaner.io.max.bytes.per.second DOUBLE >= 0
""")

DYNAMIC_PROPERTIES: Final[Mapping[str, Property]] = {
    **{
        prop.synonyms[0].name: TOPIC_SYNONYMS[prop.synonyms[0].name][0]
        for prop in TOPIC_PROPERTIES.values()
        if prop.synonyms
    },
    PRODUCER_EXPIRATION: NODE_PROPERTIES[PRODUCER_EXPIRATION],
    **_RATES,
    **{
        name: replace(prop, doc="Taken for Kafka's sake, without an effect here.")
        for name, prop in _WITHOUT_EFFECT.items()
    },
}
"""Every property that running brokers accept, by name; those of listeners have more names."""


def dynamic_property(name: str) -> Property | None:
    """The property with this name, if running brokers accept it."""
    return DYNAMIC_PROPERTIES.get(name) or store_property(name)


def resolve_dynamic_config(*levels: Mapping[str, str]) -> DynamicBrokerConfig:
    """What a broker obeys under these dynamic values, the first level before the others."""

    def rate(name: str) -> int:
        for level in levels:
            if name in level:
                value = parse_value(DYNAMIC_PROPERTIES[name], level[name])
                assert isinstance(value, int), f"`{name}` is {value!r}"
                return value
        return LONG_MAX

    return DynamicBrokerConfig(rate(LEADER_RATE), rate(FOLLOWER_RATE), rate(MOVES_RATE))
