"""Share groups on the leaders of partitions: the fetches of members, and their sessions.

A fetch reads the share partitions of its session that have something to deliver, and acquires of
what was read (`share_fetches.py`). Where there is nothing it waits: for the replicas, or for a
share partition to load, or to get something back (`held_shares.py`).

Invariant: every fetch is answered, at the latest at its deadline, unless its connection is gone.

Left out: share partitions themselves.

Source: KIP-932; Kafka's DelayedShareFetch.
"""

from collections.abc import Sequence
from typing import Final

from tidelog.broker.held_shares import Held, HeldShares
from tidelog.broker.share_fetches import ShareFetchCall, ShareRead
from tidelog.broker.share_persister import SharePersister
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_WAITING_SHARE_FETCHES
from tidelog.metadata.image import MetadataImage
from tidelog.model import CONSUMER_REPLICA_ID, NO_EPOCH, NO_OFFSET, TopicPartition
from tidelog.replication.replicas import Replicas
from tidelog.sharing.sessions import Member, ShareSessions
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import ShareKey
from tidelog.wire.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)

_STALE: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
"""The replica is in another term than the share partition."""


class Sharing:
    """The share partitions, share sessions and waiting fetches of one node."""

    def __init__(
        self, replicas: Replicas, held: HeldShares, persister: SharePersister, max_sessions: int
    ) -> None:
        self._replicas = replicas
        self.held = held
        self.persister = persister
        self.sessions = ShareSessions(max_sessions)
        # Fetches that wait.
        self._waiting: dict[ShareFetchCall, None] = {}
        # No fetch that reads nothing has to be answered before.
        self._answer_at: Instant | None = None

    def on_image(self, image: MetadataImage) -> None:
        """Takes the newest metadata."""
        self.persister.on_image(image)
        self.held.on_image(image)

    # Sessions ---------------------------------------------------------------------------------

    def end_session(self, member: Member, now: Instant) -> None:
        """Ends the session of a member, and takes from it what it has."""
        session = self.sessions.end(member)
        for place in () if session is None else session.partitions:
            self.held.release(ShareKey(member.group_id, *place), member.member_id, now)

    def on_connection_closed(self, connection_id: int, now: Instant) -> None:
        """A connection has ended, and with it the sessions that were begun on it."""
        for member in self.sessions.on_connection(connection_id):
            self.end_session(member, now)

    # Fetches ----------------------------------------------------------------------------------

    def fetch(self, call: ShareFetchCall, now: Instant) -> None:
        """Acquires what there is, now or until the deadline of the call."""
        if not call.wanted or call.request.max_records <= 0 or call.max_bytes <= 0:
            self._finish(call, now)
            return
        if len(self._waiting) >= MAX_WAITING_SHARE_FETCHES:
            call.deadline = now
        self._look(call, now)

    def wait(self, call: ShareFetchCall, now: Instant) -> None:
        """Answers a call at its deadline, and not before."""
        self._waiting[call] = None
        self._answer_at = earliest(self._answer_at, call.deadline)

    def _look(self, call: ShareFetchCall, now: Instant) -> None:
        """Begins to read what there is to deliver; waits where there is nothing."""
        found: list[Held] = []
        for key, topic in call.wanted.items():
            answer = call.answers.get(key)
            if answer is not None and answer.error_code is not ErrorCode.NONE:
                continue
            held = self.held.find(key, topic, now)
            if isinstance(held, ErrorCode):
                call.fail(key, held)
                continue
            held.waiting[call] = None
            if held.share is not None and held.share.may_acquire():
                found.append(held)
        if found:
            self._read(call, found, now)
        if call.read is None and (call.is_ready or call.deadline <= now):
            self._finish(call, now)
        else:
            self.wait(call, now)

    def _read(self, call: ShareFetchCall, found: Sequence[Held], now: Instant) -> None:
        wants: list[FetchPartition] = []
        offsets: dict[tuple[str, int], tuple[SharePartition, int]] = {}
        committed_only = False
        for held in found:
            share = held.share
            assert share is not None, f"{held.key} is not loaded"
            offset = share.next_offset()
            key, topic = held.key, held.topic
            committed_only = share.settings.committed_only
            offsets[topic, key.partition] = (share, offset)
            wants.append(
                FetchPartition(
                    topic,
                    key.topic_id,
                    key.partition,
                    held.leader_epoch,
                    offset,
                    NO_EPOCH,
                    NO_OFFSET,
                    max(1, call.max_bytes // len(found)),
                )
            )
        for wanted in list(call.interest.wanted.values()):
            if (wanted.want.topic, wanted.want.partition) not in offsets:
                call.interest.drop(wanted.want)
        for want in wants:
            call.interest.put(want)
        call.read = ShareRead(call, offsets)
        request = FetchRequest(
            CONSUMER_REPLICA_ID,
            NO_EPOCH,
            0 if call.is_ready else max(0, call.deadline - now),
            call.min_bytes,
            call.max_bytes,
            READ_COMMITTED if committed_only else READ_UNCOMMITTED,
            0,
            NO_EPOCH,
            wants,
            [],
        )
        self._replicas.fetch(
            request, call.read, now, interest=call.interest, followers_may_serve=False
        )

    def on_read(self, read: ShareRead, response: FetchResponse, now: Instant) -> None:
        """The replicas have answered a read."""
        call = read.call
        if call.is_done or call.read is not read:
            return
        call.read = None
        if not call.is_open():
            self._leave(call)
            return
        moved = False
        for answer in response.partitions:
            share, offset = read.offsets[answer.topic, answer.partition]
            key = share.key
            held = self.held.get(key)
            if held is None or held.share is not share:
                moved = True
            elif answer.error_code in _STALE:
                self.held.drop(held, answer.error_code.name)
                moved = True
            elif answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._follow_log_start(held, share)
                call.is_ready = True
            elif answer.error_code is not ErrorCode.NONE:
                call.fail(key, answer.error_code)
                self.held.drop(held, answer.error_code.name)
            elif answer.records_bytes:
                call.take(share, offset, answer, now)
                moved |= share.next_offset() != offset or not share.may_acquire()
                self.held.note_lock(share)
        if call.is_ready or call.deadline <= now or not moved:
            self._finish(call, now)
        else:
            self._look(call, now)

    def _follow_log_start(self, held: Held, share: SharePartition) -> None:
        partition = self._replicas.partitions.get(TopicPartition(held.topic, held.key.partition))
        if partition is not None:
            share.on_log_start(partition.log.log_start_offset)
            self.held.rouse(held)

    def _leave(self, call: ShareFetchCall) -> None:
        call.is_done = True
        self._waiting.pop(call, None)
        self.held.hopeful.pop(call, None)
        for key in call.wanted:
            held = self.held.get(key)
            if held is not None:
                held.waiting.pop(call, None)

    def _finish(self, call: ShareFetchCall, now: Instant) -> None:
        self._leave(call)
        call.on_done(list(call.answers.values()), now)

    # The tick ---------------------------------------------------------------------------------

    def flow(self, now: Instant) -> bool:
        """Locks and deadlines that have ended, calls to coordinators, fetches that look again."""
        moved = self.held.end_locks(now)
        moved |= self.persister.flow(now)
        if self._answer_at is not None and self._answer_at <= now:
            self._answer_late(now)
            moved = True
        hopeful = self.held.hopeful
        if hopeful:
            self.held.hopeful = {}
            for call in hopeful:
                if not call.is_done:
                    self._look(call, now)
            moved = True
        return moved

    def _answer_late(self, now: Instant) -> None:
        """Answers the fetches whose deadline has come; one that reads has its answer from there."""
        self._answer_at = None
        for call in list(self._waiting):
            if call.deadline > now:
                self._answer_at = earliest(self._answer_at, call.deadline)
            elif call.read is None:
                self._finish(call, now)

    def deadline(self) -> Instant | None:
        """When one of these is due."""
        return earliest(self.held.lock_ends, self._answer_at, self.persister.deadline())

    def check(self) -> None:
        """Asserts the invariants of the parts, and that no fetch is forgotten."""
        self.persister.check()
        self.sessions.check()
        self.held.check()
        assert not self.held.hopeful, "fetches were not looked at"
        for call in self._waiting:
            assert not call.is_done, "an answered fetch waits"
