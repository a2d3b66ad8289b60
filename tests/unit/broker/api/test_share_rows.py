"""What ShareFetch and ShareAcknowledge have in common: ranges that make no sense are refused."""

import pytest

from tests.unit.broker.api.sharer import Sharer, fill, rows, sharing_node
from tidelog.errors import ErrorCode
from tidelog.sharing.values import ShareKey
from tidelog.wire.values import error_of


@pytest.fixture
def node():
    one = sharing_node(0, 1)
    fill(one, 0, 10)
    return one


def code(answer):
    (row,) = rows(answer)
    return error_of(row.error_code)


def start_of(node, number=0):
    topic_id = node.broker.image.topics_by_name["t"].topic_id
    return node.broker.sharing.held.get(ShareKey("g", topic_id, number)).share.start


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
