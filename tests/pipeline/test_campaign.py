"""Campaigns: played once, continued after a death, and the same as without Spark."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.unit.pipeline.seed_plays import Told, play, revision
from tidelog.pipeline.campaign.runs import runs_of
from tidelog.pipeline.campaign.seeds import Played
from tidelog.pipeline.campaign.summary import Growth, Spread
from tidelog.pipeline.jobs.campaign import Wanted, play_campaign
from tidelog.sim.campaign.seeds import run_seed

pytestmark = pytest.mark.spark

_PLAYED = Played("cluster", "all", 60.0, revision)


def _wanted(first: int, end: int, seeds_per_task: int = 10) -> Wanted:
    return Wanted(_PLAYED, range(first, end), seeds_per_task)


def test_a_campaign_is_played_once_and_then_continued(spark, tmp_path):
    table = str(tmp_path / "runs")
    first = play_campaign(spark, _wanted(0, 20), play, table)
    assert (first.seeds, first.played) == (20, 20)
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
    again = play_campaign(spark, _wanted(0, 30), play, table)
    assert (again.seeds, again.played) == (30, 13)
    assert again.failed == first.failed
    # The table is one that Spark reads.
    assert spark.read.parquet(table).where("verdict = 'violation'").count() == 1


def _play_and_die(table: Path, seed: int) -> Told:
    """The last seed waits for a file in the table, and then ends the worker of its task."""
    while seed == 39 and not list(table.glob("*.parquet")):
        os.sched_yield()
    if seed == 39:
        os.kill(os.getppid(), signal.SIGKILL)
    return play(20)


def test_what_finished_tasks_played_outlives_the_job(spark, tmp_path):
    table = tmp_path / "runs"
    with pytest.raises((PySparkException, Py4JJavaError)):
        play_campaign(spark, _wanted(20, 40), partial(_play_and_die, table), str(table))
    rest = play_campaign(spark, _wanted(20, 40), play, str(table))
    assert rest.seeds == 20
    assert rest.played < 20


def test_processes_that_played_before_play_the_same_runs(spark, tmp_path):
    """Many seeds a process, in two campaigns by the same workers, the second one backwards in
    time: each run has the hash that it has when it is played alone."""
    alone = {seed: run_seed("quorum", "all", seed).trace_hash for seed in range(12)}
    for seeds in (range(6, 12), range(12)):
        played = Played("quorum", "all", 60.0, revision)
        table = str(tmp_path / str(seeds.start))
        play_campaign(spark, Wanted(played, seeds, 4), partial(run_seed, "quorum", "all"), table)
        found = {run["seed"]: run["trace_hash"] for run in runs_of(table, "quorum", "all", "now")}
        assert found == {seed: alone[seed] for seed in seeds}
