"""What ShareFetch and ShareAcknowledge have in common: ranges that make no sense are refused."""

import pytest

from tests.unit.broker.api.sharer import Sharer, code, filled_node, start_of
from tidelog.errors import ErrorCode


@pytest.fixture
def node():
    return filled_node()


@pytest.mark.parametrize(
    "acks",
    [
        [(3, 2, 1)],
        [(4, 5, 1), (0, 1, 1)],
        [(0, 2, ())],
        [(0, 2, (1, 1))],
        [(0, 2, 5)],
        [(0, 2, -1)],
        [(0, 2, 4)],
        [(8, 12, 1)],
    ],
)
def test_ranges_that_make_no_sense_are_refused(node, acks):
    sharer = Sharer(node)
    sharer.fetch(0)
    assert code(sharer.acknowledge(0, *acks)) is ErrorCode.INVALID_REQUEST
    assert start_of(node) == 0
