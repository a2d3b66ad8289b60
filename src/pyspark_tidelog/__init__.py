"""`spark.read.format("tidelog")` and `spark.readStream.format("tidelog")`: Kafka topics, no jar.

Spark finds this package by its name (`pyspark_*` with a `DefaultSource`); nothing is registered.
Tasks fetch raw record batches from the partitions' leaders and hand Arrow batches to Spark; see
`tidelog.pipeline` for how.

    spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights")
        .load()

Options are named as in the official connector: `kafka.bootstrap.servers`, `subscribe`,
`startingOffsets`, `endingOffsets` (batch), `maxOffsetsPerTrigger` (stream), `minPartitions`,
`failOnDataLoss`, `includeHeaders`. Writing is left out.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from tidelog.errors import UsageError
from tidelog.pipeline.options import SourceOptions, parse_options
from tidelog.pipeline.sink_options import parse_sink_options
from tidelog.pipeline.spark_columns import chosen_columns, spoken_hint
from tidelog.pipeline.values import PlannedRange

# Everything else is imported where it runs: Spark imports this module in several processes that
# only want to know the name, the schema or the partitions.

SPARK_TYPES: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "leader_epoch": "int",
    "timestamp": "timestamp",
    "timestamp_type": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The columns by name, in Spark's type names; `tidelog.pipeline.source` makes them."""

LINEAGE_TYPES: Final = {
    "producer_id": "bigint",
    "producer_epoch": "smallint",
    "base_offset": "bigint",
    "is_control": "boolean",
}
"""More columns, for a schema that names them: what a record has from its batch. With `is_control`
control records are rows too."""
_KNOWN_TYPES: Final = {**SPARK_TYPES, **LINEAGE_TYPES}


class DefaultSource(DataSource):  # type: ignore[misc]
    """The data source that Spark instantiates by the format name `tidelog`."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "tidelog"

    def schema(self) -> str:
        """All columns, in Spark's type names; wrong options are refused here."""
        with spoken_hint():
            options = parse_options(dict(self.options), streaming=None)
        return ", ".join(
            f"{name} {type_name}"
            for name, type_name in SPARK_TYPES.items()
            if name != "headers" or options.include_headers
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader for the columns of `schema`."""
        with spoken_hint():
            return TopicReader(
                parse_options(dict(self.options)), chosen_columns(schema, _KNOWN_TYPES)
            )

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """A batch writer; a topic is only ever appended to. Needs Spark 4.1."""
        with spoken_hint(), _needs_spark("4.1", "writing a topic"):
            from pyspark_tidelog.writer import TopicWriter

            if overwrite:
                raise UsageError("a topic cannot be overwritten", 'write with `.mode("append")`')
            options = parse_sink_options(dict(self.options), streaming=False)
            return TopicWriter(schema, options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """A writer of micro-batches. Needs Spark 4.1."""
        with spoken_hint(), _needs_spark("4.1", "writing a topic"):
            from pyspark_tidelog.writer import TopicStreamWriter

            options = parse_sink_options(dict(self.options), streaming=True)
            return TopicStreamWriter(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A micro-batch reader for the columns of `schema`; needs Spark 4.2."""
        with spoken_hint():
            options = parse_options(dict(self.options), streaming=True)
            columns = chosen_columns(schema, _KNOWN_TYPES)
            try:
                from pyspark_tidelog.stream import TopicStreamReader
            except ModuleNotFoundError:
                raise UsageError(
                    "reading a stream needs Spark 4.2 or newer",
                    "install it with `pip install 'pyspark>=4.2'`, or read batches",
                ) from None
        return TopicStreamReader(options, columns)


@contextmanager
def _needs_spark(version: str, what: str) -> Iterator[None]:
    """Turns a class that this pyspark does not have into words."""
    try:
        yield
    except ImportError as error:
        if not (error.name or "").startswith("pyspark."):
            raise
        raise UsageError(
            f"{what} needs Spark {version} or newer",
            f"install it with `pip install 'pyspark>={version}'`",
        ) from None


@dataclass(frozen=True)
class RangePartition(InputPartition):  # type: ignore[misc]
    """One task's range, as Spark carries it to the executor."""

    planned: PlannedRange


class TopicReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver, reads on the executors; holds values only, since Spark pickles it."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        # What the user asked for.
        self._options = options
        # The columns to return, in this order.
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """The fixed ranges, one task each. Spark turns an empty list into one `None` task."""
        from tidelog.pipeline.client import Client
        from tidelog.pipeline.plan import plan_ranges

        with spoken_hint(), Client(self._options.bootstrap) as client:
            return [RangePartition(planned) for planned in plan_ranges(self._options, client)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one range as Arrow batches."""
        if not isinstance(partition, RangePartition):
            return
        from tidelog.pipeline.source import read_range

        yield from read_range(self._options.bootstrap, partition.planned, self._columns)
