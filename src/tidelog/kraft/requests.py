"""Requests on their way to the other replicas: one of a kind per peer, with timeout and backoff.

- At most one request of one kind is outstanding to a peer; so a follower has at most one fetch
  at its leader (*SingleFetchInFlight*).
- A failed request, and one that is not answered in time, is followed by a pause that doubles
  with each failure, up to `MAX_BACKOFF_FACTOR` times the configured one. Any sign of life of the
  peer ends the pause.
- A change of role forgets what is outstanding: an answer that comes later is unknown and
  is ignored.
"""

from typing import Final, NamedTuple

from tidelog.env.instant import NEVER, Instant, earliest
from tidelog.kraft.messages import Request

MAX_BACKOFF_FACTOR: Final = 16
"""20 ms grow to 320 ms: slow enough for a dead peer, quick enough for one that comes up."""

_Kind = type[Request]


class _Outstanding(NamedTuple):
    request: Request
    give_up_at: Instant


class PeerRequests:
    """What was sent to each peer, and when the next may be sent."""

    def __init__(self, *, timeout_ms: int, backoff_ms: int) -> None:
        # An answer later than this is given up.
        self._timeout_ms = timeout_ms
        # The first pause after a failure.
        self._backoff_ms = backoff_ms
        # Sent and not answered, by peer and kind.
        self._outstanding: dict[tuple[int, _Kind], _Outstanding] = {}
        # Failures in a row, by peer; no entry for none.
        self._failures: dict[int, int] = {}
        # The end of the pause, by peer; no entry for no pause.
        self._ready_at: dict[int, Instant] = {}

    def ready_at(self, peer_id: int, kind: _Kind) -> Instant:
        """From when on a request of this kind may go to the peer; `NEVER` while one is out."""
        if (peer_id, kind) in self._outstanding:
            return NEVER
        return self._ready_at.get(peer_id, Instant(0))

    def on_sent(self, peer_id: int, request: Request, now: Instant) -> None:
        """The request goes out."""
        key = (peer_id, type(request))
        assert key not in self._outstanding, f"two requests to {peer_id}: {request}"
        self._outstanding[key] = _Outstanding(request, Instant(now + self._timeout_ms))

    def on_answered(self, peer_id: int, request: Request) -> bool:
        """Whether this very request was outstanding; now it is not."""
        key = (peer_id, type(request))
        outstanding = self._outstanding.get(key)
        if outstanding is None or outstanding.request is not request:
            return False
        del self._outstanding[key]
        return True

    def on_failed(self, peer_id: int, now: Instant) -> None:
        """Pauses, twice as long as the last time."""
        failures = self._failures.get(peer_id, 0) + 1
        self._failures[peer_id] = failures
        factor = min(MAX_BACKOFF_FACTOR, 1 << min(failures - 1, 16))
        self._ready_at[peer_id] = Instant(now + self._backoff_ms * factor)

    def on_alive(self, peer_id: int) -> None:
        """The peer has sent something: no pause."""
        self._failures.pop(peer_id, None)
        self._ready_at.pop(peer_id, None)

    def is_failing(self, peer_id: int) -> bool:
        """Whether the last attempt to reach the peer failed."""
        return peer_id in self._failures

    def forget_outstanding(self) -> None:
        """The role has changed; pauses stay."""
        self._outstanding.clear()

    def take_overdue(self, now: Instant) -> list[tuple[int, Request]]:
        """Requests that were given up, in the order in which they were sent."""
        overdue = [key for key, sent in self._outstanding.items() if sent.give_up_at <= now]
        return [(key[0], self._outstanding.pop(key).request) for key in overdue]

    def deadline(self) -> Instant | None:
        """When the next request is given up."""
        if not self._outstanding:
            return None
        return earliest(*[sent.give_up_at for sent in self._outstanding.values()])

    def outstanding(self, kind: _Kind) -> list[Request]:
        """All outstanding requests of a kind; for `check()`."""
        return [
            sent.request for sent in self._outstanding.values() if isinstance(sent.request, kind)
        ]
