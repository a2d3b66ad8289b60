"""A request that is the same for both brokers, although each gives its own ids.

A member id, a generation or a producer id is written as a `Ref` to the earlier answers that may
have given it. Each broker's own answer is put in when the step is sent. Names of groups, topics and
transactional ids are `Name`s: every run puts its own prefix in front, so that a sequence
can be run again on the same two brokers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from tidelog.errors import ProtocolError
from tidelog.records.batch import HEADER_BYTES, build_batch, read_header, rebuild
from tidelog.records.record import Record
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import request_class

NOTHING = ("", -1, None)
"""What an answer has in a field that it does not give."""

RECORDS_AT: Final = 1_700_000_000_000
"""The time of the first record of a batch."""


@dataclass(frozen=True, slots=True)
class Ref:
    """What the newest of these answers gave in a field; `otherwise` when none of them gave it."""

    answers: "tuple[tuple[int, Way], ...]"
    """Steps, the newest first, each with the way to the field."""
    otherwise: Any
    plus: int = 0
    """Added to a number, to make a generation or epoch that is wrong."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name of this run."""

    text: str


Way = tuple[str | int | Name, ...]
"""Through an answer: by field, by position in a list, or to the row that has a name."""


@dataclass(frozen=True, slots=True)
class Long:
    """A name of this run that has so many bytes."""

    length: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch of a producer."""

    producer_id: Any
    producer_epoch: Any
    base_sequence: int
    count: int
    transactional: bool
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A record batch that is there already, of another producer."""

    data: bytes
    producer_id: Any
    producer_epoch: Any


@dataclass(frozen=True, slots=True)
class Step:
    """A request; `slot` says on which connection."""

    number: int
    slot: int
    key: int
    version: int
    body: Mapping[str, Any]


Answers = Mapping[int, Any]
"""By step, what the broker answered, as plain values."""


def resolve(value: Any, answers: Answers, prefix: str) -> Any:
    """The value with everything put in that this broker and this run have of their own."""
    if isinstance(value, Name):
        return prefix + value.text
    if isinstance(value, Long):
        return prefix.ljust(value.length, "x")
    if isinstance(value, Ref):
        return _found(value, answers, prefix)
    if isinstance(value, Batch):
        return _batch(value, lambda part: resolve(part, answers, prefix))
    if isinstance(value, WrittenBatch):
        producer = [
            resolve(each, answers, prefix) for each in (value.producer_id, value.producer_epoch)
        ]
        return _of_producer(value.data, *producer)
    if isinstance(value, Mapping):
        return {name: resolve(each, answers, prefix) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(resolve(each, answers, prefix) for each in value)
    return value


def has_long(value: Any) -> bool:
    """Whether a text in it is as long as its version can say, or nearly."""
    if isinstance(value, Mapping):
        return any(map(has_long, value.values()))
    return isinstance(value, Long) or (
        isinstance(value, (list, tuple)) and any(map(has_long, value))
    )


def _found(ref: Ref, answers: Answers, prefix: str) -> Any:
    for number, path in ref.answers:
        value: Any = answers.get(number)
        for part in path:
            try:
                if isinstance(part, Name):
                    value = next(row for row in value if row["name"] == prefix + part.text)
                else:
                    value = value[part]
            except (KeyError, IndexError, TypeError, StopIteration):
                value = None
                break
        if value not in NOTHING:
            return value + ref.plus if ref.plus else value
    return ref.otherwise + ref.plus if ref.plus else ref.otherwise


def _batch(batch: Batch, put_in: Callable[[Any], Any]) -> bytes:
    producer_id = put_in(batch.producer_id)
    built = build_batch(
        [Record(RECORDS_AT + i, None, b"value") for i in range(batch.count)],
        producer_id=producer_id,
        producer_epoch=put_in(batch.producer_epoch),
        base_sequence=batch.base_sequence,
        # See `known.py`: the logs would not be alike any more.
        is_transactional=batch.transactional and producer_id >= 0,
    )
    return built[:-1] + bytes([built[-1] ^ 1]) if batch.damaged else built


def _of_producer(data: bytes, producer_id: int, producer_epoch: int) -> bytes:
    header = read_header(data)._replace(producer_id=producer_id, producer_epoch=producer_epoch)
    return rebuild(header, data[HEADER_BYTES:])


def shown(step: Step) -> str:
    """One line for a report."""
    try:
        api = ApiKey(step.key).name
    except ValueError:
        api = f"key {step.key}"
    try:
        known = {one.name for one in fields(request_class(step.key, step.version))}
    except ProtocolError:
        known = set(step.body)
    body = {name: each for name, each in step.body.items() if name in known}
    return f"#{step.number} on {step.slot}: {api} v{step.version} {_shown(body)}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}={_shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    if isinstance(value, Name):
        return value.text
    if isinstance(value, Long):
        return f"<{value.length} long>"
    if isinstance(value, Ref):
        numbers = "|".join(f"#{number}" for number, _ in value.answers) or "nothing"
        plus = f"{value.plus:+d}" if value.plus else ""
        field = value.answers[0][1][-1] if value.answers else repr(value.otherwise)
        return f"<{field} of {numbers}{plus}>"
    if isinstance(value, Batch | WrittenBatch):
        return f"Batch({_shown({each.name: getattr(value, each.name) for each in fields(value)})})"
    if isinstance(value, (str, bytes)) and len(value) > 30:
        return f"<{len(value)} long>"
    return repr(value)
