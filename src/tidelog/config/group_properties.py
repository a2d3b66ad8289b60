"""Configurations of single groups (resource type 32), which hold for a group before the node's own.

They are in the metadata log, and set with IncrementalAlterConfigs, whether the group exists or not.
A row's synonym is the node's property that gives all groups their value.

Left out: the rows of share groups and of streams groups.

Source: KIP-848, KIP-1142 (names of configured groups).
"""

from collections.abc import Mapping
from typing import Final

from tidelog.config.property_types import BadValue, Property, parse_value, rows
from tidelog.config.values import GroupsConfig

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"

GROUP_PROPERTIES: Final[Mapping[str, Property]] = rows("""
consumer.heartbeat.interval.ms INT >= 1 <- group.consumer.heartbeat.interval.ms
    How often members of this consumer group send heartbeats.
consumer.session.timeout.ms INT >= 1 <- group.consumer.session.timeout.ms
    Silence after which a member of this consumer group is removed.
""")
"""In alphabetical order."""


def session_timeout_ms(config: GroupsConfig, own: Mapping[str, str]) -> int:
    """Of the members of a group that has these values of its own."""
    low, high = config.consumer_min_session_timeout_ms, config.consumer_max_session_timeout_ms
    return _bounded(SESSION_TIMEOUT, own, config.consumer_session_timeout_ms, low, high)


def heartbeat_interval_ms(config: GroupsConfig, own: Mapping[str, str]) -> int:
    """Likewise."""
    low, high = config.consumer_min_heartbeat_interval_ms, config.consumer_max_heartbeat_interval_ms
    return _bounded(HEARTBEAT_INTERVAL, own, config.consumer_heartbeat_interval_ms, low, high)


def _bounded(name: str, own: Mapping[str, str], default: int, low: int, high: int) -> int:
    """The group's own value, as far as the node permits it; what was set under the bounds of
    another node may be outside of its own."""
    if name not in own:
        return default
    try:
        value = parse_value(GROUP_PROPERTIES[name], own[name])
    except BadValue:
        return default
    assert isinstance(value, int), f"{name} is a number"
    return min(max(value, low), high)
