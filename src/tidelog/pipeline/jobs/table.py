"""An ingest's table in Spark: reading it, and comparing its rows with its accounts.

Reading needs no Delta jar: the list of the files of the newest version comes from delta-rs. The
rows of a table in a directory come from Spark's own Parquet reader; those in an object store are
read by tasks through delta-rs, so that Spark needs no jar for the store either.

`faults` checks the accounts of the ingest against the rows themselves: no offset occurs twice,
leader epochs never go back, the numbers of rows agree, and each account begins where the one before
ended. The quarantine's rows count like the table's. The ingest and this check share no code.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tidelog.pipeline.jobs.task_list import rows_of_tasks
from tidelog.pipeline.tables.addresses import AnyTable, TableAddress
from tidelog.pipeline.tables.continuity import CONTINUITY_SCHEMA
from tidelog.pipeline.tables.quarantine import QUARANTINE_DIRECTORY, QUARANTINE_SCHEMA
from tidelog.pipeline.tables.table import CONTINUITY_DIRECTORY
from tidelog.pipeline.tables.table_files import BRONZE_SCHEMA
from tidelog.pipeline.tables.table_schema import existing_schema, mode_of, open_existing

_KEY = ("topic", "partition")
_PARTITION = "partition."
_ROWS = 1 << 16


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


def read_table(spark: SparkSession, table: AnyTable) -> DataFrame:
    """All rows of the newest version: the columns of `BRONZE_SCHEMA`, keys and values with the
    types of the table. A store that takes options has a `TableAddress`. Raises
    `StoreUnavailable`."""
    address = TableAddress.of(table)
    return _read(spark, address, existing_schema(address) or BRONZE_SCHEMA)


def read_quarantine(spark: SparkSession, table: AnyTable) -> DataFrame:
    """The records that did not parse, with the columns of `QUARANTINE_SCHEMA`."""
    return _read(spark, TableAddress.of(table) / QUARANTINE_DIRECTORY, QUARANTINE_SCHEMA)


def read_accounts(spark: SparkSession, table: AnyTable) -> DataFrame:
    """The accounts of the ingest's batches, with the columns of `CONTINUITY_SCHEMA`."""
    return _read(spark, TableAddress.of(table) / CONTINUITY_DIRECTORY, CONTINUITY_SCHEMA)


def _read(spark: SparkSession, address: TableAddress, schema: pa.Schema) -> DataFrame:
    columns = from_arrow_schema(schema)
    with address.reached():
        delta = address.delta() if address.is_table else None
        files = [] if delta is None else delta.file_uris()
    if delta is None or not files:
        return spark.createDataFrame([], columns)
    if address.directory is None:
        actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        return rows_of_tasks(spark, actions, partial(_rows_of_file, address, schema), schema)
    reader = spark.read.schema(columns).option("basePath", str(address))
    return reader.parquet(*files).select(*schema.names)


def _rows_of_file(
    address: TableAddress, schema: pa.Schema, action: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with the values that its partition gives all of them."""
    with address.reached(), address.parquet(unquote(action["path"])) as file:
        there = frozenset(file.schema_arrow.names)
        values = {
            field.name: pa.scalar(action.get(_PARTITION + field.name), field.type)
            for field in schema
            if field.name not in there
        }
        for rows in file.iter_batches(batch_size=_ROWS):
            columns = [
                pa.repeat(values[field.name], len(rows))
                if field.name in values
                else rows.column(field.name).cast(field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


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


def row_key(table: AnyTable) -> list[str]:
    """The columns of which a table of upserts has each value once; none for other tables."""
    upsert = mode_of(open_existing(table))
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
