"""What is sent again before it counts as a difference, and which waits are one that is known."""

import pytest

from tests.differential.comparison import Difference
from tests.differential.known import ends_waits, is_known
from tests.differential.running import can_be_repeated, stand_of
from tests.differential.sides import Side
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


@pytest.mark.parametrize(
    ("key", "code", "expected"),
    [
        (ApiKey.SYNC_GROUP, 25, True),
        (ApiKey.SYNC_GROUP, 27, False),
        (ApiKey.SYNC_GROUP, 0, False),
        (ApiKey.JOIN_GROUP, 25, False),
    ],
)
def test_who_leaves_and_gets_no_answer_from_kafka_is_known(key, code, expected):
    step = Step(3, 1, int(key), 0, {})
    kafka, tidelog = Side("127.0.0.1:1"), Side("127.0.0.1:2")
    kafka.under_way[step.slot] = step
    tidelog.answers[step.number] = {"error_code": code}
    stands = stand_of(kafka, step), stand_of(tidelog, step)
    assert stands == ("waits", f"answers {code}" if code else "answers")
    assert is_known(step, Difference("(waiting)", *stands)) is expected


@pytest.mark.parametrize(
    ("key", "codes", "kafka", "expected"),
    [
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, {128}, "answers 27", True),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, {0}, "answers 27", False),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, {128}, "answers 25", False),
        (ApiKey.LEAVE_GROUP, {25}, "answers 27", False),
    ],
)
def test_a_refused_member_that_ends_waits_in_kafka_is_known(key, codes, kafka, expected):
    found = Difference("(waiting)", kafka, "waits")
    assert ends_waits(Step(3, 1, int(key), 1, {}), codes, found) is expected
