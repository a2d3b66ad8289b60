"""Goal: a deadline is looked for once, again after something has happened, and never overlooked."""

import pytest

from tidelog.env.instant import Instant
from tidelog.env.known_deadline import KnownDeadline


def test_it_is_looked_for_once_until_it_is_forgotten() -> None:
    """Also where nothing is due, which is an answer too."""
    answers = [None, Instant(7)]
    deadline = KnownDeadline(lambda: answers.pop(0))
    assert [deadline.get(), deadline.get()] == [None, None]
    deadline.forget()
    assert [deadline.get(), deadline.get()] == [7, 7]
    assert answers == []


def test_a_change_that_was_not_reported_is_found_by_the_check() -> None:
    due = [Instant(7)]
    deadline = KnownDeadline(lambda: due[0])
    deadline.get()
    deadline.check()
    due[0] = Instant(8)
    with pytest.raises(AssertionError, match="7 is known, the deadline is 8"):
        deadline.check()
    deadline.forget()
    deadline.check()
