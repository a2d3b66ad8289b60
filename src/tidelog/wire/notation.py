"""The two notations of the wire: how lengths, texts and lists are written.

The classic notation puts a 16-bit length before a text and a 32-bit length before bytes and
lists; -1 stands for null. The flexible notation (KIP-482) writes each length plus one as an
unsigned varint, 0 for null, and ends every structure with tagged fields. Which one a message uses
follows from its API and version; a hand-packed codec takes one of the two `Notation` values and
is written once for both.

A text has `limits.MAX_TEXT_BYTES` at most, in either notation, though the flexible one could say
more: what came in the one may have to be written in the other. Longer ones are refused, by readers
as malformed and by writers as `UnwritableText`, which is the fault of the peer whose text it is.

Readers take a buffer and a position and return a value and the position behind it. They raise
`MalformedFrame` for lengths that cannot be; `struct.error`, `IndexError` and `UnicodeDecodeError`,
which also mean malformed bytes, are left to the caller, who catches them once per message.
A length is checked against the bytes that are there before anything is allocated.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.env.disk import Buffer
from tidelog.errors import ErrorCode, MalformedFrame, UnwritableText
from tidelog.limits import MAX_ARRAY_ENTRIES, MAX_TEXT_BYTES

MALFORMED: Final = (StructError, IndexError, UnicodeDecodeError)
"""What reading malformed bytes may raise besides `MalformedFrame`."""

NO_TAGS: Final = 0
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
UUID_BYTES: Final = 16

_MAX_VARINT_BYTES: Final = 5
_MAX_CHARACTER_BYTES: Final = 4
_ERRORS: Final = {int(code): code for code in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """The code with this number; one that we do not know is an unknown server error."""
    return _ERRORS.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


# Texts ------------------------------------------------------------------------------------


def encode_text(text: str) -> bytes:
    """UTF-8, as every text on the wire and in records. Raises `UnwritableText`."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError as cause:
        raise UnwritableText(f"a text that is not Unicode: {cause.reason}") from cause
    if len(encoded) > MAX_TEXT_BYTES:
        raise UnwritableText(f"a text of `{len(encoded)}` bytes, `{MAX_TEXT_BYTES}` can be written")
    return encoded


def fitting(text: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The beginning of a text, whole characters of at most so many bytes."""
    if len(text) * _MAX_CHARACTER_BYTES <= max_bytes:
        return text
    return text.encode(errors="replace")[:max_bytes].decode(errors="ignore")


def encode_message(message: str) -> bytes:
    """As `encode_text`; what does not fit is left out. A message may quote a text that is as long
    as any."""
    return encode_text(fitting(message))


def write_message(notation: "Notation", out: bytearray, message: str | None) -> None:
    """Appends a message in words, as much of it as fits."""
    notation.write_text(out, message and fitting(message))


# Varints and tagged fields -----------------------------------------------------------------


def read_uvarint(buffer: Any, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes."""
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for index in range(1, _MAX_VARINT_BYTES):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise MalformedFrame(f"a varint longer than {_MAX_VARINT_BYTES} bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Appends an unsigned varint."""
    assert value >= 0, f"an unsigned varint cannot be {value}"
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_tags(buffer: Any, position: int) -> tuple[list[tuple[int, int, int]], int]:
    """The tagged fields as (tag, start, end)."""
    count, position = read_uvarint(buffer, position)
    tags = []
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = position + size
        if end > len(buffer):
            raise MalformedFrame(f"tagged field `{tag}` of `{size}` bytes runs past the end")
        tags.append((tag, position, end))
        position = end
    return tags, position


def skip_tags(buffer: Any, position: int) -> int:
    """The position behind tagged fields of which none is of interest."""
    if buffer[position] == NO_TAGS:
        return position + 1
    return read_tags(buffer, position)[1]


def check_tag(tag: int, stop: int, end: int) -> None:
    """Refuses a tagged field that does not fill the size it declared."""
    if stop != end:
        raise MalformedFrame(f"tagged field `{tag}` ends at {stop}, declared was {end}")


def write_tags(out: bytearray, tags: Sequence[tuple[int, bytes | bytearray]]) -> None:
    """Appends tagged fields; they must be in ascending order of tags."""
    if not tags:
        out.append(NO_TAGS)
        return
    write_uvarint(out, len(tags))
    for tag, encoded in tags:
        write_uvarint(out, tag)
        write_uvarint(out, len(encoded))
        out += encoded


# Classic -----------------------------------------------------------------------------------


def _read_text(buffer: Any, position: int) -> tuple[str, int]:
    length = INT16.unpack_from(buffer, position)[0]
    position += 2
    end = position + length
    if length < 0 or end > len(buffer):
        raise MalformedFrame(f"a text of `{length}` bytes, {len(buffer) - position} are left")
    return str(buffer[position:end], "utf-8"), end


def _read_nullable_text(buffer: Any, position: int) -> tuple[str | None, int]:
    if INT16.unpack_from(buffer, position)[0] == -1:
        return None, position + 2
    return _read_text(buffer, position)


def _read_blob(buffer: Any, position: int) -> tuple[Any, int]:
    length = INT32.unpack_from(buffer, position)[0]
    position += 4
    if length == -1:
        return None, position
    end = position + length
    if length < 0 or end > len(buffer):
        raise MalformedFrame(f"`{length}` bytes announced, {len(buffer) - position} are left")
    return buffer[position:end], end


def _read_count(buffer: Any, position: int, min_bytes: int) -> tuple[int, int]:
    count: int = INT32.unpack_from(buffer, position)[0]
    position += 4
    if count < 0 or count > 1:
        check_count(buffer, position, count, min_bytes)
    return count, position


def _read_nullable_count(buffer: Any, position: int, min_bytes: int) -> tuple[int, int]:
    if INT32.unpack_from(buffer, position)[0] == -1:
        return -1, position + 4
    return _read_count(buffer, position, min_bytes)


def check_count(buffer: Any, position: int, count: int, min_bytes: int) -> None:
    """Refuses a list that the rest of the buffer cannot hold. Callers may skip it for a list of
    one, which allocates nothing worth checking."""
    if count < 0 or count > MAX_ARRAY_ENTRIES or count * min_bytes > len(buffer) - position:
        raise MalformedFrame(f"a list of `{count}` in {len(buffer) - position} bytes")


def _skip_nothing(buffer: Any, position: int) -> int:
    return position


def _write_text(out: bytearray, text: str | None) -> None:
    if text is None:
        out += b"\xff\xff"
    else:
        encoded = encode_text(text)
        out += INT16.pack(len(encoded))
        out += encoded


def _write_length(out: bytearray, length: int) -> None:
    out += INT32.pack(length)


def _write_nothing(out: bytearray) -> None:
    pass


# Flexible ----------------------------------------------------------------------------------


# Nearly all lengths take one byte: these readers look at it themselves before they call
# `read_uvarint`.


def read_text_length(buffer: Any, position: int) -> tuple[int, int]:
    """The length of a text in the flexible notation; -1 for null."""
    length = buffer[position]
    if length < 0x80:
        return length - 1, position + 1
    length, position = read_uvarint(buffer, position)
    if length - 1 > MAX_TEXT_BYTES:
        raise MalformedFrame(f"a text of `{length - 1}` bytes")
    return length - 1, position


def _read_compact_text(buffer: Any, position: int) -> tuple[str, int]:
    length = buffer[position] - 1
    if length < 0x7F:
        position += 1
    else:
        length, position = read_text_length(buffer, position)
    end = position + length
    if length < 0 or end > len(buffer):
        raise MalformedFrame(f"a text of `{length}` bytes, {len(buffer) - position} are left")
    return str(buffer[position:end], "utf-8"), end


def _read_compact_nullable_text(buffer: Any, position: int) -> tuple[str | None, int]:
    if buffer[position] == 0:
        return None, position + 1
    return _read_compact_text(buffer, position)


def _read_compact_blob(buffer: Any, position: int) -> tuple[Any, int]:
    length = buffer[position]
    if length < 0x80:
        position += 1
    else:
        length, position = read_uvarint(buffer, position)
    if length == 0:
        return None, position
    end = position + length - 1
    if end > len(buffer):
        raise MalformedFrame(f"`{length - 1}` bytes announced, {len(buffer) - position} are left")
    return buffer[position:end], end


def _read_compact_count(buffer: Any, position: int, min_bytes: int) -> tuple[int, int]:
    length = buffer[position]
    if length < 0x80:
        position += 1
    else:
        length, position = read_uvarint(buffer, position)
    if length == 0 or length > 2:
        check_count(buffer, position, length - 1, min_bytes)
    return length - 1, position


def _read_compact_nullable_count(buffer: Any, position: int, min_bytes: int) -> tuple[int, int]:
    if buffer[position] == 0:
        return -1, position + 1
    return _read_compact_count(buffer, position, min_bytes)


def _write_compact_text(out: bytearray, text: str | None) -> None:
    if text is None:
        out.append(0)
    else:
        encoded = encode_text(text)
        _write_compact_length(out, len(encoded))
        out += encoded


def _write_compact_length(out: bytearray, length: int) -> None:
    if length < 0x7F:
        out.append(length + 1)
    else:
        write_uvarint(out, length + 1)


def _write_no_tags(out: bytearray) -> None:
    out.append(NO_TAGS)


class Notation(NamedTuple):
    """How one of the two notations reads and writes."""

    flexible: bool
    read_text: Callable[[Any, int], tuple[str, int]]
    read_nullable_text: Callable[[Any, int], tuple[str | None, int]]
    read_blob: Callable[[Any, int], tuple[Any, int]]
    """A slice of the buffer, or `None` for null."""
    read_count: Callable[[Any, int, int], tuple[int, int]]
    """The length of a list whose entries take at least so many bytes each."""
    read_nullable_count: Callable[[Any, int, int], tuple[int, int]]
    """Likewise; -1 for null."""
    skip_tags: Callable[[Any, int], int]
    write_text: Callable[[bytearray, str | None], None]
    write_length: Callable[[bytearray, int], None]
    """Of bytes or of a list; -1 for null."""
    write_no_tags: Callable[[bytearray], None]


Body = TypeVar("Body")


def read_body(
    what: str,
    read: Callable[[int, Notation, memoryview, int], tuple[Body, int]],
    version: int,
    notation: Notation,
    frame: Buffer,
    position: int,
) -> Body:
    """The body that begins at `position` and takes the rest of the frame. Raises
    `MalformedFrame`."""
    view = memoryview(frame)
    try:
        body, end = read(version, notation, view, position)
    except MALFORMED as cause:
        raise MalformedFrame(f"no {what}: {cause}") from cause
    if end != len(view):
        raise MalformedFrame(f"`{len(view) - end}` bytes behind a {what}")
    return body


CLASSIC: Final = Notation(
    False,
    _read_text,
    _read_nullable_text,
    _read_blob,
    _read_count,
    _read_nullable_count,
    _skip_nothing,
    _write_text,
    _write_length,
    _write_nothing,
)
FLEXIBLE: Final = Notation(
    True,
    _read_compact_text,
    _read_compact_nullable_text,
    _read_compact_blob,
    _read_compact_count,
    _read_compact_nullable_count,
    skip_tags,
    _write_compact_text,
    _write_compact_length,
    _write_no_tags,
)
