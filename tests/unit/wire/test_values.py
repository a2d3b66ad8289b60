"""Values cross to the types of kio and back unchanged."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.constants import uuid_zero

from tidelog.errors import ErrorCode
from tidelog.model import ZERO_UUID
from tidelog.wire.values import (
    bytes_of,
    error,
    error_of,
    millis,
    timestamp,
    to_millis,
    to_timestamp_ms,
    uuid_of,
)


def test_uuids() -> None:
    raw = bytes(range(16))
    assert bytes_of(uuid_of(raw)) == raw
    assert uuid_of(memoryview(raw)) == uuid_of(raw)
    assert uuid_of(ZERO_UUID) is None
    assert bytes_of(None) == bytes_of(uuid_zero) == ZERO_UUID


@pytest.mark.parametrize("value", [0, 1, -1, 999, 2**31 - 1, -(2**31), 9_007_199_254_740_993])
def test_durations(value: int) -> None:
    assert to_millis(millis(value)) == value


def test_a_duration_that_no_type_holds_is_an_overflow() -> None:
    with pytest.raises(OverflowError):
        millis(2**63 - 1)


@pytest.mark.parametrize("value", [0, -1, 1_795_243_863_149, 253_402_300_799_999])
def test_timestamps(value: int) -> None:
    assert to_timestamp_ms(timestamp(value)) == value


@pytest.mark.parametrize("value", [2**62, -(2**62), 253_402_300_800_000])
def test_timestamps_beyond_the_calendar_are_an_overflow(value: int) -> None:
    with pytest.raises(OverflowError):
        timestamp(value)


def test_error_codes() -> None:
    assert all(error_of(error(code)) is code for code in ErrorCode)
    assert all(error(code.value) is code for code in KioErrorCode)
    assert error(31_999) is KioErrorCode.unknown_server_error
