"""Many seeds of the simulator as a Spark job: a table of runs, and what they say together.

    seeds wanted - seeds of the table  ->  tasks  ->  mapInArrow(play)  ->  append to the table

The table is Parquet, a row a run (`seeds.RUN_SCHEMA`). Every task appends its file when it is done
and not when the whole job is, so that a campaign which dies has lost the tasks that were running
and nothing else; started again, it plays what is missing. A seed is finished when it has a row
with the same tier, scenario and revision of the sources and a verdict that the seed alone decides:
crashes and time-outs are played again, the machine may have been at fault. A task may be played
twice (Spark repeats one whose end it did not hear); a run is a function of its seed, so the
summary takes any one row of each seed.

A Python task costs Spark some 70 ms, so seeds are handed out many at a time; the number of tasks
is a multiple of the cores, so that none of them idles behind the last task.

What is played is a function that the caller gives (`docs/decisions/`, "A campaign is handed what
it plays"). The transforms are functions of DataFrames; only `play_campaign` runs anything.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from tidelog.pipeline.campaign.seeds import CLEAN, RUN_SCHEMA, VIOLATION, Play, Played, play_seeds

BLOCK_SEEDS: Final = 1_000
"""New coverage is counted over so many seeds."""

_TYPE_NAMES: Final[Mapping[pa.DataType, str]] = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.map_(pa.string(), pa.int64()): "map<string,bigint>",
    pa.list_(pa.field("element", pa.string())): "array<string>",
    pa.list_(pa.field("element", pa.int64())): "array<bigint>",
}
RUN_COLUMNS: Final = ", ".join(f"{field.name} {_TYPE_NAMES[field.type]}" for field in RUN_SCHEMA)
"""`RUN_SCHEMA` in Spark's words."""

_FINAL: Final = (CLEAN, VIOLATION)
"""Verdicts that playing the seed again would not change."""
_RANKS: Final = "case verdict when 'violation' then 0 when 'clean' then 1 else 2 end"
# Without it, no row would be in the table before the whole job is done.
_COMMIT_BY_TASK: Final = {"mapreduce.fileoutputcommitter.algorithm.version": "2"}
_COUNTS: Final = ("events", "virtual_ms", "acknowledged", "cpu_ms")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A range of seeds of one kind."""

    played: Played
    first: int
    end: int
    """Exclusive."""
    seeds_per_task: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that was not clean."""

    seed: int
    property: str
    verdict: str
    violation: str


@dataclass(frozen=True, slots=True)
class Violated:
    """One property that broke, and the smallest seed that shows it."""

    property: str
    verdict: str
    runs: int
    seed: int
    violation: str


@dataclass(frozen=True, slots=True)
class Spread:
    """How times are distributed, ms; -1 where there is none."""

    count: int = 0
    p50: int = -1
    p90: int = -1
    p99: int = -1
    max: int = -1


@dataclass(frozen=True, slots=True)
class Growth:
    """What a block of seeds reached that the blocks before it had not."""

    first_seed: int
    seeds: int
    new_marks: int
    new_signatures: int
    """A signature is the set of marks that one run reached."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The report over all wanted seeds, played now or before."""

    revision: str
    seeds: int
    played: int
    """Now."""
    sums: dict[str, int]
    """Over all runs: `events`, `virtual_ms`, `acknowledged`, `cpu_ms`."""
    failed: list[Failure]
    """By seed."""
    violations: list[Violated]
    faults: dict[str, int]
    fired: dict[str, int]
    marks: dict[str, int]
    """How many runs reached each."""
    healing_ms: Spread
    election_ms: Spread
    unavailable_ms: Spread
    growth: list[Growth]


# Transforms --------------------------------------------------------------------------------------


def runs_of(table: DataFrame, wanted: Wanted, revision: str) -> DataFrame:
    """One row per seed of those wanted that the table has, final verdicts first."""
    ours = table.where(
        (F.col("tier") == wanted.played.tier)
        & (F.col("scenario") == wanted.played.scenario)
        & (F.col("revision") == revision)
        & F.col("seed").between(wanted.first, wanted.end - 1)
    )
    best = Window.partitionBy("seed").orderBy(F.expr(_RANKS), "wall_ms")
    return ours.withColumn("rank", F.row_number().over(best)).where("rank = 1").drop("rank")


def unfinished(seeds: DataFrame, runs: DataFrame) -> DataFrame:
    """The `seed`s without a final verdict among the runs."""
    return seeds.join(runs.where(F.col("verdict").isin(*_FINAL)), "seed", "left_anti")


def counted(runs: DataFrame) -> DataFrame:
    """What the runs counted, added up: `kind`, `name`, `runs`, `total`, `first_seed`.

    Kinds are `sums` (events and the like), `faults`, `fired` and `marks`.
    """

    def fact(kind: str, name: F.Column, amount: F.Column) -> F.Column:
        return F.struct(F.lit(kind).alias("kind"), name.alias("name"), amount.alias("amount"))

    def entries(column: str) -> F.Column:
        return F.transform(
            F.map_entries(column), lambda entry: fact(column, entry["key"], entry["value"])
        )

    facts = F.concat(
        F.array(*(fact("sums", F.lit(name), F.col(name)) for name in _COUNTS)),
        entries("faults"),
        entries("fired"),
        F.transform("marks", lambda name: fact("marks", name, F.lit(1).cast("bigint"))),
    )
    return (
        runs.select("seed", F.inline(facts))
        .groupBy("kind", "name")
        .agg(
            F.count("*").alias("runs"),
            F.sum("amount").alias("total"),
            F.min("seed").alias("first_seed"),
        )
        .orderBy("kind", "name")
    )


def spreads(runs: DataFrame) -> DataFrame:
    """How times are distributed: `of`, `count`, percentiles (each a value that occurred), `max`."""
    times = {
        "healing_ms": F.array(F.expr("nullif(healed_ms, -1)")),
        "election_ms": F.col("election_ms"),
        "unavailable_ms": F.col("unavailable_ms"),
    }

    def named(name: str, column: F.Column) -> F.Column:
        known = F.filter(column, lambda ms: ms.isNotNull())
        return F.transform(known, lambda ms: F.struct(F.lit(name).alias("of"), ms.alias("ms")))

    values = F.concat(*(named(name, column) for name, column in times.items()))
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    ranks = (
        F.expr(f"cast(percentile_disc({share}) within group (order by ms) as bigint)").alias(name)
        for name, share in shares.items()
    )
    return (
        runs.select(F.inline(values))
        .groupBy("of")
        .agg(F.count("ms").alias("count"), *ranks, F.max("ms").alias("max"))
    )


def blocks(runs: DataFrame, first: int) -> DataFrame:
    """Per block of `BLOCK_SEEDS` seeds from `first` on, ascending: `first_seed`, `seeds`, and
    `new_signatures`, the sets of marks that no run before the block reached."""
    earliest = Window.partitionBy(F.array_join(F.array_sort("marks"), "|"))
    return (
        runs.withColumn("is_new", (F.min("seed").over(earliest) == F.col("seed")).cast("bigint"))
        .groupBy((F.floor((F.col("seed") - first) / BLOCK_SEEDS)).alias("block"))
        .agg(F.count("*").alias("seeds"), F.sum("is_new").alias("new_signatures"))
        .select(
            (F.col("block") * BLOCK_SEEDS + first).alias("first_seed"), "seeds", "new_signatures"
        )
        .orderBy("first_seed")
    )


def by_property(failed: Iterable[Failure]) -> list[Violated]:
    """Per property that broke: how many runs, and the failure of the smallest seed."""
    found: dict[str, list[Failure]] = {}
    for failure in failed:
        found.setdefault(failure.property, []).append(failure)
    smallest = {name: min(those, key=lambda one: one.seed) for name, those in found.items()}
    return [
        Violated(name, one.verdict, len(found[name]), one.seed, one.violation)
        for name, one in sorted(smallest.items())
    ]


# Running -----------------------------------------------------------------------------------------


def play_campaign(spark: SparkSession, wanted: Wanted, play: Play, table: str) -> Campaign:
    """Plays the wanted seeds that the table at the path `table` lacks, and sums up all of them."""
    revision = wanted.played.revision()
    seeds = spark.range(wanted.first, wanted.end).withColumnRenamed("id", "seed")
    missing = unfinished(seeds, runs_of(read_runs(spark, table), wanted, revision)).persist()
    try:
        count = missing.count()
        if count:
            tasks = task_count(count, wanted.seeds_per_task, spark.sparkContext.defaultParallelism)
            played = missing.repartition(tasks).mapInArrow(
                partial(play_seeds, played=wanted.played, play=play), RUN_COLUMNS
            )
            played.write.mode("append").options(**_COMMIT_BY_TASK).parquet(table)
    finally:
        missing.unpersist()
    return _summed_up(spark, wanted, table, revision, count)


def read_runs(spark: SparkSession, table: str) -> DataFrame:
    """The table at a path; an empty one when nothing is there yet."""
    try:
        return spark.read.schema(RUN_COLUMNS).parquet(table)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return spark.createDataFrame([], RUN_COLUMNS)


def task_count(seeds: int, seeds_per_task: int, cores: int) -> int:
    """How many tasks: full ones, a multiple of the cores, but none without a seed."""
    wanted = math.ceil(seeds / seeds_per_task)
    return min(seeds, math.ceil(wanted / cores) * cores)


def _summed_up(
    spark: SparkSession, wanted: Wanted, table: str, revision: str, played: int
) -> Campaign:
    runs = runs_of(read_runs(spark, table), wanted, revision).persist()
    try:
        counts = counted(runs).collect()
        failed = [
            Failure(**row.asDict())
            for row in runs.where(F.col("verdict") != CLEAN)
            .select("seed", "property", "verdict", "violation")
            .orderBy("seed")
            .collect()
        ]
        times = {row["of"]: Spread(*row[1:]) for row in spreads(runs).collect()}
        grown = blocks(runs, wanted.first).collect()
    finally:
        runs.unpersist()
    totals: dict[str, dict[str, int]] = {kind: {} for kind in ("sums", "faults", "fired", "marks")}
    for row in counts:
        totals[row["kind"]][row["name"]] = row["total"]
    first_hits = [row["first_seed"] for row in counts if row["kind"] == "marks"]
    return Campaign(
        revision=revision,
        seeds=sum(row["seeds"] for row in grown),
        played=played,
        failed=failed,
        violations=by_property(failed),
        sums=totals["sums"],
        faults=totals["faults"],
        fired=totals["fired"],
        marks=totals["marks"],
        healing_ms=times.get("healing_ms", Spread()),
        election_ms=times.get("election_ms", Spread()),
        unavailable_ms=times.get("unavailable_ms", Spread()),
        growth=list(_growth(grown, first_hits, wanted.first)),
    )


def _growth(grown: Iterable[Row], first_hits: Iterable[int], first: int) -> Iterator[Growth]:
    """The rows of `blocks` with the new marks of each; `first_hits` has the seed of every mark that
    reached it first."""
    new_marks = Counter((seed - first) // BLOCK_SEEDS for seed in first_hits)
    for row in grown:
        block = (row["first_seed"] - first) // BLOCK_SEEDS
        yield Growth(row["first_seed"], row["seeds"], new_marks[block], row["new_signatures"])
