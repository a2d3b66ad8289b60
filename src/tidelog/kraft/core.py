"""What elections and replication share: who this replica is, its role, its log, its mouth.

All changes of role go through the `become_*` methods here. Each checks the transition table and
the succession of election states, forgets outstanding requests and says why in the trace. The
durable write of the new state follows when the input is handled (`settle`), once for all changes
that one input caused.

Times. The configured election timeout is drawn anew from [t, 2t) each time. A replica that has
heard of no leader since its process started waits only up to `first_election_max_ms`: a cluster
that starts has nobody to disturb, and neither has a pre-vote.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.config import QuorumConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import (
    UNKNOWN_HIGH_WATERMARK,
    ReplicaKey,
    Reply,
    Request,
    Response,
    SendRequest,
    Voter,
    VoterIdentity,
)
from tidelog.kraft.outbox import Outbox
from tidelog.kraft.quorum_state import TRANSITIONS, ElectionState, QuorumStateFile, check_succession
from tidelog.kraft.requests import PeerRequests
from tidelog.kraft.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached
from tidelog.kraft.snapshot_format import ControlEntry, SnapshotContent
from tidelog.kraft.snapshots import Snapshots
from tidelog.log.log import Log
from tidelog.log.values import AppendOrigin
from tidelog.model import NO_LEADER, Endpoint
from tidelog.records.control import ControlType, build_control_batch, leader_change_value

SUBJECT: Final = "quorum"
"""What the trace events of this room are about."""

SUSPICION_JITTER_MS: Final = 50
"""Followers that lost their leader together do not all ask for votes at the same moment."""

YIELD_MS: Final = 100
"""How long a replica steps back for another one that asks for votes first: a few round trips and
two disk writes, so that one of them is elected instead of both splitting the vote."""


@dataclass(frozen=True, slots=True)
class QuorumEnv:
    """The ports of the quorum."""

    disk: Disk
    effects: EffectQueue
    prng: Prng
    trace: Trace


class QuorumCore:
    """The state of one replica of the metadata quorum."""

    def __init__(
        self,
        *,
        identity: VoterIdentity,
        voters: Mapping[int, Voter],
        log: Log,
        config: QuorumConfig,
        env: QuorumEnv,
    ) -> None:
        assert voters, "a quorum has at least one voter"
        # This replica.
        self.identity = identity
        # The voter set; static, so it never changes. By id, in the order of ids.
        self.voters: dict[int, Voter] = {key: voters[key] for key in sorted(voters)}
        # The other voters, in the order of ids.
        self.peers: tuple[int, ...] = tuple(key for key in self.voters if key != identity.node_id)
        self.log = log
        self.config = config
        self.env = env
        # The snapshots on this replica's disk.
        self.snapshots = Snapshots(env.disk, env.effects, env.trace)
        # Whether the log begins above 0 and what came before is nowhere on this disk: until the
        # leader has given it, this replica has no state to lead with (*BaseBeforeLeading*).
        self.lacks_base: bool = False
        # Whether records are gone from this log that this replica has acknowledged. Until it has
        # again all that a leader has committed it neither votes nor asks for votes: a candidate
        # without those records could win by it (*MemoryComesBackFirst*).
        self.must_catch_up: bool = False
        # Durable election state; runs behind `role` only while an input is handled.
        self.state_file = QuorumStateFile(env.disk, env.effects, tuple(self.voters))
        # What to say, held until it may be said.
        self.outbox = Outbox()
        # What was said and not answered.
        self.requests = PeerRequests(
            timeout_ms=config.request_timeout_ms, backoff_ms=config.retry_backoff_ms
        )
        # What this replica is; `start` sets the real one.
        self.role: Role = Unattached(self.state_file.written, None, None)
        # Exclusive end of what this process knows to be committed; never falls, not persisted.
        self.high_watermark: int = log.log_start_offset
        # Whether a leader itself was heard since the process started, or this replica led.
        self.has_known_leader: bool = False
        # Wall time in ms minus monotonic time in ms; for the timestamps of control records.
        self.wall_offset_ms: int = 0

    # Views -----------------------------------------------------------------------------------

    @property
    def own_id(self) -> int:
        """This replica's node id."""
        return self.identity.node_id

    @property
    def is_voter(self) -> bool:
        """Whether it may vote and be elected; otherwise it observes."""
        return self.own_id in self.voters

    @property
    def epoch(self) -> int:
        """The quorum epoch it is in."""
        return self.role.epoch

    @property
    def public_leader_id(self) -> int:
        """Who leads now as far as it knows, -1 for nobody: a leader that resigned is none."""
        return NO_LEADER if isinstance(self.role, Resigned) else self.role.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader is reached."""
        leader = self.voters.get(self.public_leader_id)
        return leader.endpoints[0] if leader is not None and leader.endpoints else None

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 for an empty log, as Kafka counts. A log that was
        emptied for a snapshot ends with the snapshot's epoch."""
        if self.log.latest_epoch >= 0:
            return self.log.latest_epoch
        latest = self.snapshots.latest
        return 0 if latest is None else latest.epoch

    @property
    def durable_end_offset(self) -> int:
        """Exclusive end of what this replica has on disk."""
        return self.log.recovery_point

    @property
    def known_high_watermark(self) -> int:
        """The high watermark for a fetch request; -1 before any is known."""
        return self.high_watermark if self.high_watermark > 0 else UNKNOWN_HIGH_WATERMARK

    def voter_key(self, voter_id: int) -> ReplicaKey:
        """Id and (when known) directory of a voter."""
        return ReplicaKey(voter_id, self.voters[voter_id].directory_id)

    # Saying something ------------------------------------------------------------------------

    def reply(self, reply_to: object, response: Response) -> None:
        """Answers a request."""
        self.outbox.add(Reply(reply_to, response))

    def send(self, peer_id: int, request: Request, now: Instant) -> None:
        """Sends a request."""
        self.requests.on_sent(peer_id, request, now)
        self.outbox.add(SendRequest(peer_id, request))

    # Time ------------------------------------------------------------------------------------

    def draw_election_timeout(self, now: Instant) -> Instant:
        """Uniform in [t, 2t)."""
        timeout_ms = self.config.election_timeout_ms
        return Instant(now + self.env.prng.between(timeout_ms, 2 * timeout_ms - 1))

    def draw_first_wait(self, now: Instant) -> Instant:
        """The wait of a replica for its turn to ask for votes."""
        if not self.peers:
            return now
        if self.has_known_leader:
            return self.draw_election_timeout(now)
        return Instant(now + self.env.prng.between(0, self.config.first_election_max_ms))

    def fetch_deadline_from(self, now: Instant) -> Instant:
        """How long to try a leader that has not answered yet. A name that is mere hearsay, from
        the own disk or from another voter, is not tried for long."""
        if self.has_known_leader:
            return Instant(now + self.config.fetch_timeout_ms)
        return Instant(now + self.config.first_election_max_ms)

    def draw_suspicion_jitter(self, now: Instant) -> Instant:
        """The wait of a follower whose leader is gone."""
        return Instant(now + self.env.prng.between(0, SUSPICION_JITTER_MS))

    def draw_probe_peer(self) -> int | None:
        """Whom to ask next who leads."""
        return self.env.prng.choice(self.peers) if self.peers else None

    # Roles -----------------------------------------------------------------------------------

    def become_unattached(
        self, state: ElectionState, now: Instant, reason: str, *, deadline: Instant | None = None
    ) -> None:
        """Follows nobody in this epoch, perhaps waiting for whom it voted for."""
        if not self.is_voter:
            deadline = None
        elif deadline is None:
            deadline = self.draw_first_wait(now)
        self._become(Unattached(state, deadline, self.draw_probe_peer()), reason)

    def become_follower(self, epoch: int, leader_id: int, now: Instant, reason: str) -> None:
        """Fetches from this leader."""
        voted = self.role.voted if epoch == self.epoch else None
        state = ElectionState(epoch, leader_id, voted)
        self._become(Follower(state, self.fetch_deadline_from(now)), reason)

    def become_prospective(self, now: Instant, reason: str) -> None:
        """Asks for pre-votes."""
        assert self.is_voter, "an observer is never elected"
        deadline = self.draw_election_timeout(now)
        voter_ids = tuple(self.voters)
        self._become(Prospective(self.role.election, self.own_id, voter_ids, deadline), reason)

    def become_candidate(self, now: Instant, reason: str) -> None:
        """Begins the next epoch with a vote for itself."""
        assert self.last_epoch <= self.epoch, f"log of epoch {self.last_epoch} in {self.epoch}"
        state = ElectionState(self.epoch + 1, NO_LEADER, self.identity.key)
        deadline = self.draw_election_timeout(now)
        self._become(Candidate(state, self.own_id, tuple(self.voters), deadline), reason)

    def become_leader(self, now: Instant, reason: str) -> None:
        """Leads, and opens the epoch with a LEADER_CHANGE record."""
        role = self.role
        assert isinstance(role, Candidate), f"only a candidate is elected, not {role.name.value}"
        assert self.state_file.durable == role.election, (
            f"DurableBeforeCounted: elected with {role.election}, durable {self.state_file.durable}"
        )
        assert self.last_epoch < role.epoch, f"log of epoch {self.last_epoch} before {role.epoch}"
        epoch_start_offset = self.log.log_end_offset
        leader = Leader(
            ElectionState(role.epoch, self.own_id, role.voted),
            [self.voter_key(peer_id) for peer_id in self.peers],
            epoch_start_offset=epoch_start_offset,
            fetch_timeout_ms=self.config.fetch_timeout_ms,
            now=now,
        )
        self.has_known_leader = True
        self._become(leader, reason)
        value = leader_change_value(self.own_id, tuple(self.voters), role.ballot.granting)
        wall_ms = now + self.wall_offset_ms
        batch = build_control_batch(ControlType.LEADER_CHANGE, value, wall_ms)
        self.log.append_records(batch, role.epoch, wall_ms, origin=AppendOrigin.RAFT)
        assert self.log.latest_epoch == role.epoch, f"{self.log.latest_epoch} in {role.epoch}"
        leader.count_own(self.durable_end_offset)

    def become_resigned(
        self, successors: tuple[ReplicaKey, ...], now: Instant, reason: str
    ) -> None:
        """Gives up an epoch that it led."""
        if self.has_known_leader:
            deadline = self.draw_election_timeout(now)
        else:
            deadline = self.draw_first_wait(now)
        self._become(Resigned(self.role.election, successors, deadline), reason)

    def maybe_move(self, epoch: int, leader_id: int, now: Instant, reason: str) -> bool:
        """Moves on when a message shows a higher epoch, or a leader of this one that was not
        known; returns whether the role has changed."""
        if epoch < self.epoch:
            return False
        can_follow = leader_id in self.voters and leader_id != self.own_id
        if epoch > self.epoch:
            if can_follow:
                self.become_follower(epoch, leader_id, now, reason)
            else:
                # Who moves the epoch on must not push our own turn away again and again.
                current = self.role
                turn = current.election_deadline if isinstance(current, Unattached) else None
                self.become_unattached(ElectionState(epoch), now, reason, deadline=turn)
            return True
        if not can_follow:
            return False
        if self.role.leader_id == NO_LEADER or isinstance(self.role, Unattached):
            self.become_follower(epoch, leader_id, now, reason)
            return True
        assert leader_id == self.role.leader_id, (
            f"ElectionSafety: {leader_id} and {self.role.leader_id} lead epoch {epoch}"
        )
        return False

    def install(self, role: Role) -> None:
        """Sets the role that a process starts with; later ones come from `become_*`."""
        self.role = role
        self._trace_role("start", "")

    def _become(self, role: Role, reason: str) -> None:
        assert role.name in TRANSITIONS[self.role.name], (
            f"ValidTransitions: {self.role.name.value} -> {role.name.value} ({reason})"
        )
        check_succession(self.role.election, role.election)
        self.role = role
        self.requests.forget_outstanding()
        self._trace_role(f"become_{role.name.value}", reason)

    def _trace_role(self, handler: str, reason: str) -> None:
        role = self.role
        self.env.trace.info(
            SUBJECT,
            handler,
            role.name.value,
            reason,
            epoch=role.epoch,
            leader=role.leader_id,
            voted=-1 if role.voted is None else role.voted.node_id,
            log_end=self.log.log_end_offset,
            high_watermark=self.high_watermark,
        )

    # The log ---------------------------------------------------------------------------------

    def raise_high_watermark(self, value: int) -> None:
        """Everything below `value` is committed."""
        assert value > self.high_watermark, (
            f"HighWatermarkMonotonic: {self.high_watermark} -> {value}"
        )
        assert value <= self.log.log_end_offset, f"{value} beyond {self.log.log_end_offset}"
        self.env.trace.debug(
            SUBJECT, "raise_high_watermark", "raised", had=self.high_watermark, to=value
        )
        self.high_watermark = value
        if value > self.log.high_watermark:
            self.log.update_high_watermark(value)

    def snapshot_control_entries(self, _end_offset: int) -> tuple[ControlEntry, ...]:
        """What the quorum has to say of itself in a snapshot at this offset."""
        return ()

    def on_snapshot_loaded(self, content: SnapshotContent) -> None:
        """What a snapshot says of the quorum counts, and everything below it is committed."""

    def settle(self) -> None:
        """Ends the handling of one input: the state is written, what was said is sealed."""
        self.state_file.maybe_write(self.role.election)
        self.outbox.seal(self.state_file.sequence)
