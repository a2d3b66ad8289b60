"""Topics whose old records go: what they are configured with, and what is written to them.

`compacted` keeps the last value of each key, `retained` its newest records. Their segments are so
small that a round of a minute or two sees many cleaned, and many deleted.

Record n of a partition of `compacted` has the key `key_of(n)`. Each key is deleted now and then by
a record without a value (`is_tombstone`).
"""

from typing import Final

COMPACTED: Final = "compacted"
RETAINED: Final = "retained"
CLEANED: Final = (COMPACTED, RETAINED)

KEYS: Final = 50
_LIVES: Final = 5
_SEGMENT_BYTES: Final = 1 << 16
TOMBSTONE_S: Final = 60
"""A follower that is behind for longer may miss a deletion, with Apache Kafka as well."""

CONFIGS: Final = {
    COMPACTED: {
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(_SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": str(1000 * TOMBSTONE_S),
        "file.delete.delay.ms": "1000",
    },
    RETAINED: {
        "internal.segment.bytes": str(_SEGMENT_BYTES),
        "retention.bytes": str(4 * _SEGMENT_BYTES),
        "file.delete.delay.ms": "1000",
    },
}
NODE_SETTINGS: Final = {"log.cleaner.backoff.ms": "500", "log.retention.check.interval.ms": "500"}


def key_of(n: int) -> bytes:
    """The key of the n-th record of a partition."""
    return b"%d" % (n % KEYS)


def is_tombstone(n: int) -> bool:
    """Whether it deletes its key."""
    return n // KEYS % _LIVES == _LIVES - 1
