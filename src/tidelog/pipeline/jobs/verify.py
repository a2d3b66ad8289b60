"""Does the topic hold what the cluster acknowledged? The topic against the acknowledgement log.

Every acknowledged record must be in the topic once, at its acknowledged offset, with its checksum:

- *lost*: an acknowledged record is not in the topic;
- *duplicated*: how often a record occurs in the topic beyond the first time;
- *misplaced*: an acknowledged record is in the topic, but not where it was acknowledged, or there
  with another checksum;
- *unacknowledged*: records in the topic that no acknowledgement names. They are not a fault (an
  acknowledgement may be lost on its way) and are counted apart.

The topic by itself must have dense offsets (*offset_gaps*), and the records of a key must be in one
partition in the order in which they were produced (*order_violations*). A record is recognised by
its sequence (`acknowledgements.py`), so values may be equal. Only `verify` runs a query.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidelog.pipeline.acknowledgements import SEQUENCE_HEADER
from tidelog.pipeline.spark_columns import SOURCE_TYPES, ddl
from tidelog.pipeline.topics.frames import topic_frame

SIGHTING_COLUMNS: Final = ("partition", "offset", "crc", "sequence", "key")
"""The columns of a record that are compared; the acknowledgement log has them too."""

_SOURCE_COLUMNS: Final = ddl(
    {name: SOURCE_TYPES[name] for name in ("partition", "offset", "key", "value", "headers")}
)
_PLACE: Final = ("sequence", "partition", "offset", "crc")
_MAX_FINDINGS: Final = 10


@dataclass(frozen=True, slots=True)
class Verification:
    """The account of one topic."""

    acknowledged: int
    read: int
    lost: int
    duplicated: int
    misplaced: int
    unacknowledged: int
    offset_gaps: int
    order_violations: int
    findings: tuple[str, ...]
    """The first few faults as text, by ascending sequence."""

    @property
    def is_clean(self) -> bool:
        faults = self.lost, self.duplicated, self.misplaced, self.offset_gaps, self.order_violations
        return not any(faults)


def sightings(records: DataFrame) -> DataFrame:
    """Where each record of the topic stands: `SIGHTING_COLUMNS`. The sequence is null for a
    record that carries none."""
    carried = F.filter("headers", lambda header: header["key"] == SEQUENCE_HEADER)
    return records.select(
        "partition",
        "offset",
        F.crc32("value").alias("crc"),
        F.get(carried, F.lit(0))["value"].cast("string").cast("bigint").alias("sequence"),
        "key",
    )


def compare(acknowledged: DataFrame, seen: DataFrame) -> DataFrame:
    """One row per sequence: how often it was acknowledged and seen, and whether it was seen
    where, and with the checksum with which, it was acknowledged."""
    promises = acknowledged.select(*_PLACE, F.lit(1).alias("promises"), F.lit(0).alias("sights"))
    sights = seen.select(*_PLACE, F.lit(0).alias("promises"), F.lit(1).alias("sights"))
    by_place = (
        promises.unionByName(sights)
        .where("sequence is not null")
        .repartition("sequence")
        .groupBy(*_PLACE)
        .agg(F.sum("promises").alias("promises"), F.sum("sights").alias("sights"))
    )
    return by_place.groupBy("sequence").agg(
        F.sum("promises").alias("acknowledged"),
        F.sum("sights").alias("seen"),
        F.sum(F.when(F.col("sights") > 0, F.col("promises")).otherwise(0)).alias("placed"),
    )


def account(compared: DataFrame) -> DataFrame:
    """One row that sums up `compare`."""

    def total(condition: str, amount: str = "1") -> F.Column:
        return F.coalesce(
            F.sum(F.expr(f"case when {condition} then {amount} else 0 end")), F.lit(0)
        )

    return compared.select(
        F.coalesce(F.sum("acknowledged"), F.lit(0)).alias("acknowledged"),
        F.coalesce(F.sum("seen"), F.lit(0)).alias("seen"),
        total("acknowledged > 0 and seen = 0", "acknowledged").alias("lost"),
        total("seen > 1", "seen - 1").alias("duplicated"),
        total("seen > 0 and placed < acknowledged", "acknowledged - placed").alias("misplaced"),
        total("acknowledged = 0", "seen").alias("unacknowledged"),
    )


def faults(compared: DataFrame) -> DataFrame:
    """The rows of `compare` that are not as they should be."""
    return compared.where("(acknowledged > 0 and (seen = 0 or placed < acknowledged)) or seen > 1")


def density(seen: DataFrame) -> DataFrame:
    """Per partition: the records, the distinct offsets, and the offsets missing between the first
    and the last."""
    by_partition = seen.groupBy("partition").agg(
        F.count("*").alias("records"),
        F.countDistinct("offset").alias("offsets"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
    )
    missing = F.col("last_offset") - F.col("first_offset") + 1 - F.col("offsets")
    return by_partition.withColumn("gaps", missing)


def order_violations(seen: DataFrame) -> DataFrame:
    """The records with a key that stand in another partition than the key's record before, or
    not behind it in the producer's order."""
    of_key = Window.partitionBy("key").orderBy("partition", "offset")
    return (
        seen.where("key is not null and sequence is not null")
        .withColumn("partition_before", F.lag("partition").over(of_key))
        .withColumn("sequence_before", F.lag("sequence").over(of_key))
        .where("partition_before <> partition or sequence_before >= sequence")
    )


def read_sightings(
    spark: SparkSession, bootstrap_servers: str, topic: str, ending_offsets: str = "latest"
) -> DataFrame:
    """The sightings of a whole topic, up to `ending_offsets` in the source's notation."""
    return sightings(
        topic_frame(
            spark.read, bootstrap_servers, topic, _SOURCE_COLUMNS, endingOffsets=ending_offsets
        )
    )


def verify(acknowledged: DataFrame, seen: DataFrame) -> Verification:
    """Compares the acknowledgement log with the records seen, which are read once and cached."""
    seen = seen.select(*SIGHTING_COLUMNS).persist()
    try:
        compared = compare(acknowledged, seen)
        (row,) = account(compared).collect()
        sums = row.asDict()
        partitions = density(seen).collect()
        read = sum(row["records"] for row in partitions)
        sums["unacknowledged"] += read - sums.pop("seen")
        return Verification(
            **sums,
            read=read,
            offset_gaps=sum(row["gaps"] for row in partitions),
            order_violations=order_violations(seen).count(),
            findings=_findings(sums, compared, acknowledged, seen),
        )
    finally:
        seen.unpersist()


def _findings(
    sums: Mapping[str, int], compared: DataFrame, acknowledged: DataFrame, seen: DataFrame
) -> tuple[str, ...]:
    """The first faults as text; without faults no query runs."""
    if not (sums["lost"] or sums["duplicated"] or sums["misplaced"]):
        return ()
    worst = faults(compared).orderBy("sequence").limit(_MAX_FINDINGS)
    promised = _places(acknowledged).withColumnRenamed("places", "promised")
    found = _places(seen).withColumnRenamed("places", "found")
    rows = worst.join(promised, "sequence", "left").join(found, "sequence", "left")
    return tuple(
        f"record {row['sequence']}: acknowledged at {row['promised'] or 'no place'}, "
        f"found at {row['found'] or 'no place'}"
        for row in rows.orderBy("sequence").collect()
    )


def _places(rows: DataFrame) -> DataFrame:
    """All places of each sequence as one text: `partition@offset (crc …)`."""
    place = F.format_string("%d@%d (crc %08x)", "partition", "offset", "crc")
    return rows.groupBy("sequence").agg(
        F.array_join(F.array_sort(F.collect_list(place)), ", ").alias("places")
    )
