"""How the text of one property becomes a value, and what is wrong with it when it does not.

A `Property` is a row of a table: Kafka's name, its type, the range or the choices, a sentence of
documentation, and the fields that it sets. Parsing raises a `BadValue` whose text completes the
sentence "the value ... of ... ". The caller decides whether that is a usage error (start-up) or a
reply to a client.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

Value = bool | int | float | str


class PropertyType(IntEnum):
    """Types by their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_INTEGER_BITS: Final = {PropertyType.SHORT: 16, PropertyType.INT: 32, PropertyType.LONG: 64}

Check = Callable[[Value], str | None]
"""The complaint about a parsed value, or `None`."""


class BadValue(Exception):
    """A value that does not parse or is out of range; the text is the complaint."""


class Synonym(NamedTuple):
    """A broker property that gives topics their value, times `scale`."""

    name: str
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One row: a name and everything known about it."""

    name: str
    type: PropertyType
    doc: str
    fields: tuple[str, ...] = ()
    """The fields it sets, as `section.field` of `NodeConfig` or as a field of `LogConfig`;
    none for a property that is read by a rule of its own or has no effect here."""
    check: Check | None = None
    default: str | None = None
    """Text of the default where no field carries it."""
    scale: int = 1
    """Factor from the property's unit to the field's (hours to milliseconds)."""
    synonyms: tuple[Synonym, ...] = ()
    """Of a topic configuration, by falling precedence."""


def at_least(low: int) -> Check:
    """Accepts numbers from `low` on."""

    def check(value: Value) -> str | None:
        assert not isinstance(value, str)
        return None if value >= low else f"must be at least {low}"

    return check


def between(low: int, high: int) -> Check:
    """Accepts numbers from `low` to `high`, both included."""

    def check(value: Value) -> str | None:
        assert not isinstance(value, str)
        return None if low <= value <= high else f"must be between {low} and {high}"

    return check


def one_of(*choices: str) -> Check:
    """Accepts these texts only."""

    def check(value: Value) -> str | None:
        return None if value in choices else f"must be one of {', '.join(choices)}"

    return check


def optional(check: Check) -> Check:
    """Accepts the empty text as well, which chooses nothing."""
    return lambda value: None if value == "" else check(value)


def list_of(*choices: str) -> Check:
    """Accepts comma-separated lists whose items are among these and appear once."""

    def check(value: Value) -> str | None:
        items = split_list(str(value))
        if any(item not in choices for item in items):
            return f"must be a list of {', '.join(choices)}"
        return None if len(set(items)) == len(items) else "must not name an item twice"

    return check


def throttled_replicas(value: Value) -> str | None:
    """The complaint about a list of throttled replicas: `*`, or pairs of partition and broker."""
    text = str(value).strip()
    pairs = [item.split(":") for item in split_list(text)]
    if text == "*" or all(len(pair) == 2 and all(map(_is_number, pair)) for pair in pairs):
        return None
    return "must be the literal * or a list like [partition]:[broker],[partition]:[broker]"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def split_list(text: str) -> list[str]:
    """The items of a comma-separated list, without blanks around them."""
    return [item.strip() for item in text.split(",") if item.strip()]


def parse_value(prop: Property, text: str) -> Value:
    """The typed value of a property's text, range checked; raises `BadValue`."""
    value = _parse_type(prop.type, text.strip())
    complaint = prop.check(value) if prop.check is not None else None
    if complaint is not None:
        raise BadValue(complaint)
    return value


def _parse_type(kind: PropertyType, text: str) -> Value:
    if kind is PropertyType.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise BadValue("must be true or false")
        return text.lower() == "true"
    if kind in _INTEGER_BITS:
        return _parse_integer(text, _INTEGER_BITS[kind])
    if kind is PropertyType.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise BadValue("must be a number") from None
    return text


def _parse_integer(text: str, bits: int) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    # int() would also take underscores, blanks and other scripts' digits; Kafka does not.
    if not (digits.isascii() and digits.isdigit()):
        raise BadValue("must be a whole number")
    value = int(text)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise BadValue(f"does not fit a {bits}-bit integer")
    return value


def value_text(value: Value) -> str:
    """The text in which Kafka shows a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
