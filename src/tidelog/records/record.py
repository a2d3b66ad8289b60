"""One record and its varint encoding inside a batch body.

    length varint | attributes i8 = 0 | timestamp_delta varlong | offset_delta varint
    | key length varint (-1 null) key | value length varint (-1 null) value
    | header count varint, each: key length varint, utf-8 key, value length varint (-1 null), value

All varints are zig-zag encoded with seven bits a byte, the lowest group first. Deltas are relative
to the batch header, so a batch can be moved to another base offset without touching its records.

Reading a record costs a few microseconds of Python; this module is for state machines, tools and
tests, and for the checks that cannot be made on a header. It is on no fetch path.

Source: KIP-98; Kafka's documentation, "Record".
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.errors import CorruptBatch

MIN_RECORD_BYTES: Final = 7
"""A record of null key and null value: six varints of one byte and the attributes."""

_SHORT_VARINTS: Final = tuple(
    bytes((value << 1,)) if value < 64 else bytes((value << 1 & 127 | 128, value >> 6))
    for value in range(1 << 13)
)
"""By value: lengths and offsets that take a byte or two."""
_NULL: Final = b"\x01"
_PLAIN_BYTES: Final = 4
"""Of a record with its batch's timestamp and a value only: attributes, that timestamp, the null key
and the number of headers, beside the value, its size and the offset."""
_MASK_64: Final = (1 << 64) - 1


Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record with absolute timestamp and offset."""

    timestamp: int
    """Milliseconds since 1970; -1 when the producer gave none."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    offset: int = 0


def encode_varint(value: int) -> bytes:
    """Zig-zag encoding of a signed integer of up to 64 bits."""
    if 0 <= value < len(_SHORT_VARINTS):
        return _SHORT_VARINTS[value]
    folded = (value << 1) ^ (value >> 63) if value < 0 else value << 1
    folded &= _MASK_64
    out = bytearray()
    while folded > 127:
        out.append(folded & 127 | 128)
        folded >>= 7
    out.append(folded)
    return bytes(out)


def decode_varint(buf: bytes, pos: int) -> tuple[int, int]:
    """(value, position after it). Raises `CorruptBatch` when it is cut or too long."""
    try:
        byte = buf[pos]
        if byte < 128:
            return (byte >> 1) ^ -(byte & 1), pos + 1
        shift = folded = 0
        while True:
            byte = buf[pos]
            pos += 1
            folded |= (byte & 127) << shift
            if byte < 128:
                return (folded >> 1) ^ -(folded & 1), pos
            shift += 7
            if shift > 63:
                raise CorruptBatch("varint is longer than 10 bytes")
    except IndexError:
        raise CorruptBatch("record ends inside a varint") from None


def encode_records(records: Sequence[Record], base_timestamp: int) -> bytes:
    """The uncompressed body of a batch; offset deltas are 0..n-1."""
    parts: list[bytes] = []
    for delta, record in enumerate(records):
        timestamp, key, value, headers, _ = record
        if key is None and value is not None and not headers and timestamp == base_timestamp:
            # So are all records of the metadata, of which a topic may have thousands.
            offset_delta, size = encode_varint(delta), encode_varint(len(value))
            length = _PLAIN_BYTES + len(offset_delta) + len(size) + len(value)
            parts += encode_varint(length), b"\0\0", offset_delta, _NULL, size, value, b"\0"
            continue
        body = _encode_record(record, timestamp - base_timestamp, delta)
        parts += encode_varint(len(body)), body
    return b"".join(parts)


def _encode_record(record: Record, timestamp_delta: int, offset_delta: int) -> bytes:
    parts = [b"\x00", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    _put_nullable(parts, record.key)
    _put_nullable(parts, record.value)
    parts.append(encode_varint(len(record.headers)))
    for name, value in record.headers:
        _put_nullable(parts, name.encode())
        _put_nullable(parts, value)
    return b"".join(parts)


def _put_nullable(parts: list[bytes], value: bytes | None) -> None:
    if value is None:
        parts.append(_NULL)
    else:
        parts += encode_varint(len(value)), value


def decode_records(
    body: bytes,
    *,
    count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None = None,
) -> list[Record]:
    """Exactly `count` records that fill `body`; `fixed_timestamp` is LogAppendTime's. Raises
    `CorruptBatch` for anything else."""
    if count < 0:
        raise CorruptBatch(f"record count `{count}` is negative")
    records: list[Record] = []
    pos = 0
    for _ in range(count):
        timestamp_delta, offset_delta, key, value, headers, pos = decode_record(body, pos)
        timestamp = base_timestamp + timestamp_delta if fixed_timestamp is None else fixed_timestamp
        records.append(Record(timestamp, key, value, headers, base_offset + offset_delta))
    if pos != len(body):
        raise CorruptBatch(f"{len(body) - pos} bytes after the last of {count} records")
    return records


def decode_values(body: bytes, count: int) -> list[bytes | None]:
    """The values of the same records, for readers who need nothing else: in a third of the time
    where there are no keys. Raises `CorruptBatch`."""
    if count < 0:
        raise CorruptBatch(f"record count `{count}` is negative")
    values: list[bytes | None] = []
    pos = 0
    for _ in range(count):
        value, pos = _plain_value(body, pos) or _value_of(body, pos)
        values.append(value)
    if pos != len(body):
        raise CorruptBatch(f"{len(body) - pos} bytes after the last of {count} records")
    return values


def _value_of(body: bytes, pos: int) -> tuple[bytes | None, int]:
    _, _, _, value, _, end = decode_record(body, pos)
    return value, end


def _plain_value(body: bytes, pos: int) -> tuple[bytes, int] | None:
    """The value of a record that has the timestamp of its batch and neither key nor headers, and
    where the next one begins; `None` for any other record."""
    try:
        length = body[pos]
        pos += 1
        if length > 127:
            high = body[pos]
            if high > 127:
                return None
            length += (high << 7) - 128
            pos += 1
        end = pos + (length >> 1)
        if body[pos + 1]:
            return None
        pos += 2
        while body[pos] > 127:
            pos += 1
        # What is left: the null key, the length of the value, the value, and no headers.
        left = end - pos - 3
        size = encode_varint(left - 1 if left <= 64 else left - 2)
        start = pos + 2 + len(size)
        if body[pos + 1 : start] != _NULL + size or body[end - 1] or length & 1:
            return None
        return body[start : end - 1], end
    except IndexError:
        return None


def decode_record(
    body: bytes, pos: int
) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    """Timestamp and offset as deltas, key, value, headers, and where the next one begins. Raises
    `CorruptBatch`."""
    length, pos = decode_varint(body, pos)
    end = pos + length
    if length < 1 or end > len(body):
        raise CorruptBatch(f"record length `{length}` with {len(body) - pos} bytes left")
    timestamp_delta, pos = decode_varint(body, pos + 1)
    offset_delta, pos = decode_varint(body, pos)
    key, pos = _take_nullable(body, pos, end)
    value, pos = _take_nullable(body, pos, end)
    if pos + 1 == end and not body[pos]:
        return timestamp_delta, offset_delta, key, value, (), end
    header_count, pos = decode_varint(body, pos)
    if not 0 <= header_count <= end - pos:
        raise CorruptBatch(f"header count `{header_count}` with {end - pos} bytes left")
    headers, pos = _decode_headers(body, pos, end, header_count) if header_count else ((), pos)
    if pos != end:
        raise CorruptBatch(f"record of {length} bytes ends {pos - end} bytes off")
    return timestamp_delta, offset_delta, key, value, headers, pos


def _decode_headers(body: bytes, pos: int, end: int, count: int) -> tuple[Headers, int]:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, pos = _take_nullable(body, pos, end)
        value, pos = _take_nullable(body, pos, end)
        if name is None:
            raise CorruptBatch("record header without a key")
        try:
            headers.append((str(name, "utf-8"), value))
        except UnicodeDecodeError:
            raise CorruptBatch(f"record header key `{name!r}` is not utf-8") from None
    return tuple(headers), pos


def _take_nullable(body: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = decode_varint(body, pos)
    if length < 0:
        return None, pos
    if pos + length > end:
        raise CorruptBatch(f"field of {length} bytes with {end - pos} bytes left")
    return body[pos : pos + length], pos + length
