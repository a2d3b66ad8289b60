"""Record batch v2 as bytes: header view, checksum, stamping, building and reading.

A batch is the unit of everything: clients send it, leaders stamp it, followers copy it, disks and
sockets carry it unchanged. Its header is 61 bytes, big endian:

    0  base_offset i64      8 length i32 (bytes after this field)    12 leader_epoch i32
    16 magic i8 = 2        17 crc u32 (CRC-32C of byte 21 to the end)
    21 attributes i16      23 last_offset_delta i32                  27 base_timestamp i64
    35 max_timestamp i64   43 producer_id i64                        51 producer_epoch i16
    53 base_sequence i32   57 record count i32                       61 records

Base offset, length, epoch and magic lie before the checksummed part, so a leader stamps offset
and epoch without touching the checksum (`patch_base`, `stamp`). A batch keeps its base and last
offset for ever, also when compaction removes records; readers must therefore take the next offset
from `last_offset + 1` and never from the number of records.

Invariants
- The header alone has offsets, sizes, times and producer; no hot path looks behind byte 61.
- `read_header` accepts only a header whose whole batch lies inside the buffer.
- What `build_batch` makes, `decode_batch` reads back, for every codec.

Left out: message formats v0 and v1, which Kafka 4 no longer accepts either.

Source: KIP-98 (format v2), KIP-534 (delete horizon); Kafka's documentation, "Message format".
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import crc32c as _crc32c

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch
from tidelog.limits import MAX_DECOMPRESSED_BATCH_BYTES, MAX_INSPECTED_AT_ONCE_BYTES
from tidelog.records.compression import Codec, compress, inflate
from tidelog.records.record import Record, decode_records, decode_values, encode_records

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and length: what must be read to know where the next batch begins."""

MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_START: Final = 21
"""The first byte that the checksum covers."""

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

SEQUENCE_COUNT: Final = 2**31
"""Sequences run from 0 to 2**31 - 1 and then start again at 0."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_STAMP: Final = struct.Struct(">qii")
_OVERHEAD: Final = struct.Struct(">qi")
_CHECKED_HEADER: Final = struct.Struct(">hiqqqhii")
_crc = _crc32c.crc32c


class BatchHeader(NamedTuple):
    """The 61 bytes at the head of a batch."""

    base_offset: int
    length: int
    """Bytes after the length field; the batch has 12 more."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Timestamp of the first record; the delete horizon when that attribute is set."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive; survives compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapped; -1 without sequences."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_COUNT

    @property
    def codec(self) -> int:
        """Number of the compression codec, see `compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record carries `max_timestamp`, set by the broker."""
        return self.attributes & TIMESTAMP_TYPE_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction (data or marker)."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on the batch's tombstones or its marker may be removed; `None` when a cleaner
        has not decided that yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def is_control(self) -> bool:
        """Whether its records are for the log's readers, not for applications."""
        return self.attributes & CONTROL_FLAG != 0


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the batch at `pos`. Raises `CorruptBatch` when no whole v2 batch lies there.
    The checksum is not verified."""
    if pos < 0 or len(buf) - pos < HEADER_BYTES:
        raise CorruptBatch(f"batch header needs {HEADER_BYTES} bytes, {len(buf) - pos} left")
    # `BatchHeader._make` without its count of the fields, which the layout has counted: every batch
    # passes here several times.
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(buf, pos))
    if header.magic != MAGIC:
        raise CorruptBatch(f"batch magic is `{header.magic}`, expected {MAGIC}")
    if not HEADER_BYTES <= header.length + LOG_OVERHEAD_BYTES <= len(buf) - pos:
        raise CorruptBatch(f"batch length `{header.length}` with {len(buf) - pos} bytes left")
    if header.last_offset_delta < 0 or header.base_offset < 0:
        offsets = f"`{header.base_offset}` + `{header.last_offset_delta}`"
        raise CorruptBatch(f"batch offsets {offsets} are negative")
    return header


def iter_headers(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch in `buf`, which must hold whole batches only. Raises
    `CorruptBatch` where no batch begins."""
    pos = 0
    end = len(buf)
    while pos < end:
        header = read_header(buf, pos)
        yield pos, header
        pos += header.length + LOG_OVERHEAD_BYTES


def batch_size_at(buf: Buffer, pos: int) -> int | None:
    """Bytes of the batch that begins at `pos`, also when it is cut; `None` without a length."""
    if len(buf) - pos < LOG_OVERHEAD_BYTES:
        return None
    length: int = _OVERHEAD.unpack_from(buf, pos)[1]
    return length + LOG_OVERHEAD_BYTES


def crc_of(buf: Buffer, pos: int, size_bytes: int) -> int:
    """CRC-32C of the checksummed part of the batch at `pos`."""
    crc: int = _crc(memoryview(buf)[pos + CRC_START : pos + size_bytes])
    return crc


def verify_crc(buf: Buffer, pos: int = 0) -> bool:
    """Whether the checksum of the (structurally whole) batch at `pos` is right."""
    header = read_header(buf, pos)
    return crc_of(buf, pos, header.size_bytes) == header.crc


def patch_base(buf: bytearray, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Stamps offset and epoch in place; the checksum does not cover them."""
    length = _OVERHEAD.unpack_from(buf, pos)[1]
    _STAMP.pack_into(buf, pos, base_offset, length, leader_epoch)


def stamp(batch: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """A copy of one whole batch with offset and epoch stamped; one allocation, one copy."""
    prefix = _STAMP.pack(base_offset, len(batch) - LOG_OVERHEAD_BYTES, leader_epoch)
    return b"".join((prefix, memoryview(batch)[16:]))


def stamp_log_append_time(
    batch: Buffer, base_offset: int, leader_epoch: int, timestamp: int
) -> bytes:
    """As `stamp`, and turns the batch into LogAppendTime with a new checksum."""
    data = bytearray(batch)
    patch_base(data, 0, base_offset, leader_epoch)
    attributes = int.from_bytes(data[21:23], "big") | TIMESTAMP_TYPE_FLAG
    data[21:23] = attributes.to_bytes(2, "big")
    data[35:43] = timestamp.to_bytes(8, "big", signed=True)
    data[17:21] = crc_of(data, 0, len(data)).to_bytes(4, "big")
    return bytes(data)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp_type: int = CREATE_TIME,
    is_control: bool = False,
    is_transactional: bool = False,
) -> bytes:
    """One batch of at least one record; offsets run from `base_offset` without gaps. The `offset`
    of the given records is ignored. With LogAppendTime the largest timestamp counts for all
    records."""
    assert records, "a batch has at least one record"
    base_timestamp = records[0].timestamp
    body = compress(codec, encode_records(records, base_timestamp))
    attributes = (
        codec
        | (TIMESTAMP_TYPE_FLAG if timestamp_type == LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
    )
    checked = _CHECKED_HEADER.pack(
        attributes,
        len(records) - 1,
        base_timestamp,
        max(record.timestamp for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    crc = _crc(body, _crc(checked))
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(body)
    unchecked = struct.pack(">qiibI", base_offset, length, leader_epoch, MAGIC, crc)
    return b"".join((unchecked, checked, body))


def repack(
    header: BatchHeader, body: bytes | memoryview, codec: Codec, max_timestamp: int
) -> bytes:
    """A client's batch with this body, in another codec."""
    attributes = header.attributes & TRANSACTIONAL_FLAG | codec
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    return rebuild(changed, compress(codec, body))


def rebuild(header: BatchHeader, body: bytes) -> bytes:
    """A batch with this header and this body, as compressed as the header says. Length, checksum
    and magic are set; everything else is the header's, its offsets too."""
    checked = _CHECKED_HEADER.pack(*header[5:])
    crc = _crc(body, _crc(checked))
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(body)
    unchecked = struct.pack(">qiibI", header.base_offset, length, header.leader_epoch, MAGIC, crc)
    return b"".join((unchecked, checked, body))


def decode_batch(buf: Buffer) -> list[Record]:
    """All records of the one batch at the head of `buf`, control records included. Raises
    `CorruptBatch` when the checksum is wrong or the records cannot be read."""
    header = read_header(buf)
    if crc_of(buf, 0, header.size_bytes) != header.crc:
        raise CorruptBatch(f"batch at offset `{header.base_offset}` has a wrong checksum")
    return decode_body(buf, 0, header)


def inspected_body(
    buf: Buffer, pos: int, header: BatchHeader, most_bytes: int, most_records: int
) -> bytes | memoryview:
    """The inflated records of a batch, for a broker that looks inside. Keys and values of a large
    one are views of it: to copy megabytes would keep Python's other threads from their work. Raises
    `CorruptBatch` for a batch that would take it too long."""
    if header.record_count > most_records:
        raise CorruptBatch(f"{header.record_count} records, at most {most_records}")
    body = _inflated(buf, pos, header, most_bytes)
    return bytes(body) if len(body) <= MAX_INSPECTED_AT_ONCE_BYTES else body


def decode_body(buf: Buffer, pos: int, header: BatchHeader) -> list[Record]:
    """The records of the batch at `pos` whose header and checksum were checked before."""
    return _records_in(inflate_body(buf, pos, header), header)


def values_of(buf: Buffer, pos: int, header: BatchHeader) -> list[bytes]:
    """Their values alone, empty where there is none."""
    values = decode_values(inflate_body(buf, pos, header), header.record_count)
    return [value or b"" for value in values]


def inflate_body(buf: Buffer, pos: int, header: BatchHeader) -> bytes:
    """The records of the batch at `pos` as the bytes that they are. Raises `CorruptBatch`."""
    return bytes(_inflated(buf, pos, header, MAX_DECOMPRESSED_BATCH_BYTES))


def _inflated(buf: Buffer, pos: int, header: BatchHeader, most_bytes: int) -> bytes | memoryview:
    with memoryview(buf) as view:
        block = bytes(view[pos + HEADER_BYTES : pos + header.size_bytes])
    return inflate(header.codec, block, most_bytes)


def _records_in(body: bytes, header: BatchHeader) -> list[Record]:
    return decode_records(
        body,
        count=header.record_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        fixed_timestamp=header.max_timestamp if header.is_log_append_time else None,
    )
