"""Goal: plots draw all rows, are well-formed XML, and escape foreign text."""

from datetime import datetime, timedelta
from xml.etree import ElementTree

from tidelog.pipeline.health.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Axis,
    isr_timeline,
    latency_chart,
    span_lanes,
    state_of,
)

FIRST = datetime(2026, 11, 21, 10)
AXIS = Axis(FIRST, FIRST + timedelta(seconds=60))


def at(seconds: float) -> datetime:
    """An instant of the axis."""
    return FIRST + timedelta(seconds=seconds)


def lane_row(seconds: float, isr: list[int], leader: int, **more: object) -> dict[str, object]:
    """One state of a partition with three replicas."""
    return {
        "topic": "orders", "partition": 0, "at": at(seconds), "isr": isr, "leader": leader,
        "replicas": 3, "min_isr": 2, "cause": None, **more,
    }  # fmt: skip


def test_the_axis_spans_its_instants_and_its_ticks_are_round() -> None:
    assert AXIS.x(FIRST) == LEFT
    assert AXIS.x(at(60)) == WIDTH - RIGHT
    assert AXIS.x(at(900)) == WIDTH - RIGHT
    assert [tick.second for tick in AXIS.ticks()] == [0, 10, 20, 30, 40, 50, 0]
    assert Axis(FIRST, FIRST).x(FIRST) == LEFT


def test_states_by_size_of_the_isr() -> None:
    rows = [lane_row(0, isr, leader) for isr, leader in (([1, 2, 3], 1), ([1, 2], 1), ([1], 1))]
    assert [state_of(row, 3) for row in rows] == ["whole", "under", "min"]
    assert state_of(lane_row(0, [], -1), 3) == "none"


def test_a_lane_has_a_bar_per_state_and_a_mark_per_election() -> None:
    rows = [lane_row(0, [1, 2, 3], 1), lane_row(30, [2, 3], 2, cause="<b> died & left")]
    election = {
        "topic": "orders", "partition": 0, "at": at(30), "old_leader": 1, "new_leader": 2,
        "leader_epoch": 4, "election_ms": 120.0, "cause": "<b> died", "unclean": False,
    }  # fmt: skip
    text = isr_timeline({("or<ders", 0): rows}, [], AXIS)
    assert "<b>" not in text
    tree = ElementTree.fromstring(isr_timeline({("orders", 0): rows}, [election], AXIS))
    bars = tree.findall("rect")
    assert [bar.get("class") for bar in bars] == ["whole", "under"]
    middle = AXIS.x(at(30))
    assert float(bars[0].attrib["width"]) == float(bars[1].attrib["width"]) == middle - LEFT
    (mark,) = tree.findall("g")
    assert mark.findtext("title") == (
        "10:00:30 epoch 4: leader 1 → 2 (<b> died), first commit after 120 ms"
    )


def test_latencies_rise_with_their_logarithm() -> None:
    line = [
        {"leader": leader, "at": at(second), "p50_ms": 10.0**power, "p99_ms": 10.0**power * 2}
        for leader in (1, 2)
        for second, power in ((0, 0), (20, 1), (40, 2))
    ]
    tree = ElementTree.fromstring(latency_chart(line, AXIS))
    lines = tree.findall("polyline")
    assert [one.get("class") for one in lines] == ["c0 p50", "c0 p99", "c1 p50", "c1 p99"]
    heights = [float(point.split(",")[1]) for point in lines[0].attrib["points"].split()]
    assert heights[0] > heights[1] > heights[2]
    assert abs((heights[0] - heights[1]) - (heights[1] - heights[2])) < 0.2


def test_an_open_window_reaches_the_end() -> None:
    span = {
        "topic": "orders", "partition": 0, "kind": "unavailable", "start": at(30), "end": None,
        "duration_ms": None, "cause": "no replica left",
    }  # fmt: skip
    tree = ElementTree.fromstring(span_lanes([span], AXIS, [("orders", 0)]))
    (bar,) = tree.findall("rect")
    assert float(bar.attrib["x"]) + float(bar.attrib["width"]) == WIDTH - RIGHT
    assert bar.findtext("title") == "10:00:30 unavailable, open: no replica left"
