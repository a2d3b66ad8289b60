"""The batches of a fetch response that a follower may append: whole, undamaged, of known epochs.

They are appended exactly as the leader sent them. A cut last batch is normal: the leader fills the
response up to the byte limit. Where a batch has a higher epoch than that of the fetch, it and all
behind it are left out: this replica has not yet reconciled with that leader (KAFKA-18723).
"""

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch
from tidelog.log.segment import BatchSpan
from tidelog.records.batch import BatchHeader, batch_size_at, crc_of, read_header


class FetchedBatches:
    """The batches at the head of a fetch response that may be appended."""

    __slots__ = ("end", "headers", "spans")

    def __init__(self) -> None:
        # Headers and spans of the accepted batches, in order.
        self.headers: list[BatchHeader] = []
        self.spans: list[BatchSpan] = []
        # Where the accepted batches end in the response.
        self.end = 0


def scan_fetched(records: Buffer, max_epoch: int) -> FetchedBatches:
    """The batches of `records` to append.

    Raises `CorruptBatch` when one is damaged or its offsets are not above those before it.
    """
    found = FetchedBatches()
    pos = next_offset = 0
    length = len(records)
    while True:
        size_bytes = batch_size_at(records, pos)
        if size_bytes is None or (size_bytes > 0 and pos + size_bytes > length):
            break
        header = read_header(records, pos)
        if header.leader_epoch > max_epoch:
            break
        base_offset = header.base_offset
        if base_offset < next_offset:
            raise CorruptBatch(f"offset `{base_offset}` follows `{next_offset - 1}`")
        if crc_of(records, pos, size_bytes) != header.crc:
            raise CorruptBatch(f"batch at offset `{base_offset}` has a wrong checksum")
        last_offset = base_offset + header.last_offset_delta
        found.headers.append(header)
        found.spans.append(BatchSpan(base_offset, last_offset, header.max_timestamp, size_bytes))
        next_offset = last_offset + 1
        pos += size_bytes
    found.end = pos
    return found
