"""A node's events as JSON lines in `events.jsonl`, bounded in size.

It stands in front of the log's lines as the trace's sink: everything but figures goes on to the
log, and each event that has a `kind` (`env/event.py`) is written here as well. What only a driver
knows is added: wall time, monotonic time and which clock that is, the incarnation of the process, a
number.

`(broker, incarnation, seq)` names an event for good, however often it is copied. `mono_us` of two
events may be subtracted when their `clock` is equal: on Linux that is the boot of the machine,
because all processes of one boot share the monotonic clock; elsewhere only the process itself.

Events gather during a tick and leave in one write. When the file is full it becomes
`events.jsonl.1`, `.1` becomes `.2`, and the last one goes. Nothing is flushed to the device: a
power cut may cost the last seconds. A disk that fails or is full costs events, which are counted,
and never the node.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tidelog.env.event import Event, EventRecord, Level, record_of
from tidelog.env.trace import TraceLine, TraceSink
from tidelog.runtime.events import ProcessStarted

EVENTS_FILE: Final = "events.jsonl"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


def clock_of_this_machine(incarnation: str) -> str:
    """A name for the monotonic clock: equal names, comparable times."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()[:13]
    except (OSError, UnicodeDecodeError):
        return incarnation


class EventFile:
    """A trace sink that writes events to a file and passes everything on."""

    def __init__(
        self,
        directory: Path,
        *,
        broker: int,
        incarnation: str,
        segment_bytes: int,
        segments: int,
        onward: TraceSink,
    ) -> None:
        """Opens the file for appending; raises `OSError` when it cannot be."""
        self._path = directory / EVENTS_FILE
        self._segment_bytes = segment_bytes
        self._segments = segments
        self._onward = onward
        # The same beginning of every line of this process.
        clock = clock_of_this_machine(incarnation)
        self._identity = f'"clock":"{clock}","broker":{broker},"incarnation":"{incarnation}"'
        # Number of the next event.
        self._seq = 0
        # Events of this tick, as lines.
        self._lines: list[str] = []
        # Another receiver of the records, after they are numbered.
        self.also: Callable[[EventRecord, str], None] | None = None
        # Events that could not be written since the start.
        self.lost = 0
        directory.mkdir(parents=True, exist_ok=True)
        self._open()
        self._begin()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        # -1 after a failure; the next flush tries again.
        self._file = os.open(self._path, flags, 0o644)
        self._size = os.fstat(self._file).st_size

    def _begin(self) -> None:
        # A power cut may have left half a line.
        if self._size:
            self._lines.append("\n")
        self.emit(ProcessStarted(pid=os.getpid()))

    def emit(self, event: Event | TraceLine) -> None:
        """Passes on all but figures, and keeps the record of an event that has one."""
        if event.level > Level.MEASURE:
            self._onward.emit(event)
        record = record_of(event) if isinstance(event, Event) else None
        if record is None:
            return
        line = (
            f'{{"ts_us":{time.time_ns() // 1000},"mono_us":{time.monotonic_ns() // 1000},'
            f'{self._identity},"seq":{self._seq},"topic":{_encode(record.topic)},'
            f'"partition":{_encode(record.partition)},"leader_epoch":{_encode(record.leader_epoch)},'
            f'"kind":"{record.kind}","payload":{_encode(record.payload)}}}\n'
        )
        self._seq += 1
        self._lines.append(line)
        if self.also is not None:
            self.also(record, line)

    def flush(self) -> None:
        """Writes what has gathered; called at the end of each tick."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        data = "".join(lines).encode()
        try:
            if self._file < 0:
                self._open()
                # The failure may have left half a line.
                data = b"\n" + data
            if self._size and self._size + len(data) > self._segment_bytes:
                self._rotate()
            self._size += os.write(self._file, data)
        except OSError:
            self.lost += len(lines)
            self.close()

    def _rotate(self) -> None:
        self.close()
        oldest = self._segments - 1
        if oldest == 0:
            self._path.unlink(missing_ok=True)
        for number in range(oldest, 0, -1):
            younger = self._numbered(number - 1) if number > 1 else self._path
            if younger.exists():
                younger.replace(self._numbered(number))
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{EVENTS_FILE}.{number}")

    def close(self) -> None:
        """Closes the file; what was not flushed is lost."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
