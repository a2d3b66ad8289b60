"""Which offset is the newest of each key, in a bounded memory.

The first pass of a cleaning puts every key of the dirty part in here; the second keeps a record
only if no newer one is known. A key of less than 40 bytes is held as it is, a longer one as a
digest of 40; Kafka holds the MD5 of all keys. Two keys of one digest would cost a record, and do
not meet by chance.
Short keys have fewer bytes than a digest, so the two kinds do not meet either.

Keys come in bulk where the records allow it (`records/record_runs.py`): a call for each key would
cost more than all the rest of a record.

Memory: Kafka's map takes 24 bytes a key. Python's takes about `ENTRY_BYTES` with its objects, and
that is what counts here, so `log.cleaner.dedupe.buffer.size` bounds real memory. A log with more
keys than fit is cleaned in several rounds.

Source: Kafka's `SkimpyOffsetMap`.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Final

ENTRY_BYTES: Final = 220
"""Of one key: its slot when the table has just grown, a bytes object, an integer."""
_DIGEST_BYTES: Final = 40


class OffsetMap:
    """The newest offset of each key."""

    __slots__ = ("_offsets", "capacity", "end_offset")

    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        # How many keys it may hold; a batch that is begun is taken whole.
        self.capacity = max(1, int(buffer_bytes * load_factor) // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        # Exclusive: the keys of all records below it that count are here.
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room(self, record_count: int) -> bool:
        """Whether a batch of so many records fits. An empty map takes any."""
        return not self._offsets or len(self._offsets) + record_count <= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        """Notes a record; they come in the order of their offsets."""
        self._offsets[key if len(key) < _DIGEST_BYTES else _digest(key)] = offset

    def put_all(self, keys: Sequence[bytes], offsets: Iterable[int]) -> None:
        """Notes records whose keys have one length; likewise."""
        self._offsets.update(zip(_held(keys), offsets, strict=True))

    def newest_of(self, keys: Sequence[bytes]) -> Iterable[int]:
        """The newest offset of each of the keys, which have one length."""
        return map(self._offsets.get, _held(keys), repeat(-1))

    def newest(self, key: bytes) -> int:
        """The newest offset of a key; -1 for an unknown one."""
        return self._offsets.get(key if len(key) < _DIGEST_BYTES else _digest(key), -1)


def _held(keys: Sequence[bytes]) -> Iterable[bytes]:
    return keys if len(keys[0]) < _DIGEST_BYTES else map(_digest, keys)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
