"""What is known of a property, how a table of them is written, and how a text becomes a value.

A `Property` is a row of a table: Kafka's name, its type, the range or the choices, a sentence of
documentation, and the fields that it sets. Parsing raises a `BadValue` whose text completes the
sentence "the value ... of ... ". The caller decides whether that is a usage error (start-up) or a
reply to a client.

A table is a text, so that a property takes two lines: what holds of it, and indented its sentence.

    NAME TYPE [>= LOW | in LOW HIGH | of CHOICE ...] [= DEFAULT] [-> FIELD ...] [<- SYNONYM ...]

`FIELD` is `section.field` of `NodeConfig`. The default of a row is the default of its fields, so no
number stands in two places; `= DEFAULT` is for a row without a field. `SYNONYM` is the node
property that gives all topics their value; `log.roll.hours*3600000` counts in a larger unit, which
is that many of the topic's, and is an INT.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from tidelog.config.values import LONG_MAX, NodeConfig
from tidelog.errors import UsageError
from tidelog.model import HIDDEN

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
    """The fields it sets, as `section.field` of `NodeConfig`; none for a property that is read by
    a rule of its own or has no effect here."""
    check: Check | None = None
    default: str | None = None
    """Text of the default where no field carries it."""
    scale: int = 1
    """Factor from the property's unit to the field's (hours to milliseconds)."""
    synonyms: tuple[Synonym, ...] = ()
    """Of a topic configuration, by falling precedence."""


def between(low: int, high: int | None = None) -> Check:
    """Accepts numbers from `low` to `high`, both included, or without `high` from `low` on."""
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"

    def check(value: Value) -> str | None:
        assert not isinstance(value, str)
        inside = low <= value and (high is None or value <= high)
        return None if inside else f"must be {bounds}"

    return check


def one_of(*choices: str, any_case: bool = False) -> Check:
    """Accepts these texts only, in upper and lower case or as they are."""

    def check(value: Value) -> str | None:
        written = str(value).lower() if any_case else value
        return None if written in choices else f"must be one of {', '.join(choices)}"

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


def unlimited_or_positive(value: Value) -> str | None:
    """The complaint about a time that records are kept. An operator who writes 0 often means
    "without end", and would lose everything."""
    assert not isinstance(value, str)
    return None if value == -1 or value > 0 else f"must be -1 or between 1 and {LONG_MAX}"


def throttled_replicas(value: Value) -> str | None:
    """The complaint about a list of throttled replicas: `*`, or pairs of partition and broker."""
    text = str(value).strip()
    pairs = [item.split(":") for item in split_list(text)]
    if text == "*" or all(len(pair) == 2 and all(map(_is_number, pair)) for pair in pairs):
        return None
    return "must be the literal * or a list like [partition]:[broker],[partition]:[broker]"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


LISTENER_PREFIX: Final = "listener.name."
"""Begins the name of a property that is set for one listener."""


def listener_prefix(listener: str, mechanism: str = "") -> str:
    """What stands before the name of a property that is set for one listener, or for one SASL
    mechanism of it."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    return f"{prefix}{mechanism.lower()}." if mechanism else prefix


def without_prefixes(settings: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    """The settings with those of these prefixes in the places of the plain ones; the last prefix
    goes before the others."""
    seen = dict(settings)
    for prefix in prefixes:
        for name, value in settings.items():
            if name.startswith(prefix):
                seen[name.removeprefix(prefix)] = value
    return seen


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
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if not low <= value <= high:
        raise BadValue(f"must be between {low} and {high}, a {bits}-bit integer")
    return value


def table_texts(table: Mapping[str, Property], settings: Mapping[str, str]) -> dict[str, str]:
    """The text of each property of a table, its default where it is not set; raises `UsageError`
    for bad values."""
    texts = {}
    for name, prop in table.items():
        text = settings.get(name)
        texts[name] = (prop.default or "") if text is None else text.strip()
        try:
            if text is not None:
                parse_value(prop, text)
        except BadValue as error:
            shown = HIDDEN if prop.type is PropertyType.PASSWORD else text
            raise UsageError(f"`{name}` is `{shown}`, but it {error}", prop.doc) from None
    return texts


def value_text(value: Value) -> str:
    """The text in which Kafka shows a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# Tables ------------------------------------------------------------------------------------

SECTIONS: Final[Mapping[str, Any]] = {
    each.name: each.default_factory
    for each in fields(NodeConfig)
    if is_dataclass(each.default_factory)
}
"""The sections of `NodeConfig` that the rows of the tables fill: their classes."""

_MARKS: Final = (">=", "in", "of", "=", "->", "<-")


def field_default(path: str) -> Value:
    """The default of `section.field`."""
    section, name = path.split(".")
    default: object = SECTIONS[section].__dataclass_fields__[name].default
    assert isinstance(default, bool | int | float | str), f"{path} has no default"
    return default


def rows(table: str, checks: Mapping[str, Check] | None = None) -> dict[str, Property]:
    """The properties of a table, by name. `checks` has what no mark can say, by name."""
    found = (_row(text, checks or {}) for text in re.split(r"\n(?=\S)", table.strip()))
    return {prop.name: prop for prop in found}


def _row(text: str, checks: Mapping[str, Check]) -> Property:
    head, _, doc = text.partition("\n")
    name, kind, *words = head.split()
    said: dict[str, list[str]] = {"": []}
    values = said[""]
    for word in words:
        if word in _MARKS:
            values = said[word] = []
        else:
            values.append(word)
    assert not said[""], f"`{name}`: {said['']} behind no mark"
    paths = tuple(said.get("->", ()))
    defaults = {str(field_default(path)) for path in paths}
    assert len(defaults) <= 1, f"`{name}`: its fields disagree on the default: {defaults}"
    return Property(
        name=name,
        type=PropertyType[kind],
        doc=" ".join(doc.split()),
        fields=paths,
        check=checks.get(name) or _check(PropertyType[kind], said),
        default=said["="][0] if "=" in said else None,
        synonyms=tuple(map(_synonym, said.get("<-", ()))),
    )


def _synonym(word: str) -> Synonym:
    name, _, scale = word.partition("*")
    return Synonym(name, int(scale or 1))


def _check(kind: PropertyType, said: Mapping[str, list[str]]) -> Check | None:
    if "of" in said:
        return (list_of if kind is PropertyType.LIST else one_of)(*said["of"])
    bounds = said.get(">=") or said.get("in")
    return between(*map(int, bounds)) if bounds else None
