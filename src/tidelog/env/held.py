"""Memory that is held for peers, bounded for all of them together.

Each has as much as it makes a node hold: requests that have not come as a whole, answers that it
does not read. Thousands of them would be too much, however little each may have. Beyond the bound
the one has to go that has not moved for longest: who moves, however slowly, is behind those who
do not.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Held(Generic[K]):
    """What peers hold of a node."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        # The bytes of each; the one that has not moved for longest first.
        self._bytes: dict[K, int] = {}
        self.total_bytes = 0

    def __contains__(self, peer: K) -> bool:
        return peer in self._bytes

    def note(self, peer: K, size_bytes: int, *, moved: bool = False) -> None:
        """A peer holds so much; 0: nothing any more."""
        before = self._bytes.pop(peer, 0) if moved else self._bytes.get(peer, 0)
        self.total_bytes += size_bytes - before
        if size_bytes:
            self._bytes[peer] = size_bytes
        else:
            self._bytes.pop(peer, None)

    def take_excess(self) -> Iterator[K]:
        """Those that must go, so that what is left is within the bound; they are forgotten here."""
        while self.total_bytes > self._most_bytes:
            slowest = next(iter(self._bytes))
            self.note(slowest, 0)
            yield slowest

    def check(self) -> None:
        """HeldIsBounded: the sum is that of all, and within the bound."""
        assert self.total_bytes == sum(self._bytes.values()), "a sum that is none"
        assert self.total_bytes <= self._most_bytes, f"{self.total_bytes} bytes are held"
