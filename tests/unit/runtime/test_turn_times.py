"""Goal: a long turn is found and named, by a clock that a test moves."""

import gc

import pytest

from tests.unit.runtime.cores import SlowCore
from tests.unit.runtime.harness import running_core
from tidelog.env.event import Event
from tidelog.env.steps import Steps
from tidelog.limits import MAX_TURN_MS, MAX_USUAL_TURN_MS
from tidelog.runtime.events import TurnTooLong
from tidelog.runtime.turn_times import BOUNDS_MS, TurnTimes

MS = 1_000_000
MINUTE_MS = 60_000


class Turns:
    """Turn times with a clock that only `spend` moves."""

    def __init__(self) -> None:
        self.now_ns = 7_000 * MS
        self.cpu_ns = 3_000 * MS
        self.steps = Steps()
        self.warnings: list[Event] = []
        self.times = TurnTimes(
            self.steps,
            self.warnings.append,
            clock=lambda: self.now_ns,
            cpu_clock=lambda: self.cpu_ns,
            collect=self._collect,
        )
        self.collections = 0

    def _collect(self) -> None:
        self.collections += 1
        self.spend(3)

    def spend(self, ms: int, waiting_ms: int = 0) -> None:
        """Time passes, some of it without a processor."""
        self.now_ns += ms * MS
        self.cpu_ns += (ms - waiting_ms) * MS

    def turn(self, ms: int, name: str = "Fetch") -> None:
        """One turn with one step."""
        self.times.begin(name)
        self.spend(ms)
        self.times.end_turn()


@pytest.fixture
def turns() -> Turns:
    return Turns()


def test_a_long_turn_is_a_warning_that_names_its_longest_step(turns: Turns) -> None:
    turns.times.begin("bytes received")
    turns.spend(3)
    turns.steps.begin("replicas follow metadata", 3000)
    turns.spend(60)
    turns.steps.begin("tick")
    turns.spend(20)
    turns.times.end_turn()
    (warning,) = turns.warnings
    assert isinstance(warning, TurnTooLong)
    assert (warning.reason, warning.count) == ("replicas follow metadata", 3000)
    assert (warning.step_ms, warning.turn_ms) == (60, 83)
    assert warning.text() == (
        "runtime end_turn: too long (replicas follow metadata) count=3000 step_ms=60 turn_ms=83 "
        "cpu_ms=83 collecting_ms=0 unreported=0"
    )


def test_a_wait_for_a_processor_is_not_work(turns: Turns) -> None:
    turns.spend(500)
    turns.times.begin("Fetch")
    turns.spend(290, waiting_ms=286)
    turns.times.end_turn()
    turns.turn(MAX_USUAL_TURN_MS)
    assert turns.times.laborious == 0
    turns.turn(MAX_USUAL_TURN_MS + 1)
    (warning,) = turns.warnings
    assert isinstance(warning, TurnTooLong)
    assert (warning.turn_ms, warning.cpu_ms) == (290, 4)
    assert turns.times.laborious == 1
    assert turns.times.recent_cpu.get(turns.now_ns) == (MAX_USUAL_TURN_MS + 1) * MS


def test_a_turn_at_the_bound_is_none(turns: Turns) -> None:
    turns.turn(MAX_TURN_MS)
    assert turns.warnings == []
    turns.turn(MAX_TURN_MS + 1)
    assert len(turns.warnings) == 1


def test_a_part_may_rename_its_step_without_a_look_at_the_clock(turns: Turns) -> None:
    turns.times.begin("bytes received")
    turns.spend(30)
    turns.steps.name = "Produce"
    turns.spend(30)
    turns.times.end_turn()
    assert turns.times.slow.keys() == {"Produce"}
    assert turns.times.slow["Produce"].longest_ns == 60 * MS


def test_many_short_steps_are_a_long_turn_without_a_name(turns: Turns) -> None:
    for _ in range(MAX_TURN_MS + 1):
        turns.times.begin("bytes received")
        turns.spend(1)
    turns.times.end_turn()
    assert [str(warning.why()) for warning in turns.warnings] == ["many short steps"]
    assert turns.times.slow == {}


def test_warnings_are_one_a_second_and_say_how_many_had_none(turns: Turns) -> None:
    for _ in range(10):
        turns.turn(60)
    assert len(turns.warnings) == 1
    turns.spend(1000)
    turns.turn(70)
    last = turns.warnings[-1]
    assert isinstance(last, TurnTooLong)
    assert (len(turns.warnings), last.unreported, last.turn_ms) == (2, 9, 70)


def test_every_turn_is_in_one_class_and_in_the_sum(turns: Turns) -> None:
    for ms in (0, 1, 2, 3, 10, 11, 1000, 5000):
        turns.turn(ms)
    counts = dict(zip((*BOUNDS_MS, None), turns.times.counts, strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {
        1: 2,
        2: 1,
        5: 1,
        10: 1,
        20: 1,
        1000: 1,
        None: 1,
    }
    assert turns.times.sum_ns == 6027 * MS
    assert turns.times.longest_ns == 5000 * MS


def test_the_longest_turn_of_the_last_minute_is_forgotten_after_it(turns: Turns) -> None:
    turns.turn(80)
    turns.spend(MINUTE_MS // 2)
    turns.turn(20)
    assert turns.times.recent.get(turns.now_ns) == 80 * MS
    turns.spend(MINUTE_MS // 2)
    assert turns.times.recent.get(turns.now_ns) == 20 * MS
    turns.spend(MINUTE_MS)
    assert turns.times.recent.get(turns.now_ns) == 0
    assert turns.times.longest_ns == 80 * MS


def test_what_lies_between_two_turns_belongs_to_none(turns: Turns) -> None:
    turns.turn(2)
    turns.spend(500)
    turns.turn(2)
    assert turns.times.longest_ns == 2 * MS
    assert turns.times.slow["Fetch"].sum_ns == 4 * MS


def test_work_aside_is_a_turn_of_its_own_or_a_step_of_the_one_under_way(turns: Turns) -> None:
    assert turns.times.aside("scrape", lambda: turns.spend(60)) is None
    assert [warning.why() for warning in turns.warnings] == ["scrape"]
    turns.spend(1000)
    turns.times.begin("bytes received")
    turns.times.aside("scrape", lambda: turns.spend(10))
    turns.spend(50)
    turns.times.end_turn()
    last = turns.warnings[-1]
    assert isinstance(last, TurnTooLong)
    assert (last.step_ms, last.turn_ms) == (50, 60)


def test_a_collection_within_a_long_turn_is_reported() -> None:
    ticking = iter(range(0, 10**12, 100 * MS))
    warnings: list[Event] = []
    times = TurnTimes(Steps(), warnings.append, clock=lambda: next(ticking))
    times.watch_collections()
    try:
        times.begin("Metadata")
        gc.collect()
        times.end_turn()
    finally:
        times.unwatch_collections()
    (warning,) = warnings
    assert isinstance(warning, TurnTooLong)
    assert warning.collecting_ms == 100


@pytest.mark.parametrize(
    ("order", "warning"),
    [
        (b"work 60", "(CreateTopics) count=12 step_ms=60 turn_ms=60"),
        (b"tick 61", "(tick) count=0 step_ms=61 turn_ms=61"),
        (b"write 62", "(effects) count=0 step_ms=62 turn_ms=62"),
    ],
)
def test_the_driver_names_what_held_its_loop(order: bytes, warning: str) -> None:
    core = SlowCore()
    with running_core(core, clock=lambda: core.now_ns) as running:
        client = running.client()
        assert client.ask(b"work 10") == b"work 10"
        assert client.ask(order) == order
    assert warning in running.log_text.getvalue()
    assert running.log_text.getvalue().count("too long") == 1
    # And a collection.
    assert sum(running.driver.turns.counts) == running.driver.counters.ticks + 1


def test_young_objects_are_collected_after_slow_turns(turns: Turns) -> None:
    """Between two turns, and not for as long as what a turn does is short."""
    for ms in (1,) * 50 + (4, 4):
        turns.turn(ms)
        turns.times.collect_if_due()
    assert turns.collections == 0
    turns.turn(4)
    count = sum(turns.times.counts)
    turns.times.collect_if_due()
    turns.times.collect_if_due()
    assert turns.collections == 1
    assert sum(turns.times.counts) == count + 1
    assert turns.times.slow["collection"].longest_ns == 3 * MS
    turns.turn(9)
    turns.times.collect_if_due()
    assert turns.collections == 1
