"""Many seeds of the simulator as a Spark job: a table of runs, and their summary.

    wanted seeds - finished ones of the table  ->  tasks  ->  runs  ->  files of the table  ->  sum

The table (`campaign/runs.py`) is one path that the driver and all workers see. Every task adds its
file when the task ends, not when the job ends. So a campaign that dies loses only the tasks that
were running; started again, it runs the missing seeds. A seed is finished when it has a row with
the same tier, scenario and revision of the sources and a final verdict.

Spark distributes the tasks and the function that runs a seed, and repeats tasks whose machine was
lost. It does nothing else here: a query costs a Java that has just started more than most seeds,
and rows that left a task through Java would not be in the table any earlier.

The caller gives the function that runs a seed (`docs/decisions/`, "A campaign is given what it
runs").
"""

from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from tidelog.pipeline.campaign.runs import runs_of
from tidelog.pipeline.campaign.seeds import RunKind, RunSeed, run_task
from tidelog.pipeline.campaign.summary import Campaign, RunTotals
from tidelog.pipeline.campaign.tasks import plan_tasks, unfinished


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
