"""A schema registry, as far as a reader needs it: schemas by their id, and the newest of a subject.

Producers with Confluent's serializers write five bytes before each key or value: a zero, and the id
of the schema it was written with, which the registry knows. The schemas of values of topic `t` are
in the subject `t-value`, those of keys in `t-key`.

Ids never change their schema, so a process asks for each once. A registry that does not answer is a
failure that may pass: nothing is written, and the query is started again. An id that it does not
know is a fault of the record.
Source: Confluent's documentation of the registry's REST interface and of the wire format.
"""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tidelog.errors import UsageError
from tidelog.pipeline.errors import RegistryUnavailable

MAGIC: Final = 0
PREFIX_BYTES: Final = 5
_TIMEOUT_S: Final = 10.0
_CACHED: Final = 1000
_NOT_FOUND: Final = 404


class UnknownSchema(Exception):
    """The registry does not have it."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema of the registry."""

    kind: str
    """`AVRO`, `PROTOBUF` or `JSON`."""
    text: str
    """Avro's JSON, or a serialized `FileDescriptorProto` in base64."""
    references: tuple[tuple[str, str], ...] = ()
    """The schemas that it imports, and theirs: name and text of each, what others import first."""


@lru_cache(_CACHED)
def schema_by_id(url: str, number: int) -> Registered:
    """Raises `UnknownSchema`, `RegistryUnavailable`."""
    return _registered(url, f"schemas/ids/{number}?format=serialized")


def newest_schema(url: str, subject: str) -> Registered:
    """The newest of a subject. Raises `UnknownSchema`, `RegistryUnavailable`."""
    name = urllib.parse.quote(subject, safe="")
    return _registered(url, f"subjects/{name}/versions/latest?format=serialized")


def split(value: bytes) -> tuple[int, bytes]:
    """The id of a value's schema, and what follows it. Raises `ValueError`."""
    if len(value) < PREFIX_BYTES or value[0] != MAGIC:
        raise ValueError("it does not begin with a zero and the id of a schema")
    return int.from_bytes(value[1:PREFIX_BYTES]), value[PREFIX_BYTES:]


def _registered(url: str, path: str) -> Registered:
    found = _get(url, path)
    references: dict[str, str] = {}
    for one in found.get("references") or ():
        name = urllib.parse.quote(one["subject"], safe="")
        path = f"subjects/{name}/versions/{one['version']}?format=serialized"
        inner = _registered(url, path)
        references |= dict(inner.references) | {one["name"]: inner.text}
    return Registered(found.get("schemaType", "AVRO"), found["schema"], tuple(references.items()))


def _get(url: str, path: str) -> Any:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"`--registry {url}` is not an address of a registry", "give `http://host:8081`"
        )
    request = urllib.request.Request(f"{_without_user(parts).rstrip('/')}/{path}")
    if parts.username is not None:
        user, password = (
            urllib.parse.unquote(one or "") for one in (parts.username, parts.password)
        )
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code == _NOT_FOUND:
            raise UnknownSchema from None
        why = f"it answers with status {error.code}"
    except (OSError, ValueError) as error:
        why = str(error)
    raise RegistryUnavailable(f"the registry `{_without_user(parts)}` cannot be asked: {why}")


def _without_user(parts: urllib.parse.SplitResult) -> str:
    """The address as messages may show it."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
