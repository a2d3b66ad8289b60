"""Values that protocol entities carry in the types of `kio`, and ours beside them.

`kio` speaks UUIDs, durations and timestamps in the standard library's types. The core does not
import `uuid` or `datetime`, so that no clock and no randomness can slip in through them: it holds
UUIDs as 16 raw bytes and times as integer milliseconds. This is the one place where the two
meet, and it takes the types from constants that `kio` exports.

The all-zero UUID is `None` on the side of `kio` and `ZERO_UUID` on ours.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.constants import uuid_zero
from kio.static.primitive import i32_timedelta_max

from tidelog.errors import ErrorCode
from tidelog.model import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kio.serial._implicit_defaults import timedelta  # type: ignore[attr-defined]
    from kio.serial.writers import UUID, datetime  # type: ignore[attr-defined]

    Timestamp = datetime.datetime
else:
    UUID = type(uuid_zero)
    timedelta = type(i32_timedelta_max)
    Timestamp = object

MILLISECOND: Final = timedelta(milliseconds=1)

_KIO_ERRORS: Final = {int(error.value): error for error in KioErrorCode}
_OUR_ERRORS: Final = {int(error): error for error in ErrorCode}


def uuid_of(value: bytes) -> UUID | None:
    """The entity form of 16 raw bytes; `None` for all zeros."""
    return None if value == ZERO_UUID else UUID(bytes=bytes(value))


def bytes_of(value: UUID | None) -> Uuid:
    """The 16 raw bytes of an entity's UUID; `ZERO_UUID` for `None`."""
    return ZERO_UUID if value is None else Uuid(value.bytes)


def millis(value: int) -> timedelta:
    """The entity form of a duration.

    Raises `OverflowError` beyond a billion days, which no 32-bit field can hold.
    """
    return timedelta(milliseconds=value)


def to_millis(value: timedelta) -> int:
    """The whole milliseconds of an entity's duration."""
    return value // MILLISECOND


def timestamp(value: int) -> Timestamp:
    """The entity form of milliseconds since 1970.

    Raises `OverflowError` after the year 9999 and before the year 1.
    """
    return _epoch() + timedelta(milliseconds=value)


def to_timestamp_ms(value: Timestamp) -> int:
    """Milliseconds since 1970 of an entity's timestamp."""
    return (value - _epoch()) // MILLISECOND


def error(code: int) -> KioErrorCode:
    """The entity form of an error code. A number that `kio` does not know becomes
    `unknown_server_error`, as clients treat it."""
    return _KIO_ERRORS.get(code, KioErrorCode.unknown_server_error)


def error_of(code: KioErrorCode) -> ErrorCode:
    """Our form of an entity's error code."""
    return _OUR_ERRORS.get(code.value, ErrorCode.UNKNOWN_SERVER_ERROR)


CONVERSIONS: Final[Mapping[object, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "uuid": (UUID, uuid_of, bytes_of),
    "error_code": (KioErrorCode, error, error_of),
    "timedelta_i32": (timedelta, millis, to_millis),
    "timedelta_i64": (timedelta, millis, to_millis),
}
"""By a field's wire type: `kio`'s class, the way to it, and the way back."""

_EPOCHS: list[Timestamp] = []


def _epoch() -> Timestamp:
    # Imported when first needed: the few schemas with timestamps are rarely used.
    if not _EPOCHS:
        from kio.serial.readers import tz_aware_from_i64
        from kio.static.primitive import i64

        _EPOCHS.append(tz_aware_from_i64(i64(0)))
    return _EPOCHS[0]
