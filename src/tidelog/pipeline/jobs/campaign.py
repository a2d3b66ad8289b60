"""Many seeds of the simulator as a Spark job: a table of runs, and their summary.

    wanted seeds - finished ones of the table  ->  tasks  ->  runs  ->  files of the table  ->  sum

The table (`campaign/runs.py`) is one path that the driver and all workers see. Every task adds its
file when it ends, not when the job ends. So a campaign that dies loses only the tasks that were
running; started again, it runs the missing seeds. A seed is finished when it has a row with the
same tier, scenario and revision of the sources and a final verdict.

Spark distributes the tasks and the function that runs a seed (which the caller gives), and repeats
tasks whose machine was lost. It does nothing else: a query costs a Java that has just started more
than most seeds, and rows that left a task through Java would not be in the table any earlier.

A task costs Spark some 50 ms, so it gets many seeds. But seeds differ in length by a factor of ten,
and a long task at the end leaves the other cores idle. So tasks become smaller towards the end
(guided self-scheduling, Polychronopoulos and Kuck, 1987): each takes half of the share that every
core would get of the seeds left, down to a single seed. Spark begins tasks in their order.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from tidelog.pipeline.campaign.runs import Run, runs_of
from tidelog.pipeline.campaign.seeds import CLEAN, VIOLATION, RunKind, RunSeed, run_task
from tidelog.pipeline.campaign.summary import Campaign, RunTotals


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """Seeds of one kind."""

    kind: RunKind
    seeds: range
    seeds_per_task: int


def run_campaign(
    spark: SparkSession, plan: CampaignPlan, run_seed: RunSeed, table: str
) -> Campaign:
    """Runs the planned seeds that the table at the path `table` lacks, and sums up all of them.
    Raises `UsageError` for a table that cannot be read."""
    kind = plan.kind
    revision = kind.revision()
    own_runs = partial(runs_of, table, kind.tier, kind.scenario, revision)
    missing = unfinished(plan.seeds, own_runs(columns=("seed", "verdict")))
    context = spark.sparkContext
    tasks = plan_tasks(missing, plan.seeds_per_task, context.defaultParallelism)
    if tasks:
        work = partial(run_task, kind=kind, run_seed=run_seed, table=table)
        context.parallelize(tasks, len(tasks)).map(work).collect()
    totals = RunTotals(plan.seeds)
    for run in own_runs():
        totals.add(run)
    return totals.campaign(revision, len(missing))


def unfinished(wanted: range, runs: Iterable[Run]) -> list[int]:
    """The wanted seeds, ascending, that have no run with a final verdict. Crashes and time-outs
    are not final: the machine may have been the cause, so the seed runs again."""
    finished = {run["seed"] for run in runs if run["verdict"] in (CLEAN, VIOLATION)}
    return [seed for seed in wanted if seed not in finished]


def plan_tasks(seeds: Sequence[int], seeds_per_task: int, cores: int) -> list[Sequence[int]]:
    """The seeds of each task, in order: from one to `seeds_per_task` of them."""
    tasks = []
    begin = 0
    while begin < len(seeds):
        share = math.ceil((len(seeds) - begin) / (2 * cores))
        end = begin + min(share, seeds_per_task)
        tasks.append(seeds[begin:end])
        begin = end
    return tasks
