"""Kafka's configuration names with types, defaults and validation, resolved into small values.

A node reads a properties file once and hands each room the frozen value made for it; no room
reads configuration by name deep in its code. `tidelog.` names are ours (design §10).
"""

from tidelog.config.values import (
    LONG_MAX,
    BrokerConfig,
    ControllerConfig,
    CoordinatorConfig,
    LogConfig,
    NodeConfig,
    QuorumConfig,
    ReplicationConfig,
)

__all__ = [
    "LONG_MAX",
    "BrokerConfig",
    "ControllerConfig",
    "CoordinatorConfig",
    "LogConfig",
    "NodeConfig",
    "QuorumConfig",
    "ReplicationConfig",
]
