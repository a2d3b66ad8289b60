"""Reads the committed prefix of the metadata log and hands it out, each batch once.

The state machine above is rebuilt at every start: from the newest snapshot, which is handed out
first, and the log behind it. The reader never passes the high watermark, and the log is never
truncated below it; what was handed out stays true. A snapshot from the leader takes the place of
everything before its end (`restart`).

A replica that lost its snapshot and keeps a log that begins above 0 hands out what the leader sends
of the time before (`feed`), until its own log goes on. All of that is committed: the log's start
never passes the high watermark.

Invariant *CommittedOnce*: batches come without gap and without overlap, in offset order; a
snapshot only at or above what was handed out.
"""

import sys
from collections.abc import Sequence
from typing import Final

from tidelog.env.disk import FileSlice
from tidelog.env.effects import Chunk
from tidelog.errors import CorruptBatch, StorageError
from tidelog.kraft.messages import Committed, CommittedBatch, LoadedSnapshot
from tidelog.kraft.snapshot_format import SnapshotContent
from tidelog.log.batch_file import LogRead
from tidelog.log.log import Log
from tidelog.records.batch import BatchHeader, crc_of, iter_headers, values_of

READ_BYTES: Final = 1 << 16
"""How much is read at a time; one batch larger than that is read whole."""


def contiguous(chunks: Sequence[Chunk]) -> bytes:
    """The bytes of all chunks, with file slices read from their files."""
    return b"".join(
        chunk.file.read(chunk.position, chunk.length) if isinstance(chunk, FileSlice) else chunk
        for chunk in chunks
    )


def read_own(log: Log, offset: int, max_bytes: int, upper_offset: int) -> LogRead:
    """At least one batch from `offset` on, below `upper_offset`.

    Raises `StorageError` when the disk gives damaged bytes: only the disk can be at fault for
    what is in the own log.
    """
    try:
        return log.read(offset, max_bytes, upper_offset, at_least_one=True)
    except CorruptBatch as error:
        raise StorageError(str(log.topic_partition), error.message) from error


class CommittedReader:
    """The place up to which the committed log was handed out."""

    def __init__(self, log: Log) -> None:
        self._log = log
        # The offset of the next record to hand out; at or below the high watermark.
        self.next_offset: int = log.log_start_offset
        # The epoch of the record before it; 0 when there is none or it is not known.
        self.last_epoch: int = 0
        # What is to be handed out before the log goes on.
        self._ready: list[Committed] = []

    def begin_at_zero(self) -> None:
        """Nothing is known of what came before the log's start; it is fed."""
        self.next_offset = 0

    def restart(self, content: SnapshotContent) -> None:
        """The state below a snapshot's end is this; the log goes on from there."""
        snapshot_id = content.snapshot_id
        assert snapshot_id.end_offset >= self.next_offset or not self._log_reaches_back, (
            f"CommittedOnce: snapshot {snapshot_id} below {self.next_offset}"
        )
        self.next_offset, self.last_epoch = snapshot_id
        self._ready = [LoadedSnapshot(snapshot_id, content.append_time_ms, content.records)]

    @property
    def _log_reaches_back(self) -> bool:
        return self.next_offset >= self._log.log_start_offset

    def feed(self, data: bytes) -> None:
        """Whole batches from the leader that continue what was handed out, up to the log's start.

        Raises `CorruptBatch` when they are damaged or are something else; what came before the
        fault counts.
        """
        log_start_offset = self._log.log_start_offset
        for position, header in iter_headers(data):
            if self.next_offset >= log_start_offset:
                return
            if header.base_offset != self.next_offset or header.last_offset >= log_start_offset:
                raise CorruptBatch(
                    f"offsets `{header.base_offset}` to `{header.last_offset}` where "
                    f"`{self.next_offset}` was due"
                )
            if crc_of(data, position, header.size_bytes) != header.crc:
                raise CorruptBatch(f"batch at offset `{header.base_offset}` has a wrong checksum")
            self._ready.append(self._decode(data, position, header))

    def has_more(self, high_watermark: int) -> bool:
        """Whether `take` has something."""
        return bool(self._ready) or (self._log_reaches_back and self.next_offset < high_watermark)

    def take(self, high_watermark: int, most_records: int = sys.maxsize) -> list[Committed]:
        """What is committed and was not handed out yet, up to the batch that reaches so many
        records.

        Raises `StorageError` when the log cannot be read or a batch is damaged.
        """
        taken, self._ready = self._ready, []
        stop_at = self.next_offset + most_records
        while self._log_reaches_back and self.next_offset < min(high_watermark, stop_at):
            read = read_own(self._log, self.next_offset, READ_BYTES, high_watermark)
            assert read.size_bytes > 0, (
                f"CommittedForever: nothing at {self.next_offset} below {high_watermark}"
            )
            data = contiguous(read.chunks)
            for position, header in iter_headers(data):
                taken.append(self._decode_own(data, position, header))
                if self.next_offset >= stop_at:
                    break
            assert self.next_offset == read.next_offset or self.next_offset >= stop_at, (
                f"CommittedOnce: read to {read.next_offset}, decoded to {self.next_offset}"
            )
        return taken

    def _decode_own(self, data: bytes, position: int, header: BatchHeader) -> CommittedBatch:
        assert header.base_offset == self.next_offset, (
            f"CommittedOnce: {header.base_offset} where {self.next_offset} was due"
        )
        # The log may lie on a medium that decays: what is damaged must not reach the state machine.
        if crc_of(data, position, header.size_bytes) != header.crc:
            path = str(self._log.topic_partition)
            raise StorageError(path, f"damaged batch at offset {header.base_offset}")
        return self._decode(data, position, header)

    def _decode(self, data: bytes, position: int, header: BatchHeader) -> CommittedBatch:
        values = values_of(data, position, header)
        self.next_offset = header.last_offset + 1
        self.last_epoch = header.leader_epoch
        return CommittedBatch(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            epoch=header.leader_epoch,
            append_time_ms=header.max_timestamp,
            records=values,
            is_control=header.is_control,
            size_bytes=header.size_bytes,
        )

    def check(self, high_watermark: int) -> None:
        """Asserts that nothing was handed out before it was committed."""
        assert self.next_offset <= high_watermark, (
            f"CommittedOnce: handed out to {self.next_offset}, committed to {high_watermark}"
        )
