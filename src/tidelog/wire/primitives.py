"""The wire forms of single values: numbers, texts, bytes, arrays of either, nullable entities.

A `Codec` reads one value from a buffer and writes one to it. Lengths come in three forms: compact
(KIP-482: an unsigned varint of the length plus one), and the older 32-bit and 16-bit ones; -1 is
null in each.

Invariants of reading: no read beyond the buffer; no allocation from a claimed length, because an
array's length is checked against the bytes that are left before its first element is read.

Source: KIP-482 (flexible versions), KIP-893 (nullable structs), the protocol guide.
"""

from collections.abc import Callable
from struct import Struct, pack, unpack_from
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.wire import values
from tidelog.wire.notation import (
    FLEXIBLE,
    INT16,
    INT32,
    check_count,
    encode_text,
    read_text_length,
    read_uvarint,
)

Read = Callable[[Any, int], tuple[Any, int]]
"""From a buffer and a position to a value and the position behind it."""
Write = Callable[[bytearray, Any], None]
"""Appends the encoded value."""
Convert = Callable[[Any], Any]

_TWO_BYTES: Final = 0x80
"""The least number that takes an unsigned varint of more than one byte."""
_SHORT_ARRAY: Final = 8
_NULL_ENTITY: Final = 0xFF
"""The marker byte before a nullable nested entity: -1 is null, 1 is present."""


class Codec(NamedTuple):
    """How one type is read and written."""

    read: Read
    write: Write
    min_bytes: int
    """No value takes fewer bytes; bounds the length of an array of them."""


class Number(NamedTuple):
    """A type of fixed size: a `struct` layout, and conversions where the value is not a number."""

    layout: str
    decode: Convert | None = None
    encode: Convert | None = None


def _value_of(code: Any) -> int:
    return int(code.value)


NUMBERS: Final = {
    "int8": Number("b"),
    "int16": Number("h"),
    "int32": Number("i"),
    "int64": Number("q"),
    "uint8": Number("B"),
    "uint16": Number("H"),
    "uint32": Number("I"),
    "uint64": Number("Q"),
    "float64": Number("d"),
    "bool": Number("?"),
    "uuid": Number("16s", values.uuid_of, values.bytes_of),
    "uuid_bytes": Number("16s"),
    "error_code": Number("h", values.error, _value_of),
    "timedelta_i32": Number("i", values.millis, values.to_millis),
    "timedelta_i64": Number("q", values.millis, values.to_millis),
    "datetime_i64": Number("q", values.timestamp, values.to_timestamp_ms),
    "nullable_datetime_i64": Number(
        "q",
        lambda value: None if value == -1 else values.timestamp(value),
        lambda value: -1 if value is None else values.to_timestamp_ms(value),
    ),
}


def _read_compact_length(buffer: Any, position: int) -> tuple[int, int]:
    length = buffer[position]
    if length < _TWO_BYTES:
        return length - 1, position + 1
    length, position = read_uvarint(buffer, position)
    return length - 1, position


class Length(NamedTuple):
    """How the length of a string, bytes or array is written; -1 stands for null."""

    read: Read
    write: Callable[[bytearray, int], None]
    min_bytes: int


def _fixed_length(number: Struct) -> Length:
    unpack, pack_one, size = number.unpack_from, number.pack, number.size

    def read(buffer: Any, position: int) -> tuple[int, int]:
        return unpack(buffer, position)[0], position + size

    def write(out: bytearray, length: int) -> None:
        out += pack_one(length)

    return Length(read, write, size)


COMPACT: Final = Length(_read_compact_length, FLEXIBLE.write_length, 1)
_COMPACT_TEXT: Final = Length(read_text_length, FLEXIBLE.write_length, 1)
LEGACY_32: Final = _fixed_length(INT32)
LEGACY_16: Final = _fixed_length(INT16)


def blob_codec(length_codec: Length, decode: Convert, encode: Convert, nullable: bool) -> Codec:
    """Bytes, or what is made of them."""
    read_length = length_codec.read
    write_length = length_codec.write

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            if length == -1 and nullable:
                return None, position
            raise MalformedFrame(f"a length of `{length}`")
        end = position + length
        if end > len(buffer):
            raise MalformedFrame(f"`{length}` bytes announced, {len(buffer) - position} left")
        return decode(buffer[position:end]), end

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            assert nullable, "null where the schema has none"
            write_length(out, -1)
        else:
            encoded = encode(value)
            write_length(out, len(encoded))
            out += encoded

    return Codec(read, write, length_codec.min_bytes)


def text_codec(flexible: bool, nullable: bool, encode: Convert = encode_text) -> Codec:
    """A text."""
    return blob_codec(_COMPACT_TEXT if flexible else LEGACY_16, _decode_text, encode, nullable)


def _decode_text(value: Any) -> str:
    return str(value, "utf-8")


class Encoded(bytes):
    """The encoding of a whole array, its length included, in place of the items: many entities of
    one answer may share it (`entities.ArrayWriter`)."""

    __slots__ = ()


def array_codec(length_codec: Length, item: Codec, nullable: bool) -> Codec:
    """Values of any kind, one after the other."""
    read_length = length_codec.read
    write_length = length_codec.write
    read_item, write_item, min_item_bytes = item

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        count, position = read_length(buffer, position)
        if count == -1 and nullable:
            return None, position
        check_count(buffer, position, count, min_item_bytes)
        items = []
        for _ in range(count):
            value, position = read_item(buffer, position)
            items.append(value)
        return tuple(items), position

    def write(out: bytearray, values: Any) -> None:
        if values is None:
            assert nullable, "null where the schema has none"
            write_length(out, -1)
        elif values.__class__ is Encoded:
            out += values
        else:
            write_length(out, len(values))
            for value in values:
                write_item(out, value)

    return Codec(read, write, length_codec.min_bytes)


def number_array_codec(length_codec: Length, number: Number, nullable: bool) -> Codec:
    """Numbers that need no conversion are read and written all at once."""
    read_length = length_codec.read
    write_length = length_codec.write
    layout, size = number.layout, Struct(">" + number.layout).size
    # A repeat count before several characters would repeat something else.
    is_short = len(layout) == 1
    # Most arrays are short: replicas, directories. A struct that is made costs more than its use.
    structs = [Struct(">" + layout * count) for count in range(_SHORT_ARRAY)]
    unpackers = [struct.unpack_from for struct in structs]
    packers = [struct.pack for struct in structs]

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        count, position = read_length(buffer, position)
        if 0 <= count < _SHORT_ARRAY:
            return unpackers[count](buffer, position), position + count * size
        if count == -1 and nullable:
            return None, position
        check_count(buffer, position, count, size)
        run = f">{count}{layout}" if is_short else ">" + layout * count
        return unpack_from(run, buffer, position), position + count * size

    def write(out: bytearray, values: Any) -> None:
        if values is None:
            assert nullable, "null where the schema has none"
            write_length(out, -1)
        else:
            count = len(values)
            write_length(out, count)
            if count < _SHORT_ARRAY:
                out += packers[count](*values)
            else:
                out += pack(f">{count}{layout}" if is_short else ">" + layout * count, *values)

    return Codec(read, write, length_codec.min_bytes)


def nullable_entity_codec(entity: Codec) -> Codec:
    """A nested entity behind its marker byte."""

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        if buffer[position] == _NULL_ENTITY:
            return None, position + 1
        return entity.read(buffer, position + 1)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(_NULL_ENTITY)
        else:
            out.append(1)
            entity.write(out, value)

    return Codec(read, write, 1)


def number_codec(number: Number) -> Codec:
    """One number."""
    struct = Struct(">" + number.layout)
    unpack_one, pack_one, size = struct.unpack_from, struct.pack, struct.size
    decode, encode = number.decode, number.encode

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        value = unpack_one(buffer, position)[0]
        return value if decode is None else decode(value), position + size

    def write(out: bytearray, value: Any) -> None:
        out += pack_one(value if encode is None else encode(value))

    return Codec(read, write, size)
