"""Fetches of members that wait, and what wakes them."""

import pytest

from tests.unit.broker.api.sharer import LOCK_MS, Sharer, acquired, fill, rows, sharing_node
from tidelog.broker import sharing
from tidelog.env.effects import Closed, CloseReason
from tidelog.errors import ErrorCode
from tidelog.records.batch import build_batch, stamp
from tidelog.records.record import Record
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import ShareKey, ShareState
from tidelog.wire.api import ApiKey
from tidelog.wire.fetch import FetchedPartition, FetchResponse
from tidelog.wire.values import millis


@pytest.fixture
def node():
    one = sharing_node(0, 1)
    fill(one, 0, 10)
    return one


def test_an_idle_fetch_waits_for_a_record(node):
    sharer = Sharer(node)
    sharer.start_fetch(1, max_wait=millis(5000))
    assert sharer.answers(ApiKey.SHARE_FETCH) == []
    fill(node, 1, 1)
    assert acquired(sharer.fetched(), 1) == [(0, 0, 1)]


def test_an_idle_fetch_is_answered_at_its_deadline(node):
    sharer = Sharer(node)
    sharer.start_fetch(1, max_wait=millis(500))
    node.advance(499)
    assert sharer.answers(ApiKey.SHARE_FETCH) == []
    node.advance(1)
    assert rows(sharer.fetched()) == []


def test_a_release_wakes_a_member_that_waits(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0)
    b.start_fetch(0, max_wait=millis(5000))
    assert b.answers(ApiKey.SHARE_FETCH) == []
    a.acknowledge(0, (2, 4, 2))
    assert acquired(b.fetched()) == [(2, 4, 2)]


def test_a_lock_that_ends_wakes_a_member_that_waits(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.fetch(0)
    b.start_fetch(0, max_wait=millis(5000))
    node.advance(LOCK_MS)
    assert acquired(b.fetched()) == [(0, 9, 2)]


def test_the_last_lock_of_a_partition_makes_a_member_wait_for_the_others():
    node = sharing_node(0, group_share_partition_max_record_locks="100")
    fill(node, 0, 110)
    a, b = Sharer(node, "a"), Sharer(node, "b")
    assert acquired(a.fetch(0)) == [(0, 99, 1)]
    b.start_fetch(0, max_wait=millis(900))
    assert b.answers(ApiKey.SHARE_FETCH) == []
    a.acknowledge(0, (0, 9, 1))
    assert acquired(b.fetched()) == [(100, 109, 1)]


def test_beyond_their_limit_fetches_do_not_wait(node, monkeypatch):
    monkeypatch.setattr(sharing, "MAX_WAITING_SHARE_FETCHES", 1)
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.start_fetch(1, max_wait=millis(5000))
    b.start_fetch(1, max_wait=millis(5000))
    assert rows(b.fetched()) == []
    assert a.answers(ApiKey.SHARE_FETCH) == []


def test_what_was_read_for_a_former_share_partition_is_not_acquired(node):
    """Goal: the share partition goes, since its coordinator refuses a write, and is loaded anew
    while a member waits behind records that another one has. What it reads there comes in the turn
    of the loading: the records before are not taken for offsets without records."""
    a, b = Sharer(node, "a"), Sharer(node, "b")
    assert acquired(a.fetch(0)) == [(0, 9, 1)]
    b.start_fetch(0, max_wait=millis(5000))
    sharing = node.broker.sharing
    topic_id = node.broker.image.topics_by_name["t"].topic_id
    former = sharing.held.get(ShareKey("g", topic_id, 0))
    (call,) = former.waiting
    sharing.held.drop(former, "refused")
    loaded = sharing.held.find(former.key, "t", node.now)
    state = ShareState(former.share.state_epoch, 0)
    loaded.share = SharePartition(former.key, loaded.leader_epoch, state, former.share.settings)
    data = stamp(build_batch([Record(1000, None, b"v", ())]), 10, 0)
    row = FetchedPartition("t", topic_id, 0, ErrorCode.NONE, 11, 11, 0, [data], len(data))
    sharing.on_read(call.read, FetchResponse(0, ErrorCode.NONE, 0, [row]), node.now)
    assert loaded.share.next_offset() == 0


def test_a_member_that_has_gone_acquires_nothing(node):
    a, b = Sharer(node, "a"), Sharer(node, "b")
    a.start_fetch(1, max_wait=millis(5000))
    node.receive(Closed(a.wire.connection_id, CloseReason.PEER))
    fill(node, 1, 1)
    assert acquired(b.fetch(1), 1) == [(0, 0, 1)]
