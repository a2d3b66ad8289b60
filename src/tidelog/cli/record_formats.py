"""Records as text, in both directions: `tidelog consume` prints what `tidelog produce` reads.

A *format* is the word `json` or a template. As JSON, each record is a line: an object with `key`,
`value` and `headers` (and, printed, `topic`, `partition`, `offset` and `timestamp`). A text that is
not UTF-8 is an object with its `base64`, so nothing is lost.

A template names fields in braces: `{key}: {value}`. Printed, a null is `null` and bytes that are
not UTF-8 are escaped as in Python. Read, a template is `{value}`, or `{key}`, a separator and
`{value}`.
`\\t` and `\\n` stand for a tab and a new line.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Any, Final

from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.records.record import Headers, Record

JSON: Final = "json"
VALUES: Final = "{value}"
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

Show = Callable[[TopicPartition, Record], str]
Read = Callable[[bytes, int], Record]
"""From a line and a timestamp in ms. Raises `ValueError`."""


def printer(text: str) -> Show:
    """How records are printed. Raises `UsageError`."""
    if text == JSON:
        return _as_json
    pieces = _pieces(text)

    def show(tp: TopicPartition, record: Record) -> str:
        values = {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _shown(record.key),
            "value": _shown(record.value),
            "headers": ",".join(f"{name}={_shown(value)}" for name, value in record.headers),
        }
        return "".join(literal + str(values.get(name, "")) for literal, name in pieces)

    return show


def reader(text: str) -> Read:
    """How lines are read. Raises `UsageError`."""
    if text == JSON:
        return _of_json
    match _pieces(text):
        case [("", "value")]:
            return lambda line, at: Record(at, None, line)
        case [("", "key"), (separator, "value")] if separator:
            return lambda line, at: _of_pair(line, at, separator.encode())
    raise UsageError(
        f"lines cannot be read as `{text}`", "use `{value}`, `{key}SEPARATOR{value}` or `json`"
    )


def _pieces(text: str) -> list[tuple[str, str]]:
    """A template as literals, each with the field behind it, `""` at the end. Raises
    `UsageError`."""
    text = text.replace("\\t", "\t").replace("\\n", "\n")
    first, *rest = text.split("{")
    found, literal = [], first
    for part in rest:
        name, brace, behind = part.partition("}")
        if not brace or name not in FIELDS:
            hint = "use `json`, or fields in braces: " + ", ".join(f"{{{each}}}" for each in FIELDS)
            raise UsageError(f"`{{{part}` in a format names no field", hint)
        found.append((literal, name))
        literal = behind
    if not found:
        raise UsageError(f"the format `{text}` names no field", "write it like `{key}: {value}`")
    return [*found, (literal, "")] if literal else found


def _shown(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="backslashreplace")


def _as_json(tp: TopicPartition, record: Record) -> str:
    return json.dumps(
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _plain(record.key),
            "value": _plain(record.value),
            "headers": [[name, _plain(value)] for name, value in record.headers],
        },
        ensure_ascii=False,
    )


def _plain(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _of_json(line: bytes, at: int) -> Record:
    found = json.loads(line)
    if not isinstance(found, dict) or "value" not in found:
        raise ValueError("not an object with a `value`")
    unknown = found.keys() - set(FIELDS)
    if unknown:
        raise ValueError(f"`{min(unknown)}` is not a field of a record")
    headers: list[tuple[str, bytes | None]] = []
    for each in found.get("headers") or ():
        match each:
            case [str(name), value]:
                headers.append((name, _bytes_of(value)))
            case _:
                raise ValueError("`headers` are pairs of a name and a value")
    return Record(at, _bytes_of(found.get("key")), _bytes_of(found["value"]), tuple(headers))


def _bytes_of(value: Any) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str(text)}:
            try:
                return b64decode(text, validate=True)
            except Base64Error:
                raise ValueError(f"`{text}` is not base64") from None
    raise ValueError(f"`{json.dumps(value)}` is not a text, a null or an object with `base64`")


def _of_pair(line: bytes, at: int, separator: bytes) -> Record:
    key, found, value = line.partition(separator)
    if not found:
        raise ValueError(f"there is no `{separator.decode()}` behind a key")
    return Record(at, key, value)


def with_more(record: Record, key: str | None, headers: Headers) -> Record:
    """The record with this key, if there is one, and with these headers behind its own."""
    found = record.key if key is None else key.encode()
    return Record(record.timestamp, found, record.value, (*record.headers, *headers))
