"""When a round is due."""

from tidelog.controller.rounds import Round
from tidelog.env.instant import Instant


def test_a_round_is_due_an_interval_after_the_start_and_after_each_complete_one() -> None:
    duty = Round(100)
    assert not duty.is_due(Instant(1_000_000))
    duty.start(Instant(50))
    assert not duty.is_due(Instant(149))
    assert duty.is_due(Instant(150))
    duty.finish(Instant(160), complete=True)
    assert duty.due_at == 260


def test_an_incomplete_round_goes_on_at_once() -> None:
    duty = Round(100)
    duty.start(Instant(0))
    duty.finish(Instant(100), complete=False)
    assert duty.is_due(Instant(100))


def test_a_stopped_round_and_one_without_an_interval_are_never_due() -> None:
    duty = Round(100)
    duty.start(Instant(0))
    duty.stop()
    assert duty.due_at is None
    never = Round(0)
    never.start(Instant(0))
    never.finish(Instant(5), complete=True)
    assert never.due_at is None
