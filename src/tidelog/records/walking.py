"""Looking at the keys of a batch's records without making an object of each.

A cleaner asks of each record where its bytes are, its offset, its key, and whether it has a value.
Nothing else is decoded, and the bytes of a record that stays are copied as they are.

Source: the layout in `record.py`.
"""

from collections.abc import Iterator

from tidelog.errors import CorruptBatch
from tidelog.records.record import decode_varint, encode_varint

WalkedRecord = tuple[int, int, int, bytes | None, bool]
"""(first byte, byte after the last, offset delta, key, whether it has a value)."""


def walk_records(body: bytes, count: int, pos: int = 0) -> Iterator[WalkedRecord]:
    """The `count` records that fill an inflated `body` from `pos` on. Raises `CorruptBatch` where
    they do not."""
    size_bytes = len(body)
    try:
        for _ in range(count):
            start = pos
            byte = body[pos]
            if byte < 128:
                length, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            elif (high := body[pos + 1]) < 128:
                # Two bytes: of most records, and of most offsets; a call takes as long as the rest.
                byte = high << 7 | byte & 127
                length, pos = (byte >> 1) ^ -(byte & 1), pos + 2
            else:
                length, pos = decode_varint(body, pos)
            end = pos + length
            if length < 1 or end > size_bytes:
                raise CorruptBatch(f"record length `{length}` with {size_bytes - pos} bytes left")
            pos += 1
            while body[pos] > 127:
                pos += 1
            byte = body[pos + 1]
            if byte < 128:
                delta, pos = (byte >> 1) ^ -(byte & 1), pos + 2
            elif (high := body[pos + 2]) < 128:
                byte = high << 7 | byte & 127
                delta, pos = (byte >> 1) ^ -(byte & 1), pos + 3
            else:
                delta, pos = decode_varint(body, pos + 1)
            byte = body[pos]
            if byte < 128:
                key_bytes, pos = (byte >> 1) ^ -(byte & 1), pos + 1
            else:
                key_bytes, pos = decode_varint(body, pos)
            key = None
            if key_bytes >= 0:
                key = body[pos : pos + key_bytes]
                pos += key_bytes
            if pos >= end:
                raise CorruptBatch(f"key of {key_bytes} bytes in a record of {length}")
            yield start, end, delta, key, body[pos] != 1
            pos = end
    except IndexError:
        raise CorruptBatch("record ends inside a field") from None
    if pos != size_bytes:
        raise CorruptBatch(f"{size_bytes - pos} bytes after the last of {count} records")


def timestamp_delta_of(body: bytes, start: int) -> int:
    """The timestamp delta of the record at `start`, which was walked before."""
    _, pos = decode_varint(body, start)
    return decode_varint(body, pos + 1)[0]


def with_timestamp_delta(body: bytes, start: int, end: int, delta: int) -> bytes:
    """The bytes of a walked record with another timestamp delta."""
    _, pos = decode_varint(body, start)
    _, rest = decode_varint(body, pos + 1)
    inner = b"".join((body[pos : pos + 1], encode_varint(delta), body[rest:end]))
    return encode_varint(len(inner)) + inner
