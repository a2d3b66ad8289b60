"""Fixing ranges: resolved, checked against the cluster, split."""

import json

import pytest

from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.topics.offset_choice import resolve_choice
from tidelog.pipeline.topics.option_names import Option
from tidelog.pipeline.topics.options import SourceOptions, TaskSizes, parse_options
from tidelog.pipeline.topics.plan import SHARED_TASK_OFFSETS, checked_range, into_tasks, split
from tidelog.pipeline.values import OffsetRange, Offsets, PlannedRange

_EARLIEST = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 0, TopicPartition("t", 2): 5}
_LATEST = {TopicPartition("t", 0): 110, TopicPartition("t", 1): 50, TopicPartition("t", 2): 5}


def _options(**given: object):
    texts = {name: json.dumps({"t": value}) for name, value in given.items()}
    return parse_options({"kafka.bootstrap.servers": "a:1", "subscribe": "t", **texts})


def resolve(options: SourceOptions, earliest: Offsets, latest: Offsets) -> list[OffsetRange]:
    """As a plan does it, without times."""

    def no_times(_: Offsets) -> Offsets:
        raise AssertionError("no time was given")

    starts = resolve_choice(Option.STARTING_OFFSETS, options.starting, earliest, latest, no_times)
    ends = resolve_choice(Option.ENDING_OFFSETS, options.ending, earliest, latest, no_times)
    ranges = [
        checked_range(tp, (starts[tp], ends[tp]), (earliest[tp], latest[tp]), options)
        for tp in sorted(earliest)
    ]
    return [one for one in ranges if one.length]


def _planned(*ranges: OffsetRange) -> list[PlannedRange]:
    return [PlannedRange(one) for one in ranges]


def test_everything_by_default_without_empty_partitions():
    assert resolve(_options(), _EARLIEST, _LATEST) == [
        OffsetRange("t", 0, 10, 110),
        OffsetRange("t", 1, 0, 50),
    ]


def test_given_offsets_and_special_ones():
    options = _options(
        startingOffsets={"0": 20, "1": -2, "2": 5}, endingOffsets={"0": 30, "1": -1, "2": 5}
    )
    assert resolve(options, _EARLIEST, _LATEST) == [
        OffsetRange("t", 0, 20, 30),
        OffsetRange("t", 1, 0, 50),
    ]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"startingOffsets": {"0": 9, "1": 0, "2": 5}}, DataLoss, "deleted"),
        ({"endingOffsets": {"0": 111, "1": 0, "2": 5}}, UsageError, "[10, 111)"),
        ({"startingOffsets": {"0": 111, "1": 0, "2": 5}}, UsageError, "no range"),
        (
            {
                "startingOffsets": {"0": 20, "1": 0, "2": 5},
                "endingOffsets": {"0": 19, "1": 9, "2": 5},
            },
            UsageError,
            "no range",
        ),
        ({"startingOffsets": {"0": 10, "1": 0}}, UsageError, "does not name `t-2`"),
        ({"startingOffsets": {"0": 10, "1": 0, "2": 5, "3": 0}}, UsageError, "`t-3`, which does"),
    ],
)
def test_ranges_that_cannot_be_read_are_refused(given, error, message):
    with pytest.raises(error) as caught:
        resolve(_options(**given), _EARLIEST, _LATEST)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [
        (0, 30, (10, 30)),
        (100, 200, (100, 110)),
        (0, 999, (10, 110)),
        (500, -1, None),
        (500, 600, None),
        (0, 5, None),
    ],
)
def test_without_fail_on_data_loss_what_is_there_of_explicit_offsets_is_read(start, end, read):
    texts = {"startingOffsets": start, "endingOffsets": end}
    given = {name: json.dumps({"t": {"0": value}}) for name, value in texts.items()}
    needed = {"kafka.bootstrap.servers": "a:1", "assign": '{"t": [0]}', "failOnDataLoss": "false"}
    one = TopicPartition("t", 0)
    found = resolve(parse_options(needed | given), {one: 10}, {one: 110})
    assert found == ([] if read is None else [OffsetRange("t", 0, *read)])


@pytest.mark.parametrize("min_partitions", [0, 1, 2, 3, 7, 150, 10_000])
def test_splitting_keeps_every_offset_once(min_partitions):
    ranges = [OffsetRange("t", 0, 10, 110), OffsetRange("t", 1, 0, 49), OffsetRange("t", 2, 3, 4)]
    pieces = [one.wanted for one in split(_planned(*ranges), TaskSizes(min_partitions))]
    offsets = [(p.partition, offset) for p in pieces for offset in range(p.start, p.end)]
    expected = [(r.partition, offset) for r in ranges for offset in range(r.start, r.end)]
    assert offsets == expected
    assert all(piece.length for piece in pieces)
    assert len(pieces) >= min(min_partitions, 150)
    if min_partitions <= 1:
        assert pieces == ranges


def test_nothing_splits_into_nothing():
    assert split([], TaskSizes(8, 5)) == []
    assert into_tasks([], TaskSizes()) == []


def test_no_piece_is_longer_than_the_most():
    ranges = [OffsetRange("t", 0, 10, 110), OffsetRange("t", 1, 0, 7)]
    pieces = [one.wanted for one in split(_planned(*ranges), TaskSizes(max_records=30))]
    assert pieces == [
        OffsetRange("t", 0, 10, 35),
        OffsetRange("t", 0, 35, 60),
        OffsetRange("t", 0, 60, 85),
        OffsetRange("t", 0, 85, 110),
        OffsetRange("t", 1, 0, 7),
    ]


def test_small_ranges_share_tasks_and_large_ones_do_not():
    """A task costs more than a few records."""
    small = [OffsetRange("t", number, 0, 100) for number in range(120)]
    large = OffsetRange("t", 120, 0, 10 * SHARED_TASK_OFFSETS)
    tasks = into_tasks(_planned(*small, large, *small), TaskSizes())
    assert [len(task) for task in tasks] == [50, 50, 20, 1, 50, 50, 20]
    assert [one.wanted for task in tasks for one in task] == [*small, large, *small]
    alone = into_tasks(_planned(*small), TaskSizes(min_partitions=1))
    assert [len(task) for task in alone] == [1] * 120


def test_records_that_may_be_lost_are_logged_and_left_out(caplog):
    options = parse_options(
        {
            "kafka.bootstrap.servers": "a:1",
            "subscribe": "t",
            "startingOffsets": json.dumps({"t": {"0": 3, "1": -2, "2": -2}}),
            "failOnDataLoss": "false",
        }
    )
    assert resolve(options, _EARLIEST, _LATEST)[0] == OffsetRange("t", 0, 10, 110)
    assert "`t-0` [3, 110): the log has [10, 110); the records before are deleted" in caplog.text
