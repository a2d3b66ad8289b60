"""The summary of many runs."""

from tidelog.pipeline.campaign.summary import Failure, Growth, RunTotals, Spread, spread_of


def _run(seed, verdict="clean", wall_ms=1, marks=(), **more):
    times = {"healed_ms": -1, "election_ms": [], "unavailable_ms": []}
    counts = {"events": 10, "virtual_ms": 1_000, "acknowledged": 2, "cpu_ms": wall_ms}
    facts = {"faults": [("kill", 2)], "fired": [], "marks": list(marks)}
    name = None if verdict == "clean" else verdict.title()
    broken = {"property": name, "violation": name and f"{name}: seed {seed}"}
    return {"seed": seed, "verdict": verdict, "wall_ms": wall_ms,
            **times, **counts, **facts, **broken, **more}  # fmt: skip


def _summed(wanted, *runs):
    added = RunTotals(wanted)
    for run in runs:
        added.add(run)
    return added.campaign("now", 3)


def test_a_seed_counts_once_and_its_final_verdict_counts():
    lost, found = _run(1, "timeout", 9), _run(1, "clean", 5)
    for runs in ((lost, found, found), (found, found, lost)):
        report = _summed(range(1, 9), *runs, _run(9))
        assert (report.seeds, report.failed, report.sums["cpu_ms"]) == (1, [], 5)
        assert (report.revision, report.newly_run, report.faults) == ("now", 3, {"kill": 2})


def test_without_a_final_verdict_the_shortest_run_counts():
    report = _summed(range(9), _run(1, "timeout", 9), _run(1, "crash", 4), _run(1, "timeout", 5))
    assert report.failed == [Failure(1, "Crash", "crash", "Crash: seed 1")]
    assert (report.seeds, report.sums["cpu_ms"]) == (1, 4)


def test_a_violation_is_reported_even_beside_a_clean_run():
    report = _summed(range(9), _run(1), _run(1, "violation"), _run(0, "violation"))
    assert [one.seed for one in report.failed] == [0, 1]
    assert [(one.property, one.runs, one.seed) for one in report.violations] == [
        ("Violation", 2, 0)
    ]
    assert report.seeds == 2


def test_coverage_grows_by_what_no_earlier_seed_reached():
    rows = [(2_006, []), (999, ["a", "b"]), (5, ["a"]), (1_006, ["c"]), (1_005, ["b", "a"])]
    report = _summed(range(5, 3_000), *(_run(seed, marks=marks) for seed, marks in rows))
    assert report.growth == [Growth(5, 2, 2, 2), Growth(1_005, 2, 1, 1), Growth(2_005, 1, 0, 1)]
    assert report.marks == {"a": 3, "b": 2, "c": 1}


def test_times_of_all_runs_are_one_distribution():
    report = _summed(
        range(9), _run(1, healed_ms=30, election_ms=[7, 5]), _run(2, healed_ms=0, election_ms=[6])
    )
    assert report.healing_ms == Spread(2, 0, 30, 30, 30)
    assert report.election_ms == Spread(3, 6, 7, 7, 7)
    assert report.unavailable_ms == Spread()


def test_a_percentile_is_a_time_that_occurred():
    assert spread_of(range(1, 201)) == Spread(200, 100, 180, 198, 200)
    assert spread_of([4]) == Spread(1, 4, 4, 4, 4)


def test_no_runs_sum_up_to_nothing():
    report = _summed(range(9))
    assert (report.seeds, report.growth, report.violations) == (0, [], [])
    assert set(report.sums.values()) == {0}
