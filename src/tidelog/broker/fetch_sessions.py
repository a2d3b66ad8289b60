"""Incremental fetch sessions (KIP-227): the leader remembers what a fetcher asks for.

A fetcher with a thousand partitions would send and receive a thousand entries a request though only
few have changed. With a session it sends only what changed, and the answer lists only partitions
that have records, a moved high watermark or log start, a diverging epoch, a preferred replica or an
error. An omitted partition means "unchanged", so every error and every move must be reported (an
error also forgets the high watermark that was sent, so that recovery is reported too).

What a session remembers is an `Interest`. Replication reads the part of it that may have changed,
so neither a request nor its answer is a pass over all partitions.

Requests by (session id, epoch): (0, -1) no session; (0, 0) make one; (s, 0) close s, make one; (s,
-1) close s; (s, n > 0) incremental. The expected epoch starts at 1 after creation, grows by one per
request and wraps to 1 after 2**31 - 1. Any other epoch means that client and leader do not agree on
the state of the session: it is dropped, and the client begins a new one.

Bound: `limits.MAX_FETCH_SESSIONS`. At the bound a new session takes the place of one that was idle
for two minutes, else of the least valuable one if that is worth less than it: followers are worth
more than consumers, then more partitions are worth more. Otherwise the fetch gets session id 0: no
session.
"""

from dataclasses import dataclass
from typing import Final

from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.limits import MAX_FETCH_SESSIONS
from tidelog.replication.interest import Interest, interest_of
from tidelog.wire.fetch import FetchRequest, FetchResponse

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
EVICTION_IDLE_MS: Final = 120_000


@dataclass(slots=True)
class FetchSession:
    """What a fetcher wants, and how its requests are numbered."""

    session_id: int
    # Whether a follower owns it; its session is worth more than a consumer's.
    privileged: bool
    interest: Interest
    # The epoch the next request must carry.
    next_epoch: int
    # When the last request came; for eviction.
    last_used: Instant
    # The rights of a connection that was found to be allowed all of it; `None` before.
    allowed_for: object = None


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
    ) -> tuple[FetchSession | None, Interest]:
        """The session of a request and all the partitions it asks for.

        Raises `ProtocolError` with FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR, which are top-level errors of the response.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self.end(request.session_id)
            interest = interest_of(request.partitions, by_id=uses_topic_ids, standing=False)
            if request.session_epoch == FINAL_EPOCH:
                return None, interest
            return self._create(request, interest, now), interest
        session = self._resume(request, uses_topic_ids)
        session.last_used = now
        session.next_epoch = 1 if session.next_epoch == MAX_EPOCH else session.next_epoch + 1
        for want in request.partitions:
            session.interest.put(want)
        for forgotten in request.forgotten:
            session.interest.drop(forgotten)
        return session, session.interest

    def end(self, session_id: int) -> None:
        """Forgets a session, if it is known."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.interest.end()

    def _resume(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ProtocolError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.next_epoch != request.session_epoch:
            self.end(request.session_id)
            raise ProtocolError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.interest.by_id != uses_topic_ids:
            raise ProtocolError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def _create(
        self, request: FetchRequest, interest: Interest, now: Instant
    ) -> FetchSession | None:
        privileged = request.replica_id >= 0
        if not interest.wanted or not self._make_room(privileged, len(interest.wanted), now):
            return None
        session_id = self._prng.between(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._prng.between(1, 2**31 - 1)
        interest.standing = True
        session = FetchSession(session_id, privileged, interest, 1, now)
        self._sessions[session_id] = session
        return session

    def _make_room(self, privileged: bool, partition_count: int, now: Instant) -> bool:
        if len(self._sessions) < self._max_sessions:
            return True
        if not self._sessions:
            return False
        victim = min(
            self._sessions.values(),
            key=lambda session: (
                now - session.last_used <= EVICTION_IDLE_MS,
                session.privileged,
                len(session.interest.wanted),
                session.last_used,
            ),
        )
        idle = now - victim.last_used > EVICTION_IDLE_MS
        worth = (victim.privileged, len(victim.interest.wanted))
        if not idle and worth >= (privileged, partition_count):
            return False
        self.end(victim.session_id)
        return True

    def close(
        self, response: FetchResponse, session: FetchSession | None, full: bool
    ) -> FetchResponse:
        """The response as it goes out: with the session's id, and, unless `full`, without the
        partitions that have not changed."""
        if session is None:
            return response
        kept, interest = [], session.interest
        for answer in response.partitions:
            wanted = interest.find(answer)
            if full or wanted is None or wanted.is_news(answer):
                kept.append(answer)
            if wanted is not None:
                wanted.on_sent(answer)
                if answer.records_bytes > 0:
                    interest.move_to_end(wanted)
        return response._replace(session_id=session.session_id, partitions=kept)

    def check(self) -> None:
        """Asserts what must hold between two events."""
        for session in self._sessions.values():
            session.interest.check()
