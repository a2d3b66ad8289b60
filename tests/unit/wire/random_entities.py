"""Random values of any schema class, drawn from a seeded generator."""

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode as KioErrorCode

from tidelog.env.prng import Prng
from tidelog.wire.values import millis, timestamp, uuid_of

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_TEXTS = ("", "a", "topic-name", "ünï", "x" * 130)
_ERRORS = tuple(KioErrorCode)


def random_entity(prng: Prng, entity_type: Any) -> Any:
    """An entity with every field drawn; about one in four keeps its default where it has one."""
    return entity_type(
        **{
            field.name: random_field(prng, field.type, field.metadata)
            for field in fields(entity_type)
            if not (_has_default(field) and prng.chance(1, 4))
        }
    )


def _has_default(field: Any) -> bool:
    return type(field.default).__name__ != "_MISSING_TYPE"


def random_field(prng: Prng, declared: Any, metadata: Any) -> Any:
    """A value of a field's declared type."""
    if get_origin(declared) is UnionType:
        if prng.chance(1, 4):
            return None
        declared = next(part for part in get_args(declared) if part is not type(None))
    if get_origin(declared) is tuple:
        item = get_args(declared)[0]
        return tuple(random_field(prng, item, metadata) for _ in range(prng.below(4)))
    if is_dataclass(declared):
        return random_entity(prng, declared)
    return _random_primitive(prng, metadata["kafka_type"])


def _random_primitive(prng: Prng, kafka_type: str) -> Any:
    if kafka_type in _INTEGERS:
        low, high = _INTEGERS[kafka_type]
        return prng.choice((low, high, max(low, -1), 0, 1, prng.between(low, high)))
    match kafka_type:
        case "bool":
            return prng.chance(1, 2)
        case "float64":
            return prng.between(-(10**6), 10**6) / 8
        case "string":
            return prng.choice(_TEXTS)
        case "bytes" | "records":
            return bytes(prng.below(256) for _ in range(prng.below(5)))
        case "uuid":
            return uuid_of(prng.uuid())
        case "uuid_bytes":
            return prng.uuid()
        case "error_code":
            return prng.choice(_ERRORS)
        case "timedelta_i32" | "timedelta_i64":
            return millis(prng.between(-(2**31), 2**31 - 1))
        case "datetime_i64":
            return timestamp(prng.between(0, 2**42))
    raise AssertionError(f"no random value for `{kafka_type}`")
