"""Goal: what passes is tried again until the deadline, and nothing else. The clock is a number."""

import pytest

from tidelog.client.core.errors import (
    RETRIABLE,
    RETRIABLE_READ,
    AdminError,
    Retry,
    TryAgain,
    Unreachable,
)
from tidelog.errors import ErrorCode


def test_what_passes_is_tried_again_until_the_deadline() -> None:
    retry = Retry(1000, timeout_s=0.5, pause_s=0.1)
    passing = [Unreachable("x"), TryAgain("x"), AdminError(ErrorCode.NOT_CONTROLLER, "x")]
    assert [retry.pause_after(error, 1499) for error in passing] == [0.1, 0.1, 0.1]
    for error in passing:
        with pytest.raises(type(error)):
            retry.pause_after(error, 1500)


def test_a_refusal_that_stays_is_not_tried_again() -> None:
    refusal = AdminError(ErrorCode.TOPIC_ALREADY_EXISTS, "x")
    with pytest.raises(AdminError):
        Retry(0, timeout_s=60).pause_after(refusal, 1)


def test_the_time_that_is_left_never_falls_below_zero() -> None:
    retry = Retry(1000, timeout_s=2)
    assert [retry.left_s(now_ms) for now_ms in (1000, 2500, 9000)] == [2.0, 0.5, 0]
    assert [retry.is_over(now_ms) for now_ms in (2999, 3000)] == [False, True]


def test_a_reader_takes_old_metadata_for_passing_and_a_change_does_not() -> None:
    assert ErrorCode.UNKNOWN_LEADER_EPOCH in RETRIABLE_READ - RETRIABLE
    assert RETRIABLE <= RETRIABLE_READ
