"""How a row of the tables of node properties is made: from a name, a type and the fields it sets.

The default of a row is the default of its fields, so no number stands in two places.
"""

from collections.abc import Mapping
from typing import Final

from tidelog.config.property_types import Check, Property, PropertyType, Value
from tidelog.config.values import (
    BrokerConfig,
    ControllerConfig,
    CoordinatorConfig,
    EventsConfig,
    LogConfig,
    QuorumConfig,
    ReplicationConfig,
    Section,
)

SECTIONS: Final[Mapping[str, type[Section]]] = {
    "broker": BrokerConfig,
    "log": LogConfig,
    "quorum": QuorumConfig,
    "controller": ControllerConfig,
    "replication": ReplicationConfig,
    "coordinators": CoordinatorConfig,
    "events": EventsConfig,
}
"""The sections of `NodeConfig` that the rows of this table fill."""

BOOLEAN, STRING, INT, SHORT, LONG, LIST = (
    PropertyType.BOOLEAN,
    PropertyType.STRING,
    PropertyType.INT,
    PropertyType.SHORT,
    PropertyType.LONG,
    PropertyType.LIST,
)


def field_default(path: str) -> Value:
    """The default of `section.field`."""
    section, name = path.split(".")
    default: object = SECTIONS[section].__dataclass_fields__[name].default
    assert isinstance(default, bool | int | float | str), f"{path} has no default"
    return default


def row(
    name: str,
    kind: PropertyType,
    doc: str,
    *fields: str,
    check: Check | None = None,
    default: str | None = None,
) -> Property:
    if fields:
        defaults = {str(field_default(path)) for path in fields}
        assert len(defaults) == 1, f"`{name}`: its fields disagree on the default: {defaults}"
    return Property(name=name, type=kind, doc=doc, fields=fields, check=check, default=default)
