"""Which offset is the newest of each key, in a bounded memory.

The first pass of a cleaning puts every key of the dirty part in here; the second keeps a record
only if no newer one is known. A key of less than 40 bytes is held as it is, a longer one as a
digest of 40; Kafka holds the MD5 of all keys. Two keys of one digest would cost a record, and do
not meet by chance.
Short keys have fewer bytes than a digest, so the two kinds do not meet either.

Keys come in bulk where the records allow it (`records/record_runs.py`): a call for each key would
cost more than all the rest of a record.

The second pass looks keys up only in the part that was clean before. What is left of the dirty part
is known by then: between the passes the map *marks* the offsets that stay, in a byte for each
offset. So a batch of which nothing is left, or everything, is neither inflated nor looked into.

Memory: Kafka's map takes 24 bytes a key. Python's takes about `ENTRY_BYTES` with its objects, and
that is what counts here, so `log.cleaner.dedupe.buffer.size` bounds real memory. A log with more
keys than fit is cleaned in several rounds. Marks have a part of the buffer for themselves; where
they end, offsets without a mark are looked up by their keys.

Source: Kafka's `SkimpyOffsetMap`; the marks are ours.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice, repeat
from typing import Final

from tidelog.limits import RECORDS_CLEANED_PER_STEP, RECORDS_OF_RUNS_PER_WORK
from tidelog.records.batch import BatchHeader
from tidelog.records.walking import WalkedRecord

ENTRY_BYTES: Final = 220
"""Of one key: its slot when the table has just grown, a bytes object, an integer."""
NEWEST: Final = 1
"""The mark of a record that is the newest of its key, and has a value."""
TOMBSTONE: Final = 2
"""Added to it for one without a value; alone for one that is not the newest."""
_NOT_NOTED: Final = b"\x04"
"""The mark of the other offsets: those of batches whose keys do not count."""
_DIGEST_BYTES: Final = 40
_SHARE_OF_MARKS: Final = 16


class OffsetMap:
    """The newest offset of each key."""

    __slots__ = (
        "_marks",
        "_may_mark",
        "_most_marks",
        "_offsets",
        "_start",
        "capacity",
        "end_offset",
    )

    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        self._most_marks = buffer_bytes // _SHARE_OF_MARKS
        # How many keys it may hold; a batch that is begun is taken whole.
        self.capacity = max(1, int((buffer_bytes - self._most_marks) * load_factor) // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        # Nothing below this offset is put in.
        self._start = 0
        # The marks of that offset and those that follow; `NEWEST` only after `mark_newest`.
        self._marks = bytearray()
        # Whether the batches so far all have marks.
        self._may_mark = True
        # Exclusive: the keys of all records below it that count are here.
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room(self, record_count: int) -> bool:
        """Whether a batch of so many records fits. An empty map takes any."""
        return not self._offsets or len(self._offsets) + record_count <= self.capacity

    # The first pass ---------------------------------------------------------------------------

    def begin(self, start: int) -> None:
        """The dirty part begins at this offset."""
        self._start = self.end_offset = start

    def begin_batch(self, header: BatchHeader) -> None:
        """The records of this batch come next."""
        marks, count = self._marks, header.last_offset + 1 - self._start
        self._may_mark = self._may_mark and count <= self._most_marks
        if self._may_mark:
            marks += _NOT_NOTED * (header.base_offset - self._start - len(marks))
            marks += bytes(count - len(marks))

    def put(self, records: Iterable[WalkedRecord], base_offset: int) -> None:
        """Notes records of a batch, in the order of their offsets."""
        offsets, start = self._offsets, self._start
        for _, _, delta, key, has_value in records:
            offset = base_offset + delta
            if key is not None and offset >= start:
                offsets[key if len(key) < _DIGEST_BYTES else _digest(key)] = offset
                if not has_value:
                    self._mark((offset,), TOMBSTONE)

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int], *, has_values: bool) -> None:
        """Notes records whose keys have one length; likewise."""
        self._offsets.update(zip(_held(keys), offsets, strict=True))
        if not has_values:
            self._mark(offsets, TOMBSTONE)

    def mark_newest(self) -> Iterator[int]:
        """All keys are here: marks their newest offsets, and yields the work of each part."""
        newest = iter(self._offsets.values())
        per_part = RECORDS_CLEANED_PER_STEP * RECORDS_OF_RUNS_PER_WORK
        while some := list(islice(newest, per_part)):
            self._mark(some, NEWEST)
            yield RECORDS_CLEANED_PER_STEP

    def _mark(self, offsets: Iterable[int], mark: int) -> None:
        marks, start, end = self._marks, self._start, self._start + len(self._marks)
        for offset in offsets:
            # A client's offset deltas may be nonsense.
            if start <= offset < end:
                marks[offset - start] |= mark

    # The second -------------------------------------------------------------------------------

    def marks_of(self, header: BatchHeader) -> bytearray | None:
        """The mark of each offset of a batch; `None` where they are not known."""
        first, end = header.base_offset - self._start, header.last_offset + 1 - self._start
        if first < 0 or end > len(self._marks):
            return None
        marks = self._marks[first:end]
        return None if _NOT_NOTED in marks else marks

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
