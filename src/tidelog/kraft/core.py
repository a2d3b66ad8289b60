"""What elections and replication share: who this replica is, its role, its log, its mouth.

All changes of role go through the `become_*` methods here. Each checks the transition table and
the succession of election states, forgets outstanding requests and says why in the trace. The
durable write of the new state follows when the input is handled (`settle`), once for all changes
that one input caused.

Times. The configured election timeout is drawn anew from [t, 2t) each time. A replica that has
heard of no leader since its process started waits only up to `first_election_max_ms`: a cluster
that starts has nobody to disturb, and neither has a pre-vote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.config import QuorumConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import contiguous, read_own
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
from tidelog.kraft.voters import (
    BEFORE_THE_LOG,
    DYNAMIC_VOTERS,
    SUPPORTED_VERSIONS,
    VoterHistory,
    encode_voters,
    is_voter,
    voter_records,
)
from tidelog.log.log import Log
from tidelog.log.values import AppendOrigin
from tidelog.model import NO_LEADER, Endpoint
from tidelog.records.batch import build_batch, iter_headers
from tidelog.records.control import (
    ControlType,
    control_record,
    leader_change_value,
    read_control_records,
)

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers have no node id that is known; they are numbered downwards from here."""

HISTORY_READ_BYTES: Final = 1 << 20
"""How much of the log is read at a time to find its voter sets."""

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
        bootstrap: Sequence[Endpoint] = (),
    ) -> None:
        assert voters or bootstrap, "a replica knows voters, or where to ask for them"
        # This replica.
        self.identity = identity
        # The voter sets that the log has had, and the configured one before them.
        self.history = VoterHistory(voters)
        # Where to ask who leads, by the number that stands for an address without a node id.
        self.bootstrap: dict[int, Endpoint] = {
            FIRST_BOOTSTRAP_ID - index: endpoint for index, endpoint in enumerate(bootstrap)
        }
        # Where nodes said that they are reached, beside what the voter set says: a leader that is
        # no voter (any more), or whose address has changed.
        self._told_endpoints: dict[int, Endpoint] = {}
        # The last leader that was known with its address: it is still reached there when the voters
        # do not name it any more, because it is removing itself or the log was cut.
        self._last_leader: tuple[int, Endpoint] | None = None
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
        self.state_file = QuorumStateFile(env.disk, env.effects, tuple(voters))
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
    def must_listen(self) -> bool:
        """Whether this replica may be a follower only, for now."""
        return self.lacks_base or self.must_catch_up

    @property
    def voters(self) -> Mapping[int, Voter]:
        """The voter set that counts now, in the order of ids."""
        return self.history.voters

    @property
    def peers(self) -> tuple[int, ...]:
        """The other voters, in the order of ids."""
        return tuple(key for key in self.voters if key != self.own_id)

    @property
    def is_dynamic(self) -> bool:
        """Whether the voter set is in the log (`kraft.version` 1)."""
        return self.history.version >= DYNAMIC_VOTERS

    @property
    def is_voter(self) -> bool:
        """Whether it may be elected; otherwise it observes. A wiped disk makes it a stranger
        (*VoterIsItsDisk*)."""
        return is_voter(self.voters, self.identity.key)

    def is_my_cluster(self, cluster_id: str | None) -> bool:
        """Whether a request that names this cluster, or none, is meant for this quorum."""
        return cluster_id in (None, self.identity.cluster_id)

    def leadership_error(self, epoch: int) -> ErrorCode:
        """What a replica that fetches in `epoch` is told, unless this one leads in just that."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(self.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def may_campaign(self) -> bool:
        """Whether it may ask for votes."""
        return self.history.may_campaign(self.identity.key, self.high_watermark)

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
        return self.endpoint_of(self.public_leader_id)

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Where a voter, the leader or a bootstrap server is reached, as far as it is known."""
        if node_id == self.own_id and self.identity.endpoints:
            return self.identity.endpoints[0]
        told = self._told_endpoints.get(node_id) or self.bootstrap.get(node_id)
        if told is not None:
            return told
        voter = self.voters.get(node_id)
        if voter is not None and voter.endpoints:
            return self.choose(voter.endpoints)
        last = self._last_leader
        return last[1] if last is not None and last[0] == node_id else None

    def choose(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        """Of the listeners of a replica the one that is named like the one that voters reach here;
        a node that is none takes the first."""
        mine = self.identity.endpoints
        named = [end for end in endpoints if mine and end.listener == mine[0].listener]
        return (named or list(endpoints))[0]

    def learn_endpoint(self, node_id: int, endpoint: Endpoint | None) -> None:
        """Somebody says where a leader is reached. Configured voters are reached as configured."""
        is_configured = node_id in self.voters and not self.is_dynamic
        if endpoint is None or node_id < 0 or is_configured:
            return
        self._told_endpoints = {node_id: endpoint}

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

    def voter_keys(self) -> list[ReplicaKey]:
        """All voters, in the order of ids."""
        return [self.voter_key(voter_id) for voter_id in self.voters]

    @property
    def own_voter(self) -> Voter:
        """This replica as the voter set should have it."""
        identity = self.identity
        return Voter(
            identity.node_id, identity.directory_id, identity.endpoints, SUPPORTED_VERSIONS
        )

    def knows(self, leader_id: int) -> bool:
        """Whether this may be a leader: a voter, or anybody whose address is known, because the own
        log may be too old to have the voter."""
        return leader_id in self.voters or (
            leader_id >= 0 and self.endpoint_of(leader_id) is not None
        )

    # Saying something ------------------------------------------------------------------------

    def reply(self, reply_to: object, response: Response) -> None:
        """Answers a request."""
        self.outbox.add(Reply(reply_to, response))

    def send(
        self, peer_id: int, request: Request, now: Instant, *, endpoint: Endpoint | None = None
    ) -> None:
        """Sends a request, to another address than the known one if it is given."""
        self.requests.on_sent(peer_id, request, now)
        endpoint = endpoint or self.endpoint_of(peer_id)
        assert endpoint is not None, f"{request} to {peer_id}, of whom nobody knows where it is"
        self.outbox.add(SendRequest(peer_id, request, endpoint))

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
        known = (*self.peers, *self.bootstrap) if self.is_dynamic or not self.voters else self.peers
        return self.env.prng.choice(known) if known else None

    # Roles -----------------------------------------------------------------------------------

    def become_unattached(
        self, state: ElectionState, now: Instant, reason: str, *, deadline: Instant | None = None
    ) -> None:
        """Follows nobody in this epoch, perhaps waiting for whom it voted for."""
        if not self.may_campaign:
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
        assert self.may_campaign, "an observer is never elected"
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
            self.voter_keys(),
            epoch_start_offset=epoch_start_offset,
            fetch_timeout_ms=self.config.fetch_timeout_ms,
            now=now,
            counts_itself=self.is_voter,
        )
        self.has_known_leader = True
        self._become(leader, reason)
        self.append_control(self._opening_records(role.ballot.granting), now)
        assert self.log.latest_epoch == role.epoch, f"{self.log.latest_epoch} in {role.epoch}"
        leader.count_own(self.durable_end_offset)

    def _opening_records(self, granting: Sequence[int]) -> list[ControlEntry]:
        """What a leader writes first. The voters that formatting left behind are in no log yet;
        an own address or version that has changed is told at once."""
        value = leader_change_value(self.own_id, tuple(self.voters), granting)
        records = [ControlEntry(ControlType.LEADER_CHANGE, value)]
        if not self.is_dynamic:
            return records
        voters = dict(self.voters)
        mine = self.own_voter
        if not self.is_voter:
            return records
        if self.history.voters_offset == BEFORE_THE_LOG:
            records += voter_records(self.history.version, {**voters, self.own_id: mine})
        elif voters[self.own_id] != mine:
            voters[self.own_id] = mine
            records.append(ControlEntry(ControlType.KRAFT_VOTERS, encode_voters(voters)))
        return records

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
        can_follow = leader_id != self.own_id and self.knows(leader_id)
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
        self._remember_leader()
        self._trace_role("start", "")

    def _remember_leader(self) -> None:
        leader_id = self.role.leader_id
        endpoint = self.endpoint_of(leader_id)
        if endpoint is not None:
            self._last_leader = (leader_id, endpoint)

    def _become(self, role: Role, reason: str) -> None:
        assert role.name in TRANSITIONS[self.role.name], (
            f"ValidTransitions: {self.role.name.value} -> {role.name.value} ({reason})"
        )
        check_succession(self.role.election, role.election)
        self.role = role
        self._remember_leader()
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

    def append_control(self, entries: Sequence[ControlEntry], now: Instant) -> int:
        """Appends one control batch as the leader; returns its last offset."""
        wall_ms = now + self.wall_offset_ms
        records = [control_record(kind, value, wall_ms) for kind, value in entries]
        batch = build_batch(records, is_control=True)
        first = self.log.log_end_offset
        result = self.log.append_records(batch, self.epoch, wall_ms, origin=AppendOrigin.RAFT)
        for offset, (kind, value) in enumerate(entries, first):
            self._note_control(kind, value, offset)
        return result.last_offset

    def on_appended(self, records: bytes, end_offset: int) -> None:
        """A follower has appended these batches, up to `end_offset`: voter sets count at once."""
        for position, header in iter_headers(records):
            if header.is_control and header.last_offset < end_offset:
                for record in read_control_records(records, position):
                    self._note_control(record.control_type, record.value, record.offset)

    def on_truncated(self) -> None:
        """The log was cut: the voter set of its new end counts."""
        if self.history.truncate_to(self.log.log_end_offset):
            self._on_voters_changed("truncated")

    def read_history(self, begin: int) -> None:
        """At the start: the voter sets in the log from `begin` on, where the loaded snapshot ends.
        What the log still has of the time before is in the snapshot."""
        offset = max(begin, self.log.log_start_offset)
        while offset < self.log.log_end_offset:
            read = read_own(self.log, offset, HISTORY_READ_BYTES, self.log.log_end_offset)
            self.on_appended(contiguous(read.chunks), read.next_offset)
            offset = read.next_offset

    def _note_control(self, control_type: int, value: bytes, offset: int) -> None:
        self.history.on_record(control_type, value, offset)
        if control_type == ControlType.KRAFT_VOTERS:
            # A new version comes in one batch with the voters that obey it.
            self._on_voters_changed(f"offset {offset}")

    def _on_voters_changed(self, reason: str) -> None:
        self.history.forget_before(self.log.log_start_offset)
        self.state_file.kraft_version = self.history.version
        for node_id in self.voters:
            self._told_endpoints.pop(node_id, None)
        if isinstance(self.role, Leader):
            self.role.on_voters_changed(self.voter_keys())
        self.env.trace.info(
            SUBJECT,
            "on_voters",
            "voters",
            reason,
            kraft_version=self.history.version,
            voters=tuple(self.voters),
            is_voter=self.is_voter,
        )

    def snapshot_control_entries(self, end_offset: int) -> tuple[ControlEntry, ...]:
        """What the quorum has to say of itself in a snapshot at this offset."""
        return self.history.records_at(end_offset)

    def on_snapshot_loaded(self, content: SnapshotContent) -> None:
        """What a snapshot says of the quorum counts, and everything below it is committed."""
        self.history.restart(content.snapshot_id.end_offset, content.control_entries)
        if content.control_entries:
            self._on_voters_changed(f"snapshot {content.snapshot_id}")

    def settle(self) -> None:
        """Ends the handling of one input: the state is written, what was said is sealed."""
        self.state_file.maybe_write(self.role.election)
        self.outbox.seal(self.state_file.sequence)
