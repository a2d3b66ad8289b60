"""Dead processes are noticed at once: suspicion from closed sockets and refused connects.

When a process dies, its kernel closes every socket it had and refuses new connections to its
port. Kafka ignores both and waits for a session to time out. Here a node that loses a connection
to or from a peer *probes* it: a connection that is refused starts a suspicion, and only when every
probe during the grace period (`tidelog.broker.disconnect.grace.ms`) was refused is the peer
*suspected*. One successful connect clears everything. A cut network refuses nothing (packets
are dropped, connects time out), so a flapping link does not make suspects. Acting on a suspicion is
always safe, because fencing and elections are guarded by epochs.

A paused process keeps its sockets and still accepts connections in its kernel; it is left to the
session timeout, as in Kafka.

Invariant `SuspectedOnlyWhileRefused`: a peer is suspected only if its last completed connect was
refused and none has succeeded since the suspicion began.
"""

from dataclasses import dataclass
from typing import Final

from tidelog.env.effects import CloseReason
from tidelog.env.instant import Instant, earliest

PROBE_INTERVAL_MS: Final = 100
"""Between two probes of a peer whose suspicion is young."""

SLOW_PROBE_INTERVAL_MS: Final = 1000
"""Between two probes of a peer that is already suspected."""


@dataclass(slots=True)
class _Peer:
    """The state of one peer in doubt."""

    # When the first of the current series of refusals came; None before a refusal.
    refused_since: Instant | None
    # When to probe next.
    next_probe: Instant
    # Whether the suspicion has been reported.
    suspected: bool
    # Whether a connection was cut or refused, rather than merely not known to work.
    lost: bool


class FailureDetector:
    """Suspicions about the other nodes of the cluster."""

    def __init__(self, grace_ms: int) -> None:
        # How long refusals must last; 0 turns the detector off (Kafka's behaviour).
        self._grace_ms = grace_ms
        # Peers in doubt; a peer without doubt has no entry.
        self._peers: dict[int, _Peer] = {}
        # Peers to connect to now, drained by the node.
        self._probes: list[int] = []
        # Suspicions and their ends since the last drain: (peer, suspected).
        self._changes: list[tuple[int, bool]] = []

    @property
    def is_calm(self) -> bool:
        """Whether no peer is in doubt, and nothing waits to be taken."""
        return not (self._peers or self._probes or self._changes)

    @property
    def suspected(self) -> list[int]:
        """The peers suspected now, sorted."""
        return sorted(peer_id for peer_id, peer in self._peers.items() if peer.suspected)

    @property
    def in_doubt(self) -> frozenset[int]:
        """The peers that cut or refused a connection and have not been reached since: perhaps
        dead. Good enough to warn clients at once, not to act."""
        return frozenset(peer_id for peer_id, peer in self._peers.items() if peer.lost)

    def on_connection_lost(self, peer_id: int, reason: CloseReason, now: Instant) -> None:
        """A connection to or from the peer was closed or refused."""
        if self._grace_ms == 0:
            return
        peer = self._peers.get(peer_id)
        if peer is None:
            peer = self._peers[peer_id] = _Peer(None, now, suspected=False, lost=True)
        peer.lost = True
        if reason is not CloseReason.REFUSED:
            return
        if peer.refused_since is None:
            peer.refused_since = now
        wait_ms = SLOW_PROBE_INTERVAL_MS if peer.suspected else PROBE_INTERVAL_MS
        if peer.next_probe <= now:
            peer.next_probe = Instant(now + wait_ms)
        if not peer.suspected and now - peer.refused_since >= self._grace_ms:
            peer.suspected = True
            self._changes.append((peer_id, True))

    def on_reached(self, peer_id: int) -> None:
        """A connection to the peer was established, or one came from it."""
        peer = self._peers.pop(peer_id, None)
        if peer is not None and peer.suspected:
            self._changes.append((peer_id, False))

    def doubt(self, peer_id: int, now: Instant) -> None:
        """Asks for a probe of a peer that has not been seen yet; a new controller does."""
        if self._grace_ms > 0 and peer_id not in self._peers:
            self._peers[peer_id] = _Peer(None, now, suspected=False, lost=False)

    def wake(self, now: Instant) -> None:
        """Queues the probes that are due."""
        if not self._peers:
            return
        for peer_id in sorted(self._peers):
            peer = self._peers[peer_id]
            if peer.next_probe <= now:
                wait_ms = SLOW_PROBE_INTERVAL_MS if peer.suspected else PROBE_INTERVAL_MS
                if peer.refused_since is not None and not peer.suspected:
                    # The last probe comes when the grace period ends, not up to an interval later.
                    left_ms = peer.refused_since + self._grace_ms - now
                    wait_ms = min(wait_ms, left_ms) if left_ms > 0 else wait_ms
                peer.next_probe = Instant(now + wait_ms)
                self._probes.append(peer_id)

    def deadline(self) -> Instant | None:
        """When the next probe is due."""
        if not self._peers:
            return None
        return earliest(*(peer.next_probe for peer in self._peers.values()))

    def take_probes(self) -> list[int]:
        """Peers to connect to."""
        probes, self._probes = self._probes, []
        return probes

    def take_changes(self) -> list[tuple[int, bool]]:
        """(peer, whether it is now suspected), in order."""
        changes, self._changes = self._changes, []
        return changes

    def check(self) -> None:
        """SuspectedOnlyWhileRefused."""
        for peer_id, peer in self._peers.items():
            if peer.suspected:
                assert peer.refused_since is not None, f"{peer_id} suspected without a refusal"
