"""The trace as log lines: `2026-11-21 09:10:11.123 INFO b2 orders-3 on_fetch: ignored (...)`.

Lines gather during one tick of the loop and leave in one write. A line longer than the bound is
cut, control characters are escaped: a peer's text cannot forge a line.
"""

import sys
import time
import traceback
from typing import Final, TextIO

from tidelog.env.event import Event
from tidelog.env.trace import Level, TraceLine

MAX_LINE_CHARS: Final = 4000
"""A longer line is cut."""


class LogLines:
    """A trace sink that writes to a text stream; see the module's text."""

    __slots__ = ("_lines", "_node", "_prefix", "_second", "_stream")

    def __init__(self, node: str, stream: TextIO | None = None) -> None:
        # The node's name in every line: `b2`.
        self._node = node
        # Where lines go; the process's stderr unless a test gives another.
        self._stream = stream or sys.stderr
        # Finished lines of this tick.
        self._lines: list[str] = []
        # The wall second that `_prefix` was made for: formatting a date costs more than a line.
        self._second = -1
        self._prefix = ""

    def emit(self, event: Event | TraceLine) -> None:
        """Takes one event; it is written at the next `flush`."""
        self.line(event.level, event.text())

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
        self.line(Level.ERROR, f"runtime: stopped by a bug ({type(error).__name__}: {error})")
        self._lines += traceback.format_exception(error)
        self.flush()

    def flush(self) -> None:
        """Writes what has gathered; a full or closed log never stops the node."""
        if not self._lines:
            return
        text = "".join(self._lines)
        self._lines.clear()
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            return
