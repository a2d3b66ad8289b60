"""A DataFrame made by tasks of our own: a function makes the rows of each task.

Spark decides where and how often a task runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

Task = TypeVar("Task")


def rows_of_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    run: Callable[[Task], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """The rows that `run` yields for each task, by `schema`; every task is one Spark task. Spark
    pickles tasks and `run` for the executors. `run` may run more than once for a task."""
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(partial(_run, tasks, run), from_arrow_schema(schema))


def _run(
    tasks: Sequence[Task],
    run: Callable[[Task], Iterable[pa.RecordBatch]],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from run(tasks[number])
