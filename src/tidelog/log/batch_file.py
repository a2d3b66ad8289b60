"""The log file of one segment: whole batches, appended at its end and checked when they are read.

A lookup starts at an entry of the sparse index and scans headers. A read takes one contiguous piece
of the file and trims it to whole batches. What comes from the disk is checked before it is handed
out: a damaged medium is reported as `LogDamaged`, never served (P4).

The checksum does not cover the first 21 bytes of a batch (offset, length, epoch, magic), so each
of them is checked against something else:
- the base offset: in a log that was never compacted each batch begins where the one before it ends,
  a segment begins at the offset it is named after, and an index entry names the last offset of the
  batch it points at;
- the length: a wrong one makes the checksum wrong, or leads out of the file;
- the leader epoch: the epoch cache.

Invariant: offsets in the file strictly increase and stay within 2**31 of the base offset.

Source: Kafka's `FileRecords`.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, Protocol

from tidelog.env.disk import File
from tidelog.env.effects import Chunk
from tidelog.errors import CorruptBatch, GapFound, LogDamaged
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.records import batch as batches
from tidelog.records.batch import HEADER_BYTES, MAGIC, BatchHeader, read_header

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_SCAN_BYTES: Final = 1 << 20
_LOCATE_BYTES: Final = 8 << 10
_HELD_BYTES: Final = 8 << 10
_BEYOND: Final = 1 << 63
_SPAN: Final = Struct(">qi4xb6xi")
"""Of a batch's header: base offset, length, magic, last offset delta."""

IndexEntry = tuple[int, int]
"""(last offset, position) of a batch; -1 for the offset at the head of the file."""


class ScannedBatch(NamedTuple):
    """A batch met by a scan."""

    position: int
    header: BatchHeader
    data: bytes
    """The whole batch."""


class LogRead(NamedTuple):
    """Whole batches that were read."""

    chunks: list[Chunk]
    size_bytes: int
    first_offset: int
    """Base offset of the first batch, at or below the offset asked for; that offset itself when
    nothing was read."""
    next_offset: int
    """One past the last batch read; the offset asked for when nothing was read."""


class Readable(Protocol):
    """What is read of a log file."""

    @property
    def path(self) -> str:
        """See `File`."""

    @property
    def size_bytes(self) -> int:
        """See `File`."""

    def read(self, position: int, length: int) -> bytes:
        """See `File`."""


class HeldFile:
    """A log file while its log is opened, which looks at the same few batches a dozen times: it is
    read a piece at a time, and the last piece is kept. The file may be cut meanwhile."""

    __slots__ = ("_file", "_held", "_position", "path")

    def __init__(self, file: File) -> None:
        self._file = file
        self.path = file.path
        # The piece that was read last, and where it begins.
        self._held = b""
        self._position = 0

    @property
    def size_bytes(self) -> int:
        """The current length."""
        return self._file.size_bytes

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`."""
        length = min(length, self._file.size_bytes - position)
        begin = position - self._position
        if begin < 0 or begin + length > len(self._held):
            if length > _HELD_BYTES:
                return self._file.read(position, length)
            self._position, begin = position, 0
            self._held = self._file.read(position, _HELD_BYTES)
        return self._held[begin : begin + max(0, length)]


class ReadWindow(NamedTuple):
    """What a read may give, and what it is checked against."""

    upper_offset: int
    """Exclusive: what lies beyond is not for this reader."""
    log_end_offset: int
    """Exclusive: nothing lies beyond."""
    epochs: LeaderEpochCache


class BatchFile:
    """The batches of one segment."""

    __slots__ = ("base_offset", "contiguous", "file")

    def __init__(self, file: File, base_offset: int, *, contiguous: bool) -> None:
        # The log file; a view of it while the log is opened.
        self.file: Readable = file
        # First offset that may lie in the file, inclusive.
        self.base_offset = base_offset
        # Whether no offset may be missing between two batches: so unless the log was compacted.
        self.contiguous = contiguous

    def locate(self, offset: int, entry: IndexEntry) -> int | None:
        """Position of the first batch whose last offset reaches `offset`, looked for from an index
        entry on; `None` without one. Raises `LogDamaged` when the bytes on the way are not a chain
        of batches, or begin with another batch than the index has."""
        return self._walk(offset, entry, _LOCATE_BYTES)[0]

    def end_below(self, offset: int, entry: IndexEntry) -> int:
        """Where the batches before that one end; the entry is of one of them. Raises the same."""
        return self._walk(offset, entry, _LOCATE_BYTES)[1]

    def next_offset(self, entry: IndexEntry) -> int:
        """One past the last batch, from the last index entry on. Raises as `locate`."""
        return self._walk(_BEYOND, entry, HEADER_BYTES)[1]

    def _walk(self, offset: int, entry: IndexEntry, read_bytes: int) -> tuple[int | None, int]:
        """What `locate` looks for, and where the batches before it end."""
        indexed_offset, position = entry
        end = self.file.size_bytes
        expected = self.base_offset
        while position < end:
            window = self.file.read(position, read_bytes)
            pos = 0
            while len(window) - pos >= HEADER_BYTES:
                size_bytes, base_offset, last_offset = self._span_at(window, pos, end - position)
                if indexed_offset >= 0:
                    if last_offset != indexed_offset:
                        raise self.damaged(f"its index has {indexed_offset} at {position}")
                    indexed_offset = -1
                elif base_offset != expected and (self.contiguous or base_offset < expected):
                    raise self._misplaced(base_offset, expected)
                if last_offset >= offset:
                    return position + pos, expected
                expected = last_offset + 1
                pos += size_bytes
            if pos == 0:
                raise self.damaged(f"it ends inside a header at {position}")
            position += pos
        return None, expected

    def _span_at(self, window: bytes, pos: int, left_bytes: int) -> tuple[int, int, int]:
        """(size, base, last offset) of the batch at `pos`, whose header is in `window`; the file
        has `left_bytes` from the window's head on."""
        base_offset, length, magic, delta = _SPAN.unpack_from(window, pos)
        size_bytes: int = length + batches.LOG_OVERHEAD_BYTES
        if not HEADER_BYTES <= size_bytes <= left_bytes - pos or delta < 0 or magic != MAGIC:
            raise self.damaged(f"no batch at offset `{base_offset}`")
        return size_bytes, base_offset, base_offset + delta

    def damaged(self, detail: str) -> LogDamaged:
        """The error to raise when the file is not what was written."""
        return LogDamaged(f"`{self.file.path}` is damaged: {detail}", self.base_offset)

    def _misplaced(self, base_offset: int, expected: int) -> LogDamaged:
        error = self.damaged(f"offset `{base_offset}` where {expected} was due")
        is_gap = base_offset > expected
        return GapFound(error.message, error.base_offset) if is_gap else error

    def read(
        self, position: int, offset: int, max_bytes: int, window: ReadWindow, at_least_one: bool
    ) -> LogRead:
        """Whole batches below the window's end, from the one at `position` that holds `offset`.
        Raises `LogDamaged` for bytes that are not what was written."""
        data = self.file.read(position, max(max_bytes, HEADER_BYTES))
        first_bytes = batches.batch_size_at(data, 0)
        if at_least_one and first_bytes is not None and first_bytes > len(data):
            data = self.file.read(position, first_bytes)
        elif first_bytes is None or (first_bytes > max_bytes and not at_least_one):
            return LogRead([], 0, offset, offset)
        if len(data) < min(max_bytes, self.file.size_bytes - position):
            raise self.damaged(f"only {len(data)} bytes could be read at {position}")
        return self._trim(data, offset, window)

    def _trim(self, data: bytes, offset: int, window: ReadWindow) -> LogRead:
        end = 0
        first_offset = next_offset = offset
        while True:
            size_bytes = batches.batch_size_at(data, end)
            if size_bytes is None or end + max(size_bytes, HEADER_BYTES) > len(data):
                break
            header = self._header(data, end)
            if end == 0:
                first_offset = next_offset = header.base_offset
                if first_offset > offset and self.contiguous:
                    raise self._misplaced(first_offset, offset)
            if header.last_offset >= window.log_end_offset:
                raise self.damaged(f"offset `{header.last_offset}` is beyond the end of the log")
            if end and header.last_offset >= window.upper_offset:
                break
            self._check_batch(header, data, end, next_offset)
            self.check_epoch(header, window.epochs)
            if header.last_offset >= window.upper_offset:
                break
            next_offset = header.last_offset + 1
            end += size_bytes
        if not end:
            return LogRead([], 0, offset, offset)
        # A view, because what was cut off the end is little and what is left may be megabytes.
        whole = data if end == len(data) else memoryview(data)[:end]
        return LogRead([whole], end, first_offset, next_offset)

    def _header(self, data: bytes, pos: int) -> BatchHeader:
        try:
            return read_header(data, pos)
        except CorruptBatch as error:
            raise self.damaged(error.message) from None

    def _check_batch(self, header: BatchHeader, data: bytes, pos: int, expected: int) -> None:
        base_offset = header.base_offset
        if base_offset != expected and (self.contiguous or base_offset < expected):
            raise self._misplaced(base_offset, expected)
        if batches.crc_of(data, pos, header.size_bytes) != header.crc:
            raise self.damaged(f"wrong checksum at offset `{base_offset}`")

    def check_epoch(self, header: BatchHeader, epochs: LeaderEpochCache) -> None:
        """Raises `LogDamaged` when a batch claims another epoch than the cache."""
        known = epochs.epoch_at(header.last_offset)
        if known >= 0 and header.leader_epoch not in (known, -1):
            raise self.damaged(
                f"epoch `{header.leader_epoch}` at offset `{header.base_offset}`, expected {known}"
            )

    def scan(self, position: int = 0, expected: int | None = None) -> Iterator[ScannedBatch]:
        """Every batch from `position` on, structure and checksum verified. `expected` is the offset
        at which the first one is due; without it, and without a position, it is the segment's base.
        Raises `LogDamaged` at the first batch that is damaged or cut, or not where it is due."""
        if expected is None and not position:
            expected = self.base_offset
        end = self.file.size_bytes
        while position < end:
            head = self.file.read(position, HEADER_BYTES)
            if not head:
                raise self.damaged(f"the file ends at byte `{position}` of `{end}`")
            # A large batch is read alone, and so is not copied once more.
            first_bytes = batches.batch_size_at(head, 0) or 0
            is_large = _SCAN_BYTES // 2 < first_bytes <= end - position
            window = self.file.read(position, first_bytes if is_large else _SCAN_BYTES)
            pos = 0
            while pos < len(window):
                size_bytes = batches.batch_size_at(window, pos)
                if pos and (size_bytes is None or pos + size_bytes > len(window)):
                    break
                header = self._header(window, pos)
                if expected is None:
                    expected = max(header.base_offset, self.base_offset)
                self._check_batch(header, window, pos, expected)
                if header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                    raise self.damaged(f"offset `{header.last_offset}` is outside the segment")
                yield ScannedBatch(position + pos, header, window[pos : pos + header.size_bytes])
                expected = header.last_offset + 1
                pos += header.size_bytes
            position += pos

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch at `position`; its body is not looked at."""
        head = self.file.read(position, HEADER_BYTES)
        size_bytes = batches.batch_size_at(head, 0) or 0
        return self._header(head + bytes(max(0, size_bytes - len(head))), 0)
