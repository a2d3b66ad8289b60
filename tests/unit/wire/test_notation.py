"""The building blocks of both notations: boundaries of every length, and refusal of lies."""

import pytest

from tidelog.errors import ErrorCode, MalformedFrame, UnwritableText
from tidelog.limits import MAX_ARRAY_ENTRIES, MAX_TEXT_BYTES
from tidelog.wire.notation import (
    CLASSIC,
    FLEXIBLE,
    MALFORMED,
    Notation,
    check_tag,
    encode_message,
    encode_text,
    error_code,
    fitting,
    read_tags,
    read_uvarint,
    skip_tags,
    write_tags,
    write_uvarint,
)

BOTH = pytest.mark.parametrize("notation", [CLASSIC, FLEXIBLE], ids=["classic", "flexible"])


def encoded_uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16_383, 16_384, 2**31 - 1, 2**35 - 1])
def test_varints(value: int) -> None:
    encoded = encoded_uvarint(value)
    assert read_uvarint(b"\xff" + encoded, 1) == (value, 1 + len(encoded))


def test_a_known_varint() -> None:
    assert encoded_uvarint(300) == b"\xac\x02"


def test_a_varint_of_six_bytes_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_uvarint(b"\x80\x80\x80\x80\x80\x01", 0)


@BOTH
@pytest.mark.parametrize("text", ["", "a", "ü" * 63, "x" * 126, "x" * 127, "x" * 5000])
def test_texts(notation: Notation, text: str) -> None:
    out = bytearray(b"?")
    notation.write_text(out, text)
    for buffer in (bytes(out), memoryview(out)):
        assert notation.read_text(buffer, 1) == (text, len(out))
        assert notation.read_nullable_text(buffer, 1) == (text, len(out))


@BOTH
def test_null_texts(notation: Notation) -> None:
    out = bytearray()
    notation.write_text(out, None)
    assert notation.read_nullable_text(out, 0) == (None, len(out))
    with pytest.raises(MalformedFrame):
        notation.read_text(out, 0)


@BOTH
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 70_000])
def test_blobs(notation: Notation, size: int) -> None:
    out = bytearray()
    notation.write_length(out, size)
    out += bytes(size)
    assert notation.read_blob(bytes(out), 0) == (bytes(size), len(out))
    with pytest.raises((MalformedFrame, *MALFORMED)):
        notation.read_blob(bytes(out)[:-1], 0)


@BOTH
def test_null_blobs_and_lists(notation: Notation) -> None:
    out = bytearray()
    notation.write_length(out, -1)
    assert notation.read_blob(out, 0) == (None, len(out))
    assert notation.read_nullable_count(out, 0, 1) == (-1, len(out))
    with pytest.raises(MalformedFrame):
        notation.read_count(out, 0, 1)


@BOTH
@pytest.mark.parametrize("count", [0, 1, 2, 126, 127, 200])
def test_counts(notation: Notation, count: int) -> None:
    out = bytearray()
    notation.write_length(out, count)
    position = len(out)
    out += bytes(count * 3)
    assert notation.read_count(out, 0, 3) == (count, position)
    assert notation.read_nullable_count(out, 0, 3) == (count, position)
    if count > 1:
        with pytest.raises(MalformedFrame):
            notation.read_count(out, 0, 4)


@BOTH
@pytest.mark.parametrize("count", [MAX_ARRAY_ENTRIES + 1, 2**31 - 1])
def test_a_list_beyond_the_limit_is_malformed_even_when_its_entries_are_empty(
    notation: Notation, count: int
) -> None:
    out = bytearray()
    notation.write_length(out, count)
    with pytest.raises(MalformedFrame):
        notation.read_count(out, 0, 0)


@pytest.mark.parametrize("length", [-2, -(2**15)])
def test_negative_classic_lengths(length: int) -> None:
    with pytest.raises(MalformedFrame):
        CLASSIC.read_nullable_text(length.to_bytes(2, "big", signed=True), 0)
    wide = length.to_bytes(4, "big", signed=True)
    for read in (CLASSIC.read_blob, lambda buffer, at: CLASSIC.read_nullable_count(buffer, at, 0)):
        with pytest.raises(MalformedFrame):
            read(wide, 0)


def test_tags() -> None:
    out = bytearray()
    write_tags(out, [(0, b"abc"), (1, b""), (900, bytes(200))])
    tags, end = read_tags(out, 0)
    assert [(tag, bytes(out[start:stop])) for tag, start, stop in tags] == [
        (0, b"abc"),
        (1, b""),
        (900, bytes(200)),
    ]
    assert end == skip_tags(out, 0) == len(out)
    assert skip_tags(b"\x00", 0) == FLEXIBLE.skip_tags(b"\x00", 0) == 1
    assert CLASSIC.skip_tags(b"", 0) == 0


@pytest.mark.parametrize("tags", [b"\x01", b"\x01\x00", b"\x01\x00\x02a", b"\xff\xff\xff\xff\x0f"])
def test_tags_that_run_past_the_end(tags: bytes) -> None:
    with pytest.raises((MalformedFrame, *MALFORMED)):
        skip_tags(tags, 0)


def test_a_tag_must_fill_its_size() -> None:
    check_tag(1, 7, 7)
    with pytest.raises(MalformedFrame):
        check_tag(1, 6, 7)


def test_error_numbers() -> None:
    assert error_code(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_code(31_999) is ErrorCode.UNKNOWN_SERVER_ERROR


@BOTH
def test_a_text_that_is_too_long_is_refused_by_readers_and_writers(notation: Notation) -> None:
    out = bytearray()
    notation.write_text(out, "x" * MAX_TEXT_BYTES)
    assert notation.read_text(out, 0) == ("x" * MAX_TEXT_BYTES, len(out))
    with pytest.raises(UnwritableText):
        notation.write_text(bytearray(), "x" * (MAX_TEXT_BYTES + 1))
    for read in (notation.read_text, notation.read_nullable_text):
        longer = bytearray()
        if notation.flexible:
            write_uvarint(longer, MAX_TEXT_BYTES + 2)
        else:
            longer += (MAX_TEXT_BYTES + 1).to_bytes(2, "big")
        with pytest.raises(MalformedFrame):
            read(longer + b"x" * (MAX_TEXT_BYTES + 1), 0)


@pytest.mark.parametrize("text", ["ü" * (MAX_TEXT_BYTES // 2 + 1), "\ud800"])
def test_what_cannot_be_written_is_the_fault_of_whose_text_it_is(text: str) -> None:
    with pytest.raises(UnwritableText) as refused:
        encode_text(text)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_message_is_cut_between_characters() -> None:
    assert encode_message("short") == b"short"
    assert encode_message("ü" * MAX_TEXT_BYTES) == "ü".encode() * (MAX_TEXT_BYTES // 2)
    assert encode_message("\ud800" * MAX_TEXT_BYTES) == b"?" * MAX_TEXT_BYTES
    assert fitting("x" * 10, 9) == "x" * 9
