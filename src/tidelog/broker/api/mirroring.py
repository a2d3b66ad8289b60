"""Answers that say of everything in a request that it is denied.

Such an answer knows nothing but the request: names and numbers come back as they were sent, with an
error code, and other fields are blank. So it is the same for what exists and what does not.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final, get_args

from tidelog.errors import ErrorCode
from tidelog.wire.entities import Entity, has_field, is_array, make, nested, nested_type
from tidelog.wire.values import millis, timestamp

SENTENCE: Final = "Authorization failed."
"""The message of every denial."""

_CODES: Final = ("error_code", "partition_error_code")
_IDENTITIES: Final = frozenset(
    ("group_id", "key", "name", "partition", "partition_index", "transactional_id")
)
"""The field for a row that is nothing but a name or a number in the request."""
Others = Mapping[str, Any]
"""Fields of an answer whose value is not what the request has under that name: the name of the
field in the request, or, unless it is a text, the value itself. An array is shown then even beside
a code; one whose value is `None` is null."""
_NO_OTHERS: Final[Others] = {}


def mirrored(
    entity_type: type,
    source: Any,
    code: ErrorCode,
    *,
    blank: int = -1,
    renamed: Others = _NO_OTHERS,
    message: str = SENTENCE,
) -> Entity:
    """An entity of an answer: what the request says, and the code. An entity without a code of its
    own has it in the rows of its arrays; one with a code has no rows. `blank` is for numbers that
    the request does not have."""
    has_code = any(has_field(entity_type, name) for name in _CODES)
    values: dict[str, Any] = {}
    for item in fields(entity_type):
        name = item.name
        if name in _CODES:
            values[name] = code
        elif name == "error_message":
            values[name] = message
        elif is_array(item) and renamed.get(name, name) is None:
            values[name] = None
        elif is_array(item):
            given = () if has_code and name not in renamed else _given(source, name, renamed)
            values[name] = [
                mirrored(
                    nested(entity_type, name),
                    row,
                    code,
                    blank=blank,
                    renamed=renamed,
                    message=message,
                )
                for row in given or ()
            ]
        elif (given := _given(source, name, renamed)) is not None:
            values[name] = given
        elif name in renamed and type(None) in get_args(item.type):
            values[name] = None
        elif item.default is MISSING and item.default_factory is MISSING:
            values[name] = _blank(item, blank)
    return make(entity_type, **values)


def _given(source: Any, of: str, renamed: Others) -> Any:
    name: Any = renamed.get(of, of)
    if not isinstance(name, str):
        return name
    if isinstance(source, str | int):
        return source if name in _IDENTITIES else None
    return getattr(source, name, None)


def _blank(item: "Field[Any]", number: int) -> Any:
    kind = item.metadata.get("kafka_type")
    match kind:
        case "string":
            return ""
        case "bytes" | "records":
            return b""
        case "bool":
            return False
        case "uuid":
            return None
        case "timedelta_i32" | "timedelta_i64":
            return millis(0)
        case "datetime_i64":
            return timestamp(0)
        case None:
            return mirrored(nested_type(item), None, ErrorCode.NONE, blank=number)
        case _:
            return number
