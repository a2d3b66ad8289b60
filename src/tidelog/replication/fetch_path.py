"""Fetch: requests of followers and consumers, answered at once or parked.

What a reader may see, and what a follower's fetch proves, is decided in `fetch_reading`.

A fetch is answered at once when it may not wait, asks for nothing, found `min_bytes`, found less
though there is more (the next segment's, or a batch too large for what is left), or met an error or
a divergence. Otherwise it is parked. While it is parked a partition is only looked at when it
changed, and the fetch is read again only when a partition has something for this reader.

On arrival and later alike, only what is due is read (`interest`). What the tick has changed so far
is noticed before a fetch is read, and the rest at the end of the tick. A role that changed makes
its partition due at once, because the replica may be gone by then. A fetch of which very much is
due is read in slices: it is parked until it has been read to the end, whatever is found.

When this node begins to lead a partition it answers the parked fetches of that partition's other
replicas at once, so that they can ask for the new partition in their next request instead of
sitting out their long poll.

Invariants: `OneReply`, `SettledHasNoNews`.

Left out: the rules of sessions, which are the broker's.

Source: KIP-227, KIP-1166.
"""

from collections.abc import Iterable

from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.replication.fetch_reading import Reading, fetchable_end
from tidelog.replication.interest import DelayedFetch, Interest, Wanted
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.messages import Reply
from tidelog.replication.partition import Partition
from tidelog.replication.read_replica import ReadReplicaSelector
from tidelog.replication.shared import Env
from tidelog.wire.fetch import FetchResponse


class FetchPath:
    """Fetches on arrival, and those that wait."""

    __slots__ = (
        "_env",
        "_hopeful",
        "_isr_changes",
        "_parked_followers",
        "_released",
        "_selector",
        "_unfinished",
        "read_on_at",
    )

    def __init__(self, env: Env, isr_changes: IsrChanges) -> None:
        self._env = env
        # Which consumers are sent to followers.
        self._selector = ReadReplicaSelector(env)
        # Where followers are proposed that may join the ISR.
        self._isr_changes = isr_changes
        # Fetches of followers that wait, by replica id.
        self._parked_followers: dict[int, dict[DelayedFetch, None]] = {}
        # Parked fetches to be answered at the end of this tick, whatever they find; and those that
        # may find something new.
        self._released: dict[DelayedFetch, None] = {}
        self._hopeful: dict[DelayedFetch, None] = {}
        # Parked fetches that have not been read to the end, and when that goes on: a millisecond
        # after the slice before.
        self._unfinished: dict[DelayedFetch, Reading] = {}
        self.read_on_at: Instant | None = None

    # On arrival -------------------------------------------------------------------------------

    def fetch(self, parked: DelayedFetch, now: Instant) -> None:
        """Answers at once or parks the request."""
        former = parked.interest.parked
        if former is not None:
            # A session has one fetch at a time: its sender has given this one up.
            self._finish(former, self._unfinished.pop(former, None))
        self._notice_changes()
        self._read_on(parked, self._reading(parked, now, on_arrival=True))

    def _read_on(self, parked: DelayedFetch, reading: Reading) -> None:
        """Reads the next slice. The last one shows whether to answer or to wait."""
        reading.read_slice()
        request, interest = parked.request, parked.interest
        if not reading.is_finished:
            self._unfinished[parked] = reading
            self.read_on_at = earliest(self.read_on_at, Instant(reading.now + 1))
        elif (
            request.max_wait_ms <= 0 or reading.at_once or reading.has_enough or not interest.wanted
        ):
            self._finish(parked, reading)
            return
        if interest.parked is None:
            interest.parked = parked
            if request.replica_id >= 0:
                self._parked_followers.setdefault(request.replica_id, {})[parked] = None
            self._env.deadlines.add(parked)

    def is_reading_due(self, now: Instant) -> bool:
        """Whether `read_on` has something to do."""
        return self.read_on_at is not None and now >= self.read_on_at

    def read_on(self, now: Instant) -> None:
        """Reads the next slice of one fetch that is not read to the end: one a tick, however many
        rounds that has."""
        for parked, reading in self._unfinished.items():
            del self._unfinished[parked]
            self._read_on(parked, reading)
            break
        self.read_on_at = Instant(now + 1) if self._unfinished else None

    def _reply(self, parked: DelayedFetch, reading: Reading | None) -> None:
        if reading is not None and reading.throttled_bytes:
            self._env.throttles.leader.record(reading.throttled_bytes, reading.now)
        answers = parked.answers
        in_order = [answers[wanted] for wanted in parked.interest.in_order(answers)]
        response = FetchResponse(0, ErrorCode.NONE, 0, in_order)
        self._env.outbox.emit(Reply(parked.reply_to, response))

    # Completion -------------------------------------------------------------------------------

    def release(self, partition: Partition) -> None:
        """The replica's role or term changed: answers every fetch that waits for it."""
        for interest, wanted in tuple(partition.readers.items()):
            interest.make_due(wanted)
            interest.leave(wanted)
            if interest.parked is not None:
                self._released[interest.parked] = None

    def release_followers(self, replica_ids: Iterable[int]) -> None:
        """Answers the parked fetches of these replicas: what their next ones find may be new. A
        broker that has been unfenced may join ISRs with it."""
        for replica_id in replica_ids:
            self._released.update(dict.fromkeys(self._parked_followers.get(replica_id, ())))

    @property
    def has_released(self) -> bool:
        """Whether `end_tick` has a fetch to answer, whatever changed."""
        return bool(self._released)

    def _notice_changes(self) -> None:
        for partition in self._env.changed.take_unnoticed():
            if partition.readers:
                self._hopeful.update(dict.fromkeys(_notice(partition)))

    def end_tick(self, now: Instant) -> None:
        """Answers the parked fetches that have become ready."""
        self._notice_changes()
        released, hopeful = self._released, self._hopeful
        if not released and not hopeful:
            return
        self._released, self._hopeful = {}, {}
        for parked in released:
            if not parked.done:
                self.complete(parked, now)
        for parked in hopeful:
            if parked in self._unfinished:
                self._hopeful[parked] = None
            elif not parked.done:
                self._read_on(parked, self._reading(parked, now, on_arrival=False))

    def complete(self, parked: DelayedFetch, now: Instant) -> None:
        """Answers a parked fetch with what there is, when that has been read."""
        unfinished = self._unfinished.get(parked)
        if unfinished is not None:
            unfinished.at_once = True
            return
        reading = self._reading(parked, now, on_arrival=False)
        reading.at_once = True
        self._read_on(parked, reading)

    def _reading(self, parked: DelayedFetch, now: Instant, *, on_arrival: bool) -> Reading:
        env, selector, isr_changes = self._env, self._selector, self._isr_changes
        return Reading(env, selector, isr_changes, parked, now, on_arrival=on_arrival)

    def _finish(self, parked: DelayedFetch, reading: Reading | None) -> None:
        parked.complete()
        if parked.request.replica_id >= 0:
            self._parked_followers.get(parked.request.replica_id, {}).pop(parked, None)
        self._env.deadlines.note_answered(parked)
        self._reply(parked, reading)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        changed = self._env.changed
        interests: dict[Interest, None] = {}
        for partition in self._env.hosted.partitions.values():
            for interest, wanted in partition.readers.items():
                assert wanted.register is partition.readers, f"DueOrWatched: {partition}"
                if wanted not in interest.due and not changed.is_unnoticed(partition):
                    _check_settled(partition, interest, wanted)
                interests[interest] = None
        for interest in interests:
            parked = interest.parked
            if parked is not None:
                assert not parked.done, f"OneReply: {parked.reply_to} is answered and waits"
                interest.check()


def _notice(partition: Partition) -> list[DelayedFetch]:
    """Something about a replica may have changed: it is due for all who read it. Returns the parked
    fetches that may find something new. A session without a fetch receives no further notice before
    its next one."""
    hopeful = []
    log = partition.log
    log_start, log_end = log.log_start_offset, log.log_end_offset
    for interest, wanted in tuple(partition.readers.items()):
        interest.make_due(wanted)
        if partition.leadership is None:
            read_at = max(partition.last_consumer_read, interest.last_fetch.at)
            partition.last_consumer_read = read_at
        parked = interest.parked
        if parked is None:
            interest.leave(wanted)
            continue
        request, want = parked.request, wanted.want
        upper = log_end if request.replica_id >= 0 else fetchable_end(log, request.isolation_level)
        offset = want.fetch_offset
        if (
            upper > offset
            or not log_start <= offset <= log_end
            or want.high_watermark < log.high_watermark
        ):
            hopeful.append(parked)
    return hopeful


def _check_settled(partition: Partition, interest: Interest, wanted: Wanted) -> None:
    """Asserts `SettledHasNoNews`."""
    log, want = partition.log, wanted.want
    subject = f"SettledHasNoNews: {partition} for {want}"
    assert partition.error_of_request(want.topic_id, want.current_leader_epoch) is (
        ErrorCode.NONE
    ), subject
    assert log.log_start_offset <= want.fetch_offset <= log.log_end_offset, subject
    remote = wanted.remote
    if remote is None:
        # The last stable offset is the least of what a consumer may see.
        assert log.last_stable_offset <= want.fetch_offset, subject
        return
    leadership = partition.leadership
    assert leadership is not None and remote in leadership.remotes.values(), subject
    assert want.fetch_offset == log.log_end_offset, subject
    if remote.is_level_in(interest.last_fetch):
        assert want.fetch_offset == remote.log_end_offset == remote.leader_end_at_fetch, subject
