"""What is sent again before it counts as a difference."""

import pytest

from tests.differential.running import can_be_repeated
from tests.differential.steps import Step
from tidelog.wire.api import ApiKey


@pytest.mark.parametrize(
    ("key", "body", "expected"),
    [
        (ApiKey.LIST_OFFSETS, {}, True),
        (ApiKey.FETCH, {"session_epoch": -1}, True),
        (ApiKey.FETCH, {"session_epoch": 0}, True),
        (ApiKey.FETCH, {"session_epoch": 1}, False),
        (ApiKey.PRODUCE, {}, False),
    ],
)
def test_reads_are_repeated_but_for_the_fetches_within_a_session(key, body, expected):
    assert can_be_repeated(Step(0, 0, int(key), 0, body)) is expected
