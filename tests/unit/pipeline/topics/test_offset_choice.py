"""Where a read begins and ends: which values are valid, which option wins, and how times are
resolved."""

import json

import pytest

from tidelog.client.core.values import EARLIEST, LATEST
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.topics.offset_choice import (
    ByTimestamp,
    ending_choice,
    resolve_choice,
    starting_choice,
)
from tidelog.pipeline.topics.subscription import Subscription

_P0, _P1 = TopicPartition("t", 0), TopicPartition("t", 1)
_TOPICS = Subscription(topics=("t",))
_BY_PARTITION = json.dumps({"t": {"0": 1000, "1": 2000}})
_EARLIEST, _LATEST = {_P0: 0, _P1: 10}, {_P0: 100, _P1: 110}


def _starting(**given: str):
    return starting_choice(given, _TOPICS, streaming=False)


def test_one_time_wins_over_times_and_times_over_offsets():
    given = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": _BY_PARTITION,
        "endingOffsets": "latest",
        "endingOffsetsByTimestamp": _BY_PARTITION,
    }
    by_partition = {_P0: 1000, _P1: 2000}
    assert _starting(**given) == ByTimestamp(
        "startingOffsetsByTimestamp", by_partition, else_latest=False
    )
    assert ending_choice(given, _TOPICS) == ByTimestamp(
        "endingOffsetsByTimestamp", by_partition, else_latest=True
    )
    given |= {
        "startingTimestamp": "5",
        "endingTimestamp": "6",
        "startingOffsetsByTimestampStrategy": "LATEST",
    }
    assert _starting(**given) == ByTimestamp("startingTimestamp", 5, else_latest=True)
    assert ending_choice(given, _TOPICS) == ByTimestamp("endingTimestamp", 6, else_latest=True)


def test_the_default_of_a_stream_is_the_end():
    assert starting_choice({}, _TOPICS, streaming=True) == LATEST
    assert starting_choice({}, _TOPICS, streaming=False) == EARLIEST


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingTimestamp": "yesterday"}, "`startingTimestamp` is `yesterday`"),
        ({"startingTimestamp": "-1"}, "`startingTimestamp` is `-1`"),
        ({"startingOffsetsByTimestamp": "5"}, "`startingOffsetsByTimestamp` is not JSON"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "is not JSON"),
        ({"startingOffsetsByTimestamp": '{"u": {"0": 1}}'}, "names topic `u`"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "Strategy` is `guess`"),
    ],
)
def test_what_is_wrong_is_named(given, message):
    with pytest.raises(UsageError) as caught:
        _starting(**given)
    assert message in caught.value.message


_TIME = "startingTimestamp"


def _resolve(choice, found):
    asked = []

    def lookup(timestamps):
        asked.append(timestamps)
        return found

    return resolve_choice("startingOffsets", choice, _EARLIEST, _LATEST, lookup), asked


def test_times_are_the_first_record_that_late():
    resolved, asked = _resolve(ByTimestamp(_TIME, 1000, else_latest=False), {_P0: 40, _P1: 110})
    assert resolved == {_P0: 40, _P1: 110}
    assert asked == [{_P0: 1000, _P1: 1000}]
    by_partition = ByTimestamp(_TIME, {_P0: 1, _P1: 2}, else_latest=True)
    resolved, asked = _resolve(by_partition, {_P0: -1, _P1: 115})
    assert resolved == {_P0: 100, _P1: 110}
    assert asked == [{_P0: 1, _P1: 2}]


def test_a_time_after_the_last_record_and_a_partition_left_out_are_refused():
    with pytest.raises(UsageError, match=r"`startingTimestamp`: no record of `t-1` has"):
        _resolve(ByTimestamp(_TIME, 1000, else_latest=False), {_P0: 40, _P1: -1})
    with pytest.raises(UsageError, match="does not name `t-1`") as caught:
        _resolve(ByTimestamp(_TIME, {_P0: 1}, else_latest=True), {_P0: 40})
    assert caught.value.hint.endswith("the times are ms since 1970")
