"""The micro-batch reader behind `spark.readStream.format("tidelog")`.

One object lives in a driver-side Python process for the length of the query; the executors get
copies that only read. It holds values and asks the cluster anew each time, so a broker that died
between two batches is no matter.

Spark's rules that shape it: admission control is on because `latestOffset` takes a limit; with
`ReadAllAvailable` the limit of the options is ignored, since the trigger wants everything; with
`availableNow` nothing above the ceiling noted at the start is ever handed out, and a partition
that is added later is left to the next run.

Source: Spark 4.2's Python Data Source API.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_tidelog import RangePartition
from tidelog.pipeline import stream
from tidelog.pipeline.client import Client
from tidelog.pipeline.options import SourceOptions
from tidelog.pipeline.spark_columns import spoken_hint
from tidelog.pipeline.values import EARLIEST


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans batches on the driver, reads them on the executors."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        # What the user asked for.
        self._options = options
        # The columns to return, in this order.
        self._columns = tuple(columns)
        # What an `availableNow` run may hand out at most; `None` in other runs.
        self._ceiling: Mapping[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        """Where a new query begins."""
        with spoken_hint(), Client(self._options.bootstrap) as client:
            return stream.initial_offsets(self._options, client)

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`, if it was given."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Where the batch that begins at `start` ends."""
        with spoken_hint(), Client(self._options.bootstrap) as client:
            ends = self._ceiling
            if ends is None:
                ends = stream.available(self._options, client)
            begin = stream.within(self._options, start, ends)
            added = stream.unknown_partitions(start, ends)
            first = stream.to_text(client.list_offsets(added, EARLIEST)) if added else {}
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return stream.next_offsets(begin, ends, first, most)

    def reportLatestOffset(self) -> dict[str, int]:
        """What the cluster has now: the difference to the batch is the query's lag."""
        with spoken_hint(), Client(self._options.bootstrap) as client:
            return stream.available(self._options, client)

    def prepareForTriggerAvailableNow(self) -> None:
        """Notes what is there: the run ends when it has read that."""
        with spoken_hint(), Client(self._options.bootstrap) as client:
            self._ceiling = stream.available(self._options, client)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The ranges of a batch, one task each."""
        with spoken_hint(), Client(self._options.bootstrap) as client:
            return [
                RangePartition(planned)
                for planned in stream.plan_batch(self._options, client, start, end)
            ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of one range as Arrow batches."""
        if not isinstance(partition, RangePartition):
            return
        from tidelog.pipeline.source import read_range

        yield from read_range(self._options.bootstrap, partition.planned, self._columns)
