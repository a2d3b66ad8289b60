"""What a member gets: limits, pieces, throttled deliveries, what is left out."""

from tests.unit.sharing.shares import NOW, SPANS, deliver, fetch, say, share_of
from tidelog.sharing.acquiring import acquire
from tidelog.sharing.values import ACCEPT, RELEASE, Acquired, AcquireRequest, Span


def test_the_limit_of_records_is_rounded_up_to_record_batches():
    share = share_of()
    assert fetch(share, most=15) == [Acquired(0, 19, 1)]
    assert fetch(share, "b", most=1) == [Acquired(20, 29, 1)]


def test_a_strict_limit_leaves_the_rest_of_a_record_batch_to_others():
    share = share_of()
    assert fetch(share, most=15, strict=True) == [Acquired(0, 14, 1)]
    assert share.next_offset() == 15
    assert fetch(share, "b", most=15, strict=True) == [Acquired(15, 19, 1), Acquired(20, 29, 1)]


def test_what_is_new_is_cut_at_record_batches():
    assert fetch(share_of(), most=50, size=15) == [
        Acquired(0, 19, 1),
        Acquired(20, 39, 1),
        Acquired(40, 49, 1),
    ]


def test_nothing_new_is_acquired_where_all_locks_are_in_use_but_what_was_released_is():
    share = share_of(max_locks=30)
    assert fetch(share, most=100) == [Acquired(0, 29, 1)]
    assert not share.may_acquire()
    assert fetch(share, "b") == []
    say(share, RELEASE, 5, 8)
    assert share.may_acquire()
    assert fetch(share, "b") == [Acquired(5, 8, 2)]


def test_a_fetch_of_a_part_of_a_batch_takes_that_part():
    share = share_of()
    fetch(share, most=20)
    say(share, RELEASE, 0, 19)
    assert fetch(share, "b", upto=10) == [Acquired(0, 9, 2)]
    assert fetch(share, "c", most=5) == [Acquired(10, 19, 2)]


def test_record_batches_that_vanished_are_archived():
    share = share_of()
    fetch(share, most=30)
    say(share, RELEASE, 0, 29)
    got = acquire(share, AcquireRequest("b", 500, 500, False), 0, SPANS[1:3], NOW)
    assert (got, share.start) == ([Acquired(10, 29, 2)], 10)


def test_records_of_aborted_transactions_are_not_delivered():
    share = share_of()
    got = fetch(share, upto=40, aborted=[Span(0, 9), Span(20, 29)])
    assert got == [Acquired(10, 19, 1), Acquired(30, 39, 1)]
    assert share.start == 10
    say(share, ACCEPT, 10, 19)
    assert share.start == 30


def test_only_aborted_records_leave_nothing_in_flight():
    share = share_of(max_locks=20)
    assert fetch(share, upto=20, aborted=SPANS[:2]) == []
    assert (share.start, share.in_flight) == (20, 0)


def test_offsets_without_a_record_between_two_reads_are_not_in_flight():
    share = share_of(start=3)
    got = acquire(share, AcquireRequest("a", 500, 500, False), 3, SPANS[2:3], NOW)
    assert (got, share.start, share.end) == ([Acquired(20, 29, 1)], 20, 30)


# Deliveries -------------------------------------------------------------------------------------


def test_a_record_is_not_delivered_more_often_than_it_may_be():
    share = share_of(delivery_count_limit=2)
    assert deliver(share, 3, upto=20) == [[Acquired(0, 19, 1)], [Acquired(0, 19, 2)], []]
    assert (share.start, share.in_flight) == (20, 0)


def test_records_that_fail_often_come_in_smaller_groups_and_alone_at_last():
    share = share_of(delivery_count_limit=5)
    rounds = deliver(share, 9, upto=20)
    assert rounds[:5] == [
        [Acquired(0, 19, 1)],
        [Acquired(0, 19, 2)],
        [Acquired(0, 19, 3)],
        [Acquired(0, 9, 4)],
        [Acquired(0, 0, 5)],
    ]
    assert rounds[5:7] == [[Acquired(1, 1, 5)], [Acquired(2, 2, 5)]]


def test_a_throttled_batch_comes_by_itself():
    share = share_of(delivery_count_limit=4)
    deliver(share, 2, upto=10)
    fetch(share, "b", upto=10)
    fetch(share, "c", most=10, upto=20)
    share.finish(share.release("c"), NOW, written=True)
    share.finish(share.release("b"), NOW, written=True)
    assert fetch(share, most=20, upto=20) == [Acquired(0, 0, 4)]
