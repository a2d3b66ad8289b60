"""Topic configurations: what a topic may override, and the broker properties behind each.

A topic's effective value comes from the first of: the topic's own override, a dynamic broker
value, the static file, the default. Broker files spell most of them differently
(`log.roll.hours` for `segment.ms`): a row names these synonyms behind `<-`, in Kafka's order of
precedence.

A row sets the field of `LogConfig` that has its name; in a node's file also the fields behind `->`.
Rows without such a field are accepted, stored and described, and have no effect: tiered storage
does not exist here.
"""

from dataclasses import replace
from typing import Final

from tidelog.config.property_types import (
    Property,
    PropertyType,
    between,
    rows,
    throttled_replicas,
    unlimited_or_positive,
)
from tidelog.config.values import LogConfig


def _with_field(prop: Property) -> Property:
    field = prop.name.replace(".", "_")
    known = field in LogConfig.__dataclass_fields__
    assert known or prop.default is not None, f"`{prop.name}` has neither a field nor a default"
    return replace(prop, fields=(f"log.{field}", *prop.fields) if known else ())


_ROWS: Final = rows(
    """
cleanup.policy LIST of compact delete <- log.cleanup.policy
    What happens to old segments: delete them, compact them by key, or both.
compression.gzip.level INT in -1 9 = -1 <- compression.gzip.level
    Compression level where the broker itself compresses with gzip.
compression.lz4.level INT in 1 17 = 9 <- compression.lz4.level
    Compression level where the broker itself compresses with lz4.
compression.type STRING of uncompressed zstd lz4 snappy gzip producer <- compression.type
    Codec of the stored batches; `producer` keeps what the producer chose.
compression.zstd.level INT in -131072 22 = 3 <- compression.zstd.level
    Compression level where the broker itself compresses with zstd.
delete.retention.ms LONG >= 0 <- log.cleaner.delete.retention.ms
    How long a compacted topic keeps tombstones.
file.delete.delay.ms LONG >= 0 <- log.segment.delete.delay.ms
    How long a file that was taken out of a log stays on disk.
flush.messages LONG >= 1 <- log.flush.interval.messages
    Records between two forced fsyncs; 1 makes every acknowledged record durable first.
flush.ms LONG >= 0 <- log.flush.interval.ms log.flush.scheduler.interval.ms
    The longest time between an append and its fsync.
follower.replication.throttled.replicas LIST
    Replicas whose fetching is throttled on the follower's side.
index.interval.bytes INT >= 0 <- log.index.interval.bytes
    Log bytes between two entries of the offset index.
leader.replication.throttled.replicas LIST
    Replicas whose fetching is throttled on the leader's side.
local.retention.bytes LONG >= -2 = -2 <- log.local.retention.bytes
    Tiered storage: local bytes of a partition; -2 follows `retention.bytes`.
local.retention.ms LONG >= -2 = -2 <- log.local.retention.ms
    Tiered storage: local age of a segment; -2 follows `retention.ms`.
max.compaction.lag.ms LONG >= 1 <- log.cleaner.max.compaction.lag.ms
    The longest time that a record may wait for compaction.
max.message.bytes INT >= 0 <- message.max.bytes
    The largest record batch, as stored, that the topic takes.
message.timestamp.after.max.ms LONG >= 0 <- log.message.timestamp.after.max.ms
    How far a record's timestamp may be ahead of the broker's clock.
message.timestamp.before.max.ms LONG >= 0 <- log.message.timestamp.before.max.ms
    How far a record's timestamp may be behind the broker's clock.
message.timestamp.type STRING of CreateTime LogAppendTime <- log.message.timestamp.type
    Whether records carry the producer's time or the time of the append.
min.cleanable.dirty.ratio DOUBLE in 0 1 <- log.cleaner.min.cleanable.ratio
    Share of uncompacted bytes from which a log is compacted.
min.compaction.lag.ms LONG >= 0 <- log.cleaner.min.compaction.lag.ms
    The shortest time that a record stays uncompacted.
min.insync.replicas INT >= 1 -> controller.min_insync_replicas <- min.insync.replicas
    In-sync replicas below which acks=all is refused and the high watermark stands still.
preallocate BOOLEAN = false <- log.preallocate
    Whether a new segment file gets its full size at once.
remote.log.copy.disable BOOLEAN = false
    Tiered storage: stop copying segments out.
remote.log.delete.on.disable BOOLEAN = false
    Tiered storage: delete the remote data when it is switched off.
remote.storage.enable BOOLEAN = false
    Tiered storage: not available, must be false.
retention.bytes LONG >= -1 <- log.retention.bytes
    Size from which a partition drops its oldest segments; -1 is unlimited.
retention.ms LONG <- log.retention.ms log.retention.minutes*60000 log.retention.hours*3600000
    Age from which a segment is dropped; -1 is unlimited.
segment.bytes INT >= 1048576 <- log.segment.bytes
    Size of a segment file.
segment.index.bytes INT >= 4 <- log.index.size.max.bytes
    Largest size of an index file.
segment.jitter.ms LONG >= 0 <- log.roll.jitter.ms log.roll.jitter.hours*3600000
    Random time by which a roll comes early, so that not all logs roll at once.
segment.ms LONG >= 1 <- log.roll.ms log.roll.hours*3600000
    Age from which a segment is closed and a new one begun.
unclean.leader.election.enable BOOLEAN -> controller.unclean_leader_election_enable \
    <- unclean.leader.election.enable
    Whether a replica outside the ISR may lead when no other can: loses records.
""",
    {
        "follower.replication.throttled.replicas": throttled_replicas,
        "leader.replication.throttled.replicas": throttled_replicas,
        "retention.ms": unlimited_or_positive,
        "remote.storage.enable": lambda value: (
            "must be false: there is no tiered storage" if value else None
        ),
    },
)

TOPIC_PROPERTIES: Final = {name: _with_field(prop) for name, prop in _ROWS.items()}
"""Every public topic configuration by name, in alphabetical order."""

INTERNAL_SEGMENT_BYTES: Final = replace(
    TOPIC_PROPERTIES["segment.bytes"], name="internal.segment.bytes", check=between(1), synonyms=()
)
"""Kafka's own back door for tests: segments below the 1 MiB minimum. Never described."""


def _broker_property(prop: Property, name: str, scale: int) -> Property:
    if scale == 1:
        return replace(prop, name=name, synonyms=())
    return replace(prop, name=name, synonyms=(), type=PropertyType.INT, check=None, scale=scale)


TOPIC_SYNONYMS: Final = {
    synonym.name: (_broker_property(prop, *synonym), prop)
    for prop in TOPIC_PROPERTIES.values()
    for synonym in prop.synonyms
}
"""Broker property name to its own row and the topic property that it feeds."""
