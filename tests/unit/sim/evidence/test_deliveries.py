"""The judgement of what members of a share group received: each rule with a history against it."""

import pytest

from tidelog.model import TopicId
from tidelog.sim.evidence.deliveries import Deliveries, Leadership, Reception, SharedPlace
from tidelog.sim.report.violation import Violation

PLACE = SharedPlace(TopicId(bytes(16)), 0)
TERM = Leadership(1, 0, 3)


def got(member, *, first=0, last=0, count=1, asked_at=0, term=TERM, is_connected=True):
    at = (asked_at, term, lambda: is_connected)
    return Reception(PLACE, first, last, count, member, *at)


@pytest.fixture
def deliveries():
    return Deliveries(lock_ms=1000, limit=3)


def test_two_members_may_not_have_a_record_at_once(deliveries):
    deliveries.receive(got("a"), 10)
    with pytest.raises(Violation, match="OneOwner"):
        deliveries.receive(got("b", asked_at=20), 30)


def test_a_leader_may_know_of_the_end_of_a_connection_before_the_member(deliveries):
    """Seed cluster all 867834238 at 85cb9252: a fault took the connection at the leader's end."""
    deliveries.receive(got("a", is_connected=False), 10)
    deliveries.receive(got("b", asked_at=20), 30)


@pytest.mark.parametrize("term", [None, Leadership(1, 1, 3), Leadership(2, 0, 4)])
def test_another_leader_may_deliver_it_again(deliveries, term):
    deliveries.receive(got("a"), 10)
    deliveries.receive(got("b", asked_at=20, term=term), 30)


def test_a_lock_ends(deliveries):
    deliveries.receive(got("a"), 10)
    deliveries.receive(got("b", asked_at=600), 650)


def test_an_answer_that_was_long_under_way_may_come_after_the_next_delivery(deliveries):
    """Unless its lock was certainly not over when that went out (seed cluster all 1330398473)."""
    deliveries.receive(got("b", asked_at=1040, count=2), 1060)
    deliveries.receive(got("a", asked_at=0), 1090)
    with pytest.raises(Violation, match="OneOwner"):
        deliveries.receive(got("a", asked_at=900), 1090)
    with pytest.raises(Violation, match="OneOwner"):
        deliveries.receive(got("a", asked_at=0, count=2), 1090)


def test_a_member_may_give_it_back(deliveries):
    deliveries.receive(got("a"), 10)
    deliveries.give_back(PLACE, [0, 7], "a")
    deliveries.receive(got("b", asked_at=20), 30)


def test_what_is_settled_does_not_come_again(deliveries):
    deliveries.receive(got("a"), 10)
    deliveries.give_back(PLACE, [0], "a")
    deliveries.settle(PLACE, [0], TERM.leader_epoch, 20)
    deliveries.receive(got("b", asked_at=15), 25)
    with pytest.raises(Violation, match="AcknowledgedIsDone"):
        deliveries.receive(got("b", asked_at=900), 2000)


def test_a_deposed_leader_may_deliver_what_its_successor_has_settled(deliveries):
    """It does not know of it, and nothing that it writes counts (seed cluster all 23656825)."""
    successor = Leadership(2, 0, TERM.leader_epoch + 1)
    deliveries.receive(got("a", term=successor), 10)
    deliveries.settle(PLACE, [0], successor.leader_epoch, 20)
    deliveries.receive(got("b", asked_at=900, term=TERM), 910)
    with pytest.raises(Violation, match="AcknowledgedIsDone"):
        deliveries.receive(got("b", asked_at=920, term=successor), 930)


def test_deliveries_are_counted(deliveries):
    with pytest.raises(Violation, match="CountedDeliveries"):
        deliveries.receive(got("a", count=4), 10)


def test_everything_is_delivered(deliveries):
    deliveries.receive(got("a", first=2, last=4), 10)
    deliveries.judge(PLACE, 2, 5)
    with pytest.raises(Violation, match="DeliveredAtLeastOnce"):
        deliveries.judge(PLACE, 0, 5)
    deliveries.lost = 3
    deliveries.judge(PLACE, 0, 5)
