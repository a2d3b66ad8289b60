"""The last value of each key of a log that is being loaded, not decoded yet.

Theory. The topics of most coordinators are compacted: of all records of one key a cleaner may at
any time leave only the last one, where it stands. So a state machine on such a log must come to the
same state with the records that are overwritten later and without them. A load makes use of that:
it does to what it reads what a cleaner would have done to the log, and replays what is left. Most
records of a log that was not cleaned for a while are overwritten, and a record that is passed over
costs a tenth of one that is decoded and replayed.

What a cleaner would leave alone is not for this map: records of transactions, their markers, and
whatever comes behind a transaction that is still open. Two keys may mean the same to the state
machine; the order is that of the last writes, so the later of them counts here too.

Invariant: replaying what `take` returns, in its order, is replaying all that `hold` was given.

Left out: which records may be held (`broker/log_loader.py`), and what they mean.
"""

from collections.abc import Iterable
from typing import Final

from tidelog.limits import COORDINATOR_HELD_BYTES, COORDINATOR_HELD_KEYS
from tidelog.rsm.log_records import RawRecord

RECORD_BYTES: Final = 16
"""What a record has in a log beside its key and its value, about."""


class LastValues:
    """Values by key, in the order in which they were written last."""

    __slots__ = ("_bytes", "_values")

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}
        # At least the bytes of all keys and values.
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def is_full(self) -> bool:
        """Whether no more may be held. They are counted only when so much came in that they may be
        too many: most of it has taken the place of what was there."""
        values = self._values
        if len(values) >= COORDINATOR_HELD_KEYS:
            return True
        if self._bytes < COORDINATOR_HELD_BYTES:
            return False
        self._bytes = sum(map(len, values)) + sum(map(len, filter(None, values.values())))
        return self._bytes >= COORDINATOR_HELD_BYTES // 2

    def hold(self, records: Iterable[tuple[bytes | None, bytes | None]], size_bytes: int) -> None:
        """Takes records in, of so many bytes altogether. One without a key says nothing."""
        values = self._values
        for key, value in records:
            if key in values:
                # Its place is behind all that was written before.
                del values[key]
            elif key is None:
                continue
            values[key] = value
        self._bytes += size_bytes

    def take(self, most_bytes: int) -> tuple[list[RawRecord], int]:
        """The first ones, until there are so many bytes of them, and how many bytes they count
        for. They are not held any more."""
        values = self._values
        taken: list[RawRecord] = []
        size_bytes = 0
        for record in values.items():
            if size_bytes >= most_bytes:
                break
            key, value = record
            taken.append(record)
            size_bytes += len(key) + len(value or b"") + RECORD_BYTES
        if len(taken) == len(values):
            self._values, self._bytes = {}, 0
        else:
            for key, _ in taken:
                del values[key]
        return taken, size_bytes
