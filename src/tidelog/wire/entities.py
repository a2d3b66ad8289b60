"""Building kio entities of any version from one set of values.

kio has a class for each message and version; a newer version has more fields. A handler that
serves ten versions would name ten classes. Instead it takes the response class that the codec
resolved, finds the nested classes by field name, and gives every value it knows: fields that the
version does not have are left out. Reading is the other way round: `field` with a default.
"""

from dataclasses import fields
from functools import cache
from typing import Any, get_args

Entity = Any
"""A kio entity: a frozen dataclass of one message and version. kio's protocol types declare no
fields, so the modules that build and read entities treat them as dynamic."""


@cache
def _field_types(entity_type: type) -> dict[str, object]:
    return {item.name: item.type for item in fields(entity_type)}


def make(entity_type: type, /, **values: object) -> Entity:
    """An entity of this class from the values that its version has."""
    known = _field_types(entity_type)
    return entity_type(**{name: value for name, value in values.items() if name in known})


@cache
def nested(entity_type: type, name: str) -> type:
    """The class of the items of an array field, or of a nested entity field.

    Raises `KeyError` when this version has no such field.
    """
    found = _nested_class(_field_types(entity_type)[name])
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


@cache
def has_field(entity_type: type, name: str) -> bool:
    """Whether this version has the field."""
    return name in _field_types(entity_type)


def field(entity: Entity, name: str, default: Any) -> Any:
    """The field's value, or the default when this version does not have it."""
    return getattr(entity, name, default)
