"""Which brokers are alive: sessions, the life of a broker, suspicions. Soft state only.

Theory. A broker is *fenced* or *unfenced* in the metadata log; this module holds what the log
does not: when each broker last sent something. It is lost with leadership and starts fresh with the
next one, which can only delay a fencing. Deciding is pure (`next_phase`); `broker_changes.py`
writes the records.

**Sessions.** A heartbeat renews the session of one broker epoch for `broker.session.timeout.ms`.
Expiry is looked at 32 times per timeout, so that a dead broker is fenced after 100 % to 103 % of
it, one broker per look, and at once again while more are stale: the elections caused by fencing
one broker are then decided with the others still counted alive or already fenced, never half.

**Suspicions** go beyond Kafka (decision 0003). The node's failure detector reports that a broker's
connections are gone and that it refuses new ones. Such a broker is fenced at once, unless it sent
something after the suspicion began: then the suspicion counts from where the next heartbeat is
missing. Fencing a live broker is always safe: its epochs are stale then, and it returns with its
next heartbeat. But it costs elections, so a flapping network must not become churn:

- Each time a broker that was fenced on suspicion proves to have been alive (it heartbeats under
  the same broker epoch) it earns a strike, and a suspicion must then last longer by the grace
  period times 2**strikes - 1, at most the session timeout: at the end this is Kafka's behaviour.
- Strikes are forgotten after ten session timeouts in which no suspicion proved wrong, and with a
  new incarnation.

**A controller that was itself asleep** (paused, starved) sees every session expired although the
heartbeats wait in its sockets. A look that comes more than one interval late is put off once by
one interval.

Invariants: only registered brokers have a session; a broker leaves controlled shutdown only
through fencing; at most one broker is fenced per look.

Source: KIP-631, KIP-841; Kafka's heartbeat manager and tracker.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidelog.controller.events import FenceReason
from tidelog.controller.messages import BrokerHeartbeat
from tidelog.env.instant import Instant, earliest
from tidelog.metadata.image import BrokerImage
from tidelog.model import NO_LEADER

LOOKS_PER_TIMEOUT: Final = 32
FORMER_CONTROLLER_SHARE: Final = 4
"""The part of its session that the former controller's broker has lost when it is succeeded."""
HEARTBEATS_PER_TIMEOUT: Final = 3
"""A live broker sends a heartbeat at least so often; Kafka asks for it in its documentation."""
STRIKES_FORGOTTEN_AFTER_TIMEOUTS: Final = 10
MAX_STRIKES: Final = 16

NOT_SHUTTING_DOWN: Final = -1
NO_METADATA_OFFSET: Final = -1
EVERYONE_CAUGHT_UP: Final = 2**63 - 1


class Phase(Enum):
    """The life of a broker as heartbeats drive it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


def phase_of(broker: BrokerImage) -> Phase:
    """The phase by the metadata. Fencing ends a controlled shutdown."""
    if broker.fenced:
        return Phase.FENCED
    return Phase.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else Phase.UNFENCED


@dataclass(frozen=True, slots=True)
class ShutdownProgress:
    """How far a controlled shutdown is."""

    leads: Callable[[], bool]
    """Whether the broker still leads a partition; asked only when it matters."""
    shutdown_offset: int
    """The record after which it led nothing any more."""
    lowest_active_offset: int
    """What every active broker has applied."""


def next_phase(
    broker: BrokerImage, heartbeat: BrokerHeartbeat, shutdown: ShutdownProgress
) -> Phase:
    """The phase that a heartbeat leads to."""
    phase = phase_of(broker)
    if phase is Phase.FENCED:
        if heartbeat.want_shut_down:
            return Phase.SHUTDOWN_NOW
        caught_up = heartbeat.current_metadata_offset >= broker.registration_offset
        return Phase.UNFENCED if caught_up and not heartbeat.want_fence else Phase.FENCED
    if phase is Phase.UNFENCED:
        if heartbeat.want_fence:
            return Phase.SHUTDOWN_NOW if heartbeat.want_shut_down else Phase.FENCED
        if heartbeat.want_shut_down:
            return Phase.CONTROLLED_SHUTDOWN if shutdown.leads() else Phase.SHUTDOWN_NOW
        return Phase.UNFENCED
    # In controlled shutdown: go when the leaderships are gone and all brokers know it.
    if shutdown.leads() or shutdown.shutdown_offset > shutdown.lowest_active_offset:
        return Phase.CONTROLLED_SHUTDOWN
    return Phase.SHUTDOWN_NOW


@dataclass(slots=True)
class _Session:
    """What is known of one broker incarnation."""

    # The incarnation it belongs to.
    broker_epoch: int
    # When it last sent something; `None` when there is no session to expire.
    last_contact: Instant | None = None
    # The last metadata offset that it reported as applied, inclusive; -1 before the first.
    metadata_offset: int = NO_METADATA_OFFSET
    # The last record of its controlled shutdown, -1 outside of one.
    shutdown_offset: int = NOT_SHUTTING_DOWN
    # From when on it is suspected to be dead, maybe in the future; `None` when it is not.
    suspected_at: Instant | None = None
    # When the suspicion began that fenced it; `None` when something else did, or since it is
    # known that the suspicion was wrong.
    fenced_on_suspicion_of: Instant | None = None
    # Wrong suspicions that are not forgotten yet.
    strikes: int = 0
    # When a suspicion was last known to be wrong.
    last_strike: Instant | None = None


@dataclass(frozen=True, slots=True)
class Stale:
    """A broker whose time is up, and why."""

    broker_id: int
    broker_epoch: int
    """Of the session that is over."""
    suspected: bool
    """On the node's suspicion, and not by the end of its session."""
    silent_ms: int
    """How long it had sent nothing."""

    @property
    def reason(self) -> FenceReason:
        """Why it is to be fenced."""
        return FenceReason.CONNECTIONS_LOST if self.suspected else FenceReason.SESSION_EXPIRED


class BrokerSessions:
    """The sessions of all registered brokers while this controller is active."""

    def __init__(self, session_timeout_ms: int, grace_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        # 0 turns suspicions off.
        self._grace_ms = grace_ms
        self._interval_ms = max(1, session_timeout_ms // LOOKS_PER_TIMEOUT)
        # By broker id; entries come and go with registrations.
        self._sessions: dict[int, _Session] = {}
        # When expiry is looked at next; `None` while not active.
        self._next_look: Instant | None = None
        # Whether the last look was put off because it came too late.
        self._put_off = False

    # Life of the sessions -------------------------------------------------------------------

    def start(
        self,
        brokers: Iterable[BrokerImage],
        now: Instant,
        offset: int,
        former_controller: int = NO_LEADER,
    ) -> None:
        """Leadership began: every unfenced broker gets a whole timeout to send a heartbeat.

        All but the broker in the same process as the former controller: that one lost the quorum
        because it was silent (for `controller.quorum.fetch.timeout.ms`, 2 s of 9 by default), so
        its session began earlier, and who was paused is not given that time twice. If it lives, its
        heartbeat comes at once, as from every broker that learns of a new controller.

        A broker in controlled shutdown may go once all brokers have applied `offset`, because the
        record that really mattered is not known any more and is not above it.
        """
        self._sessions = {}
        for broker in brokers:
            session = self.register(broker.node_id, broker.broker_epoch)
            if not broker.fenced:
                is_former = broker.node_id == former_controller
                lost_ms = self._timeout_ms // FORMER_CONTROLLER_SHARE if is_former else 0
                session.last_contact = Instant(now - lost_ms)
                if broker.in_controlled_shutdown:
                    session.shutdown_offset = offset
        self._next_look = Instant(now + self._interval_ms)
        self._put_off = False

    def stop(self) -> None:
        """Leadership is gone, and with it all that is known here."""
        self._sessions = {}
        self._next_look = None

    # Events --------------------------------------------------------------------------------

    def register(self, broker_id: int, broker_epoch: int) -> _Session:
        """A broker registered. The same incarnation keeps what is known of it."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = _Session(broker_epoch)
        return session

    def remove(self, broker_id: int) -> None:
        """The registration is gone."""
        self._sessions.pop(broker_id, None)

    def touch(self, broker_id: int, metadata_offset: int, now: Instant) -> None:
        """A heartbeat of the registered epoch arrived."""
        session = self._sessions[broker_id]
        session.last_contact = now
        session.metadata_offset = metadata_offset
        self._refute(session, now)
        suspicion, session.fenced_on_suspicion_of = session.fenced_on_suspicion_of, None
        if suspicion is not None and now - suspicion <= 2 * self._timeout_ms:
            # Later its session would have ended anyway.
            session.strikes = min(self._strikes(session, now) + 1, MAX_STRIKES)
            session.last_strike = now

    def on_refused_heartbeat(self, request: BrokerHeartbeat, now: Instant) -> None:
        """A heartbeat that nothing is decided on, because too much waits, renews the session: a
        controller with much to do must not fence brokers for that."""
        session = self._sessions.get(request.broker_id)
        if session is not None and session.broker_epoch == request.broker_epoch:
            self.touch(request.broker_id, request.current_metadata_offset, now)

    def on_suspected(self, broker_id: int, now: Instant) -> bool:
        """The node believes that the broker is dead, and has believed so for the grace period.
        Whether that is news about a broker that was taken to be alive."""
        session = self._sessions.get(broker_id)
        if session is None or session.last_contact is None or not self._grace_ms:
            return False
        since = now
        is_known = session.metadata_offset != NO_METADATA_OFFSET
        if is_known and session.last_contact > now - self._grace_ms:
            # It has sent something since the suspicion began: it lives, on another connection. Or
            # this was sent before it died, and arrived late; then no heartbeat follows.
            since = Instant(session.last_contact + self._timeout_ms // HEARTBEATS_PER_TIMEOUT)
        if session.suspected_at is None:
            session.suspected_at = since
        return True

    def on_reachable(self, broker_id: int, now: Instant) -> None:
        """The node has a connection to the broker again."""
        session = self._sessions.get(broker_id)
        if session is not None:
            self._refute(session, now)

    def _refute(self, session: _Session, now: Instant) -> None:
        """It lives. While suspicions go on being wrong, the strikes are not forgotten."""
        if session.suspected_at is not None and self._strikes(session, now):
            session.last_strike = now
        session.suspected_at = None

    def on_fenced(self, broker_id: int, *, expired: bool = False, suspected: bool = False) -> None:
        """The broker is fenced. Unless by its own wish, its session ends: it may come back as a
        new incarnation at once."""
        session = self._sessions[broker_id]
        session.shutdown_offset = NOT_SHUTTING_DOWN
        session.fenced_on_suspicion_of = session.suspected_at if suspected else None
        session.suspected_at = None
        if expired or suspected:
            session.last_contact = None

    def on_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """The record at `offset` moved the last leadership away, as far as is known."""
        session = self._sessions[broker_id]
        session.shutdown_offset = max(offset, session.shutdown_offset)

    # Questions -----------------------------------------------------------------------------

    def blocks(
        self, broker_id: int, broker_epoch: int, same_directories: bool, now: Instant
    ) -> bool:
        """Whether this incarnation is taken to be alive, so that no other may register. A new
        one with the same directories waits for a part of the session only: it could not have
        locked them while the old process ran, and silence confirms it."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            return False
        if session.last_contact is None:
            return False
        if session.suspected_at is not None and session.suspected_at <= now:
            return False
        wait_ms = self._timeout_ms
        if same_directories and self._grace_ms:
            if session.metadata_offset == NO_METADATA_OFFSET:
                # It has sent nothing since this controller is active: a predecessor that lived
                # would have spoken, and would hold the lock on the directories.
                return False
            wait_ms //= HEARTBEATS_PER_TIMEOUT
        return now - session.last_contact < wait_ms

    def shutdown_offset(self, broker_id: int) -> int:
        """The last record of the broker's controlled shutdown."""
        return self._sessions[broker_id].shutdown_offset

    def lowest_active_offset(self, active: Iterable[int]) -> int:
        """What each of these brokers has applied at least, by its own report."""
        offsets = [self._sessions[broker_id].metadata_offset for broker_id in active]
        return min(offsets, default=EVERYONE_CAUGHT_UP)

    # Time ----------------------------------------------------------------------------------

    def deadline(self) -> Instant | None:
        """When `next_stale` should be asked."""
        due = self._next_look
        for session in self._sessions.values():
            if session.suspected_at is not None:
                due = earliest(due, self._suspicion_due(session))
        return due

    def next_stale(self, now: Instant) -> Stale | None:
        """The one broker to be fenced now, if any. While this finds one, ask again at once; the
        deadline is now then too."""
        suspect = self._next_suspect(now)
        if suspect is not None:
            return suspect
        if self._next_look is None or now < self._next_look:
            return None
        if now - self._next_look > self._interval_ms and not self._put_off:
            self._put_off = True
            self._next_look = Instant(now + self._interval_ms)
            return None
        self._put_off = False
        expired = [
            (session.last_contact, broker_id)
            for broker_id, session in self._sessions.items()
            if session.last_contact is not None and self._expired(session.last_contact, now)
        ]
        if not expired:
            self._next_look = Instant(now + self._interval_ms)
            return None
        last_contact, broker_id = min(expired)
        # The look stays due: more brokers may be stale.
        self._next_look = now
        return Stale(broker_id, self._sessions[broker_id].broker_epoch, False, now - last_contact)

    def check(self, registered: Iterable[BrokerImage]) -> None:
        """Asserts that sessions and registrations agree."""
        epochs = {broker.node_id: broker.broker_epoch for broker in registered}
        known = {broker_id: session.broker_epoch for broker_id, session in self._sessions.items()}
        assert known == epochs, f"sessions of {known}, registered are {epochs}"

    def _next_suspect(self, now: Instant) -> Stale | None:
        due = [
            (self._suspicion_due(session), broker_id)
            for broker_id, session in self._sessions.items()
            if session.suspected_at is not None
        ]
        if not due or min(due)[0] > now:
            return None
        broker_id = min(due)[1]
        session = self._sessions[broker_id]
        assert session.last_contact is not None, f"suspected broker {broker_id} has no session"
        return Stale(broker_id, session.broker_epoch, True, now - session.last_contact)

    def _suspicion_due(self, session: _Session) -> Instant:
        assert session.suspected_at is not None, "not suspected"
        strikes = self._strikes(session, session.suspected_at)
        extra_ms = self._grace_ms * ((1 << strikes) - 1)
        return Instant(session.suspected_at + min(extra_ms, self._timeout_ms))

    def _strikes(self, session: _Session, now: Instant) -> int:
        forgotten_ms = self._timeout_ms * STRIKES_FORGOTTEN_AFTER_TIMEOUTS
        if session.last_strike is None or now - session.last_strike > forgotten_ms:
            return 0
        return session.strikes

    def _expired(self, last_contact: Instant, now: Instant) -> bool:
        return now - last_contact >= self._timeout_ms
