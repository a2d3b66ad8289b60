"""Histories on disk: what clients did, one JSON line per operation, compact.

A record's value is `writer.partition.n`, filled up with dots. `n` counts up by one for each record
of a writer and partition, so that what lies side by side is written down as a *run*:

    {"f": "send", "p": 3, "o": "ok", "t": [begun, ended], "r": [[n, offset, count], ...]}
    {"f": "poll", "t": [begun, ended], "r": {"3": [[writer, n, offset, count], ...], ...}}
    {"f": "trouble", "t": [at, at], "why": "..."}

Times are in microseconds of the machine's monotonic clock, which all processes share. A send line
with outcome `ok` is one operation: its records were acknowledged together. One with `info` or
`fail` stands for as many operations as it has records, because what becomes of one of them says
nothing of the others. A poll's `writer` is null for a value that no producer can have written.
"""

import json
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tidelog.sim.evidence.history import Key, Kind, Op, Outcome, Polled, Sent

VALUE_BYTES: Final = 60

Written = tuple[int, str, int]
"""A value: partition, writer and number."""
SendRun = tuple[int, int, int]
PollRun = tuple[str | None, Any, int, int]


def now_us() -> int:
    """Microseconds of the clock that all processes of a machine share."""
    return time.monotonic_ns() // 1000


def value_of(writer: str, partition: int, n: int) -> bytes:
    """What is sent."""
    return b"%s.%d.%d." % (writer.encode(), partition, n) + b"." * VALUE_BYTES


def parse_value(partition: int, value: bytes | None) -> tuple[str | None, Any]:
    """Writer and number; (`None`, the text) for what `value_of` cannot have made."""
    parts = (value or b"").split(b".", 3)
    if len(parts) == 4 and parts[2].isdigit():
        writer, n = parts[0].decode(), int(parts[2])
        if value == value_of(writer, partition, n):
            return writer, n
    return None, repr(value)


def send_runs(acked: Iterable[tuple[int, int]]) -> list[SendRun]:
    """(n, offset) in the order of n, as runs; an offset of -1 is unknown."""
    runs: list[SendRun] = []
    for n, offset in acked:
        if runs:
            first, at, count = runs[-1]
            expected = at + count if at >= 0 else -1
            if n == first + count and offset == expected:
                runs[-1] = (first, at, count + 1)
                continue
        runs.append((n, offset, 1))
    return runs


def poll_runs(polled: Iterable[tuple[int, bytes | None]], partition: int) -> list[PollRun]:
    """(offset, value) in the order in which they were polled, as runs."""
    runs: list[PollRun] = []
    for offset, value in polled:
        writer, n = parse_value(partition, value)
        if runs and writer is not None:
            known, first, at, count = runs[-1]
            if (writer, n, offset) == (known, first + count if known else None, at + count):
                runs[-1] = (known, first, at, count + 1)
                continue
        runs.append((writer, n, offset, 1))
    return runs


class HistoryFile:
    """A file that a client writes its operations to."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8")

    def send(
        self,
        partition: int,
        outcome: str,
        times: tuple[int, int],
        acked: list[tuple[int, int]],
        why: str = "",
    ) -> None:
        """Sends that came to their end; `acked` holds (n, offset)."""
        line = {"f": "send", "p": partition, "o": outcome, "t": times, "r": send_runs(acked)}
        self._write({**line, "why": why} if why else line)

    def poll(self, begun: int, polled: dict[int, list[tuple[int, bytes | None]]]) -> None:
        """What a poll returned by partition, in order."""
        runs = {p: poll_runs(values, p) for p, values in polled.items()}
        self._write({"f": "poll", "t": (begun, now_us()), "r": runs})

    def state(self, partition: int, times: tuple[int, int], state: dict[str, Any]) -> None:
        """What a reader of a compacted topic takes for the state of its keys (`cleaned.py`)."""
        self._write({"f": "state", "p": partition, "t": times, "r": state})

    def trouble(self, why: str) -> None:
        """An outcome that no client may ever see."""
        self._write({"f": "trouble", "t": (now_us(), now_us()), "why": why})

    def flush(self) -> None:
        """Writes to the file what is still in memory."""
        self._file.flush()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")


class Line:
    """One line with the process that wrote it."""

    __slots__ = ("fields", "process")

    def __init__(self, process: str, fields: dict[str, Any]) -> None:
        self.process = process
        self.fields = fields

    @property
    def ended(self) -> int:
        """When the operation was over."""
        return int(self.fields["t"][1])


def read_lines(paths: Sequence[Path]) -> list[Line]:
    """The lines of several histories in the order of completion; a file's name is its process."""
    lines = []
    for path in paths:
        with path.open(encoding="utf-8") as file:
            lines += [Line(path.stem, json.loads(text)) for text in file]
    lines.sort(key=lambda line: line.ended)
    return lines


class _Names:
    """One string per value, shared: a record is named three times at least.

    A client may send a record again as a new one although the first attempt was appended
    (`judge.py`). Such a copy is a write of its own without an acknowledgement. A value of `resent`
    at another offset than its own (the acknowledged one, else the one that was seen first) gets a
    name of its own, and `copies` has it.
    """

    def __init__(self, lines: Iterable[Line], resent: Container[Written]) -> None:
        self._known: dict[tuple[str, int], list[str]] = {}
        self._resent = resent
        # Where each value is, by writer and partition.
        self._places: dict[tuple[str, int], dict[int, int]] = {}
        # Copies: partition, writer and name, in the order in which they were read first.
        self.copies: dict[tuple[int, str, str], None] = {}
        for line in lines if resent else ():
            if line.fields["f"] == "send":
                places = self._places.setdefault((line.process, line.fields["p"]), {})
                for n, offset, count in line.fields["r"]:
                    places.update({n + i: offset + i for i in range(count) if offset >= 0})

    def sent(self, writer: str, partition: int, n: int, count: int) -> list[str]:
        """Names of what a writer sent."""
        known = self._known.setdefault((writer, partition), [])
        while len(known) < n + count:
            known.append(f"{writer}.{len(known)}")
        return known[n : n + count]

    def polled(self, writer: str | None, partition: int, run: tuple[Any, int, int]) -> list[str]:
        """Names of what was read; `run` is (n, offset, count)."""
        n, offset, count = run
        if writer is None:
            return [f"unknown {n}"]
        names = self.sent(writer, partition, n, count)
        if self._resent:
            places = self._places.setdefault((writer, partition), {})
            for i in range(count):
                if (partition, writer, n + i) not in self._resent:
                    continue
                if places.setdefault(n + i, offset + i) != offset + i:
                    names[i] = f"{names[i]}@{offset + i}"
                    self.copies[partition, writer, names[i]] = None
        return names


def operations(topic: str, lines: Sequence[Line], resent: Container[Written] = ()) -> list[Op]:
    """The lines of a topic's clients as the log checker wants them; values of `resent` may be
    there more than once."""
    ops: list[Op] = []
    names = _Names(lines, resent)
    keys: dict[int, Key] = {}
    for line in lines:
        if line.fields["f"] == "send":
            partition = line.fields["p"]
            key = keys.setdefault(partition, Key(topic, partition))
            sent = [
                Sent(key, offset + i if offset >= 0 else -1, value)
                for n, offset, count in line.fields["r"]
                for i, value in enumerate(names.sent(line.process, partition, n, count))
            ]
            ops += _sends(len(ops), line, sent)
        elif line.fields["f"] == "poll":
            polled = {}
            for text, runs in line.fields["r"].items():
                partition = int(text)
                polled[keys.setdefault(partition, Key(topic, partition))] = tuple(
                    Polled(run[1] + i, value)
                    for writer, *run in runs
                    for i, value in enumerate(names.polled(writer, partition, tuple(run)))
                )
            begun, ended = line.fields["t"]
            ops.append(
                Op(
                    len(ops),
                    line.process,
                    Kind.POLL,
                    Outcome.OK,
                    polled=polled,
                    invoked_at=begun,
                    completed_at=ended,
                )
            )
    for partition, writer, value in names.copies:
        # Begun at some time, never answered.
        lone = (Sent(keys[partition], -1, value),)
        ops.append(Op(len(ops), writer, Kind.SEND, Outcome.INFO, sent=lone, reason="sent again"))
    return ops


def _sends(index: int, line: Line, sent: list[Sent]) -> Iterator[Op]:
    outcome = Outcome(line.fields["o"])
    begun, ended = line.fields["t"]
    groups = [tuple(sent)] if outcome is Outcome.OK else [(one,) for one in sent]
    for i, group in enumerate(groups):
        yield Op(
            index + i,
            line.process,
            Kind.SEND,
            outcome,
            sent=group,
            invoked_at=begun,
            completed_at=ended,
            reason=line.fields.get("why", ""),
        )
