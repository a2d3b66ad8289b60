"""Goal: a layout reads and writes what it lists, and believes no bytes. Records of coordinators
are compared with Kafka's bytes where they are declared (`groups`, `transactions`, `shares`)."""

from typing import NamedTuple

import pytest

from tidelog.errors import MalformedFrame
from tidelog.wire.layouts import (
    CLASSIC,
    FLEXIBLE,
    INT16,
    INT32,
    Tag,
    absent,
    converted,
    read_version,
    written,
)
from tidelog.wire.notation import MALFORMED


class Value(NamedTuple):
    """What the layouts of this test are about."""

    name: str | None
    number: int
    tagged: int = 7


TAGS = [Tag(INT32, 7)]


def of(forms):
    return forms.layout(Value._make, forms.nullable_text, INT16, tags=TAGS)


@pytest.mark.parametrize(
    ("forms", "value", "encoded"),
    [
        (FLEXIBLE, Value("ab", 3), "00010361620003" + "00"),
        (FLEXIBLE, Value(None, 3, 9), "0001000003" + "01000400000009"),
        (CLASSIC, Value("ab", 3), "0001000261620003"),
        (CLASSIC, Value(None, 3), "0001ffff0003"),
    ],
)
def test_what_is_written_is_read(forms, value, encoded):
    assert written(of(forms), value, 1).hex() == encoded
    assert read_version("a test", {1: of(forms)}, bytes.fromhex(encoded)) == value


def test_a_classic_version_has_no_tagged_fields():
    assert written(of(CLASSIC), Value("ab", 3, 9), 1).hex() == "0001000261620003"


def test_a_tagged_field_is_left_out_or_always_written():
    always = FLEXIBLE.layout(tuple, tags=[Tag(INT16, None, is_always_written=True)])
    assert written(always, (5,), 0).hex() == "0000" + "0100020005"
    assert always.read(b"\x00", 0) == ((None,), 1)


def test_tags_that_are_not_known_are_passed_over():
    assert of(FLEXIBLE).read(bytes.fromhex("00000301050199"), 0) == (Value(None, 3), 7)


@pytest.mark.parametrize("tags", ["0100020009", "01000500000009ff", "0100ff"])
def test_a_tagged_field_fills_what_it_declares(tags):
    with pytest.raises((MalformedFrame, *MALFORMED)):
        read_version("a test", {1: of(FLEXIBLE)}, bytes.fromhex("0001000003" + tags))


def test_a_list_takes_no_more_than_its_bytes():
    array = FLEXIBLE.array(of(FLEXIBLE))
    with pytest.raises(MalformedFrame):
        array.read(bytes.fromhex("ffffffff7f") + bytes(9), 0)


def test_elements_are_absent_and_converted():
    doubled = converted(INT16, lambda number: number * 2, lambda number: number // 2)
    layout = CLASSIC.layout(tuple, absent("none"), doubled)
    assert written(layout, ("lost", 6), 0).hex() == "00000003"
    assert layout.read(b"\x00\x03", 0) == (("none", 6), 2)


def test_an_unknown_version_is_refused():
    with pytest.raises(MalformedFrame, match="version `2` of a value of a test"):
        read_version("a test", {1: of(CLASSIC)}, b"\x00\x02\x00\x00\x00\x00")
