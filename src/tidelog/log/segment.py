"""One segment: a log file of whole batches with its indexes, covering offsets from its base on.

A segment is named by its base offset. Batches are appended to the newest (active) segment only;
older ones are sealed and never change, except that a truncation may make one active again.

Reading finds the batch that holds an offset by the sparse index and a short scan over headers,
then takes one contiguous piece of the file and trims it to whole batches. What comes from the disk
is checked before it is handed out: a damaged medium is reported as `LogDamaged`, never served (P4).

The checksum does not cover the first 21 bytes of a batch (offset, length, epoch, magic), so each
of them has a witness elsewhere:
- the base offset: in a log that was never compacted each batch begins where the one before it ends,
  a segment begins at the offset it is named after, and an index entry names the last offset of the
  batch it points at;
- the length: a wrong one makes the checksum wrong, or leads out of the file;
- the leader epoch: the epoch cache.
An index has no checksum either. Where it disagrees with the log, the log is scanned, which is
authoritative: then either the index is made anew or the segment is damaged.

Invariants
- Offsets in the file strictly increase and stay within 2**31 of the base offset.
- An index entry is due when more than `index.interval.bytes` were written since the last one, and
  is decided before each batch, so that the entries equal Kafka's.

Source: Kafka's `LogSegment` and `FileRecords`.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.env.disk import Buffer, Disk, File
from tidelog.errors import CorruptBatch, LogDamaged
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.index import OffsetIndex, TimeIndex
from tidelog.log.txn_index import TransactionIndex
from tidelog.log.values import LogRead
from tidelog.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    batch_size_at,
    crc_of,
    read_header,
)

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
CORRUPT_SUFFIX: Final = ".corrupt"
"""Follows the name of a file that was set aside."""

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_SCAN_BYTES: Final = 1 << 20
_LOCATE_BYTES: Final = 8 << 10
_SPAN: Final = Struct(">qi4xb6xi")
"""Of a batch's header: base offset, length, magic, last offset delta."""


def offset_name(offset: int) -> str:
    """The base name of a segment's files: the offset with 20 digits."""
    return f"{offset:020d}"


class BatchSpan(NamedTuple):
    """What the indexes need to know of an appended batch."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    size_bytes: int


class ScannedBatch(NamedTuple):
    """A batch met by a scan."""

    position: int
    header: BatchHeader
    data: bytes
    """The whole batch."""


class BadIndex(NamedTuple):
    """An index file that cannot be used as it is."""

    suffix: str
    reason: str


MISSING: Final = "missing"
"""The reason where there is no file."""


class ReadWindow(NamedTuple):
    """What a read may give, and what it is checked against."""

    upper_offset: int
    """Exclusive: what lies beyond is not for this reader."""
    log_end_offset: int
    """Exclusive: nothing lies beyond."""
    epochs: LeaderEpochCache


class Segment:
    """The files of one segment."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_disk",
        "_path",
        "base_offset",
        "contiguous",
        "created_ms",
        "dirty",
        "file",
        "first_timestamp",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "time_index",
        "txn_index",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> None:
        self._disk = disk
        # Path of all files without suffix.
        self._path = f"{directory}/{offset_name(base_offset)}"
        # First offset that may lie in this segment, inclusive.
        self.base_offset = base_offset
        # Whether no offset may be missing between two batches: so unless the log was compacted.
        self.contiguous = "compact" not in config.cleanup_policy
        # The log file.
        self.file: File = disk.open(self._path + LOG_SUFFIX, create=True)
        self.offset_index = OffsetIndex(base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(base_offset, config.segment_index_bytes)
        self.txn_index = TransactionIndex(disk, self._path + TXN_INDEX_SUFFIX)
        # Largest batch timestamp, -1 without any; of which batch (its last offset).
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        # Max timestamp of the first batch, from which `segment.ms` counts; -1 when not known yet.
        self.first_timestamp = -1
        # Wall time of the first append in this run, the fallback for `segment.ms`; -1 before it.
        self.created_ms = -1
        # Whether something was appended that no requested flush covers.
        self.dirty = False
        # Bytes appended since the last index entry; Kafka starts at 0 after opening, so do we.
        self._bytes_since_index_entry = 0

    @property
    def size_bytes(self) -> int:
        """Bytes in the log file."""
        return self.file.size_bytes

    def append(self, data: Buffer, batches: Sequence[BatchSpan], index_interval_bytes: int) -> None:
        """Writes whole batches with one append and indexes them."""
        position = self.file.append((data,))
        self.dirty = True
        for batch in batches:
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp = batch.max_timestamp
                self.max_timestamp_offset = batch.last_offset
            if self.first_timestamp < 0:
                self.first_timestamp = batch.max_timestamp
            if self._bytes_since_index_entry > index_interval_bytes:
                self._add_index_entry(batch.last_offset, position)
                self._bytes_since_index_entry = 0
            position += batch.size_bytes
            self._bytes_since_index_entry += batch.size_bytes

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)

    def should_roll(
        self, config: LogConfig, *, incoming: BatchSpan, wall_ms: int, size_bytes: int
    ) -> bool:
        """Whether a new segment must begin before `size_bytes` of batches are appended.

        `incoming` is the last of them. An empty segment is rolled only when the offset would not
        fit, since a new one would be the same.
        """
        if incoming.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        current_bytes = self.size_bytes
        if not current_bytes:
            return False
        if current_bytes + size_bytes > config.segment_bytes:
            return True
        if self.first_timestamp >= 0:
            waited_ms = incoming.max_timestamp - self.first_timestamp
        else:
            waited_ms = wall_ms - self.created_ms if wall_ms >= 0 <= self.created_ms else 0
        if waited_ms > config.segment_ms:
            return True
        return self.offset_index.is_full or self.time_index.is_full

    def write_indexes(self) -> list[File]:
        """Seals the indexes: writes their files; returns them open, for the flush to come."""
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        files: list[File] = []
        for suffix, data in (
            (INDEX_SUFFIX, self.offset_index.encode()),
            (TIME_INDEX_SUFFIX, self.time_index.encode()),
        ):
            file = self._disk.open(self._path + suffix, create=True)
            file.truncate(0)
            file.append((data,))
            files.append(file)
        return files

    # Reading ---------------------------------------------------------------------------------

    def locate(self, offset: int) -> int | None:
        """Position of the first batch whose last offset reaches `offset`; `None` without one.

        Raises `LogDamaged` when what it meets on the way is no chain of batches.
        """
        indexed_offset, position = self.offset_index.entry_for(offset)
        end = self.size_bytes
        expected = self.base_offset
        while position < end:
            window = self.file.read(position, _LOCATE_BYTES)
            pos = 0
            while len(window) - pos >= HEADER_BYTES:
                size_bytes, base_offset, last_offset = self._span_at(window, pos, end - position)
                if indexed_offset >= 0:
                    if last_offset != indexed_offset:
                        raise self.damaged(f"its index has {indexed_offset} at {position}")
                    indexed_offset = -1
                elif base_offset != expected and (self.contiguous or base_offset < expected):
                    raise self.damaged(f"offset `{base_offset}` where {expected} was due")
                if last_offset >= offset:
                    return position + pos
                expected = last_offset + 1
                pos += size_bytes
            if pos == 0:
                raise self.damaged(f"it ends inside a header at {position}")
            position += pos
        return None

    def _span_at(self, window: bytes, pos: int, left_bytes: int) -> tuple[int, int, int]:
        """(size, base, last offset) of the batch at `pos`, whose header is in `window`; the file
        has `left_bytes` from the window's head on."""
        base_offset, length, magic, delta = _SPAN.unpack_from(window, pos)
        size_bytes: int = length + LOG_OVERHEAD_BYTES
        if not HEADER_BYTES <= size_bytes <= left_bytes - pos or delta < 0 or magic != MAGIC:
            raise self.damaged(f"no batch at offset `{base_offset}`")
        return size_bytes, base_offset, base_offset + delta

    def damaged(self, detail: str) -> LogDamaged:
        """The error to raise when the file is not what was written."""
        return LogDamaged(f"`{self.file.path}` is damaged: {detail}", self.base_offset)

    def read(
        self, position: int, offset: int, max_bytes: int, window: "ReadWindow", at_least_one: bool
    ) -> LogRead:
        """Whole batches below the window's end, from the one at `position` that holds `offset`.

        Raises `LogDamaged` for bytes that are not what was written.
        """
        data = self.file.read(position, max(max_bytes, HEADER_BYTES))
        first_bytes = batch_size_at(data, 0)
        if at_least_one and first_bytes is not None and first_bytes > len(data):
            data = self.file.read(position, first_bytes)
        elif first_bytes is None or (first_bytes > max_bytes and not at_least_one):
            return LogRead([], 0, offset, offset)
        if len(data) < min(max_bytes, self.size_bytes - position):
            raise self.damaged(f"only {len(data)} bytes could be read at {position}")
        return self._trim(data, offset, window)

    def _trim(self, data: bytes, offset: int, window: "ReadWindow") -> LogRead:
        end = 0
        first_offset = next_offset = offset
        while True:
            size_bytes = batch_size_at(data, end)
            if size_bytes is None or end + max(size_bytes, HEADER_BYTES) > len(data):
                break
            header = self._header(data, end)
            if end == 0:
                first_offset = next_offset = header.base_offset
                if first_offset > offset and self.contiguous:
                    raise self.damaged(f"offset `{first_offset}` where {offset} was due")
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
            raise self.damaged(f"offset `{base_offset}` where {expected} was due")
        if crc_of(data, pos, header.size_bytes) != header.crc:
            raise self.damaged(f"wrong checksum at offset `{base_offset}`")

    def check_epoch(self, header: BatchHeader, epochs: LeaderEpochCache) -> None:
        """Raises `LogDamaged` when a batch claims another epoch than the cache."""
        known = epochs.epoch_at(header.last_offset)
        if known >= 0 and header.leader_epoch not in (known, -1):
            raise self.damaged(
                f"epoch `{header.leader_epoch}` at offset `{header.base_offset}`, expected {known}"
            )

    def scan(self, position: int = 0, expected: int | None = None) -> Iterator[ScannedBatch]:
        """Every batch from `position` on, structure and checksum verified.

        `expected` is the offset at which the first one is due; without it, and without a position,
        it is the segment's base. Raises `LogDamaged` at the first batch that is damaged or cut, or
        not where it is due.
        """
        if expected is None and not position:
            expected = self.base_offset
        end = self.size_bytes
        while position < end:
            window = self.file.read(position, _SCAN_BYTES)
            if not window:
                raise self.damaged(f"the file ends at byte `{position}` of `{end}`")
            size_bytes = batch_size_at(window, 0)
            if size_bytes is not None and len(window) < size_bytes <= end - position:
                window = self.file.read(position, size_bytes)
            pos = 0
            while pos < len(window):
                size_bytes = batch_size_at(window, pos)
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

    def next_offset(self) -> int:
        """One past the last batch, found from the last index entry.

        Raises `LogDamaged` when the file does not end with a whole batch, or holds another batch
        than the index says.
        """
        indexed_offset, position = self.offset_index.last_entry
        end = self.size_bytes
        next_offset = self.base_offset
        while position < end:
            header_bytes = self.file.read(position, HEADER_BYTES)
            if len(header_bytes) < HEADER_BYTES:
                raise self.damaged(f"it ends inside a header at {position}")
            size_bytes, base_offset, last_offset = self._span_at(header_bytes, 0, end - position)
            if indexed_offset >= 0:
                if last_offset != indexed_offset:
                    raise self.damaged(f"its index has {indexed_offset} at {position}")
                indexed_offset = -1
            elif base_offset != next_offset and (self.contiguous or base_offset < next_offset):
                raise self.damaged(f"offset `{base_offset}` where {next_offset} was due")
            next_offset = last_offset + 1
            position += size_bytes
        return next_offset

    # Changing --------------------------------------------------------------------------------

    def load_indexes(self) -> BadIndex | None:
        """Reads the index files; returns the first that is not there or not sound, if one is."""
        index = self._disk.read_file(self._path + INDEX_SUFFIX)
        if index is None:
            return BadIndex(INDEX_SUFFIX, MISSING)
        time_index = self._disk.read_file(self._path + TIME_INDEX_SUFFIX)
        if time_index is None:
            return BadIndex(TIME_INDEX_SUFFIX, MISSING)
        if not self.offset_index.load(index, self.size_bytes):
            return BadIndex(INDEX_SUFFIX, "its entries make no sense")
        if not self.time_index.load(time_index):
            return BadIndex(TIME_INDEX_SUFFIX, "its entries make no sense")
        if not self.txn_index.load():
            return BadIndex(TXN_INDEX_SUFFIX, "its entries make no sense")
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry
        self.load_first_timestamp()
        if not self._agrees(*self.time_index.last_entry):
            return BadIndex(TIME_INDEX_SUFFIX, "the log has other batches")
        if not self._has_markers():
            return BadIndex(TXN_INDEX_SUFFIX, "the log has other markers")
        return None

    def _agrees(self, timestamp: int, offset: int) -> bool:
        """Whether an entry of the time index is what the log says."""
        if timestamp < 0:
            # Sealing adds an entry wherever a batch has a timestamp.
            return self.first_timestamp < 0
        header = self.header_of(offset)
        if header is None:
            return False
        return (header.max_timestamp, header.last_offset) == (timestamp, offset)

    def _has_markers(self) -> bool:
        """Whether the log has the abort markers that the transaction index speaks of."""
        for entry in self.txn_index.entries:
            header = self.header_of(entry.last_offset)
            if header is None or not header.is_control or header.producer_id != entry.producer_id:
                return False
        return True

    def header_of(self, offset: int) -> BatchHeader | None:
        """The header of the batch that holds `offset`; `None` when it cannot be found."""
        try:
            position = self.locate(offset)
        except LogDamaged:
            return None
        return None if position is None else self._header_at(position)

    def load_first_timestamp(self) -> None:
        """Reads the timestamp of the first batch, from which `segment.ms` counts."""
        head = self.file.read(0, HEADER_BYTES)
        self.first_timestamp = -1
        if len(head) == HEADER_BYTES:
            self.first_timestamp = int.from_bytes(head[35:43], "big", signed=True)

    def rebuild(self, index_interval_bytes: int) -> Iterator[ScannedBatch]:
        """Makes the offset and the time index anew by a full scan, yielding each batch.

        Raises `LogDamaged` at the first damaged batch; the indexes then end right before it.
        """
        self.offset_index.clear()
        self.time_index.clear()
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        position = last_entry_position = 0
        try:
            for batch in self.scan():
                header = batch.header
                if header.max_timestamp > self.max_timestamp:
                    self.max_timestamp = header.max_timestamp
                    self.max_timestamp_offset = header.last_offset
                if position - last_entry_position > index_interval_bytes:
                    self._add_index_entry(header.last_offset, position)
                    last_entry_position = position
                position += header.size_bytes
                yield batch
        finally:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_index_entry = 0
            self.load_first_timestamp()

    def reindex(self, index_interval_bytes: int) -> None:
        """Makes offset and time index anew, in memory and on the disk, not yet durable.

        Raises `LogDamaged` when it is the log file that is wrong.
        """
        for _ in self.rebuild(index_interval_bytes):
            pass
        for file in self.write_indexes():
            file.close()

    def truncate_to(self, offset: int) -> None:
        """Drops the batch that holds `offset` and everything after it."""
        position = self.locate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if position is not None:
            self.file.truncate(position)
        self.dirty = True
        self._bytes_since_index_entry = 0
        self._reload_max_timestamp()
        if not self.size_bytes:
            self.first_timestamp = self.created_ms = -1

    def _reload_max_timestamp(self) -> None:
        """The time index may miss the newest batches, so they are looked at again."""
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry
        position = self.offset_index.last_position
        while position < self.size_bytes:
            header = self._header_at(position)
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
            position += header.size_bytes

    def _header_at(self, position: int) -> BatchHeader:
        head = self.file.read(position, HEADER_BYTES)
        size_bytes = batch_size_at(head, 0) or 0
        return self._header(head + bytes(max(0, size_bytes - len(head))), 0)

    def unsynced_files(self) -> list[File]:
        """The files that a flush of this segment must cover."""
        txn_file = self.txn_index.file
        return [self.file] if txn_file is None else [txn_file, self.file]

    def close(self) -> None:
        """Releases the files."""
        self.file.close()
        self.txn_index.close()

    def delete(self) -> None:
        """Deletes all files of the segment."""
        self.close()
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            self._disk.delete(self._path + suffix)
