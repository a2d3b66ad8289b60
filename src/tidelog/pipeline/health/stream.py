"""Health while it happens: the streaming form of `transforms.py`, with `transformWithState`.

A partition is a key, and its state is a `Tracker` (`tracker.py`) and the events that wait.
Events of different nodes do not arrive in order, so a key holds each back until the watermark has
passed it, then takes those that are due in the tracker's order. The watermark's delay is how far
one node's events may be behind another's. Spark drops events that come later than that.

The state is one JSON text per key, read and written once a batch, because calls to the store are
slow.

Rows: `FOLLOWED`, begun (`end` null) and later ended under the same key `(topic, partition, kind,
start)`. Kinds: the conditions of `tracker.py`, `election` (decision to first commit) and `commit`
(a sampled append to its commit). Left out, because they join events of no partition: `unavailable`,
and the end that a deleted topic puts to its intervals.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tidelog.pipeline.health.tracker import Tracker, in_order

FOLLOWED: Final = (
    "topic string, partition int, kind string, leader_epoch int, start_us bigint, end_us bigint, "
    "duration_ms double, cause string, broker int"
)
_COLUMNS: Final = tuple(column.split()[0] for column in FOLLOWED.split(", "))
STREAM_CONF: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""Conf that a session needs for this state."""


def follow(events: DataFrame, lateness: str = "10 seconds") -> DataFrame:
    """`FOLLOWED` rows of a stream of `EVENT`; nodes may be `lateness` behind each other."""
    keyed = (
        events.where("topic is not null and partition is not null")
        .select(
            # `orders-3`: one column, as Spark's tester of processors knows keys.
            F.concat_ws("-", "topic", "partition").alias("place"),
            F.timestamp_micros("ts_us").alias("at"),
            F.to_json(F.struct("*")).alias("event"),
        )
        .withWatermark("at", lateness)
    )
    return keyed.groupBy("place").transformWithStateInPandas(
        PartitionProcessor(), FOLLOWED, "Append", "EventTime"
    )


class PartitionProcessor(StatefulProcessor):  # type: ignore[misc]
    """The tracker of one partition as Spark runs it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        # {"tracker": Tracker.state, "waiting": events that the watermark has not passed}.
        self._state = handle.getValueState("health", "state string")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Takes the batch's events; those that are due at once go to the tracker."""
        new = [json.loads(text) for frame in rows for text in frame["event"]]
        yield self._take_due(key, new, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """The watermark has passed events that waited."""
        yield self._take_due(key, [], timerValues)

    def close(self) -> None:
        """Nothing is held but the state."""

    def _take_due(self, key: Any, new: list[dict[str, Any]], times: Any) -> pd.DataFrame:
        kept = json.loads(self._state.get()[0]) if self._state.exists() else {}
        tracker = Tracker(kept.get("tracker"))
        events = [*kept.get("waiting", []), *new]
        watermark_us = times.getCurrentWatermarkInMs() * 1000
        due = [event for event in events if event["ts_us"] < watermark_us]
        waiting = [event for event in events if event["ts_us"] >= watermark_us]
        rows = [row for event in in_order(due) for row in tracker.take(_whole(event))]
        self._state.update((json.dumps({"tracker": tracker.state, "waiting": waiting}),))
        if waiting:
            soonest_ms = min(event["ts_us"] for event in waiting) // 1000 + 1
            self._handle.registerTimer(max(soonest_ms, times.getCurrentWatermarkInMs() + 1))
        topic, _, number = key[0].rpartition("-")
        return _frame([{**row, "topic": topic, "partition": int(number)} for row in rows])


def _whole(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with the fields that Spark's JSON leaves out because they are null."""
    return {"leader_epoch": None, **event, "payload": event.get("payload", {})}


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    whole = dict.fromkeys(("partition", "leader_epoch", "start_us", "end_us", "broker"), "Int64")
    return frame.astype({**whole, "duration_ms": "Float64"})
