"""What `tidelog spark campaign` reports of a campaign; the job has tests of its own."""

import json
from dataclasses import replace

from tidelog.cli.spark_campaign import as_json
from tidelog.pipeline.campaign.seeds import RunKind
from tidelog.pipeline.campaign.summary import Campaign, Failure, Growth, Spread, by_property
from tidelog.sim.campaign.seeds import marks_of
from tidelog.sim.campaign.tally import Tally
from tidelog.sim.quorum.membership import ADDED, REMOVED

_LOST = Failure(7, "LeaderCompleteness", "violation", "LeaderCompleteness: a record is gone")
_ENDED = Failure(9, "Crash", "crash", "Crash: the process was ended by SIGKILL")
_MARK = "voters: added"
_FOUND = Campaign(
    revision="abc",
    seeds=10,
    newly_run=4,
    sums={"events": 50, "virtual_ms": 2500, "acknowledged": 3, "cpu_ms": 1200},
    failed=[_LOST, _ENDED],
    violations=by_property([_LOST, _ENDED]),
    faults={"kill": 2},
    fired={"kill": 1},
    marks={_MARK: 5},
    healing_ms=Spread(1, 5, 5, 5, 5),
    election_ms=Spread(),
    unavailable_ms=Spread(),
    growth=[Growth(0, 10, 1, 2)],
)


def test_json_begins_as_that_of_a_run_without_spark() -> None:
    report = as_json(_FOUND, RunKind("quorum", "all", 300.0), "out/runs", 1.23456)
    assert list(report)[: len(Tally().as_json(0.0))] == list(Tally().as_json(0.0))
    assert report["failed"] == [
        {"seed": 7, "property": "LeaderCompleteness"},
        {"seed": 9, "property": "Crash"},
    ]
    assert (report["virtual_seconds"], report["cpu_seconds"]) == (2.5, 1.2)
    assert (report["seeds"], report["played"], report["seconds"]) == (10, 4, 1.235)
    assert report["violations"][0]["replay"] == "tidelog sim replay 9 --tier quorum --trace"
    assert report["healing_ms"] == {"count": 1, "p50": 5, "p90": 5, "p99": 5, "max": 5}
    assert json.loads(json.dumps(report)) == report


def test_marks_are_held_against_those_of_the_tier() -> None:
    report = as_json(_FOUND, RunKind("quorum", "all", 300.0), "out/runs", 1.0)
    voters = marks_of("quorum")
    assert report["marks"] == {"hit": 1, "total": len(voters), "never": sorted(voters - {_MARK})}
    nodes = marks_of("cluster")
    assert nodes & voters == {ADDED, REMOVED}
    none = replace(_FOUND, marks={})
    report = as_json(none, RunKind("cluster", "all", 300.0), "out/runs", 1.0)
    assert report["marks"] == {"hit": 0, "total": len(nodes), "never": sorted(nodes)}
