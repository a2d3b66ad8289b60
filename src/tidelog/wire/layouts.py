"""Layouts: tuples whose elements are written one after the other, each by its codec.

The coordinators keep their state as records in logs (`__consumer_offsets`, `__transaction_state`,
`__share_group_state`). A record's value is a version and a structure. Here a structure is the list
of the codecs of its elements, which reads like Kafka's schema::

    _EPOCH = layout(GroupEpoch._make, INT32, tags=[Tag(INT64, 0)])

A tuple that has an element which a version of the structure lacks has `absent` in its place; one
whose elements are not what is written is `converted`.

Reading raises `MalformedFrame`, or what is in `notation.MALFORMED`; writing, `UnwritableText`.

Source: KIP-482 (flexible versions, tagged fields), Kafka's message schemas.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tidelog.errors import MalformedFrame
from tidelog.wire.notation import NO_TAGS, check_tag, read_tags, skip_tags, write_tags
from tidelog.wire.primitives import (
    COMPACT,
    LEGACY_32,
    NUMBERS,
    Codec,
    array_codec,
    blob_codec,
    number_array_codec,
    number_codec,
    text_codec,
)

INT8, INT16, INT32, INT64, UUID = (
    number_codec(NUMBERS[name]) for name in ("int8", "int16", "int32", "int64", "uuid_bytes")
)
Make = Callable[[list[Any]], Any]
"""From the elements, in order, to the value."""


class Tag(NamedTuple):
    """A tagged field. The first one of a structure has the number 0, and so on."""

    codec: Codec
    default: Any
    """What it is when it is not written."""
    is_always_written: bool = False
    """Also with its default."""


def layout(make: Make, *codecs: Codec, tags: Sequence[Tag] = ()) -> Codec:
    """A structure of a flexible version. What `make` returns is a tuple of the same elements; those
    of the tagged fields come last."""
    untagged = _in_order(list, codecs)
    count = len(codecs)

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        elements, position = untagged.read(buffer, position)
        if not tags:
            return make(elements), skip_tags(buffer, position)
        elements += (tag.default for tag in tags)
        present, position = read_tags(buffer, position)
        for tag, start, end in present:
            if tag < len(tags):
                elements[count + tag], stop = tags[tag].codec.read(buffer, start)
                check_tag(tag, stop, end)
        return make(elements), position

    def write(out: bytearray, value: Any) -> None:
        untagged.write(out, value)
        present = []
        for number, tag in enumerate(tags):
            if tag.is_always_written or value[count + number] != tag.default:
                encoded = bytearray()
                tag.codec.write(encoded, value[count + number])
                present.append((number, encoded))
        write_tags(out, present)

    def write_untagged(out: bytearray, value: Any) -> None:
        untagged.write(out, value)
        out.append(NO_TAGS)

    return Codec(read, write if tags else write_untagged, untagged.min_bytes + 1)


def classic_layout(make: Make, *codecs: Codec, tags: Sequence[Tag] = ()) -> Codec:
    """A structure of a version that is not flexible, and has no tagged fields."""
    return _in_order(make, (*codecs, *(absent(tag.default) for tag in tags)))


def _in_order(make: Make, codecs: Sequence[Codec]) -> Codec:
    readers = [codec.read for codec in codecs]
    writers = [codec.write for codec in codecs]

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        elements = []
        for read_element in readers:
            element, position = read_element(buffer, position)
            elements.append(element)
        return make(elements), position

    def write(out: bytearray, value: Any) -> None:
        for write_element, element in zip(writers, value, strict=False):
            write_element(out, element)

    return Codec(read, write, sum(codec.min_bytes for codec in codecs))


def absent(value: Any) -> Codec:
    """An element that the version lacks: it is read as this value, and is not written."""
    return Codec(lambda _, position: (value, position), lambda out, element: None, 0)


def converted(codec: Codec, of: Callable[[Any], Any], to: Callable[[Any], Any]) -> Codec:
    """A value that is made `of` what is written, and is turned `to` that."""

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        found, position = codec.read(buffer, position)
        return of(found), position

    return Codec(read, lambda out, value: codec.write(out, to(value)), codec.min_bytes)


class Forms(NamedTuple):
    """What depends on whether a version is flexible."""

    layout: Callable[..., Codec]
    """`layout` or `classic_layout`."""
    text: Codec
    nullable_text: Codec
    blob: Codec
    """Null is read as empty."""
    array: Callable[[Codec], Codec]
    nullable_array: Callable[[Codec], Codec]
    numbers: Codec
    """32 bits each."""


def _forms(make_layout: Callable[..., Codec], is_flexible: bool) -> Forms:
    of_others = COMPACT if is_flexible else LEGACY_32
    return Forms(
        layout=make_layout,
        text=text_codec(is_flexible, nullable=False),
        nullable_text=text_codec(is_flexible, nullable=True),
        blob=converted(
            blob_codec(of_others, bytes, bytes, nullable=True), lambda blob: blob or b"", bytes
        ),
        array=lambda item: array_codec(of_others, item, nullable=False),
        nullable_array=lambda item: array_codec(of_others, item, nullable=True),
        numbers=number_array_codec(of_others, NUMBERS["int32"], nullable=False),
    )


CLASSIC: Final = _forms(classic_layout, is_flexible=False)
FLEXIBLE: Final = _forms(layout, is_flexible=True)


def written(codec: Codec, value: Any, version: int) -> bytes:
    """A version, and a value in it; also a key, which begins with the number of its kind."""
    out = bytearray()
    INT16.write(out, version)
    codec.write(out, value)
    return bytes(out)


def read_version(what: str, codecs: Mapping[int, Codec], value: bytes) -> Any:
    """A value by its version, which comes first."""
    version, position = INT16.read(value, 0)
    codec = codecs.get(version)
    if codec is None:
        raise MalformedFrame(f"version `{version}` of a value of {what}")
    return codec.read(value, position)[0]
