"""What is in an answer, and what a replica holds, as records with offsets and epochs."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidelog.env.disk import FileSlice
from tidelog.env.effects import Chunk
from tidelog.log.log import Log
from tidelog.records.batch import decode_batch, iter_headers
from tidelog.wire.fetch import FetchedPartition


class Written(NamedTuple):
    """A record as a replica holds it."""

    offset: int
    leader_epoch: int
    value: bytes | None


def joined(chunks: Iterable[Chunk]) -> bytes:
    """Chunks as one string of bytes."""
    return b"".join(
        chunk.file.read(chunk.position, chunk.length) if isinstance(chunk, FileSlice) else chunk
        for chunk in chunks
    )


def values_in(part: FetchedPartition) -> list[bytes]:
    """The values of all records in an answer."""
    return [record.value or b"" for record in _records_in(joined(part.records))]


def written_in(part: FetchedPartition) -> list[Written]:
    """All records in an answer, with their offsets."""
    return list(_records_in(joined(part.records)))


def _records_in(data: bytes) -> Iterator[Written]:
    for position, header in iter_headers(data):
        for record in decode_batch(data[position : position + header.size_bytes]):
            yield Written(record.offset, header.leader_epoch, record.value)


def records_of(log: Log, upto: int | None = None) -> list[Written]:
    """The records from the log start to `upto` (the log end), read as a follower would."""
    end = log.log_end_offset if upto is None else upto
    found: list[Written] = []
    offset = log.log_start_offset
    while offset < end:
        read = log.read(offset, 1 << 20, end, at_least_one=True)
        if not read.size_bytes:
            break
        found += _records_in(joined(read.chunks))
        offset = read.next_offset
    return found
