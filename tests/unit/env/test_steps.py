"""Steps say who pays for them, and pauses are summed up."""

from tidelog.env.steps import Pauses, Steps


def test_a_step_is_paid_for_until_the_next_one_begins() -> None:
    steps, ended = Steps(), []
    steps.listener = lambda: ended.append((steps.name, steps.connection_id))
    steps.begin("Metadata")
    steps.connection_id = 7
    steps.begin("tick")
    steps.begin("flush")
    assert ended[1:] == [("Metadata", 7), ("tick", 0)]


def test_pauses_are_summed_up_by_quota() -> None:
    pauses = Pauses()
    for name, pause_ms in (("a", 5), ("b", 1), ("a", 2)):
        pauses.add(name, pause_ms)
    assert pauses.counts == {"a": 2, "b": 1} and pauses.sum_ms == {"a": 7, "b": 1}
