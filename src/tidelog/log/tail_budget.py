"""The memory of all tail caches of a node together.

Each log keeps its newest batches (`tail_cache.py`), a few megabytes at most, which times thousands
of partitions is more than a machine has. So the caches of a node share one budget. When it is
spent, the log that was not appended to for the longest time loses its cache as a whole. Its
readers then read from the page cache, as every reader that is far behind does.

Invariant: `used_bytes` is the sum of what the caches hold, and after an append at most the limit,
unless a single cache is larger.
"""

from collections import OrderedDict
from typing import Protocol

from tidelog.limits import NODE_TAIL_CACHE_BYTES


class Evictable(Protocol):
    """A cache that can be emptied; `tail_cache.TailCache` is one."""

    @property
    def size_bytes(self) -> int:
        """What it holds."""

    def evict(self) -> None:
        """Empties it, without reporting that to the budget."""


class TailBudget:
    """Shared by the tail caches of a node."""

    __slots__ = ("_limit_bytes", "_sizes", "used_bytes")

    def __init__(self, limit_bytes: int = NODE_TAIL_CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        # What each cache holds that holds anything, the one appended to longest ago first.
        self._sizes: OrderedDict[Evictable, int] = OrderedDict()
        # The sum of `_sizes`.
        self.used_bytes = 0

    def on_append(self, cache: Evictable) -> None:
        """A batch was added to a cache."""
        self._note(cache, cache.size_bytes)
        self._sizes.move_to_end(cache)
        while self.used_bytes > self._limit_bytes and len(self._sizes) > 1:
            idle, size_bytes = self._sizes.popitem(last=False)
            self.used_bytes -= size_bytes
            idle.evict()

    def on_cut(self, cache: Evictable) -> None:
        """A cache has lost something, perhaps all."""
        if cache in self._sizes:
            self._note(cache, cache.size_bytes)
            if not self._sizes[cache]:
                del self._sizes[cache]

    def _note(self, cache: Evictable, size_bytes: int) -> None:
        self.used_bytes += size_bytes - self._sizes.get(cache, 0)
        self._sizes[cache] = size_bytes
