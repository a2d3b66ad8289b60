"""The order of events, and how far time goes."""

from tidelog.env.prng import Prng
from tidelog.sim.engine.timeline import Simulation, Timeline


def test_events_run_in_the_order_of_their_times():
    timeline, ran = Timeline(), []
    for delay_ms in (7, 3, 5):
        timeline.at(delay_ms, lambda at=delay_ms: ran.append((timeline.now, at)))
    assert timeline.next_at == 3
    timeline.run_for(5)
    assert (ran, timeline.now, timeline.next_at) == ([(3, 3), (5, 5)], 5, 7)


def ties_of(prng: Prng | None) -> list[int]:
    """The order in which ten events of one instant run."""
    timeline, ran = Timeline(prng), []
    for number in range(10):
        timeline.at(1, lambda number=number: ran.append(number))
    timeline.run_for(1)
    return ran


def test_events_of_one_instant_run_as_queued_or_as_the_seed_says():
    assert ties_of(None) == list(range(10))
    assert ties_of(Prng(1)) == ties_of(Prng(1)) != ties_of(Prng(2))
    assert sorted(ties_of(Prng(1))) == list(range(10))


def test_what_an_event_queues_for_now_runs_now():
    timeline, ran = Timeline(), []
    timeline.at(1, lambda: timeline.at(0, lambda: ran.append(timeline.now)))
    timeline.run_for(1)
    assert ran == [1]


def test_a_condition_is_waited_for_as_long_as_its_limit():
    timeline, ran = Timeline(start=100), []
    timeline.at(5, lambda: ran.append(1))
    timeline.at(6, lambda: ran.append(2))
    assert timeline.run_until(lambda: bool(ran), 5)
    assert timeline.now == 105
    assert not timeline.run_until(lambda: len(ran) == 2, 0)
    assert not timeline.run_until(lambda: len(ran) == 3, 50)
    assert (timeline.now, timeline.next_at) == (155, None)


def test_the_trace_has_the_time_and_the_digest_has_not_the_trace():
    simulation, lines = Simulation(Prng(1)), []
    before = simulation.trace_hash
    simulation.listeners.append(lines.append)
    simulation.run_for(12)
    simulation.note("world heals")
    assert simulation.lines == lines == ["      12 world heals"]
    assert simulation.trace_hash == before
    simulation.digest.update(b"x")
    assert simulation.trace_hash != before
