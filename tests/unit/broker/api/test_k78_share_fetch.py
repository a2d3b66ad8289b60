"""ShareFetch: sessions, waiting, acquired records, piggybacked acknowledgements."""

import pytest

from tests.unit.broker.api.sharer import LOCK_MS, Sharer, acquired, fill, rows, sharing_node
from tidelog.env.effects import Closed, CloseReason
from tidelog.errors import ErrorCode
from tidelog.records.batch import iter_headers
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis, uuid_of


@pytest.fixture
def node():
    one = sharing_node(0, 1)
    fill(one, 0, 10)
    return one


def test_members_share_the_records_of_a_partition(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    got = a.fetch(0, max_records=4)
    assert acquired(got) == [(0, 3, 1)]
    assert got.acquisition_lock_timeout == millis(LOCK_MS)
    assert acquired(b.fetch(0)) == [(4, 9, 1)]


def test_only_the_record_batches_that_hold_acquired_records_are_sent(node):
    (row,) = rows(Sharer(node).fetch(0, max_records=4))
    headers = [header for _, header in iter_headers(bytes(row.records))]
    assert [header.base_offset for header in headers] == [0, 1, 2, 3]


def test_acknowledgements_travel_with_a_fetch(node):
    sharer = Sharer(node)
    sharer.fetch(0, max_records=4)
    got = sharer.fetch(acks={0: [(0, 2, 1), (3, 3, 2)]})
    (row,) = rows(got)
    assert row.acknowledge_error_code == ErrorCode.NONE
    assert acquired(got) == [(4, 9, 1)]


def test_a_session_goes_on_with_its_epoch(node):
    sharer = Sharer(node)
    sharer.fetch(0, max_records=1)
    assert acquired(sharer.fetch(max_records=1)) == [(1, 1, 1)]
    sharer.epoch = 7
    refused = sharer.fetch(max_records=1)
    assert error_of(refused.error_code) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_state_of_the_highest_delivery_count_ends_no_node(node):
    """A peer can have a share coordinator keep any; the next one could not be answered."""
    topic_id = uuid_of(node.broker.image.topics_by_name["t"].topic_id)
    state = {"state_epoch": 9, "leader_epoch": 0, "start_offset": 0}
    batch = {"first_offset": 0, "last_offset": 3, "delivery_state": 0, "delivery_count": 32767}
    for key, more in (
        (ApiKey.INITIALIZE_SHARE_GROUP_STATE, {}),
        (ApiKey.WRITE_SHARE_GROUP_STATE, {"state_batches": [batch]}),
    ):
        partitions = [{"partition": 0, **state, **more}]
        topics = [{"topic_id": topic_id, "partitions": partitions}]
        answer = node.client().call(key, 0, group_id="g", topics=topics)
        assert error_of(answer.results[0].partitions[0].error_code) is ErrorCode.NONE
    (row,) = rows(Sharer(node).fetch(0))
    assert error_of(row.error_code) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_without_a_session_there_is_none_to_go_on_with(node):
    sharer = Sharer(node)
    sharer.epoch = 1
    refused = sharer.fetch(0)
    assert error_of(refused.error_code) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_session_that_ends_gives_its_records_back(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0)
    a.epoch = -1
    a.fetch()
    assert acquired(b.fetch(0)) == [(0, 9, 2)]


@pytest.mark.parametrize("who", ["peer", "node"])
def test_a_connection_that_ends_gives_its_records_back(node, who):
    """Goal: also when the node closes it, for a frame that makes no sense here."""
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0)
    if who == "peer":
        node.receive(Closed(a.wire.connection_id, CloseReason.PEER))
    else:
        a.wire.send(b"\0\0\0\x04junk")
        assert a.wire.closed
    assert acquired(b.fetch(0)) == [(0, 9, 2)]


def test_sessions_are_limited_and_the_refusal_waits():
    node = sharing_node(0, group_share_max_share_sessions="1")
    Sharer(node, "a").fetch(0)
    late = Sharer(node, "b")
    late.start_fetch(0, max_wait=millis(300))
    assert late.answers(ApiKey.SHARE_FETCH) == []
    node.advance(300)
    assert error_of(late.fetched().error_code) is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_renewal_fetches_nothing(node):
    sharer = Sharer(node)
    sharer.fetch(0, max_records=1)
    node.advance(LOCK_MS - 100)
    zero = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait": millis(0)}
    got = sharer.fetch(acks={0: [(0, 0, 4)]}, is_renew_ack=True, **zero)
    assert acquired(got) == []
    node.advance(LOCK_MS - 100)
    answer = sharer.acknowledge(0, (0, 0, 1))
    assert error_of(rows(answer)[0].error_code) is ErrorCode.NONE


def test_a_renewal_that_fetches_is_refused(node):
    sharer = Sharer(node)
    sharer.fetch(0, max_records=1)
    refused = sharer.fetch(acks={0: [(0, 0, 4)]}, is_renew_ack=True)
    assert error_of(refused.error_code) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"group_id": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "m" * 37}, ErrorCode.INVALID_REQUEST),
        ({"share_acquire_mode": 5}, ErrorCode.INVALID_REQUEST),
        ({"acks": {0: [(0, 0, 1)]}}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_makes_no_sense_is_refused(node, values, code):
    assert error_of(Sharer(node).fetch(0, **values).error_code) is code


def test_unknown_partitions_have_their_own_errors(node):
    sharer = Sharer(node)
    topics = [
        {
            "topic_id": uuid_of(b"u" * 16),
            "partitions": [{"partition_index": 0, "acknowledgement_batches": ()}],
        }
    ]
    (row,) = rows(sharer.fetch(topics=topics))
    assert error_of(row.error_code) is ErrorCode.UNKNOWN_TOPIC_ID
    (row,) = rows(Sharer(node, "b").fetch(7))
    assert error_of(row.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_was_deleted_from_the_log_is_not_delivered(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0, max_records=3)
    a.acknowledge(0, (0, 2, 2))
    node.client().call(
        ApiKey.DELETE_RECORDS,
        2,
        timeout=millis(1000),
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "offset": 5}]}],
    )
    assert acquired(b.fetch(0)) == []
    assert acquired(b.fetch()) == [(5, 9, 1)]


def test_both_versions_say_the_same(node):
    assert acquired(Sharer(node, version=1).fetch(0)) == [(0, 9, 1)]


def test_without_the_feature_nothing_is_shared():
    sharer = Sharer(sharing_node(level=0))
    assert error_of(sharer.fetch(0).error_code) is ErrorCode.UNSUPPORTED_VERSION
    assert error_of(sharer.acknowledge(0).error_code) is ErrorCode.UNSUPPORTED_VERSION


def test_a_group_without_a_state_has_nothing_to_fetch():
    (row,) = rows(Sharer(sharing_node()).fetch(0))
    assert error_of(row.error_code) is ErrorCode.UNKNOWN_SERVER_ERROR
