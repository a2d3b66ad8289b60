"""Goal: places are read as users write them, and end within the log."""

import pytest

from tidelog.cli.positions import Bounds, Position
from tidelog.client.core.values import EARLIEST, LATEST
from tidelog.errors import UsageError
from tidelog.model import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOUNDS = Bounds({P0: 2, P1: 0}, {P0: 10, P1: 9})


class Times:
    """Of each partition the first record of any time; -1 where all are older."""

    def ends(self, partitions, timestamp):
        assert timestamp == 1000
        return {P0: 7, P1: -1}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(EARLIEST, None)),
        ("latest", Position(LATEST, None)),
        ("42", Position(LATEST, 42)),
        ("1970-01-01T00:00:01.5Z", Position(1500, None)),
        ("1970-01-01T01:00:00+01:00", Position(0, None)),
        # Without a zone it is UTC.
        ("1970-01-02", Position(86_400_000, None)),
    ],
)
def test_a_place_is_read(text, position):
    assert Position.parse(text) == position


@pytest.mark.parametrize("text", ["", "-1", "soon", "1e3"])
def test_what_is_not_a_place(text):
    with pytest.raises(UsageError, match="is not a place"):
        Position.parse(text)


@pytest.mark.parametrize(
    ("position", "offsets"),
    [
        (Position(EARLIEST, None), (2, 0)),
        (Position(LATEST, None), (10, 9)),
        (Position(LATEST, 1), (2, 1)),
        (Position(LATEST, 100), (10, 9)),
        (Position(1000, None), (7, 9)),
    ],
)
def test_the_offsets_of_a_place(position, offsets):
    assert BOUNDS.offsets_at(Times(), position) == dict(zip((P0, P1), offsets, strict=True))
