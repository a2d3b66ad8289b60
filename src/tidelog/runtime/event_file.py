"""A node's events as JSON lines in `events.jsonl`, bounded in size.

It stands in front of the log's lines as the trace's sink: everything but figures goes on to the
log, and each event that has a `kind` (`env/event.py`) is written here as well. What only a driver
knows is added: wall time, monotonic time and which clock that is, the incarnation of the process, a
number.

`(broker, incarnation, seq)` names an event for good, however often it is copied. `mono_us` of two
events may be subtracted when their `clock` is equal: on Linux that is the boot of the machine,
because all processes of one boot share the monotonic clock; elsewhere only the process itself.

Events gather during a tick and leave in one write. Of thousands in one tick `MAX_EVENTS_PER_TICK`
are written, and the others in the ticks that follow at once. When the file is full it becomes
`events.jsonl.1`, `.1` becomes `.2`, and the last one goes. Nothing is flushed to the device: a
power cut may cost the last seconds. A disk that fails or is full costs events, which are counted,
and never the node.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tidelog.env.event import Event, EventRecord, Level, record_of
from tidelog.env.trace import TraceLine, TraceSink
from tidelog.runtime.events import ProcessStarted

EVENTS_FILE: Final = "events.jsonl"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
MAX_EVENTS_PER_TICK: Final = 100
"""Events that one tick writes: a few milliseconds."""

MOST_WAITING: Final = 50_000
"""Events that may wait for their tick; beyond it all are written at once."""

_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


def _json(value: str | int | None) -> str:
    """One of the fields that every event has."""
    return str(value) if type(value) is int else _encode(value)


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
        """Touches no disk: `open` does, or the first flush."""
        self._path = directory / EVENTS_FILE
        self._segment_bytes = segment_bytes
        self._segments = segments
        self._onward = onward
        # The same beginning of every line of this process.
        clock = clock_of_this_machine(incarnation)
        self._identity = f'"clock":"{clock}","broker":{broker},"incarnation":"{incarnation}"'
        # Number of the next event.
        self._seq = 0
        # Events that are not written yet, with wall and monotonic time and number, oldest first.
        self._waiting: deque[tuple[int, int, int, Event]] = deque()
        # Whether the file may end in half a line.
        self._is_torn = False
        # Another receiver of the records, after they are numbered.
        self.also: Callable[[EventRecord, str], None] | None = None
        # Events that could not be written since the start.
        self.lost = 0
        # -1 before the first flush and after a failure; the next flush opens it.
        self._file = -1
        self._size = 0
        self.emit(ProcessStarted(pid=os.getpid()))

    def open(self) -> None:
        """Opens the file for appending, in a directory that is made; raises `OSError` when it
        cannot be."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o644)
        self._size = os.fstat(self._file).st_size
        # A power cut may have left half a line.
        self._is_torn |= self._size > 0

    def emit(self, event: Event | TraceLine) -> None:
        """Passes on all but figures, and keeps the record of an event that has one."""
        if event.level > Level.MEASURE:
            self._onward.emit(event)
        if not isinstance(event, Event) or event.kind is None:
            return
        wall_us, mono_us = time.time_ns() // 1000, time.monotonic_ns() // 1000
        self._waiting.append((wall_us, mono_us, self._seq, event))
        self._seq += 1

    @property
    def has_waiting(self) -> bool:
        """Whether another tick is needed to write what has gathered."""
        return bool(self._waiting)

    def _line(self, wall_us: int, mono_us: int, seq: int, event: Event) -> str:
        record = record_of(event)
        assert record is not None, f"no record of {event!r}"
        line = (
            f'{{"ts_us":{wall_us},"mono_us":{mono_us},{self._identity},"seq":{seq},'
            f'"topic":{_json(record.topic)},"partition":{_json(record.partition)},'
            f'"leader_epoch":{_json(record.leader_epoch)},'
            f'"kind":"{record.kind}","payload":{_encode(record.payload)}}}\n'
        )
        if self.also is not None:
            self.also(record, line)
        return line

    def flush(self) -> None:
        """Writes the oldest of what has gathered; called at the end of each tick."""
        waiting = self._waiting
        if not waiting:
            return
        count = len(waiting)
        if count <= MOST_WAITING:
            count = min(count, MAX_EVENTS_PER_TICK)
        data = "".join([self._line(*waiting.popleft()) for _ in range(count)]).encode()
        try:
            if self._file < 0:
                self._open()
            if self._is_torn:
                data = b"\n" + data
                self._is_torn = False
            if self._size and self._size + len(data) > self._segment_bytes:
                self._rotate()
            self._size += os.write(self._file, data)
        except OSError:
            self.lost += count
            self.close()
            # It may have left half a line, too.
            self._is_torn = True

    def write_all(self) -> None:
        """Writes what has gathered: the process is about to end."""
        while self._waiting:
            self.flush()

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
