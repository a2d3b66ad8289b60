"""Fixing ranges: resolved, checked against the cluster, split."""

import json

import pytest

from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.plan import resolve, split
from tidelog.pipeline.values import OffsetRange

_EARLIEST = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 0, TopicPartition("t", 2): 5}
_LATEST = {TopicPartition("t", 0): 110, TopicPartition("t", 1): 50, TopicPartition("t", 2): 5}


def _options(**given: object):
    texts = {name: json.dumps({"t": value}) for name, value in given.items()}
    return parse_options({"kafka.bootstrap.servers": "a:1", "subscribe": "t", **texts})


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
        ({"startingOffsets": {"0": 10, "1": 0}}, UsageError, "does not say where `t-2` is"),
        ({"startingOffsets": {"0": 10, "1": 0, "2": 5, "3": 0}}, UsageError, "`t-3`, which does"),
    ],
)
def test_ranges_that_cannot_be_read_are_refused(given, error, message):
    with pytest.raises(error) as caught:
        resolve(_options(**given), _EARLIEST, _LATEST)
    assert message in str(caught.value)


@pytest.mark.parametrize("min_partitions", [0, 1, 2, 3, 7, 150, 10_000])
def test_splitting_keeps_every_offset_once(min_partitions):
    ranges = [OffsetRange("t", 0, 10, 110), OffsetRange("t", 1, 0, 49), OffsetRange("t", 2, 3, 4)]
    pieces = split(ranges, min_partitions)
    offsets = [(p.partition, offset) for p in pieces for offset in range(p.start, p.end)]
    expected = [(r.partition, offset) for r in ranges for offset in range(r.start, r.end)]
    assert offsets == expected
    assert all(piece.length for piece in pieces)
    assert len(pieces) >= min(min_partitions, 150)
    if min_partitions <= 1:
        assert pieces == ranges


def test_nothing_splits_into_nothing():
    assert split([], 8) == []


def test_records_that_may_be_lost_are_left_out():
    options = parse_options(
        {
            "kafka.bootstrap.servers": "a:1",
            "subscribe": "t",
            "startingOffsets": json.dumps({"t": {"0": 3, "1": -2, "2": -2}}),
            "failOnDataLoss": "false",
        }
    )
    assert resolve(options, _EARLIEST, _LATEST)[0] == OffsetRange("t", 0, 10, 110)
