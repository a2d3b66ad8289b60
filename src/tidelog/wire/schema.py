"""Reading and writing entities: dataclasses whose fields declare their wire type.

The schemas come from `kio`: one frozen dataclass per message and version. Its own codec is not
used here, for reasons found by feeding it hostile bytes: its native reader reserves memory for
whatever array length a frame claims and ends the *process* when that fails, refuses tagged fields
it does not know (KIP-482 asks to skip them), takes null for arrays that have no null, and reads
past the declared size of a tagged field. Its writer takes two to three times as long as this one.

A dataclass is compiled, once, into a list of field readers and one of field writers.

What a field may declare in its metadata:
- `kafka_type`: `int8` to `uint64`, `bool`, `string`, `bytes`, `records`, `uuid`, `error_code`,
  `timedelta_i32`, `timedelta_i64`, `datetime_i64`, and `uuid_bytes`, which only our own entities
  use: a UUID as 16 raw bytes. Nested entities declare nothing: their type is enough.
- `tag`: a tagged field (KIP-482), left out when it has its default.
- `since`: the first version that has the field; only for our own entities, which have one class
  for all versions.

Invariants of reading:
- no read beyond the buffer, no allocation from a claimed length: an array's length is checked
  against the bytes that are left before its first element is read;
- a tagged field must fill exactly the size it declares; unknown tags are skipped;
- whatever is wrong with the bytes, `MalformedFrame` is the only exception.

Source: KIP-482 (flexible versions), KIP-893 (nullable structs), the protocol guide.
"""

import types
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

from tidelog.errors import MalformedFrame
from tidelog.wire.notation import (
    MALFORMED,
    NO_TAGS,
    encode_message,
    encode_text,
    read_tags,
    skip_tags,
    write_tags,
)
from tidelog.wire.primitives import (
    COMPACT,
    LEGACY_32,
    NUMBERS,
    Codec,
    Convert,
    Number,
    array_codec,
    blob_codec,
    nullable_entity_codec,
    number_array_codec,
    number_codec,
    text_codec,
)

_MESSAGE: Final = "error_message"
"""How the fields end that may be cut: they say in words what a code says."""

ReadStep = Callable[[Any, int, dict[str, Any]], int]
WriteStep = Callable[[bytearray, Any], None]


class _FieldType(NamedTuple):
    """A field's declared type, taken apart."""

    item: Any
    is_entity: bool
    is_array: bool
    nullable: bool
    """Whether the array is, or without an array the item."""


def _field_type(declared: Any) -> _FieldType:
    inner, nullable = _without_none(declared)
    if get_origin(inner) is not tuple:
        return _FieldType(inner, is_dataclass(inner), False, nullable)
    item, _ = _without_none(get_args(inner)[0])
    return _FieldType(item, is_dataclass(item), True, nullable)


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) not in (types.UnionType, Union):
        return declared, False
    inner = [part for part in get_args(declared) if part is not type(None)]
    assert len(inner) == 1, f"only a union with None has a wire form, not {declared}"
    return inner[0], True


def _number_of(field: Field[Any]) -> Number | None:
    """The fixed-size form of a field, `None` when it has none."""
    parts = _field_type(field.type)
    if parts.is_array or parts.is_entity:
        return None
    return NUMBERS.get(_kafka_type(field, parts))


def _kafka_type(field: Field[Any], parts: _FieldType) -> str:
    kafka_type: str = field.metadata["kafka_type"]
    if kafka_type == "datetime_i64" and parts.nullable and not parts.is_array:
        return "nullable_datetime_i64"
    return kafka_type


def _field_codec(field: Field[Any], flexible: bool, version: int | None) -> Codec:
    parts = _field_type(field.type)
    length = COMPACT if flexible else LEGACY_32
    if parts.is_array and not parts.is_entity:
        number = NUMBERS.get(field.metadata["kafka_type"])
        if number is not None and number.decode is None and number.encode is None:
            return number_array_codec(length, number, parts.nullable)
    item_nullable = parts.nullable and not parts.is_array
    if parts.is_entity:
        item = _entity_codec(parts.item, version)
        if item_nullable and "tag" not in field.metadata:
            item = nullable_entity_codec(item)
    else:
        encode = encode_message if field.name.endswith(_MESSAGE) else encode_text
        item = _primitive_codec(_kafka_type(field, parts), flexible, item_nullable, encode)
    if not parts.is_array:
        return item
    return array_codec(length, item, parts.nullable)


def _primitive_codec(
    kafka_type: str, flexible: bool, nullable: bool, encode: Convert = encode_text
) -> Codec:
    number = NUMBERS.get(kafka_type)
    if number is not None:
        return number_codec(number)
    if kafka_type == "string":
        return text_codec(flexible, nullable, encode)
    assert kafka_type in ("bytes", "records"), f"no wire form for `{kafka_type}`"
    return blob_codec(COMPACT if flexible else LEGACY_32, bytes, bytes, nullable)


def _run_steps(run: list[tuple[str, Number]]) -> tuple[ReadStep, WriteStep, int]:
    """The steps for neighbouring fields of fixed size: one `struct` for all of them."""
    struct = Struct(">" + "".join(number.layout for _, number in run))
    unpack_run, pack_run, size = struct.unpack_from, struct.pack, struct.size
    names = tuple(name for name, _ in run)
    get = attrgetter(*names)
    decoders = [(name, number.decode) for name, number in run if number.decode]
    encoders = [number.encode for _, number in run]

    def read(buffer: Any, position: int, values: dict[str, Any]) -> int:
        values.update(zip(names, unpack_run(buffer, position), strict=True))
        for name, decode in decoders:
            values[name] = decode(values[name])
        return position + size

    def write_numbers(out: bytearray, entity: Any) -> None:
        out += pack_run(*get(entity))

    def write(out: bytearray, entity: Any) -> None:
        values = get(entity) if len(names) > 1 else (get(entity),)
        pairs = zip(encoders, values, strict=True)
        out += pack_run(*[encode(value) if encode else value for encode, value in pairs])

    plain = len(names) > 1 and not any(encoders)
    return read, write_numbers if plain else write, size


def _single_steps(name: str, codec: Codec) -> tuple[ReadStep, WriteStep, int]:
    read_value, write_value, min_bytes = codec

    def read(buffer: Any, position: int, values: dict[str, Any]) -> int:
        values[name], position = read_value(buffer, position)
        return position

    def write(out: bytearray, entity: Any) -> None:
        write_value(out, getattr(entity, name))

    return read, write, min_bytes


def _untagged_steps(
    untagged: list[Field[Any]], flexible: bool, version: int | None
) -> list[tuple[ReadStep, WriteStep, int]]:
    steps = []
    run: list[tuple[str, Number]] = []
    for field in untagged:
        number = _number_of(field)
        if number is not None:
            run.append((field.name, number))
            continue
        if run:
            steps.append(_run_steps(run))
            run = []
        steps.append(_single_steps(field.name, _field_codec(field, flexible, version)))
    if run:
        steps.append(_run_steps(run))
    return steps


class _Tagged(NamedTuple):
    """One tagged field."""

    name: str
    codec: Codec
    default: Any
    """A value that equals it is left out."""
    encoded_default: bytes
    """A value with this encoding is too."""


def _tagged_steps(tagged: dict[int, _Tagged]) -> tuple[ReadStep, WriteStep, int]:
    ascending = sorted(tagged.items())

    def read(buffer: Any, position: int, values: dict[str, Any]) -> int:
        present, position = read_tags(buffer, position)
        for tag, start, end in present:
            field = tagged.get(tag)
            if field is not None:
                values[field.name], stop = field.codec.read(buffer, start)
                if stop != end:
                    raise MalformedFrame(f"tagged field `{tag}` takes {stop - start} bytes")
        return position

    def write(out: bytearray, entity: Any) -> None:
        present = []
        for tag, field in ascending:
            value = getattr(entity, field.name)
            if value == field.default:
                continue
            encoded = bytearray()
            field.codec.write(encoded, value)
            if encoded != field.encoded_default:
                present.append((tag, encoded))
        write_tags(out, present)

    return read, write, 1


def _skip_tags_step(buffer: Any, position: int, values: dict[str, Any]) -> int:
    return skip_tags(buffer, position)


def _no_tags_step(out: bytearray, entity: Any) -> None:
    out.append(NO_TAGS)


_NO_TAGS_STEPS: Final = (_skip_tags_step, _no_tags_step, 1)
"""For the many entities that have no tagged field of their own."""


def _default_of(field: Field[Any]) -> Any:
    """What an absent field stands for: its declared default, else zero or empty."""
    if field.default is not MISSING:
        return field.default
    parts = _field_type(field.type)
    assert not parts.nullable and not parts.is_array, f"`{field.name}` needs a default"
    if parts.is_entity:
        return parts.item(**{inner.name: _default_of(inner) for inner in fields(parts.item)})
    number = NUMBERS.get(field.metadata["kafka_type"])
    if number is None:
        return "" if field.metadata["kafka_type"] == "string" else b""
    zero = bytes(16) if number.layout == "16s" else 0
    return zero if number.decode is None else number.decode(zero)


def _present_in(field: Field[Any], version: int | None) -> bool:
    return version is None or version >= field.metadata.get("since", 0)


@cache
def _entity_codec(entity_type: Any, version: int | None) -> Codec:
    flexible: bool = entity_type.__flexible__
    present = [field for field in fields(entity_type) if _present_in(field, version)]
    tagged = {}
    for field in present:
        if "tag" in field.metadata:
            codec = _field_codec(field, flexible, version)
            default, encoded = _default_of(field), bytearray()
            codec.write(encoded, default)
            tagged[field.metadata["tag"]] = _Tagged(field.name, codec, default, bytes(encoded))
    assert flexible or not tagged, f"{entity_type} has tags but is not flexible"
    steps = _untagged_steps(
        [field for field in present if "tag" not in field.metadata], flexible, version
    )
    if flexible:
        steps.append(_tagged_steps(tagged) if tagged else _NO_TAGS_STEPS)
    implied = {
        field.name: _default_of(field)
        for field in present
        if "tag" in field.metadata and field.default is MISSING
    }
    return _assemble(entity_type, steps, implied)


def _assemble(
    entity_type: Any, steps: list[tuple[ReadStep, WriteStep, int]], implied: dict[str, Any]
) -> Codec:
    readers = [step[0] for step in steps]
    writers = [step[1] for step in steps]

    def read(buffer: Any, position: int) -> tuple[Any, int]:
        values = dict(implied)
        for step in readers:
            position = step(buffer, position, values)
        return entity_type(**values), position

    def write(out: bytearray, entity: Any) -> None:
        for step in writers:
            step(out, entity)

    return Codec(read, write, sum(step[2] for step in steps))


# The public face ---------------------------------------------------------------------------


def read_entity(
    entity_type: Any, buffer: Any, position: int, version: int | None = None
) -> tuple[Any, int]:
    """Reads one entity; returns it and the position behind it.

    `version` is for entity types with one class for all versions. Raises `MalformedFrame`.
    """
    try:
        return _entity_codec(entity_type, version).read(buffer, position)
    except (*MALFORMED, OverflowError) as cause:
        raise MalformedFrame(f"no {entity_type.__name__}: {cause}") from cause


def write_entity(out: bytearray, entity: Any, version: int | None = None) -> None:
    """Appends the encoding of an entity.

    Raises `UnwritableText` for a text that is too long; a message of an error is cut instead. Any
    other value that its field cannot hold is a bug of ours and ends in whatever `struct` raises.
    """
    entity_type: Any = type(entity)
    _entity_codec(entity_type, version).write(out, entity)


def array_length(item_type: Any, count: int) -> bytearray:
    """What stands before the items of an array of entities."""
    out = bytearray()
    (COMPACT if item_type.__flexible__ else LEGACY_32).write(out, count)
    return out


def read_array_length(item_type: Any, array: bytes) -> tuple[int, int]:
    """How many entities an encoded array has, and where they begin."""
    return (COMPACT if item_type.__flexible__ else LEGACY_32).read(array, 0)
