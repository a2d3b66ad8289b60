"""Fetch: requests of followers and consumers, answered at once or parked.

What a reader may see, and what a follower's fetch proves, is decided in `fetch_reading`.

A fetch is answered at once when it may not wait, asks for nothing, found `min_bytes`, found less
though there is more (the next segment's, or a batch too large for what is left), or met an error or
a divergence. Otherwise it is parked. While it is parked a partition is only looked at when it
changed, and is read again only when a partition has something for this reader: then those that have
changed, and of all others what was found before holds. A role that changed makes all be read.

When this node begins to lead a partition it answers the parked fetches of that partition's other
replicas at once, so that they can ask for the new partition in their next request instead of
sitting out their long poll.

Invariant: `OneReply`.

Left out: sessions, which the broker turns into full lists.

Source: KIP-227, KIP-1166.
"""

from collections.abc import Iterable

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import NO_OFFSET
from tidelog.replication.fetch_reading import Reading, fetchable_end
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.messages import Reply
from tidelog.replication.partition import Partition
from tidelog.replication.purgatory import DelayedFetch, Waiters
from tidelog.replication.read_replica import ReadReplicaSelector
from tidelog.replication.shared import Env
from tidelog.wire.fetch import FETCH_ANY_HIGH_WATERMARK, FetchResponse


class FetchPath:
    """Fetches on arrival, and those that wait."""

    __slots__ = ("_env", "_isr_changes", "_parked_followers", "_released", "_selector")

    def __init__(self, env: Env, isr_changes: IsrChanges) -> None:
        self._env = env
        # Which consumers are sent to followers.
        self._selector = ReadReplicaSelector(env)
        # Where followers go that may join the ISR.
        self._isr_changes = isr_changes
        # Fetches of followers that wait, by replica id.
        self._parked_followers: dict[int, Waiters] = {}
        # Parked fetches to be answered at the end of this tick, whatever they find.
        self._released: dict[DelayedFetch, None] = {}

    # On arrival -------------------------------------------------------------------------------

    def fetch(self, parked: DelayedFetch, now: Instant) -> None:
        """Answers at once or parks the request."""
        request = parked.request
        reading = Reading(self._env, self._selector, parked, now, on_arrival=True)
        for partition, replica_id in reading.expandable:
            self._isr_changes.maybe_expand_isr(partition, replica_id)
        if (
            request.max_wait_ms <= 0
            or reading.at_once
            or reading.has_enough
            or not request.partitions
        ):
            parked.complete()
            self._reply(parked, reading)
            return
        reading.remember()
        by_key = self._env.hosted.by_key
        for want in request.partitions:
            waiters = by_key[want.topic, want.partition].fetch_waiters
            parked.register(waiters, want.fetch_offset, want.high_watermark)
        if request.replica_id >= 0:
            waiters = self._parked_followers.setdefault(request.replica_id, {})
            parked.register(waiters, NO_OFFSET, FETCH_ANY_HIGH_WATERMARK)
        self._env.deadlines.add(parked)

    def _reply(self, parked: DelayedFetch, reading: Reading) -> None:
        if reading.throttled_bytes:
            self._env.throttles.leader.record(reading.throttled_bytes, reading.now)
        response = FetchResponse(0, ErrorCode.NONE, 0, reading.answers)
        self._env.outbox.emit(Reply(parked.reply_to, response))

    # Completion -------------------------------------------------------------------------------

    def release(self, partition: Partition) -> None:
        """The replica's role or term changed: answers every fetch that waits for it."""
        self._released.update(dict.fromkeys(partition.fetch_waiters))

    def release_followers(self, replica_ids: Iterable[int]) -> None:
        """Answers the parked fetches of these replicas."""
        for replica_id in replica_ids:
            self._released.update(dict.fromkeys(self._parked_followers.get(replica_id, ())))

    @property
    def has_released(self) -> bool:
        """Whether `end_tick` has a fetch to answer, whatever changed."""
        return bool(self._released)

    def end_tick(self, changed: Iterable[Partition], now: Instant) -> None:
        """Answers the parked fetches that have become ready."""
        hopeful: dict[DelayedFetch, None] = {}
        for partition in changed:
            if partition.fetch_waiters:
                _collect_hopeful(partition, hopeful)
        released = self._released
        self._released = {}
        for parked in released:
            if not parked.done:
                parked.answers = None
                self.complete(parked, now)
        for parked in hopeful:
            if parked.done:
                continue
            reading = self._read_again(parked, now)
            if reading.at_once or reading.has_enough:
                self._finish(parked, reading)
            else:
                reading.remember()

    def complete(self, parked: DelayedFetch, now: Instant) -> None:
        """Answers a parked fetch with what there is."""
        self._finish(parked, self._read_again(parked, now))

    def _read_again(self, parked: DelayedFetch, now: Instant) -> Reading:
        return Reading(self._env, self._selector, parked, now, on_arrival=False)

    def _finish(self, parked: DelayedFetch, reading: Reading) -> None:
        parked.complete()
        self._env.deadlines.note_answered(parked)
        self._reply(parked, reading)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        for partition in self._env.hosted.partitions.values():
            for parked in partition.fetch_waiters:
                assert not parked.done, f"OneReply: {parked.reply_to} is answered and waits"


def _collect_hopeful(partition: Partition, hopeful: dict[DelayedFetch, None]) -> None:
    """Adds the fetches that may find something new in this partition."""
    log = partition.log
    key = partition.topic_partition
    log_start, log_end = log.log_start_offset, log.log_end_offset
    for parked, (offset, known_high_watermark) in partition.fetch_waiters.items():
        parked.changed.add(key)
        request = parked.request
        upper = log_end if request.replica_id >= 0 else fetchable_end(log, request.isolation_level)
        if (
            upper > offset
            or not log_start <= offset <= log_end
            or known_high_watermark < log.high_watermark
        ):
            hopeful[parked] = None
