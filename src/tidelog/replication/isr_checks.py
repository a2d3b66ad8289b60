"""What only the passing of time shows of the partitions that this node leads.

At half of `replica.lag.time.max.ms` every led partition is checked:
1. Does the high watermark wait for a replica that is not level any more? It is computed again.
2. Are there members of the ISR to be removed? So one leaves after one to one and a half times the
   limit.
3. Has an acks=all request waited for long? Then the cause of the stall is traced, once.
4. Are there followers behind? They are measured, where figures are wanted.

A check that comes a whole interval late means that this process was paused. Then the fetches of
all followers wait in the sockets, unread; none of them is judged before the next check.

The checks of different partitions are independent, so that a pass is cut into slices (`sweep`). If
a slice comes late, the process was paused between two slices, and the rest waits for the next check
too.

When there is something new about a broker, a shorter pass looks at the partitions that wait for
followers. The metadata has it: the high watermark is computed again, because a replica that may no
longer join an ISR, or is fenced, is not waited for any more. The node suspects that the broker is
dead (decision 0031): it is to leave the ISRs that wait for it, before the controller comes to them
among thousands of others; those that wait for nothing are left to the controller.
"""

from collections.abc import Sequence

from tidelog.env.instant import Instant, earliest
from tidelog.limits import MAX_REPLICAS_SCANNED_PER_TURN
from tidelog.replication.events.in_sync import HighWatermarkStalled, IsrCheckSkipped
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.leader import LeaderState
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env, Recurring
from tidelog.replication.sweep import Sweep


class IsrChecks:
    """The recurring check of led partitions."""

    __slots__ = ("_changes", "_env", "_full", "_led", "_short", "schedule")

    def __init__(self, env: Env, changes: IsrChanges) -> None:
        self._env = env
        self._changes = changes
        # When the next check is due.
        self.schedule = Recurring(max(1, env.config.replica_lag_time_max_ms // 2))
        # The check that is under way, and the led partitions that it has found.
        self._full = Sweep()
        self._led = 0
        # The pass over partitions that wait for followers.
        self._short = Sweep(MAX_REPLICAS_SCANNED_PER_TURN)

    def on_brokers_changed(self, now: Instant) -> None:
        """There is something new about some broker."""
        self._short.begin(self._env.hosted.partitions.values(), now)

    def deadline(self) -> Instant | None:
        """When the next slice of a check is due; the checks themselves are in `schedule`."""
        return earliest(self._full.next_at, self._short.next_at)

    def check_isrs(self, now: Instant) -> None:
        """Begins a check of all led partitions if it is due, and checks the next partitions of one
        that has begun."""
        late_ms = self.schedule.due(now)
        if late_ms is not None and not self._is_paused(late_ms):
            self._full.begin(self._env.hosted.partitions.values(), now)
            self._led = 0
        elif late_ms is not None:
            self._short.begin(self._env.hosted.partitions.values(), now)
        elif self._full.next_at is not None and self._is_paused(now - self._full.taken_at):
            self._full.abandon()
        self._env.changed.mark_uncommitted(self._short.take(now))
        self._check(self._full.take(now), now)

    def _is_paused(self, late_ms: int) -> bool:
        if late_ms <= self.schedule.interval_ms:
            return False
        self._env.trace.event(IsrCheckSkipped(late_ms=late_ms))
        return True

    def _check(self, partitions: Sequence[Partition], now: Instant) -> None:
        measures = self._env.measures
        self._env.changed.mark_uncommitted(partitions)
        for partition in partitions:
            leadership = partition.leadership
            if leadership is not None:
                self._led += 1
                self._changes.maybe_shrink_isr(partition, leadership, now)
                self._explain_stall(partition, leadership, now)
                if measures.enabled:
                    measures.report_lag(partition, leadership, now)
        if partitions and self._full.next_at is None:
            measures.set_leader_count(self._led)

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
