"""Building kio entities of any version from one set of values.

kio has a class for each message and version; a newer version has more fields. A handler that
serves ten versions would name ten classes. Instead it takes the response class that the codec
resolved, and gives every value it knows: fields that the version does not have are left out.
Reading is the other way round: `field` with a default.

A value may have our type where kio has another (an error code, 16 bytes of a UUID, milliseconds),
and a nested entity may be a dict of its values. `plain` gives such a dict of a whole entity.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from functools import cache, partial
from typing import Any, get_args, get_origin

from tidelog.wire.primitives import Encoded
from tidelog.wire.schema import array_length, read_array_length, write_entity
from tidelog.wire.values import CONVERSIONS

Entity = Any
"""A kio entity: a frozen dataclass of one message and version. kio's protocol types declare no
fields, so the modules that build and read entities treat them as dynamic."""

Convert = Callable[[Any], Any]


def make(entity_type: type, /, **values: Any) -> Entity:
    """An entity of this class from the values that its version has."""
    return _made(entity_type, values)


def _made(entity_type: type, values: Mapping[str, Any]) -> Entity:
    known, fitting = _to_kio(entity_type), {}
    for name, value in values.items():
        if name in known:
            convert = known[name]
            fitting[name] = value if convert is None or value is None else convert(value)
    return entity_type(**fitting)


@cache
def _to_kio(entity_type: type) -> dict[str, Convert | None]:
    """How a value becomes a field's value, by name; `None` where it is one as it stands."""
    return {item.name: _converter(item) for item in fields(entity_type)}


def _converter(item: "Field[Any]") -> Convert | None:
    kio_type, convert, _ = CONVERSIONS.get(item.metadata.get("kafka_type"), (None, _same, _same))
    if (entity_type := _nested_class(item.type)) is not None:
        kio_type, convert = entity_type, partial(_made, entity_type)
    if kio_type is None:
        return tuple if is_array(item) else None

    def convert_item(value: Any) -> Any:
        return value if value.__class__ is kio_type or value is None else convert(value)

    return _of_items(convert_item) if is_array(item) else convert_item


@cache
def from_kio(entity_type: type) -> dict[str, Convert]:
    """How a field's value becomes a value of our type, by name."""
    return {item.name: _back_converter(item) for item in fields(entity_type)}


def _back_converter(item: "Field[Any]") -> Convert:
    *_, convert = CONVERSIONS.get(item.metadata.get("kafka_type"), (_same,))
    return _of_items(convert) if is_array(item) and convert is not _same else convert


def _same(value: Any) -> Any:
    return value


def _of_items(convert: Convert) -> Convert:
    def convert_all(items: Any) -> Any:
        return items if items.__class__ is Encoded else tuple([convert(each) for each in items])

    return convert_all


def nested_type(item: "Field[Any]") -> type:
    """The class of a nested entity field."""
    found = _nested_class(item.type)
    assert found is not None, f"{item.name} holds no entity"
    return found


def is_array(item: "Field[Any]") -> bool:
    """Whether a field of an entity class is an array."""
    return any(get_origin(each) is tuple for each in (item.type, *get_args(item.type)))


@cache
def nested(entity_type: type, name: str) -> type:
    """The class of the items of an array field, or of a nested entity field.

    Raises `KeyError` when this version has no such field.
    """
    found = _nested_class({item.name: item.type for item in fields(entity_type)}[name])
    assert found is not None, f"{entity_type.__name__}.{name} holds no entities"
    return found


def _nested_class(annotation: object) -> type | None:
    if isinstance(annotation, type) and hasattr(annotation, "__version__"):
        return annotation
    for argument in get_args(annotation):
        found = _nested_class(argument)
        if found is not None:
            return found
    return None


def has_field(entity_type: type, name: str) -> bool:
    """Whether this version has the field."""
    return name in _to_kio(entity_type)


def field(entity: Entity, name: str, default: Any) -> Any:
    """The field's value, or the default when this version does not have it."""
    return getattr(entity, name, default)


def plain(entity: Entity) -> dict[str, Any]:
    """The inverse of `make`: all fields that this version has, as values of our types; nested
    entities are dicts."""
    convert = from_kio(entity.__class__)
    return {name: _plain(convert[name](getattr(entity, name))) for name in convert}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return plain(value) if hasattr(value, "__version__") else value


def extended(entity: Entity, name: str, rows: tuple[Entity, ...]) -> Entity:
    """The entity with more rows in an array, which may be encoded already."""
    items = getattr(entity, name)
    if items.__class__ is not Encoded:
        return replace(entity, **{name: (*items, *rows)})
    item_type = nested(entity.__class__, name)
    count, start = read_array_length(item_type, items)
    out = array_length(item_type, count + len(rows)) + items[start:]
    for row in rows:
        write_entity(out, row)
    return replace(entity, **{name: Encoded(out)})


class ArrayWriter:
    """An array field of entities that is encoded row by row, each when it is there; the array is
    then given in its place, to one entity or to many of the class."""

    def __init__(self, entity_type: type, name: str) -> None:
        self._item_type = nested(entity_type, name)
        self._rows = bytearray()
        self._count = 0

    def add(self, **values: Any) -> None:
        """Encodes one item, from the values that its version has."""
        write_entity(self._rows, _made(self._item_type, values))
        self._count += 1

    def array(self) -> Encoded:
        """All items."""
        return Encoded(array_length(self._item_type, self._count) + self._rows)
