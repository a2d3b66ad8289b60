"""Bytes that a peer cannot guess, drawn from the seed of a node.

`Prng` is for choices, and who has seen a few of its numbers knows the others. Nonces of logins and
the node's own secrets come from here: halves of the HMAC-SHA512 of a counter under a key that is
made of the seed. In production the seed has 256 bits of the system's randomness, of which `Prng`
uses 64; the simulator gives a small one, and a run can be replayed with its logins.
"""

import base64
import hashlib
import hmac
from itertools import count
from typing import Final

SEED_BITS: Final = 256
"""As many random bits a production seed has."""
DRAWN_BYTES: Final = 32


class Entropy:
    """A stream of bytes that look random without the seed."""

    __slots__ = ("_counter", "_key", "_other_half")

    def __init__(self, seed: int) -> None:
        assert 0 <= seed < 1 << SEED_BITS, "a seed has at most 256 bits"
        # Not the seed itself, whose low bits `Prng` starts from.
        self._key = hashlib.sha256(b"tidelog entropy" + seed.to_bytes(SEED_BITS // 8)).digest()
        # Of the pairs of draws.
        self._counter = count()
        # What is left of the newest one.
        self._other_half = b""

    def draw(self) -> bytes:
        """The next 32 bytes."""
        drawn, self._other_half = self._other_half, b""
        if not drawn:
            block = hmac.digest(self._key, next(self._counter).to_bytes(8), "sha512")
            drawn, self._other_half = block[:DRAWN_BYTES], block[DRAWN_BYTES:]
        return drawn

    def nonce(self) -> str:
        """32 printable characters, none of them a comma."""
        return base64.urlsafe_b64encode(self.draw()[:24]).decode()
