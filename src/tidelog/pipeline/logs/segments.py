"""Reading a broker's log directory from outside: partitions, segments, checkpoints.

It only reads, and may read while the broker writes. So an append may be incomplete and the active
segment may end in zeros; a *replica* here is every whole batch from the first segment on, up to
the first bytes that are not a batch. The high watermark, which is in another file, is the offset
that a replica must reach.

Files are read in windows, never whole: a segment may be a gigabyte.
Source: Kafka's log directory layout; `replication-offset-checkpoint` is a version line, a count
line, then `topic partition offset` lines.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tidelog.env.disk import Buffer
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.batches import BatchTable, computed_crcs, read_batches
from tidelog.pipeline.varints import Int64s

HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
WINDOW_BYTES: Final = 16 << 20
_MAX_WINDOW_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive whole batches of one segment file."""

    path: Path
    position: int
    size_bytes: int

    @property
    def end(self) -> int:
        """The position behind them."""
        return self.position + self.size_bytes


BASE_OFFSET: Final = "base offset"
LAST_OFFSET: Final = "last offset"
SIZE: Final = "size in bytes"
STORED_CRC: Final = "stored CRC"
COMPUTED_CRC: Final = "recomputed CRC"
_COLUMNS: Final[Mapping[str, Callable[[BatchTable], Int64s]]] = {
    BASE_OFFSET: lambda table: table.base_offsets,
    LAST_OFFSET: lambda table: table.last_offsets,
    "leader epoch": lambda table: table.field("leader_epoch"),
    SIZE: lambda table: table.sizes,
    STORED_CRC: lambda table: table.field("crc"),
    COMPUTED_CRC: computed_crcs,
}


@dataclass(frozen=True, slots=True)
class ReplicaBatches:
    """Every whole batch of one replica, a row each, and where their bytes are."""

    columns: Mapping[str, Int64s]
    """By what they hold, in words. Last offsets are inclusive, sizes include the header; the
    recomputed CRC-32C is that of the bytes as they are now."""
    spans: tuple[Span, ...]
    """The same batches as file ranges, in order."""

    def __len__(self) -> int:
        return len(self.columns[BASE_OFFSET])

    @property
    def end_offset(self) -> int:
        """The offset after the last batch; 0 when there is none."""
        return int(self.columns[LAST_OFFSET][-1]) + 1 if len(self) else 0

    def rows(self, first: int, end: int) -> "ReplicaBatches":
        edges = np.concatenate(([0], np.cumsum(self.columns[SIZE])))
        kept = {name: values[first:end] for name, values in self.columns.items()}
        return ReplicaBatches(kept, tuple(_cut(self.spans, int(edges[first]), int(edges[end]))))


def _cut(spans: tuple[Span, ...], start: int, end: int) -> Iterator[Span]:
    """The part of the spans' bytes from `start` up to `end`, counted over all of them."""
    begin = 0
    for span in spans:
        first = max(start - begin, 0)
        last = min(end - begin, span.size_bytes)
        if first < last:
            yield Span(span.path, span.position + first, last - first)
        begin += span.size_bytes


def partition_directories(log_dir: Path) -> dict[TopicPartition, Path]:
    """The partitions in a log directory; those being deleted are left out. Raises `UsageError` when
    there is no such directory."""
    if not log_dir.is_dir():
        raise UsageError(f"`{log_dir}` is not a log directory", "give a broker's `log.dirs`")
    found = {}
    for directory in sorted(log_dir.iterdir()):
        topic, dash, number = directory.name.rpartition("-")
        if directory.is_dir() and dash and number.isdecimal():
            found[TopicPartition(topic, int(number))] = directory
    return found


def read_offset_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """An offset per partition, as the broker last wrote them; empty when it never did (Kafka
    creates some of these files before it has an entry). Raises `UsageError` for a file in another
    format."""
    lines = path.read_text().splitlines() if path.is_file() else []
    if not lines:
        return {}
    try:
        rows = [line.split(" ") for line in lines[2:]]
        marks = {TopicPartition(topic, int(number)): int(mark) for topic, number, mark in rows}
        if int(lines[0]) != 0 or int(lines[1]) != len(rows):
            raise ValueError(f"version {lines[0]}, {lines[1]} entries announced")
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"`{path}` is not an offset checkpoint: {error}",
            "give the log directory of a broker of Tidelog or Kafka",
        ) from error
    return marks


def read_replica(directory: Path) -> ReplicaBatches:
    """Every whole batch of the partition in `directory`."""
    spans = []
    parts: dict[str, list[Int64s]] = {name: [np.empty(0, dtype=np.int64)] for name in _COLUMNS}
    for path in sorted(directory.glob("*.log")):
        for table, span in segment_windows(path):
            spans.append(span)
            for name, column in _COLUMNS.items():
                parts[name].append(column(table))
    columns = {name: np.concatenate(some) for name, some in parts.items()}
    return ReplicaBatches(columns, tuple(spans))


def segment_windows(path: Path) -> Iterator[tuple[BatchTable, Span]]:
    """The whole batches of one segment, some megabytes at a time, and where their bytes are."""
    position = 0
    window_bytes = WINDOW_BYTES
    with path.open("rb") as file:
        while True:
            file.seek(position)
            buffer = file.read(window_bytes)
            table = read_batches(buffer, stop_at_damage=True)
            if len(table):
                yield table, Span(path, position, table.end)
                position += table.end
                window_bytes = WINDOW_BYTES
            elif len(buffer) == window_bytes and window_bytes < _MAX_WINDOW_BYTES:
                window_bytes *= 2  # A single batch may be larger than the window.
            else:
                return


def read_bytes(spans: tuple[Span, ...], chunk_bytes: int) -> Iterator[Buffer]:
    """The bytes of the spans one after the other, in chunks of exactly `chunk_bytes` but for the
    last, whatever the borders between files."""
    pending = bytearray()
    for span in spans:
        with span.path.open("rb") as file:
            file.seek(span.position)
            left = span.size_bytes
            while left:
                piece = file.read(min(left, chunk_bytes - len(pending)))
                if not piece:
                    return  # The file was cut meanwhile: too few bytes is what the caller sees.
                left -= len(piece)
                pending += piece
                if len(pending) == chunk_bytes:
                    yield bytes(pending)
                    pending.clear()
    if pending:
        yield bytes(pending)
