"""Campaigns: each seed runs once, and a killed campaign continues."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.unit.pipeline.seed_runs import KnownResult, revision, run
from tidelog.pipeline.campaign.runs import runs_of
from tidelog.pipeline.campaign.seeds import RunKind
from tidelog.pipeline.campaign.summary import Growth, Spread
from tidelog.pipeline.jobs.campaign import CampaignPlan, run_campaign
from tidelog.sim.campaign.seeds import run_seed

pytestmark = pytest.mark.spark

_KIND = RunKind("cluster", "all", 60.0, revision)


def _plan(first: int, end: int, seeds_per_task: int = 10) -> CampaignPlan:
    return CampaignPlan(_KIND, range(first, end), seeds_per_task)


def test_a_campaign_runs_once_and_is_then_continued(spark, tmp_path):
    table = str(tmp_path / "runs")
    first = run_campaign(spark, _plan(0, 20), run, table)
    assert (first.seeds, first.newly_run) == (20, 20)
    assert [one.seed for one in first.failed] == [3, 5, 7, 11]
    assert [(one.property, one.seed, one.runs) for one in first.violations] == [
        ("Crash", 5, 3),
        ("NothingLost", 3, 1),
    ]
    assert first.marks == {"low": 16}
    assert first.faults == {"kill": 34}
    assert first.sums["events"] == 170
    assert first.healing_ms == Spread(17, 30, 30, 30, 30)
    assert first.election_ms == Spread(16, 10, 18, 19, 19)
    assert first.unavailable_ms == Spread()
    assert first.growth == [Growth(0, 20, 1, 2)]
    # What crashed is tried again, what has a verdict is not.
    again = run_campaign(spark, _plan(0, 30), run, table)
    assert (again.seeds, again.newly_run) == (30, 13)
    assert again.failed == first.failed
    # The table is one that Spark reads.
    assert spark.read.parquet(table).where("verdict = 'violation'").count() == 1


def _run_and_die(table: Path, seed: int) -> KnownResult:
    """The last seed waits for a file in the table, and then ends the worker of its task."""
    while seed == 39 and not list(table.glob("*.parquet")):
        os.sched_yield()
    if seed == 39:
        os.kill(os.getppid(), signal.SIGKILL)
    return run(20)


def test_the_rows_of_finished_tasks_outlive_the_job(spark, tmp_path):
    table = tmp_path / "runs"
    with pytest.raises((PySparkException, Py4JJavaError)):
        run_campaign(spark, _plan(20, 40), partial(_run_and_die, table), str(table))
    rest = run_campaign(spark, _plan(20, 40), run, str(table))
    assert rest.seeds == 20
    assert rest.newly_run < 20


def test_reused_processes_give_the_same_runs(spark, tmp_path):
    """Many seeds a process, in two campaigns by the same workers, the second one backwards in
    time: each run has the hash that it has when it runs alone."""
    alone = {seed: run_seed("quorum", "all", seed).trace_hash for seed in range(12)}
    for seeds in (range(6, 12), range(12)):
        plan = CampaignPlan(RunKind("quorum", "all", 60.0, revision), seeds, 4)
        table = str(tmp_path / str(seeds.start))
        run_campaign(spark, plan, partial(run_seed, "quorum", "all"), table)
        found = {one["seed"]: one["trace_hash"] for one in runs_of(table, "quorum", "all", "now")}
        assert found == {seed: alone[seed] for seed in seeds}
