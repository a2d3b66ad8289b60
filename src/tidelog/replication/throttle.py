"""Replication throttles: how fast replicas that catch up may be fed (KIP-73).

Moving a partition copies its whole log, and without a bound the copies take the links away from
clients. A throttle has two halves. A topic names the replicas that it is about, on each side
(`leader.` and `follower.replication.throttled.replicas`: `*`, or `partition:broker` pairs), and a
broker's config limits the bytes a second that all of them together may move (`leader.` and
`follower.replication.throttled.rate`, dynamic). Both have to be set for anything to happen.

| side | while its quota is exceeded |
| --- | --- |
| leader | answers a throttled follower that is not in the ISR with no records |
| follower | leaves throttled partitions that lag out of its fetches |

In-sync replicas are never held up, because acks=all would wait with them; their bytes count all the
same. A leader's empty answer still takes in what the fetch claimed.

The rate is the bytes of the last samples over the time since the oldest of them began, at least one
sample. So a quota is exceeded by what was moved and not by what is about to be: one answer may go
far over it, and pays with the pause behind it (`ThrottledOnTheWhole`: over any period of time the
bytes are at most the rate times that time and a window's worth, and one answer).

Source: KIP-73; Kafka's ReplicationQuotaManager for which replicas are exempt and what is counted.
"""

from functools import lru_cache
from typing import Final

from tidelog.config import LONG_MAX, ReplicationConfig
from tidelog.env.instant import Instant
from tidelog.env.sample_window import SampleWindow

UNLIMITED: Final = LONG_MAX


class ReplicationQuota:
    """Bytes of throttled replicas on one side, against one rate."""

    __slots__ = ("rate", "window")

    def __init__(self, config: ReplicationConfig) -> None:
        # Bytes a second; `UNLIMITED` means that there is no throttle. Set by the node from the
        # metadata.
        self.rate = UNLIMITED
        # What was moved lately.
        self.window = SampleWindow(
            config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        )

    def record(self, size_bytes: int, now: Instant) -> None:
        """Counts bytes of throttled replicas."""
        self.window.record(size_bytes, now)

    def is_exceeded(self, now: Instant) -> bool:
        """Whether more than the rate was moved lately."""
        if self.rate == UNLIMITED:
            return False
        window = self.window
        window.forget(now)
        if not window.samples:
            return False
        elapsed_ms = max(now - window.samples[0][0], window.sample_ms)
        return window.total * 1000 > self.rate * elapsed_ms

    def free_at(self, now: Instant) -> Instant | None:
        """When it is exceeded no longer if nothing more is moved; `None` when it is not."""
        if not self.is_exceeded(now):
            return None
        window = self.window
        total_bytes, since = window.total, Instant(now + 1)
        for began, counted in window.samples:
            expires = Instant(began + window.window_ms)
            if total_bytes * 1000 <= self.rate * window.sample_ms:
                break
            if self.rate:
                level = Instant(began - (-total_bytes * 1000 // self.rate))
                if level < expires:
                    return max(since, level)
            total_bytes -= counted
            since = max(since, expires)
        return since


class Throttles:
    """Both sides of one broker."""

    __slots__ = ("_node_id", "follower", "leader", "moves")

    def __init__(self, node_id: int, config: ReplicationConfig) -> None:
        self._node_id = node_id
        # What this node's leaders send to throttled followers.
        self.leader = ReplicationQuota(config)
        # What this node's throttled followers fetch.
        self.follower = ReplicationQuota(config)
        # What moves between its log directories copy; no list of replicas says which.
        self.moves = ReplicationQuota(config)

    def set_rates(self, *, leader: int, follower: int, moves: int) -> None:
        """Bytes a second, from now on."""
        self.leader.rate, self.follower.rate, self.moves.rate = leader, follower, moves

    def names(self, replicas: str, partition: int) -> bool:
        """Whether a topic's list of throttled replicas names the one on this node."""
        return replicas != "" and _names(replicas, partition, self._node_id)


@lru_cache(maxsize=4096)
def _names(replicas: str, partition: int, node_id: int) -> bool:
    if replicas.strip() == "*":
        return True
    return f"{partition}:{node_id}" in (item.strip() for item in replicas.split(","))
