"""One segment: a log file of whole batches with its indexes, covering offsets from its base on.

A segment is named by its base offset. Batches are appended to the newest (active) segment only;
older ones are sealed and never change, except that a truncation may make one active again.

`batch_file.py` has the log file. An index has no checksum. Where it disagrees with the log, the log
is scanned, which is authoritative: then either the index is made anew or the segment is damaged.

Invariant: an index entry is due when more than `index.interval.bytes` were written since the last
one, and is decided before each batch, so that the entries equal Kafka's.

Source: Kafka's `LogSegment`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import crc32c

from tidelog.config import LogConfig
from tidelog.env.disk import Buffer, Disk, File
from tidelog.errors import LogDamaged
from tidelog.log import file_names
from tidelog.log.batch_file import MAX_RELATIVE_OFFSET, BatchFile, ScannedBatch
from tidelog.log.index import OffsetIndex, TimeIndex
from tidelog.log.txn_index import TransactionIndex
from tidelog.records.batch import HEADER_BYTES, BatchHeader


class BatchSpan(NamedTuple):
    """What the indexes need to know of an appended batch."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    size_bytes: int


class BadIndex(NamedTuple):
    """An index file that cannot be used as it is."""

    suffix: str
    reason: str


MISSING: Final = "missing"
"""The reason where there is no file."""


class Segment:
    """The files of one segment."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_disk",
        "_path",
        "_second_suffix",
        "base_offset",
        "batches",
        "created_ms",
        "dirty",
        "file",
        "first_timestamp",
        "indexes_are_saved",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        is_new: bool = False,
        second_suffix: str = "",
    ) -> None:
        """With `is_new` there is no log file; the first append makes it. With a second suffix the
        files are not part of a log yet."""
        self._disk = disk
        # Path of all files without suffix, and what follows the suffix.
        self._path = f"{directory}/{file_names.offset_name(base_offset)}"
        self._second_suffix = second_suffix
        # First offset that may lie in this segment, inclusive.
        self.base_offset = base_offset
        # The log file, and the batches in it.
        name = self._path + file_names.LOG_SUFFIX + second_suffix
        self.file: File = disk.new_file(name) if is_new else disk.open(name, create=True)
        contiguous = "compact" not in config.cleanup_policy
        self.batches = BatchFile(self.file, base_offset, contiguous=contiguous)
        self.offset_index = OffsetIndex(base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(base_offset, config.segment_index_bytes)
        txn_name = self._path + file_names.TXN_INDEX_SUFFIX + second_suffix
        self.txn_index = TransactionIndex(disk, txn_name)
        # Largest batch timestamp, -1 without any; of which batch (its last offset).
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        # Max timestamp of the first batch, from which `segment.ms` counts; -1 when not known yet.
        self.first_timestamp = -1
        # Wall time of the first append in this run, the fallback for `segment.ms`; -1 before it.
        self.created_ms = -1
        # Whether something was appended that no requested flush covers.
        self.dirty = False
        # Whether the files of offset and time index are what sealing would write.
        self.indexes_are_saved = False
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
        self.indexes_are_saved = False
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
        """Whether a new segment must begin before `size_bytes` of batches are appended. `incoming`
        is the last of them. An empty segment is rolled only when the offset would not fit, since a
        new one would be the same."""
        current_bytes = self.size_bytes
        if not current_bytes:
            return incoming.last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        if current_bytes + size_bytes > config.segment_bytes:
            return True
        if self.first_timestamp >= 0:
            waited_ms = incoming.max_timestamp - self.first_timestamp
        else:
            waited_ms = wall_ms - self.created_ms if wall_ms >= 0 <= self.created_ms else 0
        longest_ms = config.segment_ms
        if "compact" in config.cleanup_policy:
            # The active segment is never cleaned.
            longest_ms = min(longest_ms, config.max_compaction_lag_ms)
        if waited_ms > longest_ms - self._jitter_ms(config):
            return True
        return not self.can_take(incoming.last_offset, size_bytes)

    def can_take(self, last_offset: int, size_bytes: int) -> bool:
        """Whether its files have a place for batches, however large or old it may be."""
        most = max(last_offset - self.base_offset, self.size_bytes + size_bytes)
        is_full = self.offset_index.is_full or self.time_index.is_full
        return most <= MAX_RELATIVE_OFFSET and not is_full

    def _jitter_ms(self, config: LogConfig) -> int:
        """By how much this segment is rolled early: its name decides, so that a run repeats."""
        most = min(config.segment_jitter_ms, config.segment_ms)
        return int(crc32c.crc32c(self._path.encode())) % most if most else 0

    def write_indexes(self) -> list[File]:
        """Seals the indexes: writes their files; returns them open, for the flush to come."""
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        files: list[File] = []
        for suffix, index in (
            (file_names.INDEX_SUFFIX, self.offset_index),
            (file_names.TIME_INDEX_SUFFIX, self.time_index),
        ):
            name = self._path + suffix + self._second_suffix
            files.append(self._disk.open(name, create=True))
            files[-1].truncate(0)
            files[-1].append((index.encode(),))
        self.indexes_are_saved = True
        return files

    # Looking ---------------------------------------------------------------------------------

    def locate(self, offset: int) -> int | None:
        """Position of the first batch whose last offset reaches `offset`; `None` without one.
        Raises `LogDamaged`."""
        return self.batches.locate(offset, self.offset_index.entry_for(offset))

    def end_below(self, offset: int) -> int:
        """One past the last batch that ends below `offset`. Raises `LogDamaged`."""
        return self.batches.end_below(offset, self.offset_index.entry_for(offset - 1))

    def next_offset(self) -> int:
        """One past the last batch. Raises `LogDamaged`."""
        return self.batches.next_offset(self.offset_index.last_entry)

    def header_of(self, offset: int) -> BatchHeader | None:
        """The header of the batch that holds `offset`; `None` when it cannot be found."""
        try:
            position = self.locate(offset)
        except LogDamaged:
            return None
        return None if position is None else self.batches.header_at(position)

    # Changing --------------------------------------------------------------------------------

    def load_indexes(self) -> BadIndex | None:
        """Reads the index files; returns the first that is not there or not sound, if one is."""
        nonsense = "its entries make no sense"
        index = self._disk.read_file(self._path + file_names.INDEX_SUFFIX)
        if index is None:
            return BadIndex(file_names.INDEX_SUFFIX, MISSING)
        time_index = self._disk.read_file(self._path + file_names.TIME_INDEX_SUFFIX)
        if time_index is None:
            return BadIndex(file_names.TIME_INDEX_SUFFIX, MISSING)
        if not self.offset_index.load(index, self.size_bytes):
            return BadIndex(file_names.INDEX_SUFFIX, nonsense)
        if not self.time_index.load(time_index):
            return BadIndex(file_names.TIME_INDEX_SUFFIX, nonsense)
        if not self.txn_index.load():
            return BadIndex(file_names.TXN_INDEX_SUFFIX, nonsense)
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry
        self.load_first_timestamp()
        if not self._agrees(*self.time_index.last_entry):
            return BadIndex(file_names.TIME_INDEX_SUFFIX, "the log has other batches")
        if not self._has_markers():
            return BadIndex(file_names.TXN_INDEX_SUFFIX, "the log has other markers")
        self.indexes_are_saved = True
        return None

    def _agrees(self, timestamp: int, offset: int) -> bool:
        """Whether an entry of the time index is that of a batch in the log."""
        if timestamp < 0:
            # Sealing adds an entry wherever a batch has a timestamp.
            return self.first_timestamp < 0
        header = self.header_of(offset)
        found = header and (header.max_timestamp, header.last_offset)
        return found == (timestamp, offset)

    def _has_markers(self) -> bool:
        """Whether the log has the abort markers that the transaction index lists."""
        headers = ((self.header_of(entry.last_offset), entry) for entry in self.txn_index.entries)
        return all(
            header is not None and header.is_control and header.producer_id == entry.producer_id
            for header, entry in headers
        )

    def load_first_timestamp(self) -> None:
        """Reads the timestamp of the first batch, from which `segment.ms` counts."""
        head = self.batches.file.read(0, HEADER_BYTES)
        self.first_timestamp = -1
        if len(head) == HEADER_BYTES:
            self.first_timestamp = int.from_bytes(head[35:43], "big", signed=True)

    def rebuild(self, index_interval_bytes: int) -> Iterator[ScannedBatch]:
        """Makes the offset and the time index anew by a full scan, yielding each batch. Raises
        `LogDamaged` at the first damaged batch; the indexes then end right before it."""
        self.indexes_are_saved = False
        self.offset_index.clear()
        self.time_index.clear()
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        position = last_entry_position = 0
        try:
            for batch in self.batches.scan():
                header = batch.header
                if header.max_timestamp > self.max_timestamp:
                    self.max_timestamp = header.max_timestamp
                    self.max_timestamp_offset = header.last_offset
                if position - last_entry_position > index_interval_bytes:
                    self._add_index_entry(header.last_offset, position)
                    last_entry_position = position
                position += header.size_bytes
                yield batch
        except LogDamaged:
            self._end_rebuild()
            raise
        # Not when the caller gives up: its process may be gone, and so are its files.
        self._end_rebuild()

    def _end_rebuild(self) -> None:
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self._bytes_since_index_entry = 0
        self.load_first_timestamp()

    def reindex(self, index_interval_bytes: int) -> None:
        """Makes offset and time index anew, in memory and on the disk, not yet durable. Raises
        `LogDamaged` when it is the log file that is wrong."""
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
        self.indexes_are_saved = False
        self._bytes_since_index_entry = 0
        self._reload_max_timestamp()
        if not self.size_bytes:
            self.first_timestamp = self.created_ms = -1

    def _reload_max_timestamp(self) -> None:
        """The time index may miss the newest batches, so they are looked at again."""
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry
        position = self.offset_index.last_entry[1]
        while position < self.size_bytes:
            header = self.batches.header_at(position)
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
            position += header.size_bytes

    def unsynced_files(self) -> list[File]:
        """The files that a flush of this segment must cover."""
        txn_file = self.txn_index.file
        return [self.file] if txn_file is None else [txn_file, self.file]

    def close(self) -> None:
        """Releases the files."""
        self.file.close()
        self.txn_index.close()

    def set_aside(self) -> None:
        """Gives all files a name that is no longer part of the log; not durable yet. Files that
        are open can still be read."""
        self.rename("", file_names.DELETED_SUFFIX)

    def move_to(self, directory: str) -> None:
        """The log's directory has another name; open files have their new paths already."""
        self._path = f"{directory}/{file_names.offset_name(self.base_offset)}"
        self.txn_index.path = self._path + file_names.TXN_INDEX_SUFFIX + self._second_suffix

    def rename(self, former: str, second_suffix: str) -> None:
        """Gives all files another second suffix; not durable yet. What has that name goes."""
        for suffix in file_names.SEGMENT_SUFFIXES:
            path = self._path + suffix
            if self._disk.exists(path + former):
                self._disk.delete(path + second_suffix, durable=False)
                self._disk.rename(path + former, path + second_suffix)
        self._second_suffix = second_suffix

    def delete(self) -> None:
        """Deletes all files of the segment."""
        self.close()
        for suffix in file_names.SEGMENT_SUFFIXES:
            self._disk.delete(self._path + suffix + self._second_suffix)

    def reopened(self) -> File:
        """The log file under its present name, open once more."""
        return self._disk.open(self._path + file_names.LOG_SUFFIX + self._second_suffix)

    def reopened_indexes(self) -> list[File]:
        """The files of its saved indexes, open once more, for a flush."""
        suffixes = (file_names.INDEX_SUFFIX, file_names.TIME_INDEX_SUFFIX)
        return [self._disk.open(self._path + suffix) for suffix in suffixes]

    def in_place(self, config: LogConfig) -> "Segment":
        """The segment of these files when they have their plain names; this one is closed."""
        self.close()
        directory = self._path.rpartition("/")[0]
        placed = Segment(self._disk, directory, self.base_offset, config)
        placed.batches.contiguous = False
        placed.offset_index, placed.time_index = self.offset_index, self.time_index
        placed.max_timestamp = self.max_timestamp
        placed.max_timestamp_offset = self.max_timestamp_offset
        placed.first_timestamp, placed.created_ms = self.first_timestamp, self.created_ms
        placed.txn_index.load()
        return placed
