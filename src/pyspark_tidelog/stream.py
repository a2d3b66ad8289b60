"""The micro-batch reader behind `spark.readStream.format("tidelog")`, as Spark 4.0 knows it.

One object lives in a driver-side Python process for the length of the query; the executors get
copies that only read. It asks the cluster anew each time, over connections that it keeps, so a
broker may die between two batches. From Spark 4.2 on `stream_limits.py` adds limits.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_tidelog.batch import RangePartition, RangeReads
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.spark_columns import hint_in_message
from tidelog.pipeline.topics import stream
from tidelog.pipeline.topics.group_progress import check_groups_are_served, commit_progress
from tidelog.pipeline.topics.options import SourceOptions
from tidelog.pipeline.topics.plan import into_tasks
from tidelog.pipeline.topics.stream_offsets import Position, StreamOffset


class TopicStreamReader(RangeReads, DataSourceStreamReader):  # type: ignore[misc]
    """Plans batches on the driver, reads them on the executors."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        # The driver's connections, made when first needed; never pickled.
        self._connections: Client | None = None
        # The offset that was last committed to the consumer group, if one is named.
        self._committed: StreamOffset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_connections": None}

    @property
    def _client(self) -> Client:
        """The driver's client. A new one finds out whether the brokers can do all that is asked."""
        if self._connections is None:
            self._connections = Client.of(self._options.rules)
            if self._options.commit_group is not None:
                check_groups_are_served(self._connections, self._options.commit_group)
        return self._connections

    def initialOffset(self) -> StreamOffset:
        with hint_in_message():
            return stream.initial_position(self._options, self._client).to_json()

    def latestOffset(self) -> StreamOffset:
        """Where the next batch ends: at the end of what is there."""
        with hint_in_message():
            return stream.available(self._options, self._client).to_json()

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        with hint_in_message():
            begin, finish = Position.from_json(start), Position.from_json(end)
            ranges = stream.plan_batch(self._options, self._client, begin, finish)
            return [RangePartition(task) for task in into_tasks(ranges, self._options.sizes)]

    def commit(self, end: StreamOffset) -> None:
        """Spark is done with everything below; commits it to the consumer group, if one is
        named."""
        group = self._options.commit_group
        if group is not None and end != self._committed:
            offsets = Position.from_json(end).offsets
            if commit_progress(self._client, group, offsets):
                self._committed = end

    def stop(self) -> None:
        if self._connections is not None:
            self._connections.close()
            self._connections = None
