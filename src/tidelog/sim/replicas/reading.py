"""What is in an answer, and what a replica holds, as records with offsets and epochs."""

from typing import NamedTuple

from tidelog.kraft.committed import contiguous
from tidelog.log.log import Log
from tidelog.records.batch import decode_batch, iter_headers
from tidelog.sim.evidence.oracle import committed_chunks
from tidelog.wire.fetch import FetchedPartition


class Written(NamedTuple):
    """A record as a replica holds it."""

    offset: int
    leader_epoch: int
    value: bytes | None


def values_in(part: FetchedPartition) -> list[bytes]:
    """The values of all records in an answer."""
    return [record.value or b"" for record in written_in(part)]


def written_in(part: FetchedPartition) -> list[Written]:
    """All records in an answer, with their offsets."""
    return _records_in(contiguous(part.records))


def records_of(log: Log, upto: int | None = None) -> list[Written]:
    """The records from the log start to `upto` (the log end), read as a follower would."""
    end = log.log_end_offset if upto is None else upto
    chunks = committed_chunks(log, log.log_start_offset, end)
    return [record for data in chunks for record in _records_in(data)]


def _records_in(data: bytes) -> list[Written]:
    return [
        Written(record.offset, header.leader_epoch, record.value)
        for position, header in iter_headers(data)
        for record in decode_batch(data[position : position + header.size_bytes])
    ]
