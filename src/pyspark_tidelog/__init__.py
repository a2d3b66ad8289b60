"""`spark.read.format("tidelog")` and `spark.readStream.format("tidelog")`: Kafka topics, no jar.

Spark finds this package by its name (`pyspark_*` with a `DefaultSource`); nothing is registered.
Tasks fetch raw record batches from the partitions' leaders and hand Arrow batches to Spark; see
`tidelog.pipeline` for how.

    spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights")
        .load()

Options are named as in the official connector; `docs/reference/topic-source.md` has them all.
Writing, `df.write.format("tidelog")` and `df.writeStream`, is in `docs/reference/topic-sink.md`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tidelog.errors import UsageError
from tidelog.pipeline import spark_columns
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.topics.options import TriggerLimits, parse_options

# Everything else is imported where it runs: Spark imports this module in several processes that
# only want to know the name, the schema or the partitions.


class DefaultSource(DataSource):  # type: ignore[misc]
    """The data source that Spark instantiates by the format name `tidelog`."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> str:
        """The columns, in Spark's type names; wrong options are refused here."""
        with spark_columns.hint_in_message():
            options = parse_options(dict(self.options), streaming=None)
            names = options.columns or [
                name
                for name in spark_columns.DEFAULT_TYPES
                if name != "headers" or options.include_headers
            ]
            unknown = [name for name in names if name not in spark_columns.SOURCE_TYPES]
            if unknown:
                raise UsageError(
                    f"`columns` names `{unknown[0]}`, which is not a column of this source",
                    f"the columns are {', '.join(spark_columns.SOURCE_TYPES)}",
                )
        return spark_columns.ddl({name: spark_columns.SOURCE_TYPES[name] for name in names})

    def reader(self, schema: StructType) -> DataSourceReader:
        with spark_columns.hint_in_message():
            options = parse_options(dict(self.options), streaming=False)
            columns = _chosen_columns(schema)
        from pyspark_tidelog.batch import FilteringTopicReader, TopicReader

        kind = FilteringTopicReader if spark_columns.filters_are_pushed() else TopicReader
        return kind(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """A batch writer; a topic is only ever appended to. Needs Spark 4.1."""
        with spark_columns.hint_in_message(), _needs_spark("4.1", "writing a topic"):
            from pyspark_tidelog.writer import TopicWriter

            if overwrite:
                raise UsageError("a topic cannot be overwritten", 'write with `.mode("append")`')
            options = parse_sink_options(dict(self.options), streaming=False)
            return TopicWriter(schema, options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        with spark_columns.hint_in_message(), _needs_spark("4.1", "writing a topic"):
            from pyspark_tidelog.writer import TopicStreamWriter

            options = parse_sink_options(dict(self.options), streaming=True)
            return TopicStreamWriter(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A micro-batch reader for the columns of `schema`; with limits from Spark 4.2 on."""
        with spark_columns.hint_in_message():
            options = parse_options(dict(self.options), streaming=True)
            columns = _chosen_columns(schema)
        try:
            from pyspark_tidelog.stream_limits import LimitedTopicStreamReader
        except ImportError:
            from pyspark_tidelog.stream import TopicStreamReader

            with spark_columns.hint_in_message():
                if options.trigger != TriggerLimits():
                    raise UsageError(
                        "limits of a stream's batches need Spark 4.2 or newer",
                        "install it with `pip install 'pyspark>=4.2'`, or leave the limits out",
                    ) from None
            return TopicStreamReader(options, columns)
        return LimitedTopicStreamReader(options, columns)


def _chosen_columns(schema: StructType) -> list[str]:
    """The columns that a query asks for: of the plan, or of records. Raises `UsageError`."""
    plan = spark_columns.PLAN_TYPES
    wants_plan = schema.names == list(plan)
    return spark_columns.chosen_columns(schema, plan if wants_plan else spark_columns.SOURCE_TYPES)


@contextmanager
def _needs_spark(version: str, what: str) -> Iterator[None]:
    """Raises `UsageError` for a class that this pyspark does not have."""
    try:
        yield
    except ImportError as error:
        if not (error.name or "").startswith("pyspark."):
            raise
        raise UsageError(
            f"{what} needs Spark {version} or newer",
            f"install it with `pip install 'pyspark>={version}'`",
        ) from None
