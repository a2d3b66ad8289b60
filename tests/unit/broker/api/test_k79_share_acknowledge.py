"""ShareAcknowledge: answered when it is written, refused where the member has nothing."""

import pytest

from tests.unit.broker.api.sharer import Sharer, acquired, code, filled_node, start_of
from tidelog.errors import ErrorCode
from tidelog.wire.values import bytes_of, error_of, uuid_of


@pytest.fixture
def node():
    return filled_node()


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_accepted_moves_the_start(node, version):
    sharer = Sharer(node, version=version)
    sharer.fetch(0)
    assert code(sharer.acknowledge(0, (0, 5, 1), (6, 9, (2, 2, 3, 0)))) is ErrorCode.NONE
    assert start_of(node) == 6
    assert acquired(sharer.fetch(0)) == [(6, 7, 2)]


def test_what_another_member_has_cannot_be_acknowledged(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0)
    b.fetch(0)
    assert code(b.acknowledge(0, (0, 9, 1))) is ErrorCode.INVALID_RECORD_STATE
    assert code(a.acknowledge(0, (0, 9, 1))) is ErrorCode.NONE


def test_partitions_that_no_member_fetched_are_unknown(node):
    sharer = Sharer(node)
    sharer.fetch(0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(sharer.acknowledge(1, (0, 0, 1))) is unknown
    assert code(sharer.acknowledge(7, (0, 0, 1))) is unknown
    assert not sharer.acknowledge(0).responses, "without acknowledgements only errors are rows"
    topics = [{"topic_id": uuid_of(b"u" * 16), "partitions": [{"partition_index": 0,
               "acknowledgement_batches": ()}]}]  # fmt: skip
    assert code(sharer.acknowledge(0, topics=topics)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert bytes_of(sharer.acknowledge(0, topics=topics).responses[0].topic_id) == b"u" * 16


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, ErrorCode.INVALID_SHARE_SESSION_EPOCH), (9, ErrorCode.INVALID_SHARE_SESSION_EPOCH)],
)
def test_an_acknowledgement_belongs_to_a_session(node, epoch, expected):
    sharer = Sharer(node)
    sharer.fetch(0)
    sharer.epoch = epoch
    assert error_of(sharer.acknowledge(0, (0, 0, 1)).error_code) is expected
    stranger = Sharer(node, "b")
    stranger.epoch = 1
    found = error_of(stranger.acknowledge(0, (0, 0, 1)).error_code)
    assert found is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_last_acknowledgement_gives_the_rest_back(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0)
    a.epoch = -1
    assert code(a.acknowledge(0, (0, 3, 1))) is ErrorCode.NONE
    assert acquired(b.fetch(0)) == [(4, 9, 2)]
