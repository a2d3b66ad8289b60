"""Requests that are well-formed and otherwise wild: every field drawn from a seed.

Half of all values come from small pools, so that a request often hits a topic, partition or config
that exists, and then goes wrong in some other field.
"""

import types
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Union, get_args, get_origin

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import ZERO_UUID
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire.values import error, millis, uuid_of

WORDS = (
    "t",
    "u",
    "",
    "no-such-topic",
    "a/b",
    "..",
    "x" * 260,
    "ünïcode ☃",
    "__consumer_offsets",
    "__cluster_metadata",
    "min.insync.replicas",
    "retention.ms",
    "metadata.version",
    "1",
    "-1",
    "CONTROLLER",
    "PLAINTEXT",
    "b25lLW5vZGUtY2x1c3Rlcg",
)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def random_request(entity_type: type, prng: Prng, topic_ids: Sequence[bytes]) -> Any:
    """An entity of this class with drawn values."""
    values = {}
    for item in fields(entity_type):
        if item.default is not MISSING and prng.chance(1, 3):
            continue
        kind = item.metadata.get("kafka_type", "")
        values[item.name] = _value(item.type, kind, prng, topic_ids)
    return entity_type(**values)


def _value(annotation: Any, kind: str, prng: Prng, topic_ids: Sequence[bytes]) -> Any:
    options = get_args(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        if prng.chance(1, 4) and kind != "uuid":
            return None
        annotation = next(option for option in options if option is not type(None))
        options = get_args(annotation)
    if get_origin(annotation) is tuple:
        count = prng.below(4)
        return tuple(_value(options[0], kind, prng, topic_ids) for _ in range(count))
    if is_dataclass(annotation):
        return random_request(annotation, prng, topic_ids)
    return _primitive(kind, prng, topic_ids)


def _primitive(kind: str, prng: Prng, topic_ids: Sequence[bytes]) -> Any:
    if kind in _BITS:
        return _integer(_BITS[kind], prng)
    match kind:
        case "uint16":
            return prng.below(1 << 16)
        case "bool":
            return prng.chance(1, 2)
        case "string":
            return prng.choice(WORDS)
        case "bytes":
            return bytes(prng.below(256) for _ in range(prng.below(40)))
        case "records":
            return _records(prng)
        case "uuid":
            return uuid_of(prng.choice((*topic_ids, ZERO_UUID, b"\x07" * 16)))
        case "float64":
            return prng.choice((-1.0, 0.0, 0.5, 1000.0, float("nan"), float("inf")))
        case "timedelta_i32" | "timedelta_i64":
            return millis(prng.choice((0, 1, 500, 2**31 - 1)))
        case "error_code":
            return error(prng.choice((ErrorCode.NONE, ErrorCode.NOT_CONTROLLER)))
    raise AssertionError(f"no values for `{kind}`")


def _records(prng: Prng) -> bytes:
    """A batch that is sound, flagged as something it is not, or damaged."""
    batch = bytearray(
        build_batch(
            [Record(prng.choice((-1, 0, 1_700_000_000_000)), b"k", b"v" * prng.below(90), ())],
            producer_id=prng.choice((-1, 5)),
            producer_epoch=prng.choice((-1, 0, 1)),
            base_sequence=prng.choice((-1, 0, 1, 2)),
            is_transactional=prng.chance(1, 8),
            is_control=prng.chance(1, 8),
        )
    )
    if prng.chance(1, 3):
        batch[prng.below(len(batch))] ^= 1 << prng.below(8)
    if prng.chance(1, 8):
        del batch[prng.below(len(batch)) :]
    return bytes(batch)


def _integer(bits: int, prng: Prng) -> int:
    top = 1 << (bits - 1)
    if prng.chance(2, 3):
        return prng.choice((0, 1, 2, -1, 3))
    return prng.choice((-top, top - 1, prng.between(-top, top - 1), prng.between(-6, 9)))
