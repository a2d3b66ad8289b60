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
from tidelog.log.log import Log
from tidelog.model import NO_OFFSET
from tidelog.replication.fetch_reading import FetchReader, Reading
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import Reply, ReplyTo
from tidelog.replication.outbox import Outbox
from tidelog.replication.partition import Partition
from tidelog.replication.purgatory import Deadlines, DelayedFetch, Waiters
from tidelog.wire.fetch import FETCH_ANY_HIGH_WATERMARK, READ_COMMITTED, FetchRequest, FetchResponse


class FetchPath:
    """Fetches on arrival, and those that wait."""

    __slots__ = ("_deadlines", "_hosted", "_outbox", "_parked_followers", "_released", "reader")

    def __init__(
        self, hosted: Hosted, reader: FetchReader, outbox: Outbox, deadlines: Deadlines
    ) -> None:
        self._hosted = hosted
        # Reads, and collects what reading has shown since `Replicas` last looked.
        self.reader = reader
        self._outbox = outbox
        self._deadlines = deadlines
        # Fetches of followers that wait, by replica id.
        self._parked_followers: dict[int, Waiters] = {}
        # Parked fetches to be answered at the end of this tick, whatever they find.
        self._released: dict[DelayedFetch, None] = {}

    # On arrival -------------------------------------------------------------------------------

    def fetch(
        self,
        request: FetchRequest,
        reply_to: ReplyTo,
        now: Instant,
        *,
        followers_may_serve: bool,
        listener: str,
    ) -> None:
        """Answers at once or parks the request."""
        parked = DelayedFetch(reply_to, request, now=now, followers_may_serve=followers_may_serve)
        parked.listener = listener
        reading = self.reader.read(parked, now, on_arrival=True)
        if (
            request.max_wait_ms <= 0
            or reading.at_once
            or reading.has_enough
            or not request.partitions
        ):
            parked.complete()
            self._reply(reply_to, reading)
            return
        reading.remember(parked)
        by_key = self._hosted.by_key
        for want in request.partitions:
            waiters = by_key[want.topic, want.partition].fetch_waiters
            parked.register(waiters, want.fetch_offset, want.high_watermark)
        if request.replica_id >= 0:
            waiters = self._parked_followers.setdefault(request.replica_id, {})
            parked.register(waiters, NO_OFFSET, FETCH_ANY_HIGH_WATERMARK)
        self._deadlines.add(parked)

    def _reply(self, reply_to: ReplyTo, reading: Reading) -> None:
        if reading.throttled_bytes:
            self.reader.throttles.leader.record(reading.throttled_bytes, reading.now)
        response = FetchResponse(0, ErrorCode.NONE, 0, reading.answers)
        self._outbox.emit(Reply(reply_to, response))

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
            reading = self.reader.read(parked, now, on_arrival=False)
            if reading.at_once or reading.has_enough:
                self._finish(parked, reading)
            else:
                reading.remember(parked)

    def complete(self, parked: DelayedFetch, now: Instant) -> None:
        """Answers a parked fetch with what there is."""
        self._finish(parked, self.reader.read(parked, now, on_arrival=False))

    def _finish(self, parked: DelayedFetch, reading: Reading) -> None:
        parked.complete()
        self._deadlines.note_answered(parked)
        self._reply(parked.reply_to, reading)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        for partition in self._hosted.partitions.values():
            for parked in partition.fetch_waiters:
                assert not parked.done, f"OneReply: {parked.reply_to} is answered and waits"


def _upper_for_consumer(log: Log, request: FetchRequest) -> int:
    if request.isolation_level == READ_COMMITTED:
        return log.last_stable_offset
    return log.high_watermark


def _collect_hopeful(partition: Partition, hopeful: dict[DelayedFetch, None]) -> None:
    """Adds the fetches that may find something new in this partition."""
    log = partition.log
    key = partition.topic_partition
    log_start, log_end = log.log_start_offset, log.log_end_offset
    for parked, (offset, known_high_watermark) in partition.fetch_waiters.items():
        parked.changed.add(key)
        request = parked.request
        upper = log_end if request.replica_id >= 0 else _upper_for_consumer(log, request)
        if (
            upper > offset
            or not log_start <= offset <= log_end
            or known_high_watermark < log.high_watermark
        ):
            hopeful[parked] = None
