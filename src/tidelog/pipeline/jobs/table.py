"""Reading an ingest's table in Spark, which needs no Delta jar for it: the list of the files of the
newest version comes from delta-rs, the rows come from Spark's own Parquet reader."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidelog.pipeline.table import table_files
from tidelog.pipeline.table_files import BRONZE_SCHEMA


def read_table(spark: SparkSession, directory: Path) -> DataFrame:
    """All rows of the newest version, with the columns of `BRONZE_SCHEMA`."""
    columns = from_arrow_schema(BRONZE_SCHEMA)
    files = table_files(directory)
    if not files:
        return spark.createDataFrame([], columns)
    reader = spark.read.schema(columns).option("basePath", str(directory.absolute()))
    return reader.parquet(*files).select(*BRONZE_SCHEMA.names)
