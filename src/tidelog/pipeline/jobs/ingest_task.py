"""What a task of an ingest does: the ranges of its rows to files of the table, and a report.

No Spark import: workers load this module before their first record.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidelog.pipeline.spark_columns import SOURCE_TYPES
from tidelog.pipeline.tables.table_files import TableTask
from tidelog.pipeline.topics.source import planned_ranges, read_ranges
from tidelog.pipeline.values import ReadRules


@dataclass(frozen=True, slots=True)
class IngestTask:
    """The work of every task of a batch, as Spark carries it to the executors."""

    table: TableTask
    rules: ReadRules

    def __call__(self, plans: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `DataFrame.mapInArrow`: takes rows of the plan, reads their ranges one after the
        other and writes the records. Returns one row, the report."""
        ranges = (one for rows in plans for one in planned_ranges(rows))
        return self.table(read_ranges(ranges, self.rules, list(SOURCE_TYPES)))
