"""The crash-point sweep: its points are stable, and a strided part of them survives."""

import pytest

from tidelog.env.memory_disk import Operation
from tidelog.sim.report.outcome import Outcome
from tidelog.sim.runs.crash_points import Ending, Point, Sweep, points, run_point

STRIDE = 157


@pytest.fixture(scope="module")
def every_point() -> list[Point]:
    return points()


def test_the_script_asks_a_disk_for_everything(every_point):
    """A sweep over operations that never occur would prove nothing."""
    seen = {point.operation for point in every_point}
    assert seen == set(Operation) - {Operation.LOOK, Operation.READ}
    assert len(every_point) > 2_000
    assert every_point == sorted(every_point, key=lambda point: point.number)


@pytest.mark.parametrize("part", range(16))
def test_a_part_of_the_points_survives(every_point, part):
    """The others are run by `tidelog sim sweep`."""
    point = every_point[(part * STRIDE) % len(every_point)]
    outcome = run_point(point)
    assert outcome.violation is None, f"{point}: {outcome.violation}"
    assert outcome.faults == {point.ending.value: 1}


def test_a_point_that_is_not_reached_is_not_a_survivor():
    outcome = run_point(Point(1_000_000, Operation.APPEND, Ending.KILL))
    assert outcome.violated == "PointReached"


def test_a_flush_that_lies_is_noticed(monkeypatch):
    """The ablation: devices that say they have what they have not."""
    monkeypatch.setattr("tidelog.env.memory_disk.MemoryFile.sync_content", lambda file: None)
    outcome = run_point(Point(500, Operation.SYNC, Ending.POWER))
    assert outcome.violated in ("CommittedIsDurable", "NothingLost", "RestartLosesNothing")


def test_the_report_counts_points_and_names_failures():
    sweep = Sweep()
    sweep.add(Point(1, Operation.SYNC, Ending.KILL), Outcome(1, acknowledged=5))
    failed = Outcome(1, violation="NothingLost: gone", acknowledged=2)
    sweep.add(Point(2, Operation.APPEND, Ending.TORN), failed)
    assert sweep.as_json() == {
        "points": 2,
        "survived": 1,
        "failed": [{"point": "2:append:torn", "property": "NothingLost"}],
        "endings": {"kill": 1, "torn": 1},
        "acknowledged": 7,
    }
