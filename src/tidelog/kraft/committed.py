"""Reads the committed prefix of the metadata log and hands it out, each batch once.

The state machine above is rebuilt from the log at every start, so reading begins at the log's
start. (When snapshots come, it begins at the newest one.) The reader never passes the high
watermark, and the log is never truncated below it; what was handed out stays true.

Invariant *CommittedOnce*: batches come without gap and without overlap, in offset order.
"""

from collections.abc import Sequence
from typing import Final

from tidelog.env.disk import FileSlice
from tidelog.env.effects import Chunk
from tidelog.errors import CorruptBatch, StorageError
from tidelog.kraft.messages import CommittedBatch
from tidelog.log.log import Log
from tidelog.log.values import LogRead
from tidelog.records.batch import BatchHeader, crc_of, decode_body, iter_headers

READ_BYTES: Final = 1 << 20
"""How much is read at a time; one batch larger than that is read whole."""


def contiguous(chunks: Sequence[Chunk]) -> bytes:
    """The bytes of all chunks, with file slices read from their files."""
    return b"".join(
        chunk.file.read(chunk.position, chunk.length) if isinstance(chunk, FileSlice) else chunk
        for chunk in chunks
    )


def read_own(log: Log, offset: int, max_bytes: int, upper_offset: int) -> LogRead:
    """At least one batch from `offset` on, below `upper_offset`.

    Raises `StorageError` when the disk gives damaged bytes: nobody but it can be blamed for what
    is in the own log.
    """
    try:
        return log.read(offset, max_bytes, upper_offset, at_least_one=True)
    except CorruptBatch as error:
        raise StorageError(str(log.topic_partition), error.message) from error


class CommittedReader:
    """The place up to which the committed log was handed out."""

    __slots__ = ("_log", "next_offset")

    def __init__(self, log: Log) -> None:
        self._log = log
        # The offset of the next record to hand out; at or below the high watermark.
        self.next_offset: int = log.log_start_offset

    def take(self, high_watermark: int) -> list[CommittedBatch]:
        """All committed batches that were not handed out yet.

        Raises `StorageError` when the log cannot be read or a batch is damaged.
        """
        batches: list[CommittedBatch] = []
        while self.next_offset < high_watermark:
            read = read_own(self._log, self.next_offset, READ_BYTES, high_watermark)
            assert read.size_bytes > 0, f"nothing at {self.next_offset} below {high_watermark}"
            data = contiguous(read.chunks)
            for position, header in iter_headers(data):
                batches.append(self._decode(data, position, header))
            assert self.next_offset == read.next_offset, (
                f"CommittedOnce: read to {read.next_offset}, decoded to {self.next_offset}"
            )
        return batches

    def _decode(self, data: bytes, position: int, header: BatchHeader) -> CommittedBatch:
        assert header.base_offset == self.next_offset, (
            f"CommittedOnce: {header.base_offset} where {self.next_offset} was due"
        )
        # The log may lie on a medium that decays: what is damaged must not reach the state machine.
        if crc_of(data, position, header.size_bytes) != header.crc:
            path = str(self._log.topic_partition)
            raise StorageError(path, f"damaged batch at offset {header.base_offset}")
        records = decode_body(data, position, header)
        self.next_offset = header.last_offset + 1
        return CommittedBatch(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            epoch=header.leader_epoch,
            append_time_ms=header.max_timestamp,
            records=[record.value or b"" for record in records],
            is_control=header.is_control,
        )
