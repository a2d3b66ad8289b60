"""What DescribeConfigs tells: every property of a topic or broker, its value and where from.

The sources of one property are its synonyms, listed by falling precedence; the first is the
effective one (KIP-226).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from tidelog.config.node_properties import NODE_PROPERTIES
from tidelog.config.property_types import Property, PropertyType, value_text
from tidelog.config.resolve import default_text, node_property, parse_setting
from tidelog.config.topic_properties import TOPIC_PROPERTIES, TOPIC_SYNONYMS, TopicProperty
from tidelog.config.values import NodeConfig


class ConfigSource(IntEnum):
    """Where a value comes from, by the numbers of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One place that gives the property a value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedConfig:
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


@dataclass(frozen=True, slots=True)
class BrokerOverrides:
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
    described = []
    for name, row in TOPIC_PROPERTIES.items():
        synonyms: list[ConfigSynonym] = []
        if name in overrides:
            synonyms.append(ConfigSynonym(name, overrides[name], ConfigSource.DYNAMIC_TOPIC))
        synonyms += _broker_synonyms(row, config, dynamic)
        described.append(_described(row.prop, synonyms, read_only=False))
    return described


def describe_broker_config(
    config: NodeConfig, dynamic: BrokerOverrides = NO_OVERRIDES
) -> list[DescribedConfig]:
    """Every node property that has an effect, in order of name."""
    described = []
    for name in sorted((*NODE_PROPERTIES, *TOPIC_SYNONYMS)):
        prop = node_property(name)
        if name in TOPIC_SYNONYMS:
            synonyms = _broker_synonyms(TOPIC_SYNONYMS[name][1], config, dynamic, only=name)
        else:
            synonyms = _static_synonyms(prop, config)
        described.append(_described(prop, synonyms, read_only=name not in TOPIC_SYNONYMS))
    return described


def _described(
    prop: Property, synonyms: list[ConfigSynonym], *, read_only: bool
) -> DescribedConfig:
    sensitive = prop.type is PropertyType.PASSWORD
    if sensitive:
        synonyms = [ConfigSynonym(s.name, None, s.source) for s in synonyms]
    effective = synonyms[0] if synonyms else ConfigSynonym(prop.name, None, ConfigSource.DEFAULT)
    return DescribedConfig(
        name=prop.name,
        value=effective.value,
        source=effective.source,
        read_only=read_only,
        sensitive=sensitive,
        type=prop.type,
        documentation=prop.doc,
        synonyms=tuple(synonyms),
    )


def _static_synonyms(prop: Property, config: NodeConfig) -> list[ConfigSynonym]:
    synonyms = []
    if prop.name in config.settings:
        text = config.settings[prop.name]
        synonyms.append(ConfigSynonym(prop.name, text, ConfigSource.STATIC_BROKER))
    default = default_text(prop)
    if default is not None:
        synonyms.append(ConfigSynonym(prop.name, default, ConfigSource.DEFAULT))
    return synonyms


def _broker_synonyms(
    row: TopicProperty, config: NodeConfig, dynamic: BrokerOverrides, *, only: str | None = None
) -> list[ConfigSynonym]:
    """The broker's values for a topic property. With `only`, as that broker property shows them:
    in its own unit and under its own name; otherwise in the topic property's unit."""
    names = [s.name for s in row.synonyms if only in (None, s.name)]
    levels = (
        (dynamic.own, ConfigSource.DYNAMIC_BROKER),
        (dynamic.default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (config.settings, ConfigSource.STATIC_BROKER),
    )
    synonyms = [
        ConfigSynonym(
            name, level[name] if only else value_text(parse_setting(name, level[name])), source
        )
        for level, source in levels
        for name in names
        if name in level
    ]
    # The default belongs to the last synonym: `log.retention.hours`, not `log.retention.ms`.
    last = row.synonyms[-1].name if row.synonyms else row.prop.name
    if only is None:
        synonyms.append(ConfigSynonym(last, default_text(row.prop), ConfigSource.DEFAULT))
    elif only == last:
        default = default_text(TOPIC_SYNONYMS[only][0])
        synonyms.append(ConfigSynonym(only, default, ConfigSource.DEFAULT))
    return synonyms
