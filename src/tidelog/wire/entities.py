"""Building kio entities of any version from one set of values.

kio has a class for each message and version; a newer version has more fields. A handler that
serves ten versions would name ten classes. Instead it takes the response class that the codec
resolved, and gives every value it knows: fields that the version does not have are left out.
Reading is the other way round: `field` with a default.

A value may have our type where kio has another (an error code, 16 bytes of a UUID, milliseconds),
and a nested entity may be a dict of its values.

`build` and `plain` do the same for whole entities whose fields are named as the values are: the
plain form of an entity is a mapping with 16 raw bytes for a UUID, a number for an error code,
milliseconds for a duration, and mappings for nested entities.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import cache, partial
from typing import Any, get_args, get_origin

from tidelog.wire.primitives import NUMBERS, Number
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
        return tuple if _is_array(item) else None

    def convert_item(value: Any) -> Any:
        return value if value.__class__ is kio_type or value is None else convert(value)

    return _of_items(convert_item) if _is_array(item) else convert_item


@cache
def from_kio(entity_type: type) -> dict[str, Convert]:
    """How a field's value becomes a value of our type, by name."""
    return {item.name: _back_converter(item) for item in fields(entity_type)}


def _back_converter(item: "Field[Any]") -> Convert:
    *_, convert = CONVERSIONS.get(item.metadata.get("kafka_type"), (_same,))
    return _of_items(convert) if _is_array(item) and convert is not _same else convert


def _same(value: Any) -> Any:
    return value


def _of_items(convert: Convert) -> Convert:
    return lambda items: tuple([convert(each) for each in items])


def _is_array(item: "Field[Any]") -> bool:
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


@cache
def _plain_forms(entity_type: type) -> dict[str, tuple[type | None, Number | None]]:
    """By field: the class of the entities that it holds, or the form of the number that it is."""
    return {
        item.name: (_nested_class(item.type), NUMBERS.get(item.metadata.get("kafka_type", "")))
        for item in fields(entity_type)
    }


def build(entity_type: type, values: Mapping[str, Any]) -> Entity:
    """The entity of plain values; those without a field in this version are left out."""
    made = {}
    for name, (inner, number) in _plain_forms(entity_type).items():
        if name in values:
            value = values[name]
            if inner is not None and value is not None:
                is_array = isinstance(value, list | tuple)
                value = tuple(build(inner, x) for x in value) if is_array else build(inner, value)
            elif number is not None and number.decode is not None:
                value = number.decode(value)
            made[name] = value
    return entity_type(**made)


def plain(entity: Entity) -> dict[str, Any]:
    """The inverse of `build`: all fields that this version has."""
    found = {}
    entity_type: type = type(entity)
    for name, (inner, number) in _plain_forms(entity_type).items():
        value = getattr(entity, name)
        if inner is not None and value is not None:
            value = [plain(x) for x in value] if isinstance(value, tuple) else plain(value)
        elif number is not None and number.encode is not None:
            value = number.encode(value)
        found[name] = value
    return found
