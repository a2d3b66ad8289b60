"""Recurring work."""

from tidelog.env.instant import Instant
from tidelog.replication.schedule import Recurring


def test_each_interval_once() -> None:
    """Not before it was started, and without making up for a pause."""
    recurring = Recurring(100)
    assert recurring.due(Instant(10_000)) is None
    recurring.start(Instant(10_000))
    recurring.start(Instant(10_050))
    assert recurring.due_at == 10_100
    assert recurring.due(Instant(10_099)) is None
    assert recurring.due(Instant(10_100)) == 0
    assert recurring.due(Instant(10_730)) == 530
    assert recurring.due(Instant(10_731)) is None
    assert recurring.due_at == 10_830
