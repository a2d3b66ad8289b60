"""The batch reader behind `spark.read.format("tidelog")`.

Plans on the driver, reads on the executors; holds values only, since Spark pickles it. Imports
what reading needs where it runs: Spark makes readers in processes that only plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.pipeline.spark_columns import PLAN_TYPES, hint_in_message
from tidelog.pipeline.topics.options import SourceOptions
from tidelog.pipeline.topics.pushdown import PushedFilters
from tidelog.pipeline.values import PlannedRange


@dataclass(frozen=True)
class RangePartition(InputPartition):  # type: ignore[misc]
    """One task's ranges, as Spark carries them to the executor."""

    planned: tuple[PlannedRange, ...]


class RangeReads:
    """What batch and stream do alike: read a task's ranges."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        # The columns to return, in this order.
        self._columns = tuple(columns)
        # The filters that Spark offered; it offers none for a stream.
        self._filters = PushedFilters()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):
            return
        from tidelog.pipeline.topics.source import plan_rows, read_ranges

        if self._columns == tuple(PLAN_TYPES):
            yield plan_rows(partition.planned)
            return
        times_ms = self._filters.bounds.wanted_times
        yield from read_ranges(partition.planned, self._options.rules, self._columns, times_ms)


class TopicReader(RangeReads, DataSourceReader):  # type: ignore[misc]
    """A batch read of topics."""

    def partitions(self) -> Sequence[InputPartition]:
        """The fixed ranges as tasks. Spark turns an empty list into one `None` task."""
        from tidelog.pipeline.cluster import Client
        from tidelog.pipeline.topics.plan import into_tasks, plan_ranges

        with hint_in_message(), Client.of(self._options.rules) as client:
            ranges = plan_ranges(self._options, client, self._filters.bounds)
            return [RangePartition(task) for task in into_tasks(ranges, self._options.sizes)]


class FilteringTopicReader(TopicReader):
    """The reader for processes in which Spark offers filters."""

    def pushFilters(self, filters: Sequence[Any]) -> Sequence[Any]:
        """Takes the filters that narrow the ranges; returns those that Spark must evaluate."""
        return self._filters.take(list(filters))
