"""Configurations of single groups (resource type 32), which hold for a group before the node's own.

They are in the metadata log, and set with IncrementalAlterConfigs, whether the group exists or not.
A row's synonym is the node's property that gives all groups their value.

Left out: the rows of streams groups, and the intervals between assignments (KIP-1263), which are
made at once here.

Source: KIP-848, KIP-932, KIP-1142 (names of configured groups).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidelog.config.property_types import BadValue, Property, Value, parse_value, rows
from tidelog.config.values import GroupsConfig

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
OFFSET_RESET: Final = "share.auto.offset.reset"

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"

_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration in the notation of ISO 8601, such as `PT1H30M`; `None` for any
    other text."""
    found = _DURATION.fullmatch(text)
    if found is None or text.upper() in ("P", "PT"):
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    fraction = (found.group(5) or "").ljust(3, "0")[:3]
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + int(fraction)


def _offset_reset(value: Value) -> str | None:
    text = str(value).lower()
    is_ago = text.startswith(BY_DURATION)
    if text in (EARLIEST, LATEST) or (is_ago and duration_ms(text.removeprefix(BY_DURATION))):
        return None
    return "must be earliest, latest, or by_duration: and a duration such as PT1H"


GROUP_PROPERTIES: Final[Mapping[str, Property]] = rows(
    """
consumer.heartbeat.interval.ms INT >= 1 <- group.consumer.heartbeat.interval.ms
    How often members of this consumer group send heartbeats.
consumer.session.timeout.ms INT >= 1 <- group.consumer.session.timeout.ms
    Silence after which a member of this consumer group is removed.
share.auto.offset.reset STRING = latest
    Where this share group begins: at earliest, at latest, or so long ago (by_duration:PT1H).
share.delivery.count.limit INT >= 2 <- group.share.delivery.count.limit
    How often a record is delivered to members of this share group at most.
share.heartbeat.interval.ms INT >= 1 <- group.share.heartbeat.interval.ms
    How often members of this share group send heartbeats.
share.isolation.level STRING of read_committed read_uncommitted = read_uncommitted
    Whether records of aborted transactions are left out for this share group.
share.partition.max.record.locks INT >= 100 <- group.share.partition.max.record.locks
    Records of one partition that members of this share group may have at a time.
share.record.lock.duration.ms INT >= 1000 <- group.share.record.lock.duration.ms
    How long a member of this share group has a record, unless it says something earlier.
share.renew.acknowledge.enable BOOLEAN = true
    Whether members of this share group may have their locks begin anew.
share.session.timeout.ms INT >= 1 <- group.share.session.timeout.ms
    Silence after which a member of this share group is removed.
""",
    {OFFSET_RESET: _offset_reset},
)
"""In alphabetical order."""


def session_timeout_ms(config: GroupsConfig, own: Mapping[str, str]) -> int:
    """Of the members of a group that has these values of its own."""
    low, high = config.consumer_min_session_timeout_ms, config.consumer_max_session_timeout_ms
    return bounded(SESSION_TIMEOUT, own, config.consumer_session_timeout_ms, low, high)


def heartbeat_interval_ms(config: GroupsConfig, own: Mapping[str, str]) -> int:
    """Likewise."""
    low, high = config.consumer_min_heartbeat_interval_ms, config.consumer_max_heartbeat_interval_ms
    return bounded(HEARTBEAT_INTERVAL, own, config.consumer_heartbeat_interval_ms, low, high)


def share_session_timeout_ms(config: GroupsConfig, own: Mapping[str, str]) -> int:
    """Of the members of a share group."""
    low, high = config.share_min_session_timeout_ms, config.share_max_session_timeout_ms
    return bounded(SHARE_SESSION_TIMEOUT, own, config.share_session_timeout_ms, low, high)


def share_heartbeat_interval_ms(config: GroupsConfig, own: Mapping[str, str]) -> int:
    """Likewise."""
    low, high = config.share_min_heartbeat_interval_ms, config.share_max_heartbeat_interval_ms
    return bounded(SHARE_HEARTBEAT_INTERVAL, own, config.share_heartbeat_interval_ms, low, high)


def bounded(name: str, own: Mapping[str, str], default: int, low: int, high: int) -> int:
    """The group's own value, as far as the node permits it; what was set under the bounds of
    another node may be outside of its own."""
    if name not in own:
        return default
    try:
        value = parse_value(replace(GROUP_PROPERTIES[name], check=None), own[name])
    except BadValue:
        return default
    assert isinstance(value, int), f"{name} is a number"
    return min(max(value, low), high)
