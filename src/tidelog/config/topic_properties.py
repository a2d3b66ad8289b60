"""Topic configurations: what a topic may override, and the broker properties behind each.

A topic's effective value comes from the first of: the topic's own override, a dynamic broker
value, the static file, the default. Broker files spell most of them differently
(`log.roll.hours` for `segment.ms`): `BrokerSynonym` holds that relation, in Kafka's order of
precedence.

Rows without a field are accepted, stored and described, and have no effect: tiered storage does not
exist here, and neither does compaction yet.
"""

from dataclasses import dataclass
from typing import Final

from tidelog.config.property_types import (
    LONG_MAX,
    Check,
    Property,
    PropertyType,
    at_least,
    between,
    list_of,
    one_of,
    throttled_replicas,
)
from tidelog.config.values import LogConfig

_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = (
    PropertyType.BOOLEAN,
    PropertyType.STRING,
    PropertyType.INT,
    PropertyType.LONG,
    PropertyType.DOUBLE,
    PropertyType.LIST,
)


@dataclass(frozen=True, slots=True)
class BrokerSynonym:
    """A broker property that gives topics their value, times `scale`."""

    name: str
    scale: int = 1
    type: PropertyType | None = None
    """Where it differs from that of the topic property."""


@dataclass(frozen=True, slots=True)
class TopicProperty:
    """One row: the property, and its broker synonyms by falling precedence."""

    prop: Property
    synonyms: tuple[BrokerSynonym, ...] = ()


def _row(
    name: str,
    kind: PropertyType,
    doc: str,
    *synonyms: str | BrokerSynonym,
    check: Check | None = None,
    default: str | None = None,
) -> TopicProperty:
    field = name.replace(".", "_")
    known = field in LogConfig.__dataclass_fields__
    assert known or default is not None, f"`{name}` has neither a field nor a default"
    prop = Property(
        name=name,
        type=kind,
        doc=doc,
        fields=(field,) if known else (),
        check=check,
        default=default,
    )
    rows = tuple(BrokerSynonym(s) if isinstance(s, str) else s for s in synonyms)
    return TopicProperty(prop, rows)


_ROWS: Final = (
    _row(
        "cleanup.policy",
        _LIST,
        "What happens to old segments: delete them, compact them by key, or both.",
        "log.cleanup.policy",
        check=list_of("compact", "delete"),
    ),
    _row(
        "compression.gzip.level",
        _INT,
        "Compression level where the broker itself compresses with gzip.",
        "compression.gzip.level",
        check=between(-1, 9),
        default="-1",
    ),
    _row(
        "compression.lz4.level",
        _INT,
        "Compression level where the broker itself compresses with lz4.",
        "compression.lz4.level",
        check=between(1, 17),
        default="9",
    ),
    _row(
        "compression.type",
        _STRING,
        "Codec of the stored batches; `producer` keeps what the producer chose.",
        "compression.type",
        check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _row(
        "compression.zstd.level",
        _INT,
        "Compression level where the broker itself compresses with zstd.",
        "compression.zstd.level",
        check=between(-131_072, 22),
        default="3",
    ),
    _row(
        "delete.retention.ms",
        _LONG,
        "How long a compacted topic keeps tombstones.",
        "log.cleaner.delete.retention.ms",
        check=at_least(0),
        default=str(24 * _HOUR),
    ),
    _row(
        "file.delete.delay.ms",
        _LONG,
        "How long a file that was taken out of a log stays on disk.",
        "log.segment.delete.delay.ms",
        check=at_least(0),
        default=str(_MINUTE),
    ),
    _row(
        "flush.messages",
        _LONG,
        "Records between two forced fsyncs; 1 makes every acknowledged record durable first.",
        "log.flush.interval.messages",
        check=at_least(1),
    ),
    _row(
        "flush.ms",
        _LONG,
        "The longest time between an append and its fsync.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
        check=at_least(0),
    ),
    _row(
        "follower.replication.throttled.replicas",
        _LIST,
        "Replicas whose fetching is throttled on the follower's side.",
        check=throttled_replicas,
    ),
    _row(
        "index.interval.bytes",
        _INT,
        "Log bytes between two entries of the offset index.",
        "log.index.interval.bytes",
        check=at_least(0),
    ),
    _row(
        "leader.replication.throttled.replicas",
        _LIST,
        "Replicas whose fetching is throttled on the leader's side.",
        check=throttled_replicas,
    ),
    _row(
        "local.retention.bytes",
        _LONG,
        "Tiered storage: local bytes of a partition; -2 follows `retention.bytes`.",
        "log.local.retention.bytes",
        check=at_least(-2),
        default="-2",
    ),
    _row(
        "local.retention.ms",
        _LONG,
        "Tiered storage: local age of a segment; -2 follows `retention.ms`.",
        "log.local.retention.ms",
        check=at_least(-2),
        default="-2",
    ),
    _row(
        "max.compaction.lag.ms",
        _LONG,
        "The longest time that a record may wait for compaction.",
        "log.cleaner.max.compaction.lag.ms",
        check=at_least(1),
        default=str(LONG_MAX),
    ),
    _row(
        "max.message.bytes",
        _INT,
        "The largest record batch, as stored, that the topic takes.",
        "message.max.bytes",
        check=at_least(0),
    ),
    _row(
        "message.timestamp.after.max.ms",
        _LONG,
        "How far a record's timestamp may be ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms",
        check=at_least(0),
    ),
    _row(
        "message.timestamp.before.max.ms",
        _LONG,
        "How far a record's timestamp may be behind the broker's clock.",
        "log.message.timestamp.before.max.ms",
        check=at_least(0),
    ),
    _row(
        "message.timestamp.type",
        _STRING,
        "Whether records carry the producer's time or the time of the append.",
        "log.message.timestamp.type",
        check=one_of("CreateTime", "LogAppendTime"),
    ),
    _row(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "Share of uncompacted bytes from which a log is compacted.",
        "log.cleaner.min.cleanable.ratio",
        check=between(0, 1),
        default="0.5",
    ),
    _row(
        "min.compaction.lag.ms",
        _LONG,
        "The shortest time that a record stays uncompacted.",
        "log.cleaner.min.compaction.lag.ms",
        check=at_least(0),
        default="0",
    ),
    _row(
        "min.insync.replicas",
        _INT,
        "In-sync replicas below which acks=all is refused and the high watermark stands still.",
        "min.insync.replicas",
        check=at_least(1),
    ),
    _row(
        "preallocate",
        _BOOLEAN,
        "Whether a new segment file gets its full size at once.",
        "log.preallocate",
        default="false",
    ),
    _row(
        "remote.log.copy.disable",
        _BOOLEAN,
        "Tiered storage: stop copying segments out.",
        default="false",
    ),
    _row(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        "Tiered storage: delete the remote data when it is switched off.",
        default="false",
    ),
    _row(
        "remote.storage.enable",
        _BOOLEAN,
        "Tiered storage: not available, must be false.",
        check=lambda value: "must be false: there is no tiered storage" if value else None,
        default="false",
    ),
    _row(
        "retention.bytes",
        _LONG,
        "Size from which a partition drops its oldest segments; -1 is unlimited.",
        "log.retention.bytes",
    ),
    _row(
        "retention.ms",
        _LONG,
        "Age from which a segment is dropped; -1 is unlimited.",
        "log.retention.ms",
        BrokerSynonym("log.retention.minutes", _MINUTE, _INT),
        BrokerSynonym("log.retention.hours", _HOUR, _INT),
        check=at_least(-1),
    ),
    _row(
        "segment.bytes",
        _INT,
        "Size of a segment file.",
        "log.segment.bytes",
        check=at_least(1 << 20),
    ),
    _row(
        "segment.index.bytes",
        _INT,
        "Largest size of an index file.",
        "log.index.size.max.bytes",
        check=at_least(4),
    ),
    _row(
        "segment.jitter.ms",
        _LONG,
        "Random time by which a roll comes early, so that not all logs roll at once.",
        "log.roll.jitter.ms",
        BrokerSynonym("log.roll.jitter.hours", _HOUR, _INT),
        check=at_least(0),
        default="0",
    ),
    _row(
        "segment.ms",
        _LONG,
        "Age from which a segment is closed and a new one begun.",
        "log.roll.ms",
        BrokerSynonym("log.roll.hours", _HOUR, _INT),
        check=at_least(1),
    ),
    _row(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "Whether a replica outside the ISR may lead when no other can: loses records.",
        "unclean.leader.election.enable",
    ),
)

TOPIC_PROPERTIES: Final = {row.prop.name: row for row in _ROWS}
"""Every public topic configuration by name, in alphabetical order."""

INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"
"""Kafka's own back door for tests: segments below the 1 MiB minimum. Never described."""


def _broker_rows() -> dict[str, tuple[Property, TopicProperty]]:
    rows: dict[str, tuple[Property, TopicProperty]] = {}
    for row in _ROWS:
        for synonym in row.synonyms:
            prop = Property(
                name=synonym.name,
                type=synonym.type or row.prop.type,
                doc=row.prop.doc,
                fields=row.prop.fields,
                check=row.prop.check if synonym.scale == 1 else None,
                default=row.prop.default,
                scale=synonym.scale,
            )
            rows[synonym.name] = (prop, row)
    return rows


TOPIC_SYNONYMS: Final = _broker_rows()
"""Broker property name to its own row and the topic property that it feeds."""
