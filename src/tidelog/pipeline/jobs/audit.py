"""Are all replicas of a cluster equal? A Spark job over the brokers' own log directories.

Followers append what they fetch verbatim, so below the high watermark every replica of a partition
holds the same batches, byte for byte. Each broker rolls its segments by itself, so the audit
compares batches and never files. It judges each replica from its log start to its *own*
checkpointed high watermark: a former leader that came back may still hold a tail above it.

| finding | meaning |
| --- | --- |
| DIVERGENT | replicas hold different batches at one offset |
| BAD_CRC | the bytes of a batch do not match its checksum |
| GAP | offsets are missing between two batches (not below the cleaner's checkpoint) |
| OVERLAP | a batch begins at or below the end of the one before it |
| EPOCH_REGRESSION | a batch has a lower leader epoch than the one before it |
| MISSING_BELOW_HW | a replica ends below the high watermark that it checkpointed |
| INDEX_MISMATCH | an index entry leads to the wrong place |
| TORN_TAIL | bytes behind the last whole batch: an append that a crash cut short; not a fault |

The audit recomputes the checksum: a byte flipped on one disk leaves the stored one equal on all
replicas. A damaged batch is reported as BAD_CRC only, not as a difference too.

The verdict proves equality for the replicas that were found, between those offsets. Left out: the
ISR (only the metadata has it), and batches of compacted topics below the cleaner's checkpoint,
which every replica cleans in its own time.

Cost: each file is read once, as *runs of batches* that follow one another without a fault
(`logs/batch_runs.py`), some hundred rows for a gigabyte, whatever the size of a batch. Runs show
every kind of finding but DIVERGENT. For that one the audit compares sums over buckets of offsets
between brokers, and reads the batches of a bucket again where the sums differ. So Spark's queries
are over few rows, in a session set for that, and there are two when nothing is wrong.

The transforms are functions of DataFrames; only `audit` runs a query.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import attrgetter
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tidelog.pipeline.jobs.task_list import rows_of_tasks
from tidelog.pipeline.logs import batch_runs
from tidelog.pipeline.logs.batch_difference import Copy, first_difference
from tidelog.pipeline.logs.layout import Replica, SegmentPlace, find_replicas, tasks_for_cores
from tidelog.pipeline.places import Place

HARMLESS: Final = frozenset(("TORN_TAIL",))
"""Findings that are not faults."""

_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = ("topic", "partition", "broker")
_BUCKET: Final = ("topic", "partition", "bucket")
_BUCKET_COLUMNS: Final = "topic string, partition int, bucket bigint"
_OF_CONTENT: Final = ("DIVERGENT", "BAD_CRC")
_MAX_EXPLAINED: Final = 20
_TASKS_PER_CORE: Final = 2
_TASK_BYTES: Final = 512 << 20
"""More than other tasks read: an audit reads a gigabyte or two in a second."""
_FEW_ROWS: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
"""Adaptive planning and compiled queries cost more than they save on few rows."""

_ORDER: Final = attrgetter("topic", "partition", "base_offset", "kind", "brokers", "last_offset")
"""Of findings in a report."""

_Task = tuple[tuple[SegmentPlace, batch_runs.Bounds], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: str
    topic: str
    partition: int
    brokers: list[int]
    base_offset: int
    last_offset: int
    detail: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The report of one run."""

    replicas: int
    batches: int
    """Read on all replicas together, also those above the high watermark."""
    bytes: int
    """Of these batches."""
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Only harmless findings, or none."""
        return all(finding.kind in HARMLESS for finding in self.findings)


def replica_findings(runs: DataFrame) -> DataFrame:
    """The findings of each replica by itself: all kinds but DIVERGENT and MISSING_BELOW_HW."""
    before = Window.partitionBy(*_REPLICA, "is_judged").orderBy("segment", "position")
    pairs = runs.withColumn("last_before", F.lag("last_offset").over(before)).withColumn(
        "epoch_before", F.lag("last_epoch").over(before)
    )
    findings = (
        _finding_where(
            "is_judged and computed_crc is not null",
            "BAD_CRC",
            F.format_string("stored CRC %08x, computed %08x", "crc", "computed_crc"),
        ),
        _finding_where(
            "is_judged and base_offset > cleaned_to and base_offset > try_add(last_before, 1)",
            "GAP",
            F.lit("no batch holds these offsets"),
            offsets=("try_add(last_before, 1)", "try_subtract(base_offset, 1)"),
        ),
        _finding_where(
            "is_judged and base_offset <= last_before",
            "OVERLAP",
            F.format_string("the batch before it ends at offset %d", "last_before"),
        ),
        _finding_where(
            "is_judged and first_epoch < epoch_before",
            "EPOCH_REGRESSION",
            F.format_string("leader epoch %d follows epoch %d", "first_epoch", "epoch_before"),
        ),
        _finding_where("index_fault is not null", "INDEX_MISMATCH", F.col("index_fault")),
        _finding_where(
            "trailing_bytes is not null",
            "TORN_TAIL",
            F.format_string("%d bytes follow the last whole batch", "trailing_bytes"),
        ),
    )
    found = F.explode(F.array_compact(F.array(*findings)))
    each = pairs.select(*_PARTITION, F.array("broker").alias("brokers"), found.alias("finding"))
    of_finding = (f"finding.{name}" for name in ("base_offset", "last_offset", "detail"))
    return each.select("finding.kind", *_PARTITION, "brokers", *of_finding)


def _finding_where(
    condition: str,
    kind: str,
    detail: F.Column,
    offsets: tuple[str, str] = ("base_offset", "first_last_offset"),
) -> F.Column:
    """A finding where `condition` holds, else null; by default about a run's first batch."""
    finding = F.struct(
        F.lit(kind).alias("kind"),
        F.expr(offsets[0]).alias("base_offset"),
        F.expr(offsets[1]).alias("last_offset"),
        detail.alias("detail"),
    )
    return F.when(F.expr(condition), finding)


def divergent_buckets(runs: DataFrame) -> DataFrame:
    """The buckets in which undamaged replicas differ somewhere, as DIVERGENT findings without
    brokers over all offsets of the bucket."""
    sound = runs.where("is_judged and base_offset >= cleaned_to and computed_crc is null")
    # The digests are added up modulo 2^64, as numpy does within a run.
    digest = "pmod(sum(cast(digest as decimal(20, 0))), 18446744073709551616)"
    sums = sound.groupBy(*_BUCKET, "zone", "broker").agg(
        F.struct(F.expr(digest), F.sum("batches"), F.sum("size")).alias("sums")
    )
    compared = sums.groupBy(*_BUCKET, "zone").agg(
        F.min("sums").alias("least"), F.max("sums").alias("most")
    )
    return compared.where("least <> most").select(
        F.lit("DIVERGENT").alias("kind"),
        *_PARTITION,
        F.expr("array()").cast("array<int>").alias("brokers"),
        F.expr(f"shiftleft(bucket, {batch_runs.BUCKET_BITS})").alias("base_offset"),
        F.expr(f"shiftleft(bucket + 1, {batch_runs.BUCKET_BITS}) - 1").alias("last_offset"),
        F.lit("replicas differ somewhere").alias("detail"),
    )


def candidates(runs: DataFrame) -> DataFrame:
    """All findings that runs show, with the fields of `Finding`; DIVERGENT ones are whole
    buckets."""
    return replica_findings(runs).unionByName(divergent_buckets(runs))


def replica_ends(runs: DataFrame) -> DataFrame:
    return runs.groupBy(*_REPLICA).agg(
        F.max("last_offset").alias("last_offset"),
        F.sum("batches").alias("batches"),
        F.sum("size").alias("bytes"),
    )


def batches_of_buckets(runs: DataFrame, buckets: DataFrame) -> DataFrame:
    """The batches of some buckets, a row each, read again from their files."""
    wanted = runs.join(F.broadcast(buckets), list(_BUCKET), "left_semi")
    return wanted.mapInArrow(_read_single, from_arrow_schema(batch_runs.SINGLE_BATCH_SCHEMA))


def divergent_batches(batches: DataFrame) -> DataFrame:
    """Where undamaged replicas hold different batches at one base offset."""
    compared = batches.where("is_compared").groupBy(*_PARTITION, "base_offset")
    found = compared.agg(
        F.min("digest").alias("least"),
        F.max("digest").alias("most"),
        F.max("last_offset").alias("last_offset"),
        F.sort_array(F.collect_set("broker")).alias("brokers"),
    )
    columns = (*_PARTITION, "brokers", "base_offset", "last_offset")
    kind, detail = F.lit("DIVERGENT"), F.lit("replicas hold different batches")
    differing = found.where("least <> most")
    return differing.select(kind.alias("kind"), *columns, detail.alias("detail"))


def audit(
    spark: SparkSession,
    directories: Sequence[Place],
    *,
    topics: Sequence[str] | None = None,
    sample: int = 1,
) -> Audit:
    """Audits all replicas in the directories, or those of `topics`. With `sample` k, one batch in k
    gets its checksum recomputed; headers are always compared. Raises `UsageError` for directories
    that hold no replicas."""
    found = find_replicas(directories, topics)
    own = spark.newSession()
    for name, value in _FEW_ROWS.items():
        own.conf.set(name, value)
    # All runs of a partition in one task: then no query needs to move them again.
    cores = own.sparkContext.defaultParallelism
    runs = read_batch_runs(own, found, sample).repartition(cores, *_PARTITION).persist()
    try:
        reached = {
            (row["topic"], row["partition"], row["broker"]): row
            for row in replica_ends(runs).collect()
        }
        from_runs = _collect_findings(candidates(runs))
        findings = [one for one in from_runs if one.kind != "DIVERGENT"]
        findings += missing_tails(found, {key: row["last_offset"] for key, row in reached.items()})
        buckets = {
            (one.topic, one.partition, one.base_offset >> batch_runs.BUCKET_BITS)
            for one in from_runs
            if one.kind in _OF_CONTENT
        }
        if buckets:
            wanted = own.createDataFrame(sorted(buckets), _BUCKET_COLUMNS)
            findings = _with_differences(findings, batches_of_buckets(runs, wanted))
        return Audit(
            replicas=len(found),
            batches=sum(row["batches"] for row in reached.values()),
            bytes=sum(row["bytes"] for row in reached.values()),
            findings=tuple(sorted(findings, key=_ORDER)),
        )
    finally:
        runs.unpersist()


def missing_tails(
    replicas: Sequence[Replica], reached: Mapping[tuple[str, int, int], int]
) -> Iterator[Finding]:
    """Replicas that end below the high watermark that they checkpointed; `reached` is the last
    offset by topic, partition and broker."""
    for one in replicas:
        last_offset = reached.get((one.topic, one.partition, one.broker))
        end = one.log_start if last_offset is None else last_offset + 1
        if end < one.high_watermark:
            mark = one.high_watermark
            detail = f"the replica ends below its high watermark {mark}"
            place = one.topic, one.partition, [one.broker], end, mark - 1
            yield Finding("MISSING_BELOW_HW", *place, detail)


def read_batch_runs(spark: SparkSession, replicas: Sequence[Replica], sample: int) -> DataFrame:
    """The runs of batches of all the replicas' files; a task reads some files together."""
    bounds = batch_runs.bounds_of(replicas)
    planned = tasks_for_cores(
        replicas,
        spark.sparkContext.defaultParallelism,
        per_core=_TASKS_PER_CORE,
        most_bytes=_TASK_BYTES,
    )
    tasks: list[_Task] = [
        tuple((place, bounds[place.topic, place.partition, place.broker]) for place in places)
        for places in planned
    ]
    return rows_of_tasks(spark, tasks, partial(_scan, sample=sample), batch_runs.BATCH_RUN_SCHEMA)


def _scan(task: _Task, sample: int) -> Iterator[pa.RecordBatch]:
    for place, bounds in task:
        yield from batch_runs.scan_batch_runs(place, bounds, sample)


def _read_single(runs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in runs:
        yield from batch_runs.read_single_batches(batch)


def _collect_findings(rows: DataFrame) -> list[Finding]:
    return [Finding(**row.asDict()) for row in rows.collect()]


def _with_differences(findings: Sequence[Finding], batches: DataFrame) -> list[Finding]:
    """The findings and DIVERGENT ones; the first few differences of content with the byte and the
    record at which they begin."""
    batches = batches.persist()
    try:
        everything = sorted([*findings, *_collect_findings(divergent_batches(batches))], key=_ORDER)
        of_content = [one for one in everything if one.kind in _OF_CONTENT]
        others = [one for one in everything if one.kind not in _OF_CONTENT]
        first, rest = of_content[:_MAX_EXPLAINED], of_content[_MAX_EXPLAINED:]
        return [*_explained(first, batches), *rest, *others]
    finally:
        batches.unpersist()


def _explained(findings: Sequence[Finding], batches: DataFrame) -> Iterator[Finding]:
    at_one = [
        (F.col("topic") == one.topic)
        & (F.col("partition") == one.partition)
        & (F.col("base_offset") == one.base_offset)
        for one in findings
    ]
    rows = batches.where(reduce(lambda one, other: one | other, at_one, F.lit(False))).collect()
    for one in findings:
        place = one.topic, one.partition, one.base_offset
        copies = sorted(
            (row["broker"], row["segment"], row["position"], row["size"])
            for row in rows
            if (row["topic"], row["partition"], row["base_offset"]) == place
        )
        difference = first_difference([Copy(*copy) for copy in copies], set(one.brokers))
        yield replace(one, detail=f"{one.detail}; {difference}") if difference else one
