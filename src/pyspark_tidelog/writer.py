"""The writers behind `df.write.format("tidelog")` and `df.writeStream.format("tidelog")`.

Thin: `tidelog.pipeline.sink` writes a task's rows. This module knows Spark's types: the columns of
the frame, and which task of which batch this is. Nothing is left to do when a batch is committed or
aborted, because each task's records are final by then.

Spark passes neither query nor batch to a sink's task; both are local properties of the job.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidelog.pipeline.sink.options import SinkOptions
from tidelog.pipeline.spark_columns import hint_in_message

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """A task's report to the driver."""

    rows: int


class _RowWriter:
    """What batch and stream do alike; holds values only, since Spark pickles it."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        from tidelog.pipeline.sink.writer import check_columns

        check_columns({one.name: one.dataType.simpleString() for one in schema.fields}, options)
        self._options = options

    def _write(self, batches: Iterator[Any], write_id: str | None, batch_id: int) -> Written:
        with hint_in_message():
            if not self._options.exactly_once:
                from tidelog.pipeline.sink.writer import write_rows

                return Written(write_rows(batches, self._options))
            from tidelog.pipeline.sink.commits import Task, write_once

            assert write_id is not None, "options without a name were parsed"
            task = Task(write_id, batch_id, TaskContext.get().partitionId())
            return Written(write_once(batches, self._options, task))


class TopicWriter(_RowWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a frame."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._write(iterator, self._options.write_id, 0)


class TopicStreamWriter(_RowWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the micro-batches of a query."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID)
        batch = context.getLocalProperty(_BATCH_ID)
        assert query and batch is not None, f"Spark does not name the batch: {query} {batch}"
        return self._write(iterator, query, int(batch))
