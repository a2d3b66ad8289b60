"""The budget that what arrives in a turn shares with the tick after it."""

from tidelog.env.instant import Instant
from tidelog.replication.turn_work import TickPart, TurnWork


def test_what_arrives_and_the_tick_share_a_budget() -> None:
    """What the inputs left is the tick's, and that is a quarter at least; the next turn has all of
    it again."""
    work = TurnWork(100)
    work.on_input()
    work.spend(30)
    work.on_input()
    assert work.left == 70
    work.on_tick(Instant(1))
    assert work.left == 70
    work.spend(70)
    work.on_tick(Instant(1))
    assert work.is_spent
    work.on_input()
    assert work.left == 100
    work.spend(120)
    assert work.is_spent
    work.on_tick(Instant(1))
    assert work.left == 25


def test_a_tick_without_inputs_has_a_budget_in_each_millisecond() -> None:
    """Else work that is due at once would take no time at all in a simulation."""
    work = TurnWork(1)
    for now in (1, 2):
        work.on_tick(Instant(now))
        assert work.left == 1
        work.spend(5)
        work.on_tick(Instant(now))
        assert work.is_spent
    work.on_input()
    work.spend(1)
    work.on_tick(Instant(2))
    assert work.left == 1


def test_a_part_of_the_tick_waits_where_the_budget_is_spent_but_not_twice() -> None:
    """Goal: what arrives and slices that are due do not all meet in one turn, and none starves."""
    work = TurnWork(100)
    for part in TickPart:
        assert work.lets(part)
    work.on_input()
    work.spend(100)
    decisions, reading, _ = TickPart
    assert [work.lets(decisions) for _ in range(4)] == [False, True, False, True]
    assert not work.lets(reading)
    work.on_tick(Instant(1))
    assert work.lets(reading)
    work.spend(100)
    assert not work.lets(reading)
