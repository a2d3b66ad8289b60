"""Incremental fetch sessions (KIP-227): the leader remembers what a fetcher asks for.

A fetcher with a thousand partitions would send and receive a thousand entries a request though only
few have changed. With a session it sends only what changed, and the answer lists only partitions
that have records, a moved high watermark or log start, a diverging epoch, a preferred replica or an
error. An omitted partition means "unchanged", so every error and every move must be reported (an
error also forgets the cached high watermark, so that recovery is reported too).

Requests by (session id, epoch): (0, -1) no session; (0, 0) make one; (s, 0) close s, make one; (s,
-1) close s; (s, n > 0) incremental. The expected epoch starts at 1 after creation, grows by one per
request and wraps to 1 after 2**31 - 1. Any other epoch means that client and leader do not agree on
the state of the session: it is dropped, and the client begins a new one.

Bound: `limits.MAX_FETCH_SESSIONS`. At the bound a new session takes the place of one that was idle
for two minutes, else of the least valuable one if that is worth less than it: followers are worth
more than consumers, then more partitions are worth more. Otherwise the fetch gets session id 0: no
session.
"""

from dataclasses import dataclass, field
from typing import Final

from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_FETCH_SESSIONS
from tidelog.model import TopicId
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenPartition,
)

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
EVICTION_IDLE_MS: Final = 120_000

PartitionKey = tuple[str | TopicId, int]
"""The topic as the session's requests name it (by id, or by name), and the partition."""


@dataclass(slots=True)
class _Cached:
    """One partition of a session."""

    # The newest entry in a request.
    wanted: FetchPartition
    # The offsets in the last answer; -1 makes the next answer list the partition.
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_of_other_term(self, wanted: FetchPartition) -> bool:
        """Whether the last answer was for another leader epoch: a follower may have ignored it."""
        return self.wanted.current_leader_epoch != wanted.current_leader_epoch


@dataclass(slots=True)
class FetchSession:
    """The partitions of one fetcher, in the order in which they are served."""

    session_id: int
    # Whether a follower owns it; its session is worth more than a consumer's.
    privileged: bool
    # Whether its requests name topics by id; this must not change.
    uses_topic_ids: bool
    # The epoch the next request must carry.
    next_epoch: int
    # When the last request came; for eviction.
    last_used: Instant
    # Partitions in serving order: one that returned data moves to the end.
    partitions: dict[PartitionKey, _Cached] = field(default_factory=dict)

    def note_resolved(self, wanted: FetchPartition) -> None:
        """Keeps the name and id of a partition's topic, which a request names by one of them."""
        self.partitions[_key(self.uses_topic_ids, wanted)].wanted = wanted


def _key(
    uses_topic_ids: bool, entry: FetchPartition | ForgottenPartition | FetchedPartition
) -> PartitionKey:
    return (entry.topic_id if uses_topic_ids else entry.topic, entry.partition)


class FetchSessions:
    """All fetch sessions of a broker."""

    def __init__(self, prng: Prng, max_sessions: int = MAX_FETCH_SESSIONS) -> None:
        # Draws session ids, so that a stale id rarely hits a live session.
        self._prng = prng
        self._max_sessions = max_sessions
        # Live sessions by id.
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, request: FetchRequest, uses_topic_ids: bool, now: Instant
    ) -> tuple[FetchSession | None, list[FetchPartition]]:
        """The session of a request and all the partitions it asks for.

        Raises `ProtocolError` with FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR, which are top-level errors of the response.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == FINAL_EPOCH:
                return None, request.partitions
            return self._create(request, uses_topic_ids, now), request.partitions
        session = self._resume(request, uses_topic_ids)
        session.last_used = now
        session.next_epoch = 1 if session.next_epoch == MAX_EPOCH else session.next_epoch + 1
        for partition in request.partitions:
            key = _key(uses_topic_ids, partition)
            cached = session.partitions.get(key)
            if cached is None or cached.is_of_other_term(partition):
                session.partitions[key] = _Cached(partition)
            else:
                cached.wanted = partition
        for forgotten in request.forgotten:
            session.partitions.pop(_key(uses_topic_ids, forgotten), None)
        return session, [cached.wanted for cached in session.partitions.values()]

    def _resume(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ProtocolError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.next_epoch != request.session_epoch:
            del self._sessions[request.session_id]
            raise ProtocolError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise ProtocolError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def _create(
        self, request: FetchRequest, uses_topic_ids: bool, now: Instant
    ) -> FetchSession | None:
        privileged = request.replica_id >= 0
        if not request.partitions or not self._make_room(privileged, len(request.partitions), now):
            return None
        session_id = self._prng.between(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._prng.between(1, 2**31 - 1)
        session = FetchSession(session_id, privileged, uses_topic_ids, 1, now)
        for partition in request.partitions:
            session.partitions[_key(uses_topic_ids, partition)] = _Cached(partition)
        self._sessions[session_id] = session
        return session

    def _make_room(self, privileged: bool, partition_count: int, now: Instant) -> bool:
        if len(self._sessions) < self._max_sessions:
            return True
        victim = min(
            self._sessions.values(),
            key=lambda session: (
                now - session.last_used <= EVICTION_IDLE_MS,
                session.privileged,
                len(session.partitions),
                session.last_used,
            ),
        )
        idle = now - victim.last_used > EVICTION_IDLE_MS
        worth = (victim.privileged, len(victim.partitions))
        if not idle and worth >= (privileged, partition_count):
            return False
        del self._sessions[victim.session_id]
        return True

    def close(
        self, response: FetchResponse, session: FetchSession | None, full: bool
    ) -> FetchResponse:
        """The response as it goes out: with the session's id, and, unless `full`, without the
        partitions that have not changed."""
        if session is None:
            return response
        kept = []
        for answer in response.partitions:
            if self._has_changed(session, answer) or full:
                kept.append(answer)
        return response._replace(session_id=session.session_id, partitions=kept)

    def _has_changed(self, session: FetchSession, answer: FetchedPartition) -> bool:
        key = _key(session.uses_topic_ids, answer)
        cached = session.partitions.get(key)
        if cached is None:
            return True
        failed = answer.error_code is not ErrorCode.NONE
        changed = (
            failed
            or answer.records_bytes > 0
            or answer.high_watermark != cached.high_watermark
            or answer.high_watermark > cached.wanted.high_watermark
            or answer.log_start_offset != cached.log_start_offset
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )
        cached.high_watermark = -1 if failed else answer.high_watermark
        cached.log_start_offset = answer.log_start_offset
        if answer.records_bytes > 0:
            session.partitions[key] = session.partitions.pop(key)
        return changed
