"""Many seeds of the simulator as a Spark job: a table of runs, and what they say together.

    wanted seeds - finished ones of the table  ->  tasks  ->  play  ->  files of the table  ->  sum

The table (`campaign/runs.py`) is one path that the driver and all workers see. Every task adds its
file when it is done and not when the whole job is, so that a campaign which dies has lost the tasks
that were running and nothing else; started again, it plays what is missing. A seed is finished when
it has a row with the same tier, scenario and revision of the sources and a final verdict.

Spark deals tasks out, carries what is played to them, and repeats those whose machine was lost. It
is asked nothing else: a query costs a young Java more than most seeds, and rows that left a task
through Java would be in the table no earlier than the task's end either way.

What is played is a function that the caller gives (`docs/decisions/`, "A campaign is handed what
it plays").
"""

from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from tidelog.pipeline.campaign.deal import deal, unfinished
from tidelog.pipeline.campaign.runs import runs_of
from tidelog.pipeline.campaign.seeds import Play, Played, play_task
from tidelog.pipeline.campaign.summary import Campaign, Sum


@dataclass(frozen=True, slots=True)
class Wanted:
    """Seeds of one kind."""

    played: Played
    seeds: range
    seeds_per_task: int
    """At most."""


def play_campaign(spark: SparkSession, wanted: Wanted, play: Play, table: str) -> Campaign:
    """Plays the wanted seeds that the table at the path `table` lacks, and sums up all of them.

    Raises `UsageError` for a table that cannot be read.
    """
    played = wanted.played
    kind = (table, played.tier, played.scenario, played.revision())
    missing = unfinished(wanted.seeds, runs_of(*kind, columns=("seed", "verdict")))
    context = spark.sparkContext
    tasks = deal(missing, wanted.seeds_per_task, context.defaultParallelism)
    if tasks:
        work = partial(play_task, played=played, play=play, table=table)
        context.parallelize(tasks, len(tasks)).map(work).collect()
    added = Sum(wanted.seeds)
    for run in runs_of(*kind):
        added.add(run)
    return added.campaign(kind[-1], len(missing))
