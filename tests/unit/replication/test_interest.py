"""What is wanted is due, or stands in the register of its replica."""

import pytest

from tidelog.env.instant import Instant
from tidelog.replication.interest import DelayedFetch, Interest, Readers, Wanted, interest_of
from tidelog.replication.remote_replica import RemoteReplica
from tidelog.sim.replicas.feed import topic_id_of
from tidelog.wire.fetch import FetchPartition, FetchRequest, ForgottenPartition

NOW = Instant(1000)


def want(partition: int, offset: int = 0, epoch: int = 0) -> FetchPartition:
    """One wish."""
    return FetchPartition("orders", topic_id_of(1), partition, epoch, offset, -1, 0, 1 << 20)


def session(*partitions: int) -> Interest:
    """The interest of a session."""
    return interest_of(map(want, partitions), by_id=True, standing=True)


def settle(interest: Interest, number: int, remote: RemoteReplica | None = None) -> Readers:
    """A reading has found nothing in a partition."""
    readers: Readers = {}
    wanted = found(interest, number)
    interest.watch(wanted, readers)
    interest.settle(wanted, remote)
    return readers


def found(interest: Interest, number: int) -> Wanted:
    """One of its partitions."""
    wanted = interest.find(want(number))
    assert wanted is not None
    return wanted


def due(interest: Interest) -> list[int]:
    """The numbers of what is read next, in order."""
    return [wanted.want.partition for wanted in interest.in_order(interest.due)]


def test_what_is_wanted_is_due_until_it_is_settled() -> None:
    """And again when it is wanted differently; nothing is lost in between."""
    interest = session(0, 1, 2)
    assert due(interest) == [0, 1, 2]
    settle(interest, 0)
    settle(interest, 2)
    interest.check()
    assert due(interest) == [1]
    interest.put(want(2, offset=5))
    assert due(interest) == [1, 2]
    assert found(interest, 2).want.fetch_offset == 5
    found(interest, 0).register = None
    with pytest.raises(AssertionError, match="DueOrWatched"):
        interest.check()


def test_what_is_not_wanted_any_more_leaves_its_register() -> None:
    """It is not read, and does not notice changes."""
    interest = session(0, 1)
    readers = settle(interest, 0)
    forgotten = ForgottenPartition("orders", topic_id_of(1), 0)
    interest.drop(forgotten)
    interest.drop(forgotten)
    assert (readers, due(interest), interest.find(forgotten)) == ({}, [1], None)
    interest.check()


def test_what_gave_records_is_read_last() -> None:
    """A partition keeps its place whatever else happens to it."""
    interest = session(0, 1, 2)
    interest.move_to_end(found(interest, 0))
    interest.put(want(1, epoch=3))
    settle(interest, 2)
    interest.make_due(found(interest, 2))
    assert due(interest) == [1, 2, 0]


def test_a_new_term_makes_the_next_answer_list_the_partition() -> None:
    """A change of the offset does not."""
    interest = session(0)
    wanted = found(interest, 0)
    wanted.sent_high_watermark = wanted.sent_log_start = 7
    interest.put(want(0, offset=3))
    assert (wanted.sent_high_watermark, wanted.sent_log_start) == (7, 7)
    interest.put(want(0, epoch=1))
    assert (wanted.sent_high_watermark, wanted.sent_log_start) == (-1, -1)


def test_other_terms_make_everything_due() -> None:
    """A request of another isolation level finds other things."""
    interest = session(0, 1)
    interest.begin_fetch(("committed",), NOW)
    settle(interest, 0)
    settle(interest, 1)
    interest.begin_fetch(("committed",), NOW)
    assert due(interest) == []
    interest.begin_fetch(("uncommitted",), NOW)
    assert due(interest) == [0, 1]


def test_a_settled_follower_is_level_with_each_fetch() -> None:
    """Until its partition is due; a fetch after that proves nothing of it."""
    interest, remote = session(0), RemoteReplica()
    interest.begin_fetch((), NOW)
    remote.on_fetch(5, 0, leader_end=5, broker_epoch=1, now=NOW)
    settle(interest, 0, remote)
    interest.begin_fetch((), Instant(NOW + 500))
    assert remote.last_caught_up == remote.last_fetch == NOW + 500
    interest.make_due(found(interest, 0))
    interest.begin_fetch((), Instant(NOW + 900))
    assert remote.last_caught_up == remote.last_fetch == NOW + 500
    remote.on_fetch(5, 0, leader_end=6, broker_epoch=1, now=Instant(NOW + 900))
    assert (remote.last_caught_up, remote.last_fetch) == (NOW + 500, NOW + 900)


def test_only_the_newest_session_shows_a_follower_level() -> None:
    """What an older one of the same follower does proves nothing."""
    older, newer, remote = session(0), session(0), RemoteReplica()
    for interest in (older, newer):
        interest.begin_fetch((), NOW)
        remote.on_fetch(5, 0, leader_end=5, broker_epoch=1, now=NOW)
        settle(interest, 0, remote)
    older.begin_fetch((), Instant(NOW + 100))
    assert remote.last_caught_up == NOW
    newer.begin_fetch((), Instant(NOW + 200))
    older.make_due(found(older, 0))
    assert remote.last_caught_up == NOW + 200


def fetch(interest: Interest) -> DelayedFetch:
    """A fetch that may wait for 500 ms."""
    request = FetchRequest(-1, -1, 500, 1, 1 << 20, 0, 0, -1, [], [])
    return DelayedFetch("f", request, interest, now=NOW, followers_may_serve=True)


def test_a_completed_fetch_leaves_all_registers() -> None:
    """And is never completed again. What a session wants stays."""
    for standing in (False, True):
        interest = interest_of([want(0)], by_id=False, standing=standing)
        interest.parked = parked = fetch(interest)
        assert parked.deadline == NOW + 500
        readers = settle(interest, 0)
        parked.complete()
        assert interest.parked is None
        assert list(readers) == ([interest] if standing else [])
        interest.check()
        with pytest.raises(AssertionError, match="OneReply"):
            parked.complete()


def test_a_session_that_ends_lets_its_fetch_wait_on() -> None:
    """The registers are left when that is answered."""
    interest = session(0)
    interest.parked = parked = fetch(interest)
    readers = settle(interest, 0)
    interest.end()
    assert list(readers) == [interest]
    parked.complete()
    assert readers == {}
