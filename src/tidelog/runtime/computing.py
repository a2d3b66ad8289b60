"""The thread for what takes too long for a turn of the loop, and is not the work of a disk.

It takes `Compute` effects and answers them in order. What they call spends its time in libraries
that let Python's other threads run meanwhile; what is Python itself shares the interpreter with the
loop. The loop gives it up at each system call, and would have to wait 5 ms each time, Python's own
measure, until it has it again; so a turn of a thread is shorter here.

There is one thread, and it rests for as long as it has worked: what clients send does not take more
than half a processor beside the loop's.

Most nodes never need it, so it begins with the first effect. It ends with the process: nothing that
it does outlives a node.
"""

import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final

from tidelog.env.effects import Compute, Computed

_SWITCH_S: Final = 0.0005
"""How long one thread keeps the interpreter while another one wants it."""


class Computing:
    """The thread and its queue."""

    def __init__(
        self, *, answer: Callable[[Computed], None], fail: Callable[[BaseException], None]
    ) -> None:
        """`answer` and `fail` are called on the thread; `fail` reports a bug in a function."""
        self._answer = answer
        self._fail = fail
        self._queue: SimpleQueue[Compute] = SimpleQueue()
        self._thread: Thread | None = None

    def submit(self, effect: Compute) -> None:
        """Queues one effect."""
        self._queue.put(effect)
        if self._thread is None:
            sys.setswitchinterval(_SWITCH_S)
            self._thread = Thread(target=self._run, name="compute", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                effect = self._queue.get()
                begun_ns = time.monotonic_ns()
                result = effect.function()
                spent_ns = time.monotonic_ns() - begun_ns
                self._answer(Computed(effect.subject, result, spent_ns))
                time.sleep(spent_ns / 1e9)
        except BaseException as error:
            self._fail(error)
