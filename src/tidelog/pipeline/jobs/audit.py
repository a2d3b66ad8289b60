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

The transforms are functions of DataFrames; only `audit` runs anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidelog.pipeline.logs.batch_difference import Copy, first_difference
from tidelog.pipeline.logs.layout import Replica, find_replicas

REPLICA_COLUMNS: Final = (
    "broker int, topic string, partition int, log_start bigint, high_watermark bigint, "
    "cleaned_to bigint"
)
BATCH_COLUMNS: Final = (
    "broker int, topic string, partition int, segment string, position bigint, size int, "
    "base_offset bigint, last_offset bigint, leader_epoch int, magic int, crc bigint, "
    "computed_crc bigint, records int, index_fault string, trailing_bytes bigint"
)
"""The columns of `tidelog.segments` that the audit reads."""
HARMLESS: Final = frozenset(("TORN_TAIL",))
"""Findings that are no fault."""

_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = ("topic", "partition", "broker")
_MAX_EXPLAINED: Final = 20


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


def judged(batches: DataFrame, replicas: DataFrame) -> DataFrame:
    """The batches that lie whole between their replica's log start and high watermark."""
    return batches.join(F.broadcast(replicas), list(_REPLICA)).where(
        "last_offset >= log_start and last_offset < high_watermark"
    )


def divergent(below: DataFrame) -> DataFrame:
    """Where undamaged replicas hold different batches at one base offset."""
    sound = below.where(
        "(computed_crc is null or computed_crc = crc) and base_offset >= cleaned_to"
    )
    content = F.xxhash64("last_offset", "leader_epoch", "magic", "crc", "size", "records")
    compared = sound.groupBy(*_PARTITION, "base_offset").agg(
        F.min(content).alias("least"),
        F.max(content).alias("most"),
        F.max("last_offset").alias("last_offset"),
        F.sort_array(F.collect_set("broker")).alias("brokers"),
    )
    return _findings(
        compared.where("least <> most"), "DIVERGENT", F.lit("replicas hold different batches")
    )


def damaged(below: DataFrame) -> DataFrame:
    """Batches whose bytes do not match their stored checksum."""
    detail = F.format_string("stored CRC %08x, computed %08x", "crc", "computed_crc")
    return _findings(_single(below.where("computed_crc <> crc")), "BAD_CRC", detail)


def out_of_order(below: DataFrame) -> DataFrame:
    """Gaps, overlaps and falling epochs between consecutive batches of a replica."""
    of_replica = Window.partitionBy(*_REPLICA).orderBy("segment", "position")
    pairs = below.withColumn("last_before", F.lag("last_offset").over(of_replica)).withColumn(
        "epoch_before", F.lag("leader_epoch").over(of_replica)
    )
    gaps = _single(pairs.where("base_offset > last_before + 1 and base_offset >= cleaned_to"))
    overlaps = _single(pairs.where("base_offset <= last_before"))
    regressions = _single(pairs.where("leader_epoch < epoch_before"))
    return (
        _findings(
            gaps.withColumn("last_offset", F.expr("base_offset - 1")).withColumn(
                "base_offset", F.expr("last_before + 1")
            ),
            "GAP",
            F.lit("no batch holds these offsets"),
        )
        .unionByName(
            _findings(
                overlaps,
                "OVERLAP",
                F.format_string("the batch before it ends at offset %d", "last_before"),
            )
        )
        .unionByName(
            _findings(
                regressions,
                "EPOCH_REGRESSION",
                F.format_string("leader epoch %d follows epoch %d", "leader_epoch", "epoch_before"),
            )
        )
    )


def missing(batches: DataFrame, replicas: DataFrame) -> DataFrame:
    """Replicas that end below the high watermark that they checkpointed."""
    ends = batches.groupBy(*_REPLICA).agg(F.max("last_offset").alias("end"))
    short = (
        replicas.join(ends, list(_REPLICA), "left")
        .withColumn("end", F.coalesce(F.expr("end + 1"), "log_start"))
        .where("end < high_watermark")
        .select(
            *_PARTITION,
            F.array("broker").alias("brokers"),
            F.col("end").alias("base_offset"),
            F.expr("high_watermark - 1").alias("last_offset"),
            "high_watermark",
        )
    )
    detail = F.format_string("the replica ends below its high watermark %d", "high_watermark")
    return _findings(short, "MISSING_BELOW_HW", detail)


def mismatched_indexes(batches: DataFrame) -> DataFrame:
    """Index entries that lead to the wrong place."""
    return _findings(
        _single(batches.where("index_fault is not null")), "INDEX_MISMATCH", F.col("index_fault")
    )


def torn_tails(batches: DataFrame) -> DataFrame:
    """Bytes behind the last whole batch of a file."""
    torn = _single(batches.where("trailing_bytes is not null"))
    detail = F.format_string("%d bytes follow the last whole batch", "trailing_bytes")
    return _findings(torn, "TORN_TAIL", detail)


def findings(batches: DataFrame, replicas: DataFrame) -> DataFrame:
    """All findings, with the fields of `Finding`, in the order of their places."""
    below = judged(batches, replicas)
    parts = (
        divergent(below),
        damaged(below),
        out_of_order(below),
        missing(batches, replicas),
        mismatched_indexes(batches),
        torn_tails(batches),
    )
    everything = parts[0]
    for part in parts[1:]:
        everything = everything.unionByName(part)
    return everything.orderBy(*_PARTITION, "base_offset", "kind", "brokers")


def _single(rows: DataFrame) -> DataFrame:
    """Rows about one replica."""
    return rows.withColumn("brokers", F.array("broker"))


def _findings(rows: DataFrame, kind: str, detail: F.Column) -> DataFrame:
    return rows.select(
        F.lit(kind).alias("kind"),
        *_PARTITION,
        "brokers",
        "base_offset",
        "last_offset",
        detail.alias("detail"),
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
    replicas = spark.createDataFrame([_replica_row(one) for one in found], REPLICA_COLUMNS)
    reader = (
        spark.read.format("tidelog.segments")
        .schema(BATCH_COLUMNS)
        .option("path", ",".join(str(directory) for directory in directories))
        .option("sample", str(sample))
    )
    batches = (reader.option("topics", ",".join(topics)) if topics else reader).load().persist()
    try:
        sums = batches.agg(F.count("*").alias("batches"), F.sum("size").alias("bytes")).first()
        assert sums is not None, "an aggregate without keys has one row"
        rows = [Finding(**row.asDict()) for row in findings(batches, replicas).collect()]
        return Audit(
            replicas=len(found),
            batches=sums["batches"],
            bytes=sums["bytes"] or 0,
            findings=tuple(_explained(rows, batches)),
        )
    finally:
        batches.unpersist()


def _replica_row(replica: Replica) -> tuple[Any, ...]:
    return (
        replica.broker,
        replica.topic,
        replica.partition,
        replica.log_start,
        replica.high_watermark,
        replica.cleaned_to,
    )


def _explained(rows: Sequence[Finding], batches: DataFrame) -> Iterator[Finding]:
    """The findings; the first few differences of content with the byte and the record at which they
    begin."""
    explained = 0
    for finding in rows:
        if finding.kind not in ("DIVERGENT", "BAD_CRC") or explained >= _MAX_EXPLAINED:
            yield finding
            continue
        explained += 1
        copies = [
            Copy(row["broker"], row["segment"], row["position"], row["size"])
            for row in batches.where(
                (F.col("topic") == finding.topic)
                & (F.col("partition") == finding.partition)
                & (F.col("base_offset") == finding.base_offset)
            )
            .orderBy("broker")
            .collect()
        ]
        difference = first_difference(copies, set(finding.brokers))
        detail = f"{finding.detail}; {difference}" if difference else finding.detail
        yield Finding(**{**asdict(finding), "detail": detail})
