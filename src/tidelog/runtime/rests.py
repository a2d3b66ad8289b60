"""Connections that have had their share of a turn, and are not read again before their next one.

libuv reads each connection that has something, once in a turn, and more often while the shared
buffer is filled. Two hundred clients that send as fast as they can bring fifty megabytes in a turn
so, and a client that sends little waits behind all of it. So a connection rests that fills the
buffer, or that brings much when the turn has read enough. Clients that rest are read again in the
order in which they came, `RESTS_ENDED_PER_TURN` in each turn of the loop, and in smaller pieces if
they are many. Connections that the node dialled rest for one turn: what comes by them are the
records of leaders, and nodes are few.

Invariant: each rest that begins ends, in a later turn.
"""

import asyncio
from collections.abc import Callable

from tidelog.limits import (
    CROWDED_READ_BYTES,
    CROWDED_RESTS,
    ENOUGH_READ_BYTES,
    LARGE_READ_BYTES,
    RESTS_ENDED_PER_TURN,
)
from tidelog.runtime.line import Line


class Rests:
    """Those of one driver."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._clients = Line(loop, RESTS_ENDED_PER_TURN)
        # How much the connection could bring that is read.
        self._most_bytes = 0
        # What was read in this turn.
        self._read_bytes = 0

    def part_of(self, buffer: memoryview, *, is_client: bool) -> memoryview:
        """Where a connection's bytes go."""
        if is_client and len(self._clients) > CROWDED_RESTS:
            buffer = buffer[:CROWDED_READ_BYTES]
        self._most_bytes = len(buffer)
        return buffer

    def is_due(self, size_bytes: int) -> bool:
        """Whether a connection rests that has brought so many bytes."""
        self._read_bytes += size_bytes
        # With a full buffer, there may be more.
        return size_bytes == self._most_bytes or (
            size_bytes >= LARGE_READ_BYTES and self._read_bytes > ENOUGH_READ_BYTES
        )

    def begin(self, end: Callable[[], None], *, is_client: bool) -> None:
        """A connection rests; `end` is called when it is over."""
        if is_client:
            self._clients.append(end)
        else:
            self._loop.call_soon(end)

    def end_turn(self) -> None:
        """The node has finished what was read."""
        self._read_bytes = 0
