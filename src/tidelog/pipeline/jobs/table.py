"""An ingest's table in Spark: reading it, and comparing its rows with its accounts.

Reading needs no Delta jar: the list of the files of the newest version comes from delta-rs, the
rows come from Spark's own Parquet reader.

`faults` checks the accounts of the ingest against the rows themselves: no offset occurs twice,
leader epochs never go back, the numbers of rows agree, and each account begins where the one before
ended. The quarantine's rows count like the table's. The ingest and this check share no code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tidelog.pipeline.places import Place, local_path
from tidelog.pipeline.tables.continuity import CONTINUITY_SCHEMA
from tidelog.pipeline.tables.quarantine import QUARANTINE_DIRECTORY, QUARANTINE_SCHEMA
from tidelog.pipeline.tables.table import CONTINUITY_DIRECTORY, table_files
from tidelog.pipeline.tables.table_files import BRONZE_SCHEMA
from tidelog.pipeline.tables.table_schema import existing_schema, mode_of, open_existing

_KEY = ("topic", "partition")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one partition of a table."""

    topic: str
    partition: int
    kind: str
    """`DUPLICATE`, `EPOCH_REGRESSION`, `ROWS` or `QUARANTINE` (the number of rows differs from the
    accounts), `GAP` (between two accounts) or `KEY` (a key has two rows)."""
    places: int
    """How many rows or accounts are concerned."""
    first_offset: int

    def __str__(self) -> str:
        return (
            f"{self.kind} `{self.topic}-{self.partition}`: {self.places} in the table, the first "
            f"at offset {self.first_offset}"
        )


def read_table(spark: SparkSession, table: Place) -> DataFrame:
    """All rows of the newest version: the columns of `BRONZE_SCHEMA`, keys and values with the
    types of the table."""
    directory = local_path(table)
    return _read(spark, directory, existing_schema(directory) or BRONZE_SCHEMA)


def read_quarantine(spark: SparkSession, table: Place) -> DataFrame:
    """The records that did not parse, with the columns of `QUARANTINE_SCHEMA`."""
    directory = local_path(table) / QUARANTINE_DIRECTORY
    if not DeltaTable.is_deltatable(str(directory)):
        return spark.createDataFrame([], from_arrow_schema(QUARANTINE_SCHEMA))
    return _read(spark, directory, QUARANTINE_SCHEMA)


def read_accounts(spark: SparkSession, table: Place) -> DataFrame:
    """The accounts of the ingest's batches, with the columns of `CONTINUITY_SCHEMA`."""
    return _read(spark, local_path(table) / CONTINUITY_DIRECTORY, CONTINUITY_SCHEMA)


def _read(spark: SparkSession, directory: Path, schema: pa.Schema) -> DataFrame:
    columns = from_arrow_schema(schema)
    files = table_files(directory)
    if not files:
        return spark.createDataFrame([], columns)
    reader = spark.read.schema(columns).option("basePath", str(directory.absolute()))
    return reader.parquet(*files).select(*schema.names)


def row_faults(rows: DataFrame) -> DataFrame:
    """Offsets that occur twice and epochs that go back: `topic, partition, kind, offset`, a row
    for each."""
    in_order = Window.partitionBy(*_KEY).orderBy("offset", "leader_epoch")
    before = rows.withColumn("offset_before", F.lag("offset").over(in_order)).withColumn(
        "epoch_before", F.lag("leader_epoch").over(in_order)
    )
    kind = F.when(F.col("offset") == F.col("offset_before"), "DUPLICATE").when(
        F.col("leader_epoch") < F.col("epoch_before"), "EPOCH_REGRESSION"
    )
    return before.select(*_KEY, kind.alias("kind"), "offset").where("kind is not null")


def _number_faults(rows: DataFrame, accounts: DataFrame, kind: str, column: str) -> DataFrame:
    """Partitions whose number of rows differs from the sum of that expression in their
    accounts."""
    there = rows.groupBy(*_KEY).agg(F.count("*").alias("there"), F.min("offset").alias("offset"))
    counted = accounts.groupBy(*_KEY).agg(F.sum(F.expr(column)).alias("counted"))
    return (
        there.join(counted, list(_KEY), "full")
        .where("coalesce(there, 0) <> coalesce(counted, 0)")
        .select(*_KEY, F.lit(kind).alias("kind"), F.coalesce("offset", F.lit(-1)).alias("offset"))
    )


def account_faults(rows: DataFrame, accounts: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Partitions whose number of rows, or of quarantined records, differs from their accounts, and
    accounts that do not begin where the one before ended: the columns of `row_faults`."""
    differing = _number_faults(rows, accounts, "ROWS", "coalesce(grown_rows, rows)").unionByName(
        _number_faults(quarantine, accounts, "QUARANTINE", "quarantined_rows")
    )
    in_order = Window.partitionBy(*_KEY).orderBy("start", "end")
    chained = accounts.withColumn("end_before", F.lag("end").over(in_order))
    broken = chained.where("start <> end_before").select(
        *_KEY, F.lit("GAP").alias("kind"), F.col("start").alias("offset")
    )
    return differing.unionByName(broken)


def row_key(table: Place) -> list[str]:
    """The columns of which a table of upserts has each value once; none for other tables."""
    upsert = mode_of(open_existing(local_path(table)))
    if upsert is None:
        return []
    return [f"key.`{name}`" for name in upsert.fields] or ["key"]


def key_faults(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Keys that have two rows: the columns of `row_faults`, a row for each key."""
    named = rows.select(
        *_KEY, "offset", *(F.col(name).alias(f"k{i}") for i, name in enumerate(columns))
    )
    twice = named.groupBy("topic", *(f"k{i}" for i in range(len(columns)))).agg(
        F.max_by("partition", "offset").alias("partition"),
        F.max("offset").alias("offset"),
        F.count("*").alias("rows"),
    )
    return twice.where("rows > 1").select(*_KEY, F.lit("KEY").alias("kind"), "offset")


def faults(
    rows: DataFrame, accounts: DataFrame, quarantine: DataFrame, key: Sequence[str] = ()
) -> list[Fault]:
    """Everything that is wrong with a table, a line per partition and kind; `key` as `row_key`
    gives it."""
    columns = [*_KEY, "offset", "leader_epoch"]
    records = rows.select(*columns).unionByName(quarantine.select(*columns))
    found = row_faults(records).unionByName(account_faults(rows, accounts, quarantine))
    if key:
        found = found.unionByName(key_faults(rows, key))
    summed = found.groupBy(*_KEY, "kind").agg(
        F.count("*").alias("places"), F.min("offset").alias("first_offset")
    )
    return [Fault(**row.asDict()) for row in summed.orderBy(*_KEY, "kind").collect()]
