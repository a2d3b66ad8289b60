"""Are the replicas of a cluster the same? A Spark job over the brokers' own log directories.

Followers append what they fetch verbatim, so below the high watermark every replica of a partition
holds the same batches, byte for byte. Segments roll where each broker likes, so batches are
compared and never files. Each replica is judged from its log start to its *own* checkpointed high
watermark: a returned former leader may hold a tail above it that it has yet to cut.

| finding | says |
| --- | --- |
| DIVERGENT | replicas hold different batches at one offset |
| BAD_CRC | the bytes of a batch do not match its checksum |
| GAP | offsets are missing between two batches (not below the cleaner's checkpoint) |
| OVERLAP | a batch begins at or below the end of the one before it |
| EPOCH_REGRESSION | a batch has a lower leader epoch than the one before it |
| MISSING_BELOW_HW | a replica ends below the high watermark that it checkpointed |
| INDEX_MISMATCH | an index entry leads to the wrong place |
| TORN_TAIL | bytes behind the last whole batch: an append that a crash cut short; no fault |

The checksum is recomputed: a byte flipped on one disk leaves the stored one equal everywhere. A
batch that is damaged is reported as that, and not as a difference as well.

What the verdict is worth: it is a proof for the replicas that were found, between those offsets.
Left out: who is in the ISR (only the metadata knows), and batches of compacted topics below the
cleaner's checkpoint, which every replica cleans in its own time.

How it stays cheap: files are read once, as *stretches* of batches that follow one another with
nothing to complain of (`logs/stretches.py`), some hundred rows for a gigabyte, whatever the size
of a batch. Stretches tell everything but DIVERGENT. For that one, sums over buckets of offsets
are compared between brokers, and where they differ the batches of these buckets are read again.

The transforms are functions of DataFrames; only `audit` runs anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidelog.pipeline.logs.batch_difference import Copy, first_difference
from tidelog.pipeline.logs.layout import (
    Replica,
    SegmentPlace,
    find_replicas,
    tasks_for_cores,
)
from tidelog.pipeline.logs.stretches import (
    OPENED_SCHEMA,
    STRETCH_SCHEMA,
    Bounds,
    bounds_of,
    open_stretches,
    scan_stretches,
)

REPLICA_COLUMNS: Final = (
    "broker int, topic string, partition int, log_start bigint, high_watermark bigint"
)
HARMLESS: Final = frozenset(("TORN_TAIL",))
"""Findings that are no fault."""

_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = ("topic", "partition", "broker")
_BUCKET: Final = ("topic", "partition", "bucket")
_MAX_EXPLAINED: Final = 20

_Task = tuple[tuple[SegmentPlace, Bounds], ...]


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
        """Nothing was found but what is harmless."""
        return all(finding.kind in HARMLESS for finding in self.findings)


# Transforms --------------------------------------------------------------------------------------


def of_one_replica(stretches: DataFrame) -> DataFrame:
    """What is wrong with a replica by itself: everything but DIVERGENT and MISSING_BELOW_HW."""
    before = Window.partitionBy(*_REPLICA, "is_judged").orderBy("segment", "position")
    pairs = stretches.withColumn("last_before", F.lag("last_offset").over(before)).withColumn(
        "epoch_before", F.lag("last_epoch").over(before)
    )
    told = (
        _told(
            "is_judged and computed_crc is not null",
            "BAD_CRC",
            F.format_string("stored CRC %08x, computed %08x", "crc", "computed_crc"),
        ),
        _told(
            "is_judged and base_offset > cleaned_to and base_offset > try_add(last_before, 1)",
            "GAP",
            F.lit("no batch holds these offsets"),
            offsets=("try_add(last_before, 1)", "try_subtract(base_offset, 1)"),
        ),
        _told(
            "is_judged and base_offset <= last_before",
            "OVERLAP",
            F.format_string("the batch before it ends at offset %d", "last_before"),
        ),
        _told(
            "is_judged and first_epoch < epoch_before",
            "EPOCH_REGRESSION",
            F.format_string("leader epoch %d follows epoch %d", "first_epoch", "epoch_before"),
        ),
        _told("index_fault is not null", "INDEX_MISMATCH", F.col("index_fault")),
        _told(
            "trailing_bytes is not null",
            "TORN_TAIL",
            F.format_string("%d bytes follow the last whole batch", "trailing_bytes"),
        ),
    )
    found = F.explode(F.array_compact(F.array(*told)))
    return pairs.select(
        *_PARTITION, F.array("broker").alias("brokers"), found.alias("told")
    ).select(
        "told.kind", *_PARTITION, "brokers", "told.base_offset", "told.last_offset", "told.detail"
    )


def _told(
    condition: str,
    kind: str,
    detail: F.Column,
    offsets: tuple[str, str] = ("base_offset", "first_last_offset"),
) -> F.Column:
    """A finding where `condition` holds, else null; by default about a stretch's first batch."""
    finding = F.struct(
        F.lit(kind).alias("kind"),
        F.expr(offsets[0]).alias("base_offset"),
        F.expr(offsets[1]).alias("last_offset"),
        detail.alias("detail"),
    )
    return F.when(F.expr(condition), finding)


def missing(stretches: DataFrame, replicas: DataFrame) -> DataFrame:
    """Replicas that end below the high watermark that they checkpointed."""
    ends = stretches.groupBy(*_REPLICA).agg(F.max("last_offset").alias("last"))
    end = F.coalesce(F.expr("least(last, high_watermark - 1) + 1"), F.col("log_start"))
    short = replicas.join(ends, list(_REPLICA), "left").withColumn("end", end)
    return short.where("end < high_watermark").select(
        F.lit("MISSING_BELOW_HW").alias("kind"),
        *_PARTITION,
        F.array("broker").alias("brokers"),
        F.col("end").alias("base_offset"),
        F.expr("high_watermark - 1").alias("last_offset"),
        F.format_string(
            "the replica ends below its high watermark %d", F.col("high_watermark")
        ).alias("detail"),
    )


def suspects(stretches: DataFrame) -> DataFrame:
    """The buckets to be read batch by batch: where brokers' sums differ, or a batch is damaged."""
    sound = stretches.where("is_judged and base_offset >= cleaned_to and computed_crc is null")
    # The digests are added up modulo 2^64, as numpy does within a stretch.
    digest = "pmod(sum(cast(digest as decimal(20, 0))), 18446744073709551616)"
    sums = sound.groupBy(*_BUCKET, "zone", "broker").agg(
        F.struct(F.expr(digest), F.sum("batches"), F.sum("size")).alias("sums")
    )
    compared = sums.groupBy(*_BUCKET, "zone").agg(
        F.min("sums").alias("least"), F.max("sums").alias("most")
    )
    damaged = stretches.where("is_judged and computed_crc is not null")
    return (
        compared.where("least <> most").select(*_BUCKET).union(damaged.select(*_BUCKET)).distinct()
    )


def opened(stretches: DataFrame, buckets: DataFrame) -> DataFrame:
    """The batches of some buckets, a row each, read again from their files."""
    wanted = stretches.join(F.broadcast(buckets), list(_BUCKET), "left_semi")
    return wanted.mapInArrow(_open, _ddl(OPENED_SCHEMA))


def divergent(batches: DataFrame) -> DataFrame:
    """Where undamaged replicas hold different batches at one base offset."""
    compared = (
        batches.where("is_compared")
        .groupBy(*_PARTITION, "base_offset")
        .agg(
            F.min("digest").alias("least"),
            F.max("digest").alias("most"),
            F.max("last_offset").alias("last_offset"),
            F.sort_array(F.collect_set("broker")).alias("brokers"),
        )
    )
    return compared.where("least <> most").select(
        F.lit("DIVERGENT").alias("kind"),
        *_PARTITION,
        "brokers",
        "base_offset",
        "last_offset",
        F.lit("replicas hold different batches").alias("detail"),
    )


# Running -----------------------------------------------------------------------------------------


def audit(
    spark: SparkSession,
    directories: Sequence[Path],
    *,
    topics: Sequence[str] | None = None,
    sample: int = 1,
) -> Audit:
    """Audits all replicas in the directories, or those of `topics`.

    With `sample` k, one batch in k gets its checksum recomputed; headers are always compared.
    Raises `UsageError` for directories that hold no replicas.
    """
    found = find_replicas(directories, topics)
    rows = [(r.broker, r.topic, r.partition, r.log_start, r.high_watermark) for r in found]
    replicas = spark.createDataFrame(rows, REPLICA_COLUMNS)
    # A partition's stretches together: then nothing below needs to move them again.
    stretches = read_stretches(spark, found, sample).repartition(*_PARTITION).persist()
    try:
        sums = stretches.agg(
            F.sum("batches").alias("batches"), F.sum("size").alias("bytes")
        ).first()
        assert sums is not None, "an aggregate without keys has one row"
        told = of_one_replica(stretches).unionByName(missing(stretches, replicas))
        findings = _collected(told)
        buckets = suspects(stretches)
        if not buckets.isEmpty():
            findings = _with_differences(findings, opened(stretches, buckets))
        return Audit(
            replicas=len(found),
            batches=sums["batches"] or 0,
            bytes=sums["bytes"] or 0,
            findings=tuple(sorted(findings, key=_place)),
        )
    finally:
        stretches.unpersist()


def read_stretches(spark: SparkSession, replicas: Sequence[Replica], sample: int) -> DataFrame:
    """The stretches of all files of the replicas, a task for some files of one size together."""
    bounds = bounds_of(replicas)
    tasks: list[_Task] = [
        tuple((place, bounds[place.topic, place.partition, place.broker]) for place in places)
        for places in tasks_for_cores(replicas, spark.sparkContext.defaultParallelism)
    ]
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(partial(_scan, tasks, sample), _ddl(STRETCH_SCHEMA))


def _scan(
    tasks: Sequence[_Task], sample: int, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for place, bounds in tasks[number]:
                yield from scan_stretches(place, bounds, sample)


def _open(stretches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in stretches:
        yield from open_stretches(batch)


def _ddl(schema: pa.Schema) -> str:
    names = {"int32": "int", "int64": "bigint", "bool": "boolean"}
    return ", ".join(f"{field.name} {names.get(str(field.type), field.type)}" for field in schema)


def _collected(rows: DataFrame) -> list[Finding]:
    return [Finding(**row.asDict()) for row in rows.collect()]


def _place(finding: Finding) -> tuple[object, ...]:
    """The order of findings in a report."""
    return (
        finding.topic,
        finding.partition,
        finding.base_offset,
        finding.kind,
        tuple(finding.brokers),
        finding.last_offset,
    )


def _with_differences(findings: Sequence[Finding], batches: DataFrame) -> list[Finding]:
    """The findings and DIVERGENT ones; the first few differences of content with the byte and the
    record at which they begin."""
    batches = batches.persist()
    try:
        everything = sorted([*findings, *_collected(divergent(batches))], key=_place)
        of_content = [one for one in everything if one.kind in ("DIVERGENT", "BAD_CRC")]
        explained = _explained(of_content[:_MAX_EXPLAINED], batches)
        return [explained.get(_place(one), one) for one in everything]
    finally:
        batches.unpersist()


def _explained(
    findings: Sequence[Finding], batches: DataFrame
) -> dict[tuple[object, ...], Finding]:
    """The findings with the first difference of content in their detail, by their place."""
    at_one = [
        (F.col("topic") == one.topic)
        & (F.col("partition") == one.partition)
        & (F.col("base_offset") == one.base_offset)
        for one in findings
    ]
    rows = batches.where(reduce(lambda one, other: one | other, at_one, F.lit(False))).collect()
    explained = {}
    for one in findings:
        copies = sorted(
            (row["broker"], row["segment"], row["position"], row["size"])
            for row in rows
            if (row["topic"], row["partition"], row["base_offset"])
            == (one.topic, one.partition, one.base_offset)
        )
        difference = first_difference([Copy(*copy) for copy in copies], set(one.brokers))
        if difference:
            explained[_place(one)] = replace(one, detail=f"{one.detail}; {difference}")
    return explained
