"""The schema codec agrees with kio's own on everything well formed, and survives the rest."""

import io
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tests.served import BROKER_APIS, CONTROLLER_APIS
from tests.unit.wire.random_entities import random_entity
from tidelog.env.prng import Prng
from tidelog.errors import MalformedFrame
from tidelog.wire.api import ApiKey
from tidelog.wire.schema import read_entity, write_entity


def served_classes() -> list[Any]:
    classes = []
    for api_key, versions in {**CONTROLLER_APIS, **BROKER_APIS}.items():
        for version in range(versions.min_version, versions.max_version + 1):
            classes.append(load_request_schema(api_key, version))
            classes.append(load_response_schema(api_key, version))
    return classes


def written(entity: Any, version: int | None = None) -> bytes:
    out = bytearray()
    write_entity(out, entity, version)
    return bytes(out)


def test_random_entities_of_every_served_class_are_written_and_read_as_kio_does() -> None:
    """kio's native reader is trusted with well-formed bytes only, which is what it gets here."""
    prng = Prng(7)
    for entity_type in served_classes():
        for _ in range(3):
            entity = random_entity(prng, entity_type)
            expected = io.BytesIO()
            entity_writer(entity_type)(expected, entity)
            encoded = written(entity)
            assert encoded == expected.getvalue(), entity
            ours = read_entity(entity_type, b"??" + encoded, 2)
            theirs, size = entity_reader(entity_type)(encoded, 0)
            assert ours == (theirs, size + 2)
            assert size == len(encoded)


def test_every_truncation_of_an_entity_is_malformed() -> None:
    prng = Prng(8)
    for entity_type in served_classes()[::5]:
        encoded = written(random_entity(prng, entity_type))
        for length in range(len(encoded)):
            with pytest.raises(MalformedFrame):
                read_entity(entity_type, encoded[:length], 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Nested, with a tagged field."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    rank: int = field(metadata={"kafka_type": "int16", "tag": 3}, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One of each kind of field."""

    __flexible__: ClassVar[bool] = True
    number: int = field(metadata={"kafka_type": "int32"})
    items: tuple[Item, ...] = ()
    extra: Item | None = None
    note: str | None = field(metadata={"kafka_type": "string", "since": 2}, default=None)
    implied: int = field(metadata={"kafka_type": "int64", "tag": 1})
    key: bytes = field(
        metadata={"kafka_type": "uuid_bytes", "tag": 0, "since": 1}, default=b"k" * 16
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicList:
    """Not flexible."""

    __flexible__: ClassVar[bool] = False
    names: tuple[str, ...] = field(metadata={"kafka_type": "string"})
    maybe: tuple[int, ...] | None = field(metadata={"kafka_type": "int32"}, default=None)


ORDER = Order(
    number=7, items=(Item(name="a"), Item(name="b", rank=2)), extra=Item(name=""), implied=0
)


def test_the_bytes_of_a_small_entity() -> None:
    assert written(ORDER, 0).hex(" ") == (
        "00 00 00 07"  # number
        " 03"  # two items
        " 02 61 00"  # "a", no tags
        " 02 62 01 03 02 00 02"  # "b", one tag: number 3, 2 bytes
        " 01 01 00"  # present, "", no tags
        " 00"  # no tags
    )


def test_a_field_from_a_later_version_is_left_out_and_read_as_its_default() -> None:
    order = Order(number=1, implied=0, note="hello", key=b"K" * 16)
    assert read_entity(Order, written(order, 2), 0, 2)[0] == order
    assert read_entity(Order, written(order, 1), 0, 1)[0].note is None
    assert read_entity(Order, written(order, 0), 0, 0)[0].key == b"k" * 16


def test_a_tagged_field_without_a_declared_default_stands_for_zero() -> None:
    assert read_entity(Order, written(ORDER, 2), 0, 2) == (ORDER, len(written(ORDER, 2)))
    assert (
        Order(number=1, implied=5)
        == read_entity(Order, written(Order(number=1, implied=5), 2), 0, 2)[0]
    )


def test_unknown_tags_are_skipped() -> None:
    plain = written(Order(number=1, implied=9), 2)
    assert plain[-11:-8] == b"\x01\x01\x08"
    with_unknown = plain[:-11] + b"\x03\x00\x10" + b"K" * 16 + plain[-10:] + b"\x63\x03abc"
    order, end = read_entity(Order, with_unknown, 0, 2)
    assert order == Order(number=1, implied=9, key=b"K" * 16)
    assert end == len(with_unknown)


@pytest.mark.parametrize("size", [7, 9])
def test_a_tagged_field_that_does_not_fill_its_size_is_malformed(size: int) -> None:
    head = written(Order(number=1, implied=0), 2)[:-1]
    with pytest.raises(MalformedFrame, match="tagged field"):
        read_entity(Order, head + b"\x01\x01" + bytes([size]) + bytes(9), 0, 2)


@pytest.mark.parametrize("count", [2**31 - 1, 2, -2, -(2**31), -1])
def test_a_classic_list_is_not_believed(count: int) -> None:
    with pytest.raises(MalformedFrame):
        read_entity(ClassicList, count.to_bytes(4, "big", signed=True) + b"\xff", 0)


@pytest.mark.parametrize(
    "claim", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x00", b"\x7f"]
)
def test_a_compact_list_is_not_believed(claim: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_entity(Order, b"\x00\x00\x00\x01" + claim + b"a", 0, 2)


def test_null_is_read_only_where_the_schema_has_it() -> None:
    encoded = b"\x00\x00\x00\x01" + b"\x00\x01a" + b"\xff\xff\xff\xff"
    assert read_entity(ClassicList, encoded, 0)[0] == ClassicList(names=("a",), maybe=None)
    with pytest.raises(MalformedFrame):
        read_entity(ClassicList, b"\x00\x00\x00\x01" + b"\xff\xff" + b"\xff\xff\xff\xff", 0)


def test_bytes_that_are_no_text_are_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_entity(ClassicList, b"\x00\x00\x00\x01\x00\x01\xff\xff\xff\xff\xff", 0)


def test_a_timestamp_beyond_the_calendar_is_malformed() -> None:
    entity_type = load_response_schema(ApiKey.CREATE_DELEGATION_TOKEN, 1)
    body = (
        b"\x00\x00\x00\x01u\x00\x01u" + b"\x7f" + b"\xff" * 7 + bytes(16) + b"\x00\x01t" + bytes(8)
    )
    with pytest.raises(MalformedFrame):
        read_entity(entity_type, body, 0)
