"""Limits of a stream's batches: what Spark 4.2 adds to the micro-batch reader.

Spark's rules that shape it: admission control is on because `latestOffset` takes a limit; with
`ReadAllAvailable` the limit of the options is ignored, since the trigger wants everything; with
`availableNow` nothing above the ceiling noted at the start is ever handed out, and a partition
that is added later is left to the next run. `minOffsetsPerTrigger` waits at most `maxTriggerDelay`
since the last batch, and never in an `availableNow` run, which would have no end.
Source: Spark 4.2's Python Data Source API.
"""

import time
from collections.abc import Sequence

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_tidelog.stream import TopicStreamReader
from tidelog.pipeline.spark_columns import hint_in_message
from tidelog.pipeline.topics import stream
from tidelog.pipeline.topics.options import SourceOptions
from tidelog.pipeline.topics.stream_offsets import Position, StreamOffset


class LimitedTopicStreamReader(TopicStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream whose batches have bounds."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        # What an `availableNow` run may hand out at most; `None` in other runs.
        self._ceiling: Position | None = None
        # When a batch was last begun, or the query; monotonic, in seconds.
        self._last_batch_at = time.monotonic()

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`, if it was given."""
        limit = self._options.trigger.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # type: ignore[override]
        """Where the batch that begins at `start` ends."""
        with hint_in_message():
            # Spark reports a finished batch only when there is another; but it asks for the next
            # one when the one before is finished.
            self.commit(start)
            begin = Position.from_json(start)
            ends = self._ceiling or stream.available(self._options, self._client)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            end = stream.next_position(self._options, self._client, begin, ends, most)
            if self._too_few(stream.offsets_between(begin, end)):
                return start
            self._last_batch_at = time.monotonic()
            return end.to_json()

    def _too_few(self, offsets: int) -> bool:
        limits = self._options.trigger
        waited_s = time.monotonic() - self._last_batch_at
        return (
            self._ceiling is None and offsets < limits.min_offsets and waited_s < limits.max_delay_s
        )

    def reportLatestOffset(self) -> StreamOffset:
        """What the cluster has now: the difference to the batch is the query's lag."""
        with hint_in_message():
            return stream.available(self._options, self._client).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Notes what is there: the run ends when it has read that."""
        with hint_in_message():
            self._ceiling = stream.available(self._options, self._client)
