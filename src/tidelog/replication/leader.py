"""The leader's side of one partition: what followers have, what is committed, which are in sync.

Theory. A follower's fetch offset is its claim: "I hold everything below". The leader remembers
the newest claim of each replica and takes the smallest one over the replicas that count as the
high watermark: the exclusive end of what is committed, visible and acknowledged for acks=all.
Which replicas count:

1. **Every member of the maximal ISR** (`isr.py`). Any ISR that the controller can have now is
   within it, so the next leader has all that was committed (`LeaderCompleteness`).
2. **Every replica that has caught up and could join**, though not yet in the ISR. Without it, a
   returning follower could chase a racing high watermark for ever. One that has left the ISR has
   caught up when it has fetched all there is since.
3. **None, below the min ISR**: with fewer committed members than `min_isr` the high watermark
   stands still (KIP-966). A member that then leaves the ISR still has all that was ever committed
   and stays eligible as leader.

A replica that has not fetched since this leadership began has no claim (`remote_replica`). So the
high watermark is frozen after the election of another leader until every member has fetched once.

**The pace of writers.** A client that writes faster than the followers can fetch would end the
ISR, since a leader serves clients and followers from one processor. So where a member of the ISR
fetches and has not been level for some time, those who write to the partition wait between two
requests, and the follower comes level again long before `replica.lag.time.max.ms` is over.

Invariants: `HighWatermarkBounds`, `HighWatermarkIsReplicated`, `MaximalIsrSuperset`,
`MinIsrFreeze`, `GroupCommitFirst` (all explained in `docs/protocol/replication.md`).

Source: KIP-101, KIP-279, KIP-903, KIP-966; "Kafka replication" chapters of Vanlightly's
specification of KIP-966.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config import ReplicationConfig
from tidelog.env.instant import LONG_AGO, Instant
from tidelog.limits import PACED_PART_OF_LAG
from tidelog.log.log import Log
from tidelog.model import NO_OFFSET
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.events.in_sync import StallReason
from tidelog.replication.isr import Committed, IsrState
from tidelog.replication.remote_replica import RemoteReplica


class HeldBack(NamedTuple):
    """What a high watermark waits for; the numbers are those of `HighWatermarkStalled`."""

    reason: StallReason
    isr: tuple[int, ...] | None = None
    min_isr: int | None = None
    recovery_point: int | None = None
    log_ends: dict[int, int] | None = None


class Sample:
    """The measurement under way in one leadership."""

    __slots__ = ("due", "required", "wanted")

    def __init__(self) -> None:
        # Offset (exclusive) whose commit is waited for, -1 for none.
        self.required = NO_OFFSET
        # From when on the next append is sampled.
        self.due = LONG_AGO
        # The next advance is measured whatever the interval is.
        self.wanted = True


class LeaderState:
    """A partition's leadership by this node."""

    __slots__ = (
        "_brokers",
        "_config",
        "_departing",
        "_isr_state",
        "_node_id",
        "advanced_at",
        "epoch_start_offset",
        "isr",
        "leader_epoch",
        "log",
        "maximal_isr",
        "remotes",
        "replica_count",
        "sample",
        "stall_reported",
    )

    def __init__(
        self, node_id: int, log: Log, *, brokers: BrokerEpochs, config: ReplicationConfig
    ) -> None:
        self._node_id = node_id
        # That of the replica.
        self.log = log
        self._brokers = brokers
        self._config = config
        # The term of this leadership; grows when the node is elected again.
        self.leader_epoch = -1
        # Log end when the term began, exclusive end of what former leaders wrote. While the high
        # watermark is below it, clients could see offsets go backwards.
        self.epoch_start_offset = 0
        # Every assigned replica but this node's own, in assignment order.
        self.remotes: dict[int, RemoteReplica] = {}
        # Assigned replicas, this node's own included.
        self.replica_count = 1
        # Members that left by the controller's answer, but not yet by this node's metadata; they
        # still are in `maximal_isr`. See `commit_isr`.
        self._departing: tuple[int, ...] = ()
        # The committed ISR and what is proposed; `isr` and `maximal_isr` are of it.
        self._isr_state: IsrState = Committed((node_id,))
        self.isr: tuple[int, ...] = (node_id,)
        self.maximal_isr: tuple[int, ...] = (node_id,)
        # When the high watermark last moved, or the term began.
        self.advanced_at = LONG_AGO
        # The present stall has been traced already.
        self.stall_reported = False
        # What is being measured; see `measures.py`. Decides nothing.
        self.sample = Sample()

    @property
    def isr_state(self) -> IsrState:
        """The committed ISR and what is proposed."""
        return self._isr_state

    @isr_state.setter
    def isr_state(self, state: IsrState) -> None:
        for member in self.isr:
            if member not in state.isr and member in self.remotes:
                self.remotes[member].leave_isr()
        self._isr_state = state
        self.isr = state.isr
        proposed = state.maximal_isr
        departing = tuple(member for member in self._departing if member not in proposed)
        self.maximal_isr = (*proposed, *departing)

    def commit_isr(self, isr: tuple[int, ...], *, seen_in_metadata: bool) -> None:
        """The controller has answered with this ISR. Until the metadata that it was decided on
        has arrived as well, the high watermark goes on waiting for members that left: a larger
        `min.insync.replicas` may stand in it. Under that one the members that left are eligible
        leaders (KIP-966), and must hold all that is acknowledged."""
        if not seen_in_metadata:
            self._departing = tuple(member for member in self.maximal_isr if member not in isr)
        self.isr_state = Committed(isr)

    # Becoming leader ----------------------------------------------------------------------

    def begin_epoch(
        self, leader_epoch: int, replicas: Sequence[int], isr: tuple[int, ...], now: Instant
    ) -> None:
        """A new term. Replicas known from the previous term of this same leadership keep their
        end offset; all others start as "has not fetched yet"."""
        assert leader_epoch > self.leader_epoch, f"epoch {self.leader_epoch} -> {leader_epoch}"
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = self.log.log_end_offset
        self.advanced_at = now
        self.stall_reported = False
        self.sample = Sample()
        known = self.remotes
        self.assign(replicas, isr)
        for replica_id, remote in self.remotes.items():
            in_sync = replica_id in isr
            if replica_id in known:
                leader_end = self.log.log_end_offset
                remote.begin_epoch(in_sync=in_sync, leader_end=leader_end, now=now)
            elif in_sync:
                remote.last_caught_up = now

    def assign(self, replicas: Sequence[int], isr: tuple[int, ...]) -> None:
        """Takes over assignment and ISR from the metadata; whatever was proposed is void."""
        known = self.remotes
        self.remotes = {
            replica_id: known.get(replica_id) or RemoteReplica()
            for replica_id in replicas
            if replica_id != self._node_id
        }
        self.replica_count = len(replicas)
        self._departing = ()
        self.isr_state = Committed(isr)

    # High watermark -----------------------------------------------------------------------

    @property
    def min_isr(self) -> int:
        """The smaller of `min.insync.replicas` and the replication factor."""
        return min(self.log.config.min_insync_replicas, self.replica_count)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is too small for acks=all."""
        return len(self.isr) < self.min_isr

    @property
    def own_end_offset(self) -> int:
        """What this replica itself holds: with group commit only what is on the device."""
        log = self.log
        if log.config.flush_messages == 1:
            return min(log.log_end_offset, log.recovery_point)
        return log.log_end_offset

    def waits_for(self, replica_id: int, remote: RemoteReplica, now: Instant) -> bool:
        """Whether the high watermark must not pass this replica's end."""
        if replica_id in self.maximal_isr:
            return True
        lag_time_max_ms = self._config.replica_lag_time_max_ms
        return remote.is_caught_up(
            self.log.log_end_offset, lag_time_max_ms, now
        ) and self._brokers.may_join_isr(replica_id, remote.broker_epoch)

    def maybe_advance_high_watermark(self, now: Instant) -> bool:
        """Moves the high watermark to what every replica that counts holds; never back."""
        if self.is_under_min_isr:
            return False
        old = self.log.high_watermark
        candidate = self.own_end_offset
        for replica_id, remote in self.remotes.items():
            if candidate <= old:
                return False
            if remote.log_end_offset < candidate and self.waits_for(replica_id, remote, now):
                candidate = remote.log_end_offset
        if candidate <= old:
            return False
        self._check_advance(candidate)
        self.log.update_high_watermark(candidate)
        self.advanced_at = now
        self.sample.wanted |= self.stall_reported
        self.stall_reported = False
        return True

    def _check_advance(self, candidate: int) -> None:
        log = self.log
        assert candidate <= log.log_end_offset, (
            f"HighWatermarkBounds: {log.topic_partition} {candidate} > {log.log_end_offset}"
        )
        assert len(self.isr) >= self.min_isr, (
            f"MinIsrFreeze: {log.topic_partition} isr {self.isr} of {self.min_isr}"
        )
        assert log.config.flush_messages != 1 or candidate <= log.recovery_point, (
            f"GroupCommitFirst: {log.topic_partition} {candidate} > {log.recovery_point}"
        )
        for member in self.maximal_isr:
            remote = self.remotes.get(member)
            assert remote is None or remote.log_end_offset >= candidate, (
                f"HighWatermarkIsReplicated: {log.topic_partition} {candidate}, replica {member} "
                f"holds {remote.log_end_offset}"
            )

    def held_back_by(self, now: Instant) -> HeldBack:
        """Why the high watermark does not move, and the numbers to it."""
        if self.is_under_min_isr:
            return HeldBack(StallReason.UNDER_MIN_ISR, isr=self.isr, min_isr=self.min_isr)
        high_watermark = self.log.high_watermark
        if self.own_end_offset <= high_watermark:
            return HeldBack(StallReason.OWN_FLUSH, recovery_point=self.log.recovery_point)
        slow = {
            replica_id: remote.log_end_offset
            for replica_id, remote in self.remotes.items()
            if remote.log_end_offset <= high_watermark and self.waits_for(replica_id, remote, now)
        }
        return HeldBack(StallReason.REPLICAS_LACK_RECORDS, log_ends=slow)

    @property
    def low_watermark(self) -> int:
        """The lowest log start of this replica and all others that are alive, in sync or not; -1
        while one of them has not fetched under this leadership. Below it no replica serves
        records."""
        starts = (
            remote.log_start_offset
            for replica_id, remote in self.remotes.items()
            if self._brokers.is_alive(replica_id)
        )
        return min((self.log.log_start_offset, *starts))

    # In sync or not -----------------------------------------------------------------------

    def may_expand(self, replica_id: int) -> bool:
        """Whether a follower that has just fetched may be proposed for the ISR. How long it
        lagged does not matter: what counts is that it has all that is committed, and something of
        this leader's term or all that was there before it."""
        if not isinstance(self._isr_state, Committed) or replica_id in self.isr:
            return False
        remote = self.remotes[replica_id]
        return (
            remote.log_end_offset >= self.log.high_watermark
            and remote.log_end_offset >= self.epoch_start_offset
            and self._brokers.may_join_isr(replica_id, remote.broker_epoch)
        )

    def laggards(self, now: Instant) -> tuple[int, ...]:
        """Members of the ISR that have not been level for too long, or are not and seem to be dead;
        none while a change is in flight."""
        if not isinstance(self._isr_state, Committed):
            return ()
        leader_end, limit_ms = self.log.log_end_offset, self._config.replica_lag_time_max_ms
        suspected = self._brokers.suspected
        return tuple(
            member
            for member in self.isr
            if (remote := self.remotes.get(member)) is not None
            and not remote.is_caught_up(leader_end, 0 if member in suspected else limit_ms, now)
        )

    def pause_of_writers_ms(self, now: Instant) -> int:
        """For how long a client waits before it writes more: a quarter of the time since the last
        member of the ISR was level, of those that fetch (`limits.PACED_PART_OF_LAG`). 0 while they
        keep up. No writer waits for a member that does not fetch: it may be dead."""
        usual_ms = self._config.replica_lag_time_max_ms // PACED_PART_OF_LAG
        behind_ms = 0
        for member in self.isr:
            remote = self.remotes.get(member)
            if remote is not None and now - remote.last_fetch <= usual_ms:
                behind_ms = max(behind_ms, now - remote.last_caught_up)
        return min(behind_ms // 4, usual_ms) if behind_ms > usual_ms else 0

    def check(self) -> None:
        """Asserts what must hold between two events."""
        state = self._isr_state
        replicas = {self._node_id, *self.remotes}
        assert set(state.isr) <= set(state.maximal_isr), f"MaximalIsrSuperset: {state}"
        maximal = self.maximal_isr
        assert set(state.maximal_isr) <= set(maximal), f"MaximalIsrSuperset: {state}, {maximal}"
        assert set(maximal) <= replicas, f"MaximalIsrSuperset: {maximal} of {replicas}"
        assert len(set(maximal)) == len(maximal), f"doubled member: {maximal}"
        for replica_id, remote in self.remotes.items():
            assert remote.log_end_offset >= NO_OFFSET, f"replica {replica_id}: {remote}"
