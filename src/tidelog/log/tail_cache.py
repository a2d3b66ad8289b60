"""The newest batches of a log as bytes objects: followers and live consumers never touch the disk.

Batches are kept exactly as they were written, in offset order and without holes up to the log
end; the oldest are dropped first when `limits.TAIL_CACHE_BYTES` is passed. A read returns the very
objects that were appended, so a batch that goes to three followers exists once. Many tiny batches
are joined into one chunk: sockets are slow with long lists of buffers.

A few megabytes for each log times thousands of partitions is more than a machine has. So the caches
of a node share one budget. When it is spent, the log that was not appended to for the longest time
loses its cache as a whole. Its readers then read from the page cache, as every reader that is far
behind does.

Invariant: `TailBudget.used_bytes` is the sum of what the caches hold, and after an append at most
the limit, unless a single cache is larger.
"""

from bisect import bisect_left
from collections import OrderedDict
from typing import Final

from tidelog.env.effects import Chunk
from tidelog.limits import NODE_TAIL_CACHE_BYTES, TAIL_CACHE_BYTES
from tidelog.log.batch_file import LogRead

_MAX_CHUNKS: Final = 128
_COMPACT_AFTER: Final = 1024


class TailBudget:
    """The memory of all tail caches of a node together."""

    __slots__ = ("_limit_bytes", "_sizes", "used_bytes")

    def __init__(self, limit_bytes: int = NODE_TAIL_CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        # What each cache holds that holds anything, the one appended to longest ago first.
        self._sizes: OrderedDict[TailCache, int] = OrderedDict()
        # The sum of `_sizes`.
        self.used_bytes = 0

    def on_append(self, cache: "TailCache") -> None:
        """A batch was added to a cache."""
        sizes = self._sizes
        self.used_bytes += cache.size_bytes - sizes.pop(cache, 0)
        sizes[cache] = cache.size_bytes
        while self.used_bytes > self._limit_bytes and len(sizes) > 1:
            idle, size_bytes = sizes.popitem(last=False)
            self.used_bytes -= size_bytes
            idle.evict()

    def on_cut(self, cache: "TailCache") -> None:
        """A cache has lost something, perhaps all."""
        if cache in self._sizes:
            self.used_bytes += cache.size_bytes - self._sizes[cache]
            self._sizes[cache] = cache.size_bytes
            if not cache.size_bytes:
                del self._sizes[cache]


class TailCache:
    """A bounded window over the end of one log."""

    __slots__ = ("_bases", "_batches", "_budget", "_first", "_lasts", "_limit_bytes", "size_bytes")

    def __init__(self, budget: TailBudget, limit_bytes: int = TAIL_CACHE_BYTES) -> None:
        # Parallel lists: base offset, last offset (inclusive) and bytes of each batch.
        self._bases: list[int] = []
        self._lasts: list[int] = []
        self._batches: list[bytes] = []
        # Index of the oldest batch still cached; entries before it are already dropped.
        self._first = 0
        # Bytes of the cached batches.
        self.size_bytes = 0
        self._limit_bytes = limit_bytes
        self._budget = budget

    def append(self, base_offset: int, last_offset: int, batch: bytes) -> None:
        """Adds the batch that was just appended to the log."""
        self._bases.append(base_offset)
        self._lasts.append(last_offset)
        self._batches.append(batch)
        self.size_bytes += len(batch)
        while self.size_bytes > self._limit_bytes:
            self.size_bytes -= len(self._batches[self._first])
            self._batches[self._first] = b""
            self._first += 1
        if self._first >= _COMPACT_AFTER:
            for column in (self._bases, self._lasts, self._batches):
                del column[: self._first]
            self._first = 0
        self._budget.on_append(self)

    def truncate_to(self, offset: int) -> None:
        """Drops batches that reach `offset`."""
        while len(self._lasts) > self._first and self._lasts[-1] >= offset:
            self.size_bytes -= len(self._batches.pop())
            self._bases.pop()
            self._lasts.pop()
        self._budget.on_cut(self)

    def clear(self) -> None:
        """Drops everything."""
        self.evict()
        self._budget.on_cut(self)

    def evict(self) -> None:
        """Drops everything; the budget knows."""
        for column in (self._bases, self._lasts, self._batches):
            column.clear()
        self._first = self.size_bytes = 0

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
        assert sum(map(len, cached)) == self.size_bytes, f"{self.size_bytes} bytes counted"
        assert self.size_bytes <= self._limit_bytes, f"{self.size_bytes} > {self._limit_bytes}"
        if cached:
            assert self._lasts[-1] < log_end_offset, f"{self._lasts[-1]} >= {log_end_offset}"
