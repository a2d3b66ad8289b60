"""Kafka's properties of replication and durability that are accepted and have no effect here.

An operator who sets one counts on its effect. So a node that starts logs what holds instead, once
for each property.
Left out: names of parts that do not exist here at all (groups, transactions, quotas, TLS, tiered
storage), and sizes of threads and buffers, which promise nothing to an operator.
"""

from collections.abc import Iterable
from typing import Final

_NO_FLUSH_BY_TIME: Final = (
    "nothing is flushed by time: set `log.flush.interval.messages`, or count on replicas"
)
_NO_RETENTION: Final = "records are kept until their topic is deleted"
_NO_COMPACTION: Final = "nothing is compacted"
_NO_JITTER: Final = "segments roll at `log.roll.ms` or `log.segment.bytes` exactly"

WITHOUT_EFFECT: Final = {
    "controller.quorum.append.linger.ms": "appends are gathered while a flush is under way",
    "cordoned.log.dirs": "the directory takes new replicas",
    "log.cleaner.delete.retention.ms": _NO_COMPACTION,
    "log.cleaner.enable": _NO_COMPACTION,
    "log.cleaner.max.compaction.lag.ms": _NO_COMPACTION,
    "log.cleaner.min.cleanable.ratio": _NO_COMPACTION,
    "log.cleaner.min.compaction.lag.ms": _NO_COMPACTION,
    "log.cleanup.policy": "segments are neither deleted nor compacted",
    "log.dir.failure.timeout.ms": "a node whose log directory fails stops at once",
    "log.flush.interval.ms": _NO_FLUSH_BY_TIME,
    "log.flush.scheduler.interval.ms": _NO_FLUSH_BY_TIME,
    "log.preallocate": "segment files grow with their records",
    "log.retention.bytes": _NO_RETENTION,
    "log.retention.check.interval.ms": _NO_RETENTION,
    "log.retention.hours": _NO_RETENTION,
    "log.retention.minutes": _NO_RETENTION,
    "log.retention.ms": _NO_RETENTION,
    "log.roll.jitter.hours": _NO_JITTER,
    "log.roll.jitter.ms": _NO_JITTER,
    "log.segment.delete.delay.ms": "files of a deleted log go with the next checkpoint",
    "metadata.log.dir": "the metadata log is in `log.dirs`",
    "num.replica.fetchers": "one fetcher follows each leader",
}
"""What holds instead, by the name of the property."""


def without_effect(names: Iterable[str]) -> dict[str, str]:
    """Those of these properties that have no effect, in order of name, and what holds instead."""
    return {name: WITHOUT_EFFECT[name] for name in sorted(WITHOUT_EFFECT.keys() & set(names))}
