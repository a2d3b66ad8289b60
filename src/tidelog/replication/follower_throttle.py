"""Takes throttled partitions that lag out of the fetches while the follower quota is exceeded.

The rule is in `throttle`; here it is applied to the partitions that are fetched from one leader.
Partitions that keep up stay in the fetches: they are in sync, and acks=all waits for them.
"""

from tidelog.env.instant import Instant
from tidelog.replication.fetch_state import FetchState, FollowedPartitions, Phase
from tidelog.replication.throttle import Throttles


class FollowerThrottle:
    """The follower quota of a node, for one leader's partitions."""

    __slots__ = ("_followed", "_throttles", "_until")

    def __init__(self, throttles: Throttles, followed: FollowedPartitions) -> None:
        self._throttles = throttles
        self._followed = followed
        # When the quota is looked at again for the THROTTLED ones.
        self._until: Instant | None = None

    def apply(self, now: Instant) -> None:
        """Moves partitions out of the fetches, or all of them back."""
        quota = self._throttles.follower
        if not quota.is_exceeded(now):
            for state in list(self._followed.throttled):
                self._followed.enter(state, Phase.FETCHING)
            return
        self._until = quota.free_at(now)
        for state in self._followed.by_key.values():
            if state.phase is Phase.FETCHING and state.lags and self._names(state):
                self._followed.enter(state, Phase.THROTTLED)

    def record(self, state: FetchState, size_bytes: int, now: Instant) -> None:
        """Counts what was fetched of a partition, if it is a throttled one."""
        if size_bytes and self._names(state):
            self._throttles.follower.record(size_bytes, now)

    def _names(self, state: FetchState) -> bool:
        partition = state.partition
        listed = partition.log.config.follower_replication_throttled_replicas
        return self._throttles.names(listed, partition.topic_partition.partition)

    def deadline(self) -> Instant | None:
        """When `apply` has something to do again."""
        return self._until if self._followed.throttled else None
