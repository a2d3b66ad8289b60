"""Campaigns: played once, continued after a death, summed up."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.testing import assertDataFrameEqual

from tests.unit.pipeline.seed_plays import Told, play, revision
from tidelog.pipeline.campaign.seeds import Played
from tidelog.pipeline.jobs.campaign import (
    RUN_COLUMNS,
    Growth,
    Spread,
    Wanted,
    blocks,
    play_campaign,
    runs_of,
    task_count,
    unfinished,
)

pytestmark = pytest.mark.spark

_PLAYED = Played("cluster", "all", 60.0, revision)


def _wanted(first: int, end: int, seeds_per_task: int = 10) -> Wanted:
    return Wanted(_PLAYED, first, end, seeds_per_task)


def _runs(spark, *rows):
    """Runs of `tier cluster, scenario all` with these values and no others."""
    known = ("revision", "seed", "verdict", "property", "violation", "wall_ms", "marks")
    columns = [column.split(" ")[0] for column in RUN_COLUMNS.split(", ")]
    full = [
        tuple({"tier": "cluster", "scenario": "all", **dict(zip(known, row, strict=False))}.get(c)
              for c in columns)
        for row in rows
    ]  # fmt: skip
    return spark.createDataFrame(full, RUN_COLUMNS)


def test_a_seed_is_finished_by_a_verdict_of_the_same_sources(spark):
    table = _runs(
        spark,
        ("now", 1, "clean"),
        ("now", 2, "violation"),
        ("now", 3, "crash"),
        ("now", 4, "timeout"),
        ("before", 5, "clean"),
    )
    seeds = spark.range(1, 7).withColumnRenamed("id", "seed")
    left = unfinished(seeds, runs_of(table, _wanted(1, 7), "now"))
    assertDataFrameEqual(left, spark.createDataFrame([(3,), (4,), (5,), (6,)], "seed bigint"))


def test_a_seed_counts_once_and_its_final_verdict_counts(spark):
    table = _runs(
        spark,
        ("now", 1, "timeout", "TimeLimit", "", 9),
        ("now", 1, "clean", None, None, 5),
        ("now", 1, "clean", None, None, 4),
        ("now", 9, "clean"),
    )
    (row,) = runs_of(table, _wanted(1, 9), "now").collect()
    assert (row["seed"], row["verdict"], row["wall_ms"]) == (1, "clean", 4)


def test_coverage_grows_by_what_no_earlier_seed_reached(spark):
    rows = [(5, ["a"]), (999, ["a", "b"]), (1_005, ["b", "a"]), (1_006, ["c"]), (2_006, [])]
    table = _runs(spark, *(("now", seed, "clean", None, None, 1, marks) for seed, marks in rows))
    found = [tuple(row) for row in blocks(table, 5).collect()]
    assert found == [(5, 2, 2), (1_005, 2, 1), (2_005, 1, 1)]


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


@pytest.mark.parametrize(
    ("seeds", "per_task", "cores", "tasks"),
    [(1, 10, 2, 1), (10, 10, 2, 2), (100, 10, 4, 12), (101, 10, 1, 11), (3, 1, 8, 3)],
)
def test_tasks_are_full_and_a_multiple_of_the_cores(seeds, per_task, cores, tasks):
    assert task_count(seeds, per_task, cores) == tasks
