"""Idle producers are forgotten after `producer.id.expiration.ms`, a few replicas a turn.

Source: Kafka's `ProducerStateManager.removeExpiredProducers`.
"""

from tidelog.env.instant import Instant
from tidelog.replication.shared import Env, Recurring
from tidelog.replication.sweep import Sweep


class ProducerExpiry:
    """Looks through the hosted replicas every `producer.id.expiration.check.interval.ms`."""

    __slots__ = ("_env", "_pass", "checks")

    def __init__(self, env: Env) -> None:
        self._env = env
        # When the next pass begins, and the one under way.
        self.checks = Recurring(env.config.producer_expiration_check_interval_ms)
        self._pass = Sweep()

    @property
    def next_at(self) -> Instant | None:
        """When the pass under way goes on; `None` without one."""
        return self._pass.next_at

    def work(self, now: Instant, wall_ms: int) -> None:
        """Begins a pass, if it is time, and takes its next slice."""
        if self.checks.due(now) is not None:
            self._pass.begin(self._env.hosted.partitions.values(), now)
        for partition in self._pass.take(now):
            log = partition.log
            log.producers.expire(wall_ms, log.config.producer_id_expiration_ms)
