"""Goal: events one by one give the rows that the batch form gives for all at once.

Method: the sample events of the batch form's test, which has the expected rows too."""

import json

from tests.pipeline.health_samples import FIRST_US, event, sample_events, state
from tidelog.pipeline.health.tracker import MOST_LIVES, Row, Tracker, in_order


def take_all(tracker: Tracker, events: list[dict]) -> list[Row]:
    """All rows, the state taken out and put back after each event."""
    rows = []
    for one in in_order(events):
        again = Tracker(json.loads(json.dumps(tracker.state)))
        rows += list(again.take(one))
        tracker.__dict__.update(again.__dict__)
    return rows


def newest(rows: list[Row]) -> dict[tuple[str, float], tuple[float | None, float | None]]:
    """By kind and start in ms: end in ms and duration; the last row of each counts."""
    return {
        (row["kind"], (row["start_us"] - FIRST_US) / 1000): (
            None if row["end_us"] is None else (row["end_us"] - FIRST_US) / 1000,
            row["duration_ms"],
        )
        for row in rows
    }


def of_partition(number: int) -> list[dict]:
    """The sample events of one partition."""
    return [one for one in sample_events() if one["partition"] == number]


def test_a_failover_as_it_happens() -> None:
    rows = take_all(Tracker(), of_partition(0))
    assert newest(rows) == {
        ("under_replicated", 1500.0): (7500.0, 6000.0),
        ("hw_stalled", 1600.0): (1800.0, 200.0),
        ("election", 1500.0): (1800.0, 300.0),
        ("commit", 100.0): (104.0, 4.0),
    }
    assert [row["cause"] for row in rows if row["kind"] == "hw_stalled"] == [
        "replicas lack records: 3"
    ] * 2


def test_what_is_not_over_has_no_end() -> None:
    assert newest(take_all(Tracker(), of_partition(1))) == {
        ("under_replicated", 8000.0): (None, None),
        ("under_min_isr", 8000.0): (None, None),
        ("leaderless", 8000.0): (9000.0, 1000.0),
    }


def test_a_copy_and_an_old_word_change_nothing() -> None:
    tracker = Tracker()
    events = of_partition(0)
    take_all(tracker, events)
    before = json.dumps(tracker.state, sort_keys=True)
    late = event(2, 1, "isr_change", 9000, epoch=1, leader=2, cause="late", **state([2], [2], 7))
    assert take_all(tracker, [*(one for one in events if one["broker"] != 3), late]) == []
    assert json.dumps(tracker.state, sort_keys=True) == before


def test_two_clocks_give_no_duration() -> None:
    events = [
        event(3, 1, "isr_change", 1000, epoch=0, leader=1, cause="x", **state([1, 2], [], 2)),
        event(
            2, 9, "isr_change", 900, epoch=0, leader=1, cause="y", clock="two",
            **state([1, 2, 3], [1, 2], 3)
        ),
    ]  # fmt: skip
    assert newest(take_all(Tracker(), events)) == {("under_replicated", 1000.0): (900.0, None)}


def test_lives_are_bounded() -> None:
    tracker = Tracker()
    for number in range(3 * MOST_LIVES):
        take_all(
            tracker, [{**event(1, 1, "append", 5, epoch=0, required=1), "incarnation": f"{number}"}]
        )
    assert len(tracker.state["lives"]) == MOST_LIVES
