"""What a group's share partitions obey: its own configuration, within what the broker permits.

A value that does not parse counts as not set: the controller has checked it when it was set, or
another version of Kafka has other values.
"""

from collections.abc import Mapping

from tidelog.config import SharingConfig
from tidelog.config.group_properties import LATEST, OFFSET_RESET, bounded
from tidelog.sharing.values import ShareSettings


def settings_of(config: SharingConfig, own: Mapping[str, str]) -> ShareSettings:
    """From the broker's configuration and the group's own."""
    return ShareSettings(
        delivery_count_limit=bounded(
            "share.delivery.count.limit",
            own,
            config.delivery_count_limit,
            config.min_delivery_count_limit,
            config.max_delivery_count_limit,
        ),
        lock_ms=bounded(
            "share.record.lock.duration.ms",
            own,
            config.lock_ms,
            config.min_lock_ms,
            config.max_lock_ms,
        ),
        max_locks=bounded(
            "share.partition.max.record.locks",
            own,
            config.max_locks,
            config.min_max_locks,
            config.max_max_locks,
        ),
        renewable=own.get("share.renew.acknowledge.enable", "true").lower() != "false",
        committed_only=own.get("share.isolation.level", "").lower() == "read_committed",
        offset_reset=own.get(OFFSET_RESET, LATEST).lower(),
    )
