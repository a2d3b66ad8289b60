"""What only the passing of time shows of the partitions that this node leads.

At half of `replica.lag.time.max.ms` every led partition is checked:
1. Does the high watermark wait for a replica that is not level any more? It is computed again.
2. Are there members of the ISR to be removed? So one leaves after one to one and a half times the
   limit.
3. Has an acks=all request waited for long? Then the cause of the stall is traced, once.
4. Are there followers behind? They are measured, where figures are wanted.

A check that comes a whole interval late means that this process was paused. Then the fetches of
all followers wait in the sockets, unread; none of them is judged before the next check.

The checks of different partitions are independent, so that a pass can be cut into slices.
"""

from tidelog.env.instant import Instant
from tidelog.replication.events.in_sync import HighWatermarkStalled, IsrCheckSkipped
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env, Recurring


class IsrChecks:
    """The recurring check of led partitions."""

    __slots__ = ("_changes", "_env", "schedule")

    def __init__(self, env: Env, changes: IsrChanges) -> None:
        self._env = env
        self._changes = changes
        # When the next check is due.
        self.schedule = Recurring(max(1, env.config.replica_lag_time_max_ms // 2))

    def check_isrs(self, now: Instant) -> None:
        """Checks all led partitions if it is time to."""
        late_ms = self.schedule.due(now)
        if late_ms is None:
            return
        partitions, measures = self._env.hosted.partitions.values(), self._env.measures
        self._env.changed.mark_uncommitted(partitions)
        if late_ms > self.schedule.interval_ms:
            self._env.trace.event(IsrCheckSkipped(late_ms=late_ms))
            return
        led = 0
        for partition in partitions:
            leadership = partition.leadership
            if leadership is not None:
                led += 1
                self._changes.maybe_shrink_isr(partition, leadership, now)
                self._explain_stall(partition, leadership, now)
                if measures.enabled:
                    measures.report_lag(partition, leadership, now)
        measures.set_leader_count(led)

    def _explain_stall(self, partition: Partition, leadership: LeaderState, now: Instant) -> None:
        if leadership.stall_reported:
            return
        oldest = partition.acks.oldest()
        if oldest is None:
            return
        required, delayed = oldest
        stalled_ms = now - max(leadership.advanced_at, delayed.parked_at)
        if stalled_ms <= self.schedule.interval_ms:
            return
        leadership.stall_reported = True
        self._env.trace.event(
            HighWatermarkStalled(
                partition=partition.topic_partition,
                **leadership.held_back_by(now)._asdict(),
                for_ms=stalled_ms,
                high_watermark=partition.log.high_watermark,
                required=required,
                acks=len(partition.acks),
            )
        )
