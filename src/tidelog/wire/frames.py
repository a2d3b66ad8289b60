"""Cutting a byte stream into frames: a 4-byte big-endian length, then that many bytes.

A frame that lies whole inside the data just fed is handed out as a view of that data: nothing is
copied. A frame that arrives in pieces is copied once, into a buffer that grows with what really
arrived, never with what the length claims.

Invariants:
- no more than one incomplete frame is kept, at most `max_bytes` + 4 long;
- a length of zero or less, or above `max_bytes`, is refused as soon as its four bytes are there.
"""

from struct import Struct
from typing import Final

from tidelog.env.disk import Buffer
from tidelog.errors import MalformedFrame
from tidelog.limits import MAX_REQUEST_BYTES

LENGTH_BYTES: Final = 4
_LENGTH: Final = Struct(">i")


class FrameReader:
    """The incoming half of one connection."""

    __slots__ = ("_max_bytes", "_partial")

    def __init__(self, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        # The longest frame that is accepted, its length prefix not counted.
        self._max_bytes = max_bytes
        # The beginning of a frame that is not complete, length prefix included. A reader that was
        # handed a frame may still hold a view of the old buffer, so it is replaced, not cleared.
        self._partial = bytearray()

    @property
    def partial_bytes(self) -> int:
        """How much of an incomplete frame is held."""
        return len(self._partial)

    def allow(self, max_bytes: int) -> None:
        """Sets the longest frame that is accepted, from the next one on."""
        self._max_bytes = max_bytes

    def feed(self, data: Buffer) -> list[memoryview]:
        """Takes bytes that arrived; returns the frames that are now complete, without prefix.

        The views are valid as long as `data` is. Raises `MalformedFrame` for a length that
        cannot be; the connection is of no use afterwards.
        """
        view = memoryview(data)
        frames: list[memoryview] = []
        position = self._resume(view, frames) if self._partial else 0
        end = len(view)
        while end - position >= LENGTH_BYTES:
            start = position + LENGTH_BYTES
            following = start + self._length_at(view, position)
            if following > end:
                break
            frames.append(view[start:following])
            position = following
        if position < end:
            self._partial += view[position:]
        return frames

    def _resume(self, view: memoryview, frames: list[memoryview]) -> int:
        """Completes the kept frame as far as possible; returns how much of `view` it took."""
        partial = self._partial
        taken = 0
        if len(partial) < LENGTH_BYTES:
            taken = min(LENGTH_BYTES - len(partial), len(view))
            partial += view[:taken]
            if len(partial) < LENGTH_BYTES:
                return taken
        missing = LENGTH_BYTES + self._length_at(partial, 0) - len(partial)
        more = min(missing, len(view) - taken)
        partial += view[taken : taken + more]
        if more == missing:
            frames.append(memoryview(partial)[LENGTH_BYTES:])
            self._partial = bytearray()
        return taken + more

    def _length_at(self, buffer: Buffer, position: int) -> int:
        length: int = _LENGTH.unpack_from(buffer, position)[0]
        if not 0 < length <= self._max_bytes:
            raise MalformedFrame(f"a frame of `{length}` bytes; at most {self._max_bytes}")
        return length
