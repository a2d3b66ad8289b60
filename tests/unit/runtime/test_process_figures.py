"""Goal: dashboards that know the Prometheus client's figures of a process find the same here."""

from pathlib import Path

from prometheus_client import ProcessCollector

from tests.unit.runtime.harness import running_driver
from tidelog.runtime import process_figures
from tidelog.runtime.metrics import NodeCollector


def test_the_process_has_the_figures_of_the_prometheus_client() -> None:
    """Method: its own collector beside ours."""
    with running_driver() as running:
        ours = {
            family.name: (family.type, family.samples[0].name, family.samples[0].value)
            for family in NodeCollector(running.driver).collect()
            if family.name.startswith("process_")
        }
        theirs = {
            family.name: (family.type, family.samples[0].name, family.samples[0].value)
            for family in ProcessCollector(registry=None).collect()
        }
    assert [(name, *each[:2]) for name, each in sorted(ours.items())] == [
        (name, *each[:2]) for name, each in sorted(theirs.items())
    ]
    # The listing is open itself while it is counted.
    assert ours["process_open_fds"][2] == theirs["process_open_fds"][2] - 1
    assert ours["process_max_fds"] == theirs["process_max_fds"]
    for name, tolerance in {"process_start_time_seconds": 2, "process_cpu_seconds": 5}.items():
        assert abs(ours[name][2] - theirs[name][2]) < tolerance
    for name in ("process_resident_memory_bytes", "process_virtual_memory_bytes"):
        assert 0.5 < ours[name][2] / theirs[name][2] < 2


def test_open_files_are_counted() -> None:
    before = process_figures.open_files()
    null = Path("/dev/null")
    with null.open("rb"), null.open("rb"):
        assert process_figures.open_files() == before + 2
