"""How the tables of properties are written, and how one is read.

A table is a text, so that a property takes two lines: what holds of it, and indented its sentence
of documentation.

    NAME TYPE [>= LOW | in LOW HIGH | of CHOICE ...] [= DEFAULT] [-> FIELD ...] [<- SYNONYM ...]

`FIELD` is `section.field` of `NodeConfig`. The default of a row is the default of its fields, so no
number stands in two places; `= DEFAULT` is for a row without a field. `SYNONYM` is the node
property that gives all topics their value; `log.roll.hours*3600000` counts in a larger unit, which
is that many of the topic's, and is an INT.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from tidelog.config.property_types import (
    Check,
    Property,
    PropertyType,
    Synonym,
    Value,
    at_least,
    between,
    list_of,
    one_of,
)
from tidelog.config.values import (
    BrokerConfig,
    ControllerConfig,
    EventsConfig,
    LogConfig,
    QuorumConfig,
    ReplicationConfig,
)

SECTIONS: Final[Mapping[str, Any]] = {
    "broker": BrokerConfig,
    "log": LogConfig,
    "quorum": QuorumConfig,
    "controller": ControllerConfig,
    "replication": ReplicationConfig,
    "events": EventsConfig,
}
"""The sections of `NodeConfig` that the rows of the tables fill."""

_MARKS: Final = (">=", "in", "of", "=", "->", "<-")


def field_default(path: str) -> Value:
    """The default of `section.field`."""
    section, name = path.split(".")
    default: object = SECTIONS[section].__dataclass_fields__[name].default
    assert isinstance(default, bool | int | float | str), f"{path} has no default"
    return default


def rows(table: str, checks: Mapping[str, Check] | None = None) -> tuple[Property, ...]:
    """The properties of a table. `checks` has what no mark can say, by name."""
    return tuple(_row(text, checks or {}) for text in re.split(r"\n(?=\S)", table.strip()))


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
    fields = tuple(said.get("->", ()))
    defaults = {str(field_default(path)) for path in fields}
    assert len(defaults) <= 1, f"`{name}`: its fields disagree on the default: {defaults}"
    return Property(
        name=name,
        type=PropertyType[kind],
        doc=" ".join(doc.split()),
        fields=fields,
        check=checks.get(name) or _check(PropertyType[kind], said),
        default=said["="][0] if "=" in said else None,
        synonyms=tuple(map(_synonym, said.get("<-", ()))),
    )


def _synonym(word: str) -> Synonym:
    name, _, scale = word.partition("*")
    return Synonym(name, int(scale or 1))


def _check(kind: PropertyType, said: Mapping[str, list[str]]) -> Check | None:
    if ">=" in said:
        return at_least(int(said[">="][0]))
    if "in" in said:
        return between(*map(int, said["in"]))
    if "of" in said:
        return (list_of if kind is PropertyType.LIST else one_of)(*said["of"])
    return None
