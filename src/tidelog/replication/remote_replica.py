"""What a leader knows of one other replica of its partition: its newest claim, and since when it
keeps up.

A replica that has not fetched since this leadership began has end offset -1: what it claimed to a
former leader proves nothing. When the same leader is elected again in the next epoch, the claims
stay (`begin_epoch`).

"Caught up" is about time, not offsets: a follower is in sync while it has been level with the
leader's end within `replica.lag.time.max.ms`. The leader's end is sampled *before* the follower's
read; sampled after it, a follower would be credited with records that it was not sent.

A follower that is level, and of whose partition nothing changes, is level again with each fetch of
its session. That is not written down partition by partition: while the replica *stays level*, its
times are those of the session's newest fetch (`LastFetch`).
"""

from tidelog.env.instant import LONG_AGO, Instant
from tidelog.model import NO_OFFSET


class LastFetch:
    """When the newest fetch of a session came in."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = LONG_AGO


class RemoteReplica:
    """What the leader knows of one other replica. Nothing of it is persisted."""

    __slots__ = (
        "_last_caught_up",
        "_last_fetch",
        "_level_in",
        "broker_epoch",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        # The follower's claim, exclusive; -1 until its first fetch of this leadership.
        self.log_end_offset = NO_OFFSET
        # The follower's own log start; -1 likewise.
        self.log_start_offset = NO_OFFSET
        # The leader's end when the last fetch came in, sampled before the read.
        self.leader_end_at_fetch = NO_OFFSET
        # When the last fetch came in, and the last instant at which it was known to have had all
        # that the leader had; both without what `_level_in` adds.
        self._last_fetch = LONG_AGO
        self._last_caught_up = LONG_AGO
        # The session in which it stays level; `None` while the leader has something for it.
        self._level_in: LastFetch | None = None
        # The broker epoch of its last fetch; `None` before the first one, -1 when it sent none.
        self.broker_epoch: int | None = None

    @property
    def last_fetch(self) -> Instant:
        """When the last fetch came in."""
        return self._last_fetch if self._level_in is None else self._level_in.at

    @property
    def last_caught_up(self) -> Instant:
        """The last instant at which it was known to have had all that the leader had."""
        own = self._last_caught_up
        return own if self._level_in is None else max(own, self._level_in.at)

    @last_caught_up.setter
    def last_caught_up(self, value: Instant) -> None:
        self._last_caught_up = value

    def is_level_in(self, session: LastFetch) -> bool:
        """Whether each further fetch of this session shows it level."""
        return self._level_in is session

    def stay_level(self, session: LastFetch) -> None:
        """Every further fetch of the session shows it level, until `end_level`."""
        assert self.log_end_offset == self.leader_end_at_fetch, f"stays level: {self}"
        self._level_in = session

    def end_level(self, session: LastFetch) -> None:
        """Something may have changed; does nothing for another session than the present one."""
        if self._level_in is session:
            self._last_caught_up, self._last_fetch = self.last_caught_up, session.at
            self._level_in = None

    def on_fetch(
        self,
        fetch_offset: int,
        log_start_offset: int,
        leader_end: int,
        broker_epoch: int,
        now: Instant,
    ) -> bool:
        """Takes in one fetch; returns whether the follower's end or start changed."""
        if self._level_in is not None:
            self.end_level(self._level_in)
        if fetch_offset >= leader_end:
            self._last_caught_up = max(self._last_caught_up, now)
        elif fetch_offset >= self.leader_end_at_fetch:
            # It now has what the leader had at the previous fetch: it was level back then.
            self._last_caught_up = max(self._last_caught_up, self._last_fetch)
        changed = fetch_offset != self.log_end_offset or log_start_offset != self.log_start_offset
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = leader_end
        self._last_fetch = now
        self.broker_epoch = broker_epoch
        return changed

    def is_caught_up(self, leader_end: int, lag_time_max_ms: int, now: Instant) -> bool:
        """Level with the leader, or level recently enough."""
        return self.log_end_offset == leader_end or now - self.last_caught_up <= lag_time_max_ms

    def caught_up_ms_ago(self, now: Instant) -> int:
        """How long ago it was last known to be level; -1 for never."""
        return -1 if self.last_caught_up == LONG_AGO else now - self.last_caught_up

    def leave_isr(self) -> None:
        """Not in sync any more, it has to fetch all there is before it counts as caught up."""
        self._level_in = None
        self._last_caught_up = LONG_AGO

    def begin_epoch(self, *, in_sync: bool, leader_end: int, now: Instant) -> None:
        """The same leader was elected again: the claim still stands, the clock starts anew."""
        self._level_in = None
        self._last_caught_up = self._last_fetch = now if in_sync else LONG_AGO
        self.leader_end_at_fetch = leader_end
