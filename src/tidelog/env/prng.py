"""A seeded generator of our own: the same seed gives the same run on every Python version.

SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, an addition and a mixing function. It is
not for secrets. Only integers and ratios: floats would make a replay depend on rounding.
"""

from collections.abc import MutableSequence, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
_MASK: Final = (1 << 64) - 1


class Prng:
    """A stream of pseudo-random integers from one seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        # The whole state: 64 bits, advanced once per draw.
        self._state = seed & _MASK

    def next_u64(self) -> int:
        """A uniform integer in [0, 2**64)."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""
        assert bound > 0, f"bound must be positive, got {bound}"
        return self.next_u64() % bound

    def between(self, low: int, high: int) -> int:
        """A uniform integer in [low, high], both ends included."""
        assert low <= high, f"empty range {low}..{high}"
        return low + self.below(high - low + 1)

    def chance(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator."""
        return self.below(denominator) < numerator

    def choice(self, items: Sequence[T]) -> T:
        """One of the items; there must be at least one."""
        return items[self.below(len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffles in place (Fisher and Yates)."""
        for index in range(len(items) - 1, 0, -1):
            other = self.below(index + 1)
            items[index], items[other] = items[other], items[index]

    def uuid(self) -> bytes:
        """16 bytes with the version and variant bits of a random UUID (RFC 9562, version 4)."""
        raw = bytearray((self.next_u64() << 64 | self.next_u64()).to_bytes(16, "big"))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        return bytes(raw)
