"""The budget that what arrives in a turn shares with the tick after it."""

from tidelog.env.instant import Instant
from tidelog.replication.turn_work import TurnWork


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
