"""Goal: waiting ends with the value, or with what was there instead."""

from collections.abc import Iterator

import pytest

from tidelog.testing.waiting import wait_until


def test_the_first_real_value_ends_the_waiting() -> None:
    answers: Iterator[object] = iter([None, False, 0])
    assert wait_until(lambda: next(answers), 5, "an answer") == 0


def test_a_timeout_reports_what_was_seen() -> None:
    seen = [0]

    def count() -> None:
        seen[0] += 1

    with pytest.raises(TimeoutError, match=r"no leader within 0\.05 s; last seen: 3 or more"):
        wait_until(
            count, 0.05, "leader", last_seen=lambda: "3 or more" if seen[0] >= 3 else seen[0]
        )
