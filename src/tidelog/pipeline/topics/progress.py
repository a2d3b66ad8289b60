"""How far behind a stream is, from the progress reports that Spark makes of it.

A report has, for each source, where the batch ended and what the cluster had at that moment; the
difference is the lag, in offsets. `LagReporter` hands each report's lag to a user's function.
Source: Spark's `StreamingQueryProgress`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tidelog.model import TopicPartition
from tidelog.pipeline.topics.stream_offsets import Position


@dataclass(frozen=True, slots=True)
class SourceLag:
    """How many offsets the cluster has behind a finished batch."""

    partitions: Mapping[TopicPartition, int]
    """Offsets by partition, including partitions that the query does not know yet."""

    @property
    def total(self) -> int:
        return sum(self.partitions.values())


def source_lag(end: Any, latest: Any) -> SourceLag:
    """The lag between `endOffset` and `latestOffset` of a source in a report, each as JSON text or
    parsed. Raises `ValueError` when they are not of a tidelog source."""
    ends, latests = (_position(each) for each in (end, latest))
    lags = {}
    for tp, offset in sorted(latests.offsets.items()):
        is_other = latests.is_other_topic(tp.topic, ends)
        lags[tp] = max(offset - (0 if is_other else ends.offsets.get(tp, 0)), 0)
    return SourceLag(lags)


def _position(reported: Any) -> Position:
    found = json.loads(reported) if isinstance(reported, str) else reported
    if not isinstance(found or {}, dict):
        raise ValueError(f"`{reported}` is not an offset of a tidelog source")
    return Position.from_json(found or {})


class LagReporter(StreamingQueryListener):  # type: ignore[misc]
    """Calls a function with `{"query", "batch", "lag", "rows_per_s", "partitions"}` after each
    batch."""

    def __init__(self, report: Callable[[dict[str, Any]], object]) -> None:
        super().__init__()
        # The user's function.
        self._report = report

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to report yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Reports the lag after a batch."""
        progress = event.progress
        for source in progress.sources:
            try:
                lag = source_lag(source.endOffset, source.latestOffset)
            except ValueError:
                # Spark names every Python source alike; the form of its offsets identifies ours.
                continue
            self._report(
                {
                    "query": progress.name or str(progress.id),
                    "batch": progress.batchId,
                    "lag": lag.total,
                    "rows_per_s": source.processedRowsPerSecond,
                    "partitions": {str(tp): each for tp, each in lag.partitions.items()},
                }
            )

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing more to report."""
