"""What a leader measures of its partitions: when records are committed, and which followers are
behind.

A broker commits too often to measure each time, so it samples. One append in `SAMPLE_INTERVAL_MS`
is announced (`append`, with the offset that commits it) and watched until the high watermark
reaches that offset (`hw_advance` with the same `required`); the driver stamps both with one clock,
finer than the core's milliseconds, and their distance is a commit latency. Between them nothing of
the partition is sampled, so a slow commit costs no more than a fast one and is never left out.

Some advances are always measured: the first of a leader's term, which ends the election, and the
first after a stall was reported, which ends the stall.

The bound: with many led partitions each is sampled less often, so that a node emits at most about
`SAMPLES_PER_SECOND` pairs a second. Followers that are behind are measured by `report_lag`, once
per check of the ISR.

Invariants: nothing here changes what a leader decides; without a sink that wants figures nothing
is done at all. Left out: acks=1 clients, which do not wait for any of this.
"""

from typing import Final

from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.model import NO_OFFSET
from tidelog.replication.events.in_sync import (
    AppendSampled,
    FetchLagMeasured,
    HighWatermarkAdvanced,
)
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition

SAMPLE_INTERVAL_MS: Final = 100
SAMPLES_PER_SECOND: Final = 200
LAG_REPORTED_FROM_MS: Final = 1000
"""A follower that was level within this time is not reported."""


class Measures:
    """The sampling of one node's leaderships."""

    __slots__ = ("_interval_ms", "_trace", "enabled")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # Whether the sink wants figures; never changes.
        self.enabled = trace.measures
        # Between two samples of one partition.
        self._interval_ms = SAMPLE_INTERVAL_MS

    def set_leader_count(self, leaders: int) -> None:
        """Spreads the samples over the partitions that this node leads."""
        self._interval_ms = max(SAMPLE_INTERVAL_MS, leaders * 1000 // SAMPLES_PER_SECOND)

    def on_append(self, partition: Partition, now: Instant) -> None:
        """Records were appended by a client; called before the high watermark can move."""
        leadership = partition.leadership
        if leadership is None:
            return
        sample = leadership.sample
        if sample.required != NO_OFFSET or now < sample.due:
            return
        sample.required = partition.log.log_end_offset
        self._trace.event(
            AppendSampled(
                partition=partition.topic_partition,
                leader_epoch=leadership.leader_epoch,
                required=sample.required,
                high_watermark=partition.log.high_watermark,
            )
        )

    def on_advance(self, partition: Partition, leadership: LeaderState, now: Instant) -> None:
        """The high watermark has moved."""
        sample = leadership.sample
        high_watermark = partition.log.high_watermark
        committed = NO_OFFSET < sample.required <= high_watermark
        if not committed and not sample.wanted:
            return
        required = sample.required if committed else None
        if committed:
            sample.required = NO_OFFSET
            sample.due = Instant(now + self._interval_ms)
        sample.wanted = False
        remotes = leadership.remotes
        self._trace.event(
            HighWatermarkAdvanced(
                partition=partition.topic_partition,
                leader_epoch=leadership.leader_epoch,
                high_watermark=high_watermark,
                log_end=partition.log.log_end_offset,
                followers=tuple(remotes),
                log_ends=tuple(remote.log_end_offset for remote in remotes.values()),
                required=required,
            )
        )

    def report_lag(self, partition: Partition, leadership: LeaderState, now: Instant) -> None:
        """Names the followers that have not been level for a while, in the ISR or not."""
        behind = []
        for replica_id, remote in leadership.remotes.items():
            ago = remote.caught_up_ms_ago(now)
            if ago < 0 or ago >= LAG_REPORTED_FROM_MS:
                behind.append((replica_id, remote.log_end_offset, ago))
        if not behind:
            return
        followers, log_ends, level_ms_ago = zip(*behind, strict=True)
        self._trace.event(
            FetchLagMeasured(
                partition=partition.topic_partition,
                leader_epoch=leadership.leader_epoch,
                log_end=partition.log.log_end_offset,
                followers=followers,
                log_ends=log_ends,
                level_ms_ago=level_ms_ago,
            )
        )
