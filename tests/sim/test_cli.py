"""`tidelog sim`: what it prints, and its exit codes."""

import json
import subprocess

import pytest

from tidelog.cli.app import run
from tidelog.cli.sim_twice import hash_elsewhere
from tidelog.sim.campaign.seeds import marks_of, run_seed
from tidelog.sim.runs.quorum import KINDS


def test_run_ends_with_a_report(capsys):
    assert run(["sim", "run", "--seeds", "1:6", "--tier", "quorum", "--output", "json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["seeds"], report["failed"]) == (5, [])
    assert report["events"] and report["virtual_seconds"] and report["acknowledged"]
    assert sum(report["faults"].values()) > 0
    assert set(report) == {
        "seeds", "failed", "events", "virtual_seconds", "cpu_seconds", "acknowledged", "faults",
        "fired", "marks",
    }  # fmt: skip


def test_a_failed_seed_is_named_with_the_command_that_replays_it(capsys, monkeypatch):
    monkeypatch.setattr("tidelog.sim.runs.quorum.RECOVERY_LIMIT_MS", 0)
    assert run(["sim", "run", "--seeds", "3", "--tier", "quorum", "--output", "json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["failed"] == [{"seed": 3, "property": "Liveness"}]
    assert "tidelog sim replay 3 --tier quorum --trace" in err


def test_one_seed_in_a_hundred_is_the_same_run_in_another_process(capsys, monkeypatch):
    """What is changed here only is seen by the seed that runs there too."""
    arguments = ["sim", "run", "--seeds", "99:101", "--tier", "quorum", "--output", "json"]
    assert run(arguments) == 0
    monkeypatch.setattr("tidelog.sim.runs.quorum.KINDS", KINDS[::-1])
    capsys.readouterr()
    assert run(arguments) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["failed"] == [{"seed": 100, "property": "Determinism"}]
    assert "tidelog sim replay 100 --tier quorum --trace" in err


def test_the_other_process_runs_the_same_scenario():
    ours = run_seed("cluster", "beyond", 1)
    assert hash_elsewhere("cluster", "beyond", 1) == ours.trace_hash
    with pytest.raises(subprocess.CalledProcessError):
        hash_elsewhere("cluster", "none", 100)


def test_several_processes_give_the_same_report(capsys):
    reports = []
    for jobs in ("1", "2"):
        arguments = ["--seeds", "1:9", "--tier", "quorum", "--jobs", jobs, "--output", "json"]
        assert run(["sim", "run", *arguments]) == 0
        report = json.loads(capsys.readouterr().out)
        reports.append({name: report[name] for name in report if name != "cpu_seconds"})
    assert reports[0] == reports[1]


def test_replay_prints_options_first_and_the_trace_on_request(capsys):
    assert run(["sim", "replay", "4", "--tier", "quorum", "--trace"]) == 0
    loud = capsys.readouterr().out.splitlines()
    assert loud[0].startswith("options voters=")
    assert any(" n1 quorum " in line for line in loud)
    assert run(["sim", "replay", "4", "--tier", "quorum"]) == 0
    quiet = capsys.readouterr().out.splitlines()
    assert quiet[0] == loud[0]
    assert quiet[-2:] == loud[-2:]
    assert quiet[-2] == "seed 4 clean"
    assert "trace_hash" in quiet[-1]


def test_replay_prints_the_trace_beside_the_json(capsys):
    command = ["sim", "replay", "4", "--tier", "quorum", "--output", "json"]
    assert run([*command, "--trace"]) == 0
    loud = capsys.readouterr()
    assert any(" n1 quorum " in line for line in loud.err.splitlines())
    assert run(command) == 0
    quiet = capsys.readouterr()
    assert (quiet.err, quiet.out) == ("", loud.out)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["run", "--seeds", "x"], "1:100"),
        (["run", "--seeds", "5:5"], "larger"),
        (["run", "--seeds", "1", "--tier", "galaxy"], "cluster"),
        (["run", "--seeds", "1", "--scenario", "none"], "power-cuts"),
        (["run", "--seeds", "1", "--scenario", "kills", "--tier", "quorum"], "cluster"),
        (["replay", "1", "--scenario", "none"], "power-cuts"),
        (["ablate", "--only", "nothing"], "divergence"),
        (["sweep", "--first", "999999"], "the last one is"),
        (["campaign", "--cluster", "0", "--quorum", "0"], "--cluster N"),
    ],
)
def test_wrong_use_is_reported_with_a_hint(capsys, arguments, hint):
    assert run(["sim", *arguments]) == 2
    assert hint in capsys.readouterr().err


def test_a_campaign_adds_up_and_goes_on_where_it_was(tmp_path, capsys):
    results = tmp_path / "build" / "campaign.json"
    arguments = ["--rounds", "1", "--cluster", "1", "--quorum", "3", "--output", "json"]
    arguments += ["--first", "0"]
    for done in (1, 2):
        assert run(["sim", "campaign", "--results", str(results), *arguments]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["cluster"]["seeds"], report["quorum"]["seeds"]) == (done, 3 * done)
        assert (report["cluster"]["twice"], report["quorum"]["twice"]) == (1, 1)
        assert report["cluster"]["failed"] == report["quorum"]["failed"] == []
        assert report["cluster"]["marks"]
    assert list(json.loads(results.read_text()).values()) == [report]


def test_campaigns_begin_at_random_seeds_that_they_print(tmp_path, capsys):
    firsts = set()
    for name in ("one.json", "other.json"):
        arguments = ["--rounds", "1", "--cluster", "0", "--quorum", "1", "--output", "json"]
        run(["sim", "campaign", "--results", str(tmp_path / name), *arguments])
        out, err = capsys.readouterr()
        first = json.loads(out)["quorum"]["first"]
        assert f"from {first}\n" in err
        firsts.add(first)
    assert len(firsts) == 2


def test_scenarios_are_listed(capsys):
    assert run(["sim", "list", "--output", "json"]) == 0
    assert "power-cuts" in json.loads(capsys.readouterr().out)


def test_ablate_prints_the_kill_table(capsys):
    assert run(["sim", "ablate", "--only", "majority", "--output", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"total": 1, "killed": 1, "survivors": []}


def test_a_sweep_says_how_many_points_there_are_and_survive(capsys):
    assert run(["sim", "sweep", "--first", "40", "--every", "2000", "--output", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["points"], report["survived"], report["failed"]) == (2, 2, [])
    assert sum(report["endings"].values()) == 2 and report["acknowledged"]


def test_a_campaign_names_what_failed_and_the_marks_of_each_tier(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tidelog.sim.runs.quorum.RECOVERY_LIMIT_MS", 0)
    monkeypatch.setattr("tidelog.cli.sim_twice.TWICE", 1000)
    results = tmp_path / "campaign.json"
    seeds = ["--cluster", "0", "--quorum", "4", "--first", "0"]
    assert run(["sim", "campaign", "--results", str(results), "--rounds", "1", *seeds]) == 1
    out, err = capsys.readouterr()
    assert "  replay: tidelog sim replay 3 --tier quorum --trace" in err
    assert "tidelog sim replay 3 --tier quorum --trace" in out
    marks = len(marks_of("quorum"))
    assert f" of {marks} marks hit; never:" in out
    assert "cluster: " not in out


def test_a_campaign_does_not_add_to_what_it_cannot_read(tmp_path, capsys):
    results = tmp_path / "campaign.json"
    results.write_text("{bad")
    assert run(["sim", "campaign", "--results", str(results), "--rounds", "1"]) == 2
    assert "holds no sums of campaigns" in capsys.readouterr().err
    assert results.read_text() == "{bad"
