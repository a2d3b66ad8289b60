"""One member on its way to its target."""

import pytest

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.groups.consumer_records import Current, IdPartition, MemberState
from tidelog.groups.reconciliation import Goal, reconciled
from tidelog.model import TopicId

A, B = (TopicId(bytes([number]) * 16) for number in (1, 2))
A0, A1, A2, B0 = IdPartition(A, 0), IdPartition(A, 1), IdPartition(A, 2), IdPartition(B, 0)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def goal(epoch, *target, subscribed=(A, B), others=(), own=()):
    owners = dict.fromkeys(others, "other") | dict.fromkeys(own, "me")
    return Goal(epoch, target, subscribed, owners)


def step(current, to, held=None, *, unsubscribed=False):
    return reconciled(current, to, held, unsubscribed=unsubscribed)


def test_a_new_member_gets_what_is_free():
    assert step(Current(), goal(3, A0, A1)) == Current(3, 0, STABLE, {A0: 3, A1: 3})


def test_it_waits_for_what_others_have():
    waiting = step(Current(), goal(3, A0, A1, others=[A1]))
    assert waiting == Current(3, 0, UNRELEASED, {A0: 3})
    assert step(waiting, goal(3, A0, A1, others=[A1])) == waiting
    assert step(waiting, goal(3, A0, A1)) == Current(3, 0, STABLE, {A0: 3, A1: 3})


def test_it_gives_back_before_it_gets():
    """It keeps its epoch until it no longer names what it has to give back."""
    before = Current(3, 2, STABLE, {A0: 3, A1: 2})
    target = goal(4, A0, A2, own=[A0, A1])
    asked = step(before, target)
    assert asked == Current(3, 2, UNREVOKED, {A0: 3}, {A1: 2})
    assert step(asked, target) == asked
    assert step(asked, target, [A0, A1]) == asked
    assert step(asked, target, [A0]) == Current(4, 3, STABLE, {A0: 3, A2: 4})


def test_it_goes_to_the_newest_target():
    asked = Current(3, 2, UNREVOKED, {A0: 3}, {A1: 2})
    back = step(asked, goal(5, A0, A1, own=[A0, A1]), [A0])
    assert back == Current(5, 3, STABLE, {A0: 3, A1: 5})


def test_at_once_when_it_holds_nothing_of_it():
    before = Current(3, 2, STABLE, {A0: 3, A1: 2})
    assert step(before, goal(4, A0, own=[A0, A1]), [A0]) == Current(4, 3, STABLE, {A0: 3})


def test_nothing_happens_in_the_epoch_of_the_target():
    before = Current(3, 2, STABLE, {A0: 3})
    assert step(before, goal(3, A0, A1, own=[A0])) is before


def test_what_it_has_unsubscribed_from_goes_at_once():
    before = Current(3, 2, STABLE, {A0: 3, B0: 3})
    target = goal(3, A0, B0, subscribed=(A,), own=[A0, B0])
    assert step(before, target) is before
    asked = step(before, target, unsubscribed=True)
    assert asked == Current(3, 2, UNREVOKED, {A0: 3}, {B0: 3})
    gone = step(before, target, [A0], unsubscribed=True)
    assert gone == Current(3, 2, STABLE, {A0: 3})
    more = Current(3, 2, UNREVOKED, {A0: 3, B0: 3}, {A1: 3})
    assert step(more, target, unsubscribed=True) == Current(
        3, 2, UNREVOKED, {A0: 3}, {A1: 3, B0: 3}
    )


def test_it_never_gets_what_it_does_not_want_any_more():
    assert step(Current(), goal(3, A0, B0, subscribed=(A,))).assigned == {A0: 3}


def test_a_state_of_the_future_begins_anew_when_it_holds_nothing():
    unknown = Current(3, 2, UNKNOWN, {A0: 3})
    for held in (None, [A0]):
        with pytest.raises(ProtocolError) as caught:
            step(unknown, goal(4, A0, own=[A0]), held)
        assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(unknown, goal(4, A0, own=[A0]), []) == Current(4, 3, STABLE, {A0: 3})
