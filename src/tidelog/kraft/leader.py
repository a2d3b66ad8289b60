"""The leader's role: how far each replica is, and what follows from that.

The high watermark is the largest offset below which a majority holds everything *on disk*: the
end offsets of all voters, largest first, at index n // 2. The leader is one of them and counts
only what it has flushed itself (*DurableBeforeCounted*). The mark is not established before it
passes the start of this epoch (*OwnEpochFirst*): an entry of an older epoch that a majority holds
can still be overwritten by a leader that a different majority elects (Ongaro 2014, §5.4.2), until
an entry of the own epoch, which begins with a LEADER_CHANGE record, sits on top of it.

Check quorum: a leader that a majority has not fetched from for one and a half fetch timeouts
resigns, because that majority may follow another leader by now.

A voter that does not fetch may not know the leader, for replication is pull. The leader sends it
BeginQuorumEpoch at once, and again each half fetch timeout until it fetches.

Observers fetch too; they count for nothing and are forgotten after five minutes of silence.

With voters in the log the set may change while it leads. The new one counts as soon as it is
appended; what is known of a replica stays known when it becomes a voter, or is one no more. A
leader that is taken out of the set goes on until that is committed, by the others' disks alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.env.instant import Instant
from tidelog.kraft.events import VoteReason
from tidelog.kraft.messages import ReplicaKey, ReplicaProgress, VoteRequest
from tidelog.kraft.quorum_state import ElectionState, RoleName
from tidelog.kraft.roles import PlannedRequest, Role, VoteDecision
from tidelog.limits import MAX_QUORUM_OBSERVERS
from tidelog.model import ZERO_UUID

OBSERVER_SESSION_MS: Final = 5 * 60 * 1000
"""An observer that is silent for longer is no longer described."""

CAUGHT_UP_MS: Final = 60 * 60 * 1000
"""A replica that was at the log's end within this time may become a voter, as in Kafka."""

UNKNOWN: Final = -1


class Progress:
    """How far one other replica is, by its fetches."""

    def __init__(self, key: ReplicaKey, begin_at: Instant) -> None:
        # The directory it fetches for; `ZERO_UUID` until it is known.
        self.directory_id = key.directory_id
        # Exclusive end of what it has on disk: its fetch offset. -1 before its first fetch of
        # this epoch: what it had under another leader proves nothing.
        self.log_end_offset: int = UNKNOWN
        # When it fetched last; None before the first time.
        self.fetched_at: Instant | None = None
        # When it last held all that the leader had; None if it never did.
        self.last_caught_up_at: Instant | None = None
        # The leader's log end at its last fetch: reaching this later proves that it was caught
        # up at the time of that fetch.
        self.leader_end_at_fetch: int = UNKNOWN
        # When to announce the epoch to it; voters only.
        self.begin_at: Instant = begin_at

    def on_fetch(self, fetch_offset: int, leader_end: int, now: Instant) -> None:
        """A fetch that fits the leader's log."""
        if fetch_offset >= leader_end:
            self.last_caught_up_at = now
        elif fetch_offset >= self.leader_end_at_fetch and self.fetched_at is not None:
            self.last_caught_up_at = self.fetched_at
        self.leader_end_at_fetch = leader_end
        self.log_end_offset = fetch_offset
        self.fetched_at = now

    def describe(self, node_id: int) -> ReplicaProgress:
        """For DescribeQuorum."""
        return ReplicaProgress(
            node_id, self.directory_id, self.log_end_offset, self.fetched_at, self.last_caught_up_at
        )


class Leader(Role):
    """Elected by a majority; the only role that appends."""

    name = RoleName.LEADER

    def __init__(
        self,
        state: ElectionState,
        voters: Iterable[ReplicaKey],
        *,
        epoch_start_offset: int,
        fetch_timeout_ms: int,
        now: Instant,
        counts_itself: bool = True,
    ) -> None:
        super().__init__(state)
        # The offset of the LEADER_CHANGE record that opens the epoch.
        self.epoch_start_offset: int = epoch_start_offset
        # Exclusive end of what this node has flushed; only `count_own` moves it.
        self.own_end_offset: int = UNKNOWN
        # Exclusive; -1 until the epoch's own first record is committed. Never falls.
        self.high_watermark: int = UNKNOWN
        # The voters other than this node, by id: their keys.
        self._keys: dict[int, ReplicaKey] = {
            key.node_id: key for key in sorted(voters) if key.node_id != self.leader_id
        }
        # The other voters, by id: how far they are.
        self.voters: dict[int, Progress] = {
            node_id: Progress(key, now) for node_id, key in self._keys.items()
        }
        # Whether this node is a voter; not any more while its removal is being committed.
        self.counts_itself: bool = counts_itself
        # All other replicas that fetch, by id and directory; bounded, see `MAX_QUORUM_OBSERVERS`.
        self.observers: dict[ReplicaKey, Progress] = {}
        # A majority that stays silent for longer has left.
        self._check_quorum_ms: int = fetch_timeout_ms * 3 // 2
        # How often the epoch is announced to a silent voter.
        self._reminder_ms: int = fetch_timeout_ms // 2
        # Stands for the first fetch of replicas that have not fetched yet.
        self._elected_at: Instant = now

    def decide_vote(self, request: VoteRequest, *, log_is_fresh: bool) -> VoteDecision:
        """Never: it is the leader."""
        return VoteDecision(False, VoteReason.LEADING)

    def planned_requests(self) -> list[PlannedRequest]:
        """An announcement to each voter that does not fetch."""
        return [PlannedRequest(voter_id, voter.begin_at) for voter_id, voter in self.voters.items()]

    def deadline(self) -> Instant | None:
        """When check quorum fails unless a voter fetches."""
        return self.check_quorum_deadline()

    def check_quorum_deadline(self) -> Instant | None:
        """When the last majority that fetched becomes too old; None for a single voter."""
        if not self.voters:
            return None
        voter_count = len(self.voters) + self.counts_itself
        others_needed = voter_count // 2 + 1 - self.counts_itself
        fetches = sorted(
            (voter.fetched_at or self._elected_at for voter in self.voters.values()), reverse=True
        )
        # With the leader itself, if it counts, the voters up to this one are a majority.
        oldest_needed = fetches[others_needed - 1]
        return Instant(oldest_needed + self._check_quorum_ms)

    def on_begin_sent(self, voter_id: int, now: Instant) -> None:
        """The epoch was announced to the voter; next time in half a fetch timeout."""
        self.voters[voter_id].begin_at = Instant(now + self._reminder_ms)

    def on_begin_failed(self, voter_id: int, now: Instant) -> None:
        """The voter was not reached: try again as soon as it may be reached."""
        if voter_id in self.voters:
            # It may have been removed meanwhile.
            self.voters[voter_id].begin_at = now

    def on_contact(self, replica: ReplicaKey, now: Instant) -> None:
        """A voter fetched in this epoch, whatever the answer: it knows the leader."""
        voter = self._voter(replica)
        if voter is not None:
            voter.fetched_at = now
            voter.begin_at = Instant(now + self._reminder_ms)

    def on_fetch(
        self, replica: ReplicaKey, fetch_offset: int, leader_end: int, now: Instant
    ) -> None:
        """A replica has everything below `fetch_offset` on disk, equal to our log."""
        progress = self._voter(replica)
        if progress is None:
            progress = self._observer(replica, now)
        if progress is not None:
            progress.directory_id = replica.directory_id
            progress.on_fetch(fetch_offset, leader_end, now)

    def count_own(self, durable_end_offset: int) -> None:
        """This node has flushed everything below."""
        assert durable_end_offset >= self.own_end_offset, (
            f"own end {self.own_end_offset} -> {durable_end_offset}"
        )
        self.own_end_offset = durable_end_offset

    def majority_end_offset(self) -> int:
        """What a majority of voters has on disk (exclusive)."""
        ends = [voter.log_end_offset for voter in self.voters.values()]
        if self.counts_itself:
            ends.append(self.own_end_offset)
        ends.sort(reverse=True)
        return ends[len(ends) // 2]

    def maybe_raise_high_watermark(self) -> bool:
        """Raises it to what a majority has, once that includes something of this epoch."""
        majority_end = self.majority_end_offset()
        if majority_end <= self.epoch_start_offset or majority_end <= self.high_watermark:
            return False
        self.high_watermark = majority_end
        return True

    def on_voters_changed(self, voters: Iterable[ReplicaKey]) -> None:
        """Another voter set counts from now on."""
        keys = sorted(voters)
        before = self._keys
        self.counts_itself = any(key.node_id == self.leader_id for key in keys)
        self._keys = {key.node_id: key for key in keys if key.node_id != self.leader_id}
        for node_id, key in before.items():
            if self._keys.get(node_id) != key:
                former = self.voters.pop(node_id)
                if former.fetched_at is not None:
                    self.observers[ReplicaKey(node_id, former.directory_id)] = former
        for node_id, key in self._keys.items():
            if node_id not in self.voters:
                known = self.observers.pop(key, None)
                self.voters[node_id] = known or Progress(key, self._elected_at)
        self.voters = {node_id: self.voters[node_id] for node_id in self._keys}

    def is_caught_up(self, replica: ReplicaKey, now: Instant) -> bool:
        """Whether a replica has been at the log's end within the last hour, and lately fetched."""
        progress = self._voter(replica) or self.observers.get(replica)
        if progress is None or progress.last_caught_up_at is None or progress.fetched_at is None:
            return False
        return now - progress.last_caught_up_at < CAUGHT_UP_MS

    def _voter(self, replica: ReplicaKey) -> Progress | None:
        key = self._keys.get(replica.node_id)
        if key is None or key.directory_id not in (ZERO_UUID, replica.directory_id):
            return None
        return self.voters[replica.node_id]

    def by_progress(self, keys: Mapping[int, ReplicaKey]) -> Sequence[ReplicaKey]:
        """The other voters, the one that has most first; ties by id."""
        order = sorted(
            self.voters, key=lambda voter_id: (-self.voters[voter_id].log_end_offset, voter_id)
        )
        return [keys[voter_id] for voter_id in order]

    def live_observers(self, now: Instant) -> list[ReplicaProgress]:
        """The observers that fetched lately, by id."""
        self._forget_silent_observers(now)
        return [self.observers[key].describe(key.node_id) for key in sorted(self.observers)]

    def _observer(self, replica: ReplicaKey, now: Instant) -> Progress | None:
        if replica.node_id < 0:
            return None
        progress = self.observers.get(replica)
        if progress is None:
            self._forget_silent_observers(now)
            if len(self.observers) >= MAX_QUORUM_OBSERVERS:
                return None
            progress = self.observers[replica] = Progress(replica, now)
        return progress

    def _forget_silent_observers(self, now: Instant) -> None:
        for key, progress in list(self.observers.items()):
            if progress.fetched_at is None or now - progress.fetched_at > OBSERVER_SESSION_MS:
                del self.observers[key]
