"""What DescribeConfigs answers: the properties of a topic or broker, their values and sources.

The sources of one property are its synonyms, listed by falling precedence; the first is the
effective one (KIP-226). A topic's value may come from a property that Kafka does not list, such as
`log.retention.hours` for `retention.ms`. Then the value is listed without synonyms.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.dynamic_properties import dynamic_property
from tidelog.config.group_properties import GROUP_PROPERTIES
from tidelog.config.property_types import Property, PropertyType, value_text
from tidelog.config.resolve import USED, default_text, parse_setting
from tidelog.config.topic_properties import TOPIC_PROPERTIES, TOPIC_SYNONYMS
from tidelog.config.values import NodeConfig


class ConfigSource(IntEnum):
    """Where a value comes from, by the numbers of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_GROUP = 8


class ConfigSynonym(NamedTuple):
    """One place that gives the property a value."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(NamedTuple):
    """One property as DescribeConfigs answers it."""

    name: str
    value: str | None
    """`None` for a secret, and for a property without value."""
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: PropertyType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]


class BrokerOverrides(NamedTuple):
    """Dynamic broker values from the metadata image, by their broker names."""

    own: Mapping[str, str]
    """Set for this broker."""
    default: Mapping[str, str]
    """Set for all brokers."""


NO_OVERRIDES = BrokerOverrides({}, {})


def describe_topic_config(
    overrides: Mapping[str, str], config: NodeConfig, dynamic: BrokerOverrides = NO_OVERRIDES
) -> list[DescribedConfig]:
    """Every public topic configuration of a topic with these overrides, in order of name."""
    source = ConfigSource.DYNAMIC_TOPIC
    return _described_over(TOPIC_PROPERTIES, source, overrides, config, dynamic)


def describe_group_config(
    overrides: Mapping[str, str], config: NodeConfig, dynamic: BrokerOverrides = NO_OVERRIDES
) -> list[DescribedConfig]:
    """Every configuration of a group with these values of its own, in order of name."""
    source = ConfigSource.DYNAMIC_GROUP
    return _described_over(GROUP_PROPERTIES, source, overrides, config, dynamic)


def _described_over(
    properties: Mapping[str, Property],
    source: ConfigSource,
    overrides: Mapping[str, str],
    config: NodeConfig,
    dynamic: BrokerOverrides,
) -> list[DescribedConfig]:
    """Properties of a resource whose values come before those of the node."""
    described = []
    for name, prop in properties.items():
        synonyms: list[ConfigSynonym] = []
        if name in overrides:
            synonyms.append(ConfigSynonym(name, overrides[name], source))
        if prop.synonyms:
            synonyms += _synonyms_of(prop.synonyms[0].name, config, dynamic)
        value = overrides.get(name)
        if value is None:
            value = _inherited(prop, config, dynamic)
        described.append(_described(prop, value, synonyms, read_only=False))
    return described


def describe_broker_config(
    config: NodeConfig, dynamic: BrokerOverrides = NO_OVERRIDES
) -> list[DescribedConfig]:
    """Every node property that has an effect, and every one with a dynamic value, in order of
    name."""
    described = []
    for name in sorted({*USED, *dynamic.own, *dynamic.default}):
        dynamic_prop = dynamic_property(name)
        prop = USED.get(name) or dynamic_prop
        if prop is None:
            # Set by a controller of a newer version.
            continue
        synonyms = _synonyms_of(name, config, dynamic)
        value = synonyms[0].value if synonyms else None
        described.append(_described(prop, value, synonyms, read_only=dynamic_prop is None))
    return described


def describe_cluster_defaults(defaults: Mapping[str, str]) -> list[DescribedConfig]:
    """The dynamic values that hold for all brokers, in order of name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        _described(
            # What a controller of another version has set is of a type that is unknown here, so it
            # may be a secret.
            dynamic_property(name) or Property(name=name, type=PropertyType.PASSWORD, doc=""),
            value,
            [ConfigSynonym(name, value, source)],
            read_only=False,
        )
        for name, value in sorted(defaults.items())
    ]


def describe_loggers() -> list[DescribedConfig]:
    """The loggers of a node: one, whose level does not change."""
    level = Property(name="root", type=PropertyType.STRING, doc="Least level of a log line.")
    synonyms = [ConfigSynonym(level.name, "INFO", ConfigSource.DYNAMIC_BROKER_LOGGER)]
    return [_described(level, "INFO", synonyms, read_only=True)]


def _described(
    prop: Property, value: str | None, synonyms: list[ConfigSynonym], *, read_only: bool
) -> DescribedConfig:
    sensitive = prop.type is PropertyType.PASSWORD
    if sensitive:
        synonyms = [ConfigSynonym(s.name, None, s.source) for s in synonyms]
    return DescribedConfig(
        name=prop.name,
        value=None if sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=read_only,
        sensitive=sensitive,
        type=prop.type,
        documentation=prop.doc,
        synonyms=tuple(synonyms),
    )


def _levels(
    config: NodeConfig, dynamic: BrokerOverrides
) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
    return (
        (dynamic.own, ConfigSource.DYNAMIC_BROKER),
        (dynamic.default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (config.settings, ConfigSource.STATIC_BROKER),
    )


def _synonyms_of(name: str, config: NodeConfig, dynamic: BrokerOverrides) -> list[ConfigSynonym]:
    """A broker property's values and those of the properties that it overrules, each in its own
    unit: `log.retention.ms` lists `log.retention.hours` behind itself. Where it has no value of
    its own, nothing is listed, as in Kafka."""
    names = _overruled(name)
    found = [
        ConfigSynonym(each, level[each], source)
        for level, source in _levels(config, dynamic)
        for each in names
        if each in level
    ]
    found += [
        ConfigSynonym(each, default, ConfigSource.DEFAULT)
        for each in names
        if (default := _default_of(each)) is not None
    ]
    while found and found[0].name != name:
        del found[0]
    return found


def _overruled(name: str) -> tuple[str, ...]:
    if name not in TOPIC_SYNONYMS:
        return (name,)
    return tuple(synonym.name for synonym in TOPIC_SYNONYMS[name][1].synonyms)


def _default_of(name: str) -> str | None:
    if name in TOPIC_SYNONYMS:
        # The default belongs to the last synonym: `log.retention.hours`, not `log.retention.ms`.
        own, of_topics = TOPIC_SYNONYMS[name]
        return default_text(own) if of_topics.synonyms[-1].name == name else None
    return default_text(USED[name]) if name in USED else None


def _inherited(prop: Property, config: NodeConfig, dynamic: BrokerOverrides) -> str | None:
    """The value of a topic without an override, in the topic property's unit."""
    for level, _ in _levels(config, dynamic):
        for name, _ in prop.synonyms:
            if name in level:
                return value_text(parse_setting(name, level[name]))
    if not prop.fields and prop.default is None and prop.synonyms:
        return _default_of(prop.synonyms[0].name)
    return default_text(prop)
