"""What waits for its turn of the loop: first come, first served, a few in each turn.

In one turn libuv reads every connection that has something, and the node has finished all of it
before it looks at any of them again. What strangers can make expensive or many is therefore put
into a line. However long that is, a turn takes as long as the few of it that are served; the others
wait, and nothing else does.

Left out: what the things are, and whether they are still wanted when their turn comes.
"""

import asyncio
from collections import deque
from collections.abc import Callable


class Line:
    """See the module's docstring."""

    def __init__(self, loop: asyncio.AbstractEventLoop, per_turn: int) -> None:
        self._loop = loop
        self._per_turn = per_turn
        # What is to be called, the first first.
        self._waiting: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, call: Callable[[], None]) -> None:
        """It is called in a later turn."""
        self._waiting.append(call)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        for _ in range(min(self._per_turn, len(self._waiting))):
            self._waiting.popleft()()
        if self._waiting:
            self._loop.call_soon(self._serve)
