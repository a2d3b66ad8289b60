"""Kafka's configuration names with types, defaults and validation, resolved into small values.

A node reads a properties file once and hands each component the frozen value made for it. No
component reads configuration by name. Names that begin with `tidelog.` are not Kafka's.

- `values`: the frozen values, with the defaults;
- `node_properties`, `topic_properties`, `known_names`: the tables of names; `property_types` has
  what a row is and how a table is written;
- `dynamic_properties`: what may change while brokers run;
- `properties_file`, `listeners`, `roles`, `resolve`: from a file's text to a `NodeConfig`, from a
  topic's overrides to a `LogConfig`;
- `describe`: what DescribeConfigs answers;
- `profiles`: named sets of properties, the short timers of tests among them.
"""

from tidelog.config.describe import (
    BrokerOverrides,
    ConfigSource,
    ConfigSynonym,
    DescribedConfig,
    describe_broker_config,
    describe_cluster_defaults,
    describe_group_config,
    describe_loggers,
    describe_topic_config,
)
from tidelog.config.dynamic_properties import DYNAMIC_PROPERTIES, resolve_dynamic_config
from tidelog.config.profiles import TEST_PROFILE, profile_settings
from tidelog.config.properties_file import format_properties, parse_assignment, parse_properties
from tidelog.config.property_types import PropertyType
from tidelog.config.resolve import (
    apply_broker_overrides,
    parse_node_config,
    require_known,
    resolve_topic_config,
    validate_broker_config,
    validate_group_config,
    validate_topic_config,
)
from tidelog.config.values import (
    LONG_MAX,
    RACK_AWARE_SELECTOR,
    BrokerConfig,
    ControllerConfig,
    GroupsConfig,
    LogConfig,
    NodeConfig,
    QuorumConfig,
    ReplicationConfig,
    SharesConfig,
    SharingConfig,
    TransactionsConfig,
)

__all__ = [
    "DYNAMIC_PROPERTIES",
    "LONG_MAX",
    "RACK_AWARE_SELECTOR",
    "TEST_PROFILE",
    "BrokerConfig",
    "BrokerOverrides",
    "ConfigSource",
    "ConfigSynonym",
    "ControllerConfig",
    "DescribedConfig",
    "GroupsConfig",
    "LogConfig",
    "NodeConfig",
    "PropertyType",
    "QuorumConfig",
    "ReplicationConfig",
    "SharesConfig",
    "SharingConfig",
    "TransactionsConfig",
    "apply_broker_overrides",
    "describe_broker_config",
    "describe_cluster_defaults",
    "describe_group_config",
    "describe_loggers",
    "describe_topic_config",
    "format_properties",
    "parse_assignment",
    "parse_node_config",
    "parse_properties",
    "profile_settings",
    "require_known",
    "resolve_dynamic_config",
    "resolve_topic_config",
    "validate_broker_config",
    "validate_group_config",
    "validate_topic_config",
]
