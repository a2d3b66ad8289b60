"""What a group's share partitions obey: its own configuration, within what the broker permits.

A value that does not parse counts as not set: the controller has checked it when it was set, or
another version of Kafka has other values.
"""

import re
from collections.abc import Mapping
from typing import Final

from tidelog.config import SharingConfig
from tidelog.sharing.values import ShareSettings

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"

_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


def settings_of(config: SharingConfig, own: Mapping[str, str]) -> ShareSettings:
    """From the broker's configuration and the group's own."""
    return ShareSettings(
        delivery_count_limit=_within(
            own.get("share.delivery.count.limit"),
            config.delivery_count_limit,
            config.min_delivery_count_limit,
            config.max_delivery_count_limit,
        ),
        lock_ms=_within(
            own.get("share.record.lock.duration.ms"),
            config.lock_ms,
            config.min_lock_ms,
            config.max_lock_ms,
        ),
        max_locks=_within(
            own.get("share.partition.max.record.locks"),
            config.max_locks,
            config.min_max_locks,
            config.max_max_locks,
        ),
        renewable=own.get("share.renew.acknowledge.enable", "true").lower() != "false",
        committed_only=own.get("share.isolation.level", "").lower() == "read_committed",
        offset_reset=own.get("share.auto.offset.reset", LATEST).lower(),
    )


def _within(own: str | None, broker: int, low: int, high: int) -> int:
    """A group's own value, as far as the broker permits it; else the broker's, as it stands."""
    if own is None or not own.strip().isdecimal():
        return broker
    return min(max(int(own), low), high)


def duration_ms(text: str) -> int | None:
    """Milliseconds of a duration in the notation of ISO 8601, such as `PT1H30M`; `None` for any
    other text."""
    found = _DURATION.fullmatch(text)
    if found is None or text.upper() in ("P", "PT"):
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    fraction = (found.group(5) or "").ljust(3, "0")[:3]
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + int(fraction)
