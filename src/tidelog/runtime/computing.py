"""The thread for what takes too long for a turn of the loop, and is not the work of a disk.

It takes `Compute` effects and answers them in order. What they call spends its time in libraries
that let Python's other threads run meanwhile; what is Python itself shares the interpreter with the
loop. The loop gives that up at each of its system calls, of which a turn has many, and would wait
each time until the thread has to give it back: by Python's own measure 5 ms. Shorter measures cost
the loop as much, because it then loses the interpreter in the middle of its turns as well.

So the thread gives the interpreter away by itself: a function calls `rest` all the time, and when
it has worked for a slice, the thread sleeps for three times as long. The loop waits for the end of
a slice at most, and in three of four cases for nothing.

There is one thread, and it always rests for three times as long as it has worked: what clients send
does not take more than a quarter of a processor beside the loop's.

Most nodes never need it, so it begins with the first effect. It ends with the process: nothing that
it does outlives a node.
"""

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final

from tidelog.env.effects import Compute, Computed

_RESTS: Final = 3
"""How many times as long as its work a rest is."""

SLICE_NS: Final = 100_000
"""How long the thread works in one piece where it is Python that works."""


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
        # When the slice began, and for how long this function has worked in those before.
        self._slice_at = 0
        self._worked_ns = 0

    def submit(self, effect: Compute) -> None:
        """Queues one effect."""
        self._queue.put(effect)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="compute", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                effect = self._queue.get()
                self._worked_ns, self._slice_at = 0, time.monotonic_ns()
                result = effect.function(self._maybe_rest)
                last_ns = time.monotonic_ns() - self._slice_at
                self._answer(Computed(effect.subject, result, self._worked_ns + last_ns))
                del effect, result
                time.sleep(_RESTS * last_ns / 1e9)
        except BaseException as error:
            self._fail(error)

    def _maybe_rest(self) -> None:
        """Ends the slice if it was long enough."""
        slice_ns = time.monotonic_ns() - self._slice_at
        if slice_ns >= SLICE_NS:
            self._worked_ns += slice_ns
            time.sleep(_RESTS * slice_ns / 1e9)
            self._slice_at = time.monotonic_ns()
