"""The trace as log lines: `2026-11-21 09:10:11.123 INFO b2 orders-3 on_fetch: ignored (...)`.

Lines gather during one tick of the loop and leave in one write. Of events that come in thousands
most are counted in one line (`bursts.py`). A line longer than the bound is cut, control characters
are escaped: a peer's text cannot forge a line.
"""

import sys
import time
import traceback
from collections.abc import Callable
from typing import Final, TextIO

from tidelog.env.event import Event
from tidelog.env.trace import Level, TraceLine
from tidelog.runtime.bursts import Bursts

MAX_LINE_CHARS: Final = 4000
"""A longer line is cut."""


class LogLines:
    """A trace sink that writes to a text stream; see the module's text."""

    __slots__ = ("_bursts", "_clock", "_lines", "_node", "_prefix", "_second", "_stream")

    def __init__(
        self, node: str, stream: TextIO | None = None, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        # The node's name in every line: `b2`.
        self._node = node
        # Where lines go; the process's stderr unless a test gives another.
        self._stream = stream or sys.stderr
        # Counts events that come in thousands; its time is monotonic, in nanoseconds.
        self._bursts = Bursts()
        self._clock = clock
        # Finished lines of this tick.
        self._lines: list[str] = []
        # The wall second that `_prefix` was made for: formatting a date costs more than a line.
        self._second = -1
        self._prefix = ""

    def emit(self, event: Event | TraceLine) -> None:
        """Takes one event; it is written at the next `flush`, or counted in the line of a burst."""
        if not self._bursts.holds(event, self._now_ms()):
            self.line(event.level, event.text())

    def _now_ms(self) -> int:
        return self._clock() // 1_000_000

    def line(self, level: Level, text: str) -> None:
        """Takes a line of the runtime's own."""
        now_ms = time.time_ns() // 1_000_000
        second, millis = divmod(now_ms, 1000)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        if not text.isprintable():
            text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        stamp = f"{self._prefix}.{millis:03d} {level.name:<5} {self._node}"
        self._lines.append(f"{stamp} {text[:MAX_LINE_CHARS]}\n")

    def crash(self, error: BaseException) -> None:
        """Writes a bug's traceback at once: the node stops after it."""
        self.end_bursts()
        self.line(Level.ERROR, f"runtime: stopped by a bug ({type(error).__name__}: {error})")
        self._lines += traceback.format_exception(error)
        self.flush()

    def end_bursts(self) -> None:
        """Counts the bursts under way: the process is about to end."""
        for level, text in self._bursts.take_over(self._now_ms(), all_of_them=True):
            self.line(level, text)

    def flush(self) -> None:
        """Writes what has gathered, with the lines of the bursts that are over; a full or closed
        log never stops the node."""
        if self._bursts.has_any:
            for level, text in self._bursts.take_over(self._now_ms()):
                self.line(level, text)
        if not self._lines:
            return
        text = "".join(self._lines)
        self._lines.clear()
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            return
