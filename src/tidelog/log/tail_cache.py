"""The newest batches of a log as bytes objects: followers and live consumers never touch the disk.

Batches are kept exactly as they were written, in offset order and without holes up to the log
end; the oldest are dropped first when `limits.TAIL_CACHE_BYTES` is passed, and all of them when the
node's budget (`tail_budget.py`) is spent and this log was idle longest. A read returns the very
objects that were appended, so a batch that goes to three followers exists once.

Many tiny batches are joined into one chunk: sockets are slow with long lists of buffers.
"""

from bisect import bisect_left
from typing import Final

from tidelog.env.effects import Chunk
from tidelog.limits import TAIL_CACHE_BYTES
from tidelog.log.tail_budget import TailBudget
from tidelog.log.values import LogRead

_MAX_CHUNKS: Final = 128
_COMPACT_AFTER: Final = 1024


class TailCache:
    """A bounded window over the end of one log."""

    __slots__ = ("_bases", "_batches", "_budget", "_first", "_lasts", "_limit_bytes", "_size_bytes")

    def __init__(
        self, limit_bytes: int = TAIL_CACHE_BYTES, budget: TailBudget | None = None
    ) -> None:
        # Parallel lists: base offset, last offset (inclusive) and bytes of each batch.
        self._bases: list[int] = []
        self._lasts: list[int] = []
        self._batches: list[bytes] = []
        # Index of the oldest batch still cached; entries before it are already dropped.
        self._first = 0
        # Bytes of the cached batches.
        self._size_bytes = 0
        self._limit_bytes = limit_bytes
        # Shared with the other logs of the node; `None` where there are no others.
        self._budget = budget

    @property
    def size_bytes(self) -> int:
        """Bytes of the cached batches."""
        return self._size_bytes

    @property
    def first_offset(self) -> int | None:
        """Base offset of the oldest cached batch."""
        return self._bases[self._first] if self._first < len(self._bases) else None

    def append(self, base_offset: int, last_offset: int, batch: bytes) -> None:
        """Adds the batch that was just appended to the log."""
        self._bases.append(base_offset)
        self._lasts.append(last_offset)
        self._batches.append(batch)
        self._size_bytes += len(batch)
        while self._size_bytes > self._limit_bytes:
            self._size_bytes -= len(self._batches[self._first])
            self._batches[self._first] = b""
            self._first += 1
        if self._first >= _COMPACT_AFTER:
            del self._bases[: self._first]
            del self._lasts[: self._first]
            del self._batches[: self._first]
            self._first = 0
        if self._budget is not None:
            self._budget.on_append(self)

    def truncate_to(self, offset: int) -> None:
        """Drops batches that reach `offset`."""
        while len(self._lasts) > self._first and self._lasts[-1] >= offset:
            self._size_bytes -= len(self._batches.pop())
            self._bases.pop()
            self._lasts.pop()
        if self._budget is not None:
            self._budget.on_cut(self)

    def clear(self) -> None:
        """Drops everything."""
        self.evict()
        if self._budget is not None:
            self._budget.on_cut(self)

    def evict(self) -> None:
        """Drops everything; the budget knows."""
        self._bases.clear()
        self._lasts.clear()
        self._batches.clear()
        self._first = 0
        self._size_bytes = 0

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, at_least_one: bool
    ) -> LogRead | None:
        """As `Log.read`; `None` when the offset lies before the cached window."""
        first = self._first
        if first == len(self._bases) or offset < self._bases[first]:
            return None
        lasts = self._lasts
        batches = self._batches
        start = index = bisect_left(lasts, offset, first)
        size_bytes = 0
        while index < len(lasts) and lasts[index] < upper_offset:
            batch_bytes = len(batches[index])
            if size_bytes + batch_bytes > max_bytes and not (at_least_one and index == start):
                break
            size_bytes += batch_bytes
            index += 1
        if index == start:
            return LogRead([], 0, offset, offset)
        chunks: list[Chunk] = list(batches[start:index])
        if len(chunks) > _MAX_CHUNKS:
            chunks = [b"".join(batches[start:index])]
        return LogRead(chunks, size_bytes, self._bases[start], lasts[index - 1] + 1)

    def check(self, log_end_offset: int) -> None:
        """Asserts order, size and that nothing lies beyond the log end."""
        cached = self._batches[self._first :]
        assert sum(map(len, cached)) == self._size_bytes, f"{self._size_bytes} bytes counted"
        assert self._size_bytes <= self._limit_bytes, f"{self._size_bytes} > {self._limit_bytes}"
        if cached:
            assert self._lasts[-1] < log_end_offset, f"{self._lasts[-1]} >= {log_end_offset}"
