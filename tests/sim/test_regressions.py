"""Scenarios of bugs that other logs had: they go well here, and each needs its safeguards."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.cli.app import run
from tidelog.sim.ablations import SAFEGUARDS, ablate, switched_off
from tidelog.sim.campaign.seeds import CLUSTER, REGRESSION, replay_command, run_seed
from tidelog.sim.regressions.catalogue import REGRESSIONS
from tidelog.sim.replicas.watched import WatchedCluster

ABLATIONS = [one for one in SAFEGUARDS if one.tier == REGRESSION]


@pytest.mark.parametrize("number", REGRESSIONS)
def test_a_scenario_goes_well(number):
    outcome = run_seed(CLUSTER, number, 1)
    assert outcome.violation is None
    assert outcome.events > 0


@pytest.mark.parametrize("safeguard", ABLATIONS, ids=lambda one: f"{one.scenario}-{one.name}")
def test_a_scenario_needs_its_safeguard(safeguard):
    kill = ablate(safeguard, range(1, 2))
    assert kill.violated is not None


def test_every_scenario_has_an_ablation():
    assert sorted(REGRESSIONS) == sorted({one.scenario for one in ABLATIONS})


def test_at_least_forty_safeguards_are_known():
    assert len(SAFEGUARDS) >= 40


def test_a_scenario_is_the_same_twice():
    first, second = (run_seed(CLUSTER, "r10", 7).trace_hash for _ in range(2))
    assert first == second
    assert first != run_seed(CLUSTER, "r01", 7).trace_hash


def test_a_scenario_is_replayed_by_its_number():
    assert replay_command(REGRESSION, "r10", 1) == "tidelog sim replay 1 --scenario r10 --trace"


def test_scenarios_say_where_they_come_from():
    for number, one in REGRESSIONS.items():
        assert one.name.startswith(f"{number}_")
        assert min(len(one.title), len(one.origin), len(one.case), len(one.must)) > 5


# On the command line ----------------------------------------------------------------------------


def test_scenarios_are_run_by_number_and_all_together(capsys):
    assert run(["sim", "run", "--scenario", "r10", "--seeds", "1", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == []
    assert run(["sim", "regressions", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"total": len(REGRESSIONS), "failed": []}
    assert run(["sim", "regressions", "--only", "r99"]) == 2
    assert "r10" in capsys.readouterr().err


def test_a_scenario_that_goes_wrong_is_reported(capsys):
    (safeguard,) = (one for one in ABLATIONS if one.name == "divergence")
    with switched_off(safeguard):
        assert run(["sim", "regressions", "--only", "r02", "--output", "json"]) == 1
        assert run(["sim", "replay", "1", "--scenario", "r02", "--trace"]) == 1
    verdict, *trace = capsys.readouterr().out.splitlines()
    assert "ReplicasEqual" in verdict
    assert "regression=r02" in trace[0]
    assert any("b1 orders-0 become_leader" in line for line in trace)


def test_the_kill_table_in_two_processes(capsys):
    names = ["--only", "divergence", "--only", "majority"]
    assert run(["sim", "ablate", *names, "--jobs", "2", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"total": 2, "killed": 2, "survivors": []}
    assert run(["sim", "ablate", *names]) == 0
    out = capsys.readouterr().out
    assert "ReplicasEqual" in out
    # Two leaders of one epoch, or one that lacks what the other committed: what shows first.
    assert "ElectionSafety" in out or "LeaderCompleteness" in out


def test_a_survivor_fails_the_command(capsys, monkeypatch):
    (safeguard,) = (one for one in SAFEGUARDS if one.name == "divergence")
    harmless = replace(safeguard, patches=())
    monkeypatch.setattr("tidelog.sim.ablations.SAFEGUARDS", (harmless,))
    assert run(["sim", "ablate", "--output", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report == {"total": 1, "killed": 0, "survivors": ["divergence"]}


def test_a_scenario_that_cannot_begin_kills_nothing(monkeypatch):
    (safeguard,) = (one for one in SAFEGUARDS if one.name == "divergence")

    def fail(*_):
        raise AssertionError("Setup: not even begun")

    not_begun = replace(safeguard, patches=((WatchedCluster, "topic", fail),))
    assert ablate(not_begun, range(1, 2)).violated is None
    clumsy = replace(safeguard, patches=((WatchedCluster, "topic", lambda: None),))
    assert ablate(clumsy, range(1, 2)).violated is None


def test_the_document_has_a_row_for_every_scenario_and_every_safeguard():
    page = (Path(__file__).parents[2] / "docs/protocol/regressions.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if "|" in line}
    for number, one in REGRESSIONS.items():
        assert f"| {one.origin} | {one.title} |" in rows[number]
    for safeguard in SAFEGUARDS:
        row = rows[safeguard.scenario if safeguard.tier == REGRESSION else f"`{safeguard.name}`"]
        assert f"`{safeguard.name}`" in row, safeguard.name
