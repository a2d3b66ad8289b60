"""One replica of the metadata quorum: the door through which everything goes in and out.

`Quorum` puts the parts together: `elections.py` decides who leads, `fetch_server.py` and
`fetcher.py` replicate, `committed.py` hands out what is committed, `core.py` holds what they share.
Theory and named properties: `docs/protocol/kraft.md`.

One input at a time: a method is called, the parts act, then everything is settled: requests that a
role wants to send are sent, the election state is written if it changed, and what was said is
sealed behind that write.

The driver calls `wake(now)` at the end of each tick (and at the deadline). There, the parked
fetches are answered once for everything that the tick brought, and one flush is requested for
everything that was appended. While a flush is under way no other is requested; when it is done,
the next one covers all that came meanwhile (group commit). `controller.quorum.append.linger.ms` is
therefore not waited out: what it saves elsewhere, the flush in flight saves here.

Asserted by `check()`, by name: EpochMonotonic, VoteUniqueness, DurableBeforeSaid,
DurableBeforeCounted, SingleFetchInFlight, HighWatermarkMonotonic, OwnEpochFirst, ValidRoles,
SnapshotAtLogStart, BaseBeforeLeading.
Asserted where they could break: ElectionSafety, ValidTransitions, NoCommittedTruncation,
CommittedOnce. Seen only from outside, by comparing replicas: LeaderCompleteness, LogMatching.
"""

from collections.abc import Hashable, Mapping, Sequence

from tidelog.config import QuorumConfig
from tidelog.env.instant import NEVER, Instant, earliest
from tidelog.env.known_deadline import KnownDeadline
from tidelog.errors import ErrorCode, UsageError
from tidelog.kraft.committed import CommittedReader
from tidelog.kraft.core import SUBJECT, QuorumCore, QuorumEnv
from tidelog.kraft.elections import Elections
from tidelog.kraft.fetch_server import FetchServer
from tidelog.kraft.fetcher import Fetcher
from tidelog.kraft.leader import Leader
from tidelog.kraft.log_cleaning import LogCleaner
from tidelog.kraft.membership import Membership
from tidelog.kraft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Committed,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NotLeader,
    Output,
    QuorumDescription,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RemoveVoterRequest,
    ReplicaProgress,
    Request,
    Response,
    SnapshotId,
    SupportRequest,
    SupportResponse,
    UpdateVoterRequest,
    Voter,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
    VoterIdentity,
)
from tidelog.kraft.quorum_state import QuorumStateFlush, RoleName
from tidelog.kraft.recovery import recover
from tidelog.kraft.roles import Campaign, Candidate, Follower, Prospective, Resigned, Unattached
from tidelog.kraft.snapshot_fetcher import SnapshotFetcher
from tidelog.kraft.snapshot_server import SnapshotServer
from tidelog.kraft.snapshots import SnapshotFlush, SnapshotWriter
from tidelog.log.log import Log
from tidelog.log.segment import CORRUPT_SUFFIX
from tidelog.log.values import AppendOrigin, LogFlush
from tidelog.model import NO_LEADER, Endpoint
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

__all__ = ["Quorum", "QuorumEnv"]


class Quorum:
    """One voter (or observer) of the metadata quorum."""

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
        """`voters` are the configured ones, empty when the set is in the log; `bootstrap` is where
        to ask for the leader then."""
        # Role, log and mouth.
        self._core = QuorumCore(
            identity=identity, voters=voters, log=log, config=config, env=env, bootstrap=bootstrap
        )
        # Votes, beginnings and ends of epochs.
        self._elections = Elections(self._core)
        # Leader's side of replication.
        self._server = FetchServer(self._core)
        # Changes of the voter set.
        self._membership = Membership(self._core, self._elections)
        # How far the committed log was handed out.
        self._reader = CommittedReader(log)
        # Snapshots and segments that are kept no longer.
        self._cleaner = LogCleaner(self._core)
        # A snapshot that comes from the leader.
        self._snapshot_fetcher = SnapshotFetcher(self._core, self._reader, self._cleaner)
        # Follower's side of replication.
        self._fetcher = Fetcher(self._core, self._elections, self._snapshot_fetcher, self._reader)
        # Leader's side of FetchSnapshot.
        self._snapshot_server = SnapshotServer(self._core, self._cleaner)
        # The log end that the flush under way covers; None while none is.
        self._flushing_to: int | None = None
        # Kept since the last input.
        self._deadline = KnownDeadline(self._next_deadline)
        # How often something has happened here that may have made outputs, committed records or
        # another leader; see `turn_count`.
        self._turn_count: int = 0

    # Views -----------------------------------------------------------------------------------

    @property
    def turn_count(self) -> int:
        """Grows with every input and every wake that found something to do. While it stands still,
        `take_outputs` and `take_committed` have nothing new, and leader and epoch are the same."""
        return self._turn_count

    @property
    def must_catch_up(self) -> bool:
        """Whether records are gone that this replica has acknowledged; see `distrust_log`."""
        return self._core.must_catch_up

    def distrust_log(self) -> None:
        """To be called before `start` when damage has shortened the log: the replica listens until
        a leader has given it back what is committed."""
        self._core.must_catch_up = True

    @property
    def role(self) -> RoleName:
        """What it is."""
        return self._core.role.name

    @property
    def epoch(self) -> int:
        """The quorum epoch it is in."""
        return self._core.epoch

    @property
    def leader_id(self) -> int:
        """Who leads this epoch as far as it knows; -1 for nobody."""
        return self._core.public_leader_id

    @property
    def is_leader(self) -> bool:
        """Whether it leads. Its promise to do so only once in this epoch may not be durable
        yet; until it is, nothing that it says leaves."""
        return isinstance(self._core.role, Leader)

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what is known to be committed."""
        return self._core.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The next offset to write."""
        return self._core.log.log_end_offset

    @property
    def epoch_start_offset(self) -> int:
        """Where the epoch that this replica leads begins; -1 when it does not lead."""
        role = self._core.role
        return role.epoch_start_offset if isinstance(role, Leader) else -1

    @property
    def voters(self) -> Mapping[int, Voter]:
        """The voter set, in the order of ids."""
        return self._core.voters

    @property
    def voter_sets(self) -> Sequence[tuple[int, Mapping[int, Voter]]]:
        """The voter sets that a truncation may bring back and the newest, each with the offset from
        which it counts; -1 for what formatting wrote. None with configured voters."""
        return self._core.history.sets

    @property
    def kraft_version(self) -> int:
        """0 with configured voters, 1 with voters in the log."""
        return self._core.history.version

    @property
    def is_voter(self) -> bool:
        """Whether this replica is one of the voters."""
        return self._core.is_voter

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Where a voter or the leader is reached, as far as it is known."""
        return self._core.endpoint_of(node_id)

    @property
    def wall_offset_ms(self) -> int:
        """Wall time minus monotonic time in ms."""
        return self._core.wall_offset_ms

    @wall_offset_ms.setter
    def wall_offset_ms(self, offset_ms: int) -> None:
        self._core.wall_offset_ms = offset_ms

    @property
    def log_start_offset(self) -> int:
        """Where the log begins; what came before is in a snapshot."""
        return self._core.log.log_start_offset

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that counts."""
        return self._core.snapshots.latest

    @property
    def snapshot_paths(self) -> list[str]:
        """The files of all snapshots that count, oldest first."""
        return [self._core.snapshots.path_of(one) for one in self._core.snapshots.ids]

    def describe(self, now: Instant) -> QuorumDescription:
        """For DescribeQuorum; only the leader knows how far the others are."""
        core = self._core
        role = core.role
        if not isinstance(role, Leader):
            return QuorumDescription(core.public_leader_id, core.epoch, core.high_watermark)
        voters = {key: voter.describe(key) for key, voter in role.voters.items()}
        if role.counts_itself:
            voters[core.own_id] = ReplicaProgress(
                core.own_id, core.identity.directory_id, core.log.log_end_offset, now, now
            )
        return QuorumDescription(
            core.own_id,
            core.epoch,
            role.high_watermark,
            tuple(voters[key] for key in sorted(voters)),
            tuple(role.live_observers(now)),
        )

    # Inputs ----------------------------------------------------------------------------------

    def start(self, now: Instant) -> None:
        """Takes up the role that the durable state allows. Call it once, before anything else.

        Raises `UsageError` when nothing can give back the state before the log's start, or what
        damage has taken from the log.
        """
        content = recover(self._core)
        if content is not None:
            self._reader.restart(content)
        elif self._core.lacks_base:
            self._reader.begin_at_zero()
        self._core.read_history(0 if content is None else content.snapshot_id.end_offset)
        if self._core.must_catch_up and set(self._core.voters) == {self._core.own_id}:
            path = f"{self._core.env.disk.root}/{self._core.log.path}"
            raise UsageError(
                f"the metadata log in `{path}` is damaged, and this is the only voter",
                "put an intact copy of the directory back; the damaged segments are there as "
                f"`*.log{CORRUPT_SUFFIX}`",
            )
        self._elections.start(now)
        self._settle(now)

    def on_request(self, request: Request, reply_to: Hashable, now: Instant) -> None:
        """A replica asks; the answer is a `Reply` with the same `reply_to`, now or later."""
        match request:
            case VoteRequest():
                self._core.requests.on_alive(request.candidate_id)
                self._elections.on_vote_request(request, reply_to, now)
            case QuorumFetchRequest():
                self._core.requests.on_alive(request.replica_id)
                self._server.on_request(request, reply_to, now)
            case BeginQuorumEpochRequest():
                self._core.requests.on_alive(request.leader_id)
                self._elections.on_begin_request(request, reply_to, now)
            case EndQuorumEpochRequest():
                self._core.requests.on_alive(request.leader_id)
                self._elections.on_end_request(request, reply_to, now)
            case FetchSnapshotRequest():
                self._core.requests.on_alive(request.replica_id)
                self._snapshot_server.on_request(request, reply_to, now)
            case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest():
                self._membership.on_request(request, reply_to, now)
            case SupportRequest():
                raise AssertionError("ApiVersions is answered by the node")
        self._settle(now)

    def on_response(
        self, peer_id: int, request: Request, response: Response | None, now: Instant
    ) -> None:
        """The answer to a `SendRequest`, with that very request; `None` when it failed or the
        connection is gone."""
        requests = self._core.requests
        if response is None:
            if requests.on_answered(peer_id, request):
                self._on_request_failed(peer_id, request, now)
        else:
            requests.on_alive(peer_id)
            if requests.on_answered(peer_id, request):
                self._on_answer(peer_id, request, response, now)
        self._settle(now)

    def on_peer_suspected(self, peer_id: int, now: Instant) -> None:
        """The peer's process is gone: its sockets closed and it refused to be reached for the
        grace period."""
        self._elections.on_peer_suspected(peer_id, now)
        self._settle(now)

    def on_flushed(self, subject: Hashable, now: Instant) -> None:
        """`QuorumStateFlush`: an election state is durable. `LogFlush` of the metadata log, which
        the log itself was given before: records are. `SnapshotFlush`: a snapshot is. Any other
        subject is none of its business."""
        if isinstance(subject, QuorumStateFlush):
            self._core.state_file.on_durable(subject.sequence)
            self._elections.count_votes(now)
        elif isinstance(subject, SnapshotFlush):
            self._on_snapshot_durable(subject, now)
        elif isinstance(subject, LogFlush) and subject.completes:
            if subject.topic_partition != self._core.log.topic_partition:
                return
            self._flushing_to = None
            self._server.maybe_raise_high_watermark()
        self._settle(now)

    def wake(self, now: Instant) -> None:
        """A deadline has passed, or a tick ends."""
        deadline = self.deadline()
        if deadline is None or deadline > now:
            return
        for peer_id, request in self._core.requests.take_overdue(now):
            self._on_request_failed(peer_id, request, now)
        self._elections.wake(now)
        self._membership.wake(now)
        self._maybe_flush()
        self._cleaner.maybe_clean(now)
        self._server.on_tick_end(now)
        self._settle(now)

    def append(self, records: Sequence[bytes], now: Instant, wall_ms: int) -> int:
        """Appends one batch; returns the offset of its last record. It is committed when
        `take_committed` hands it out, and may be lost with the leadership.

        Raises `NotLeader`.
        """
        core = self._core
        if not isinstance(core.role, Leader):
            raise NotLeader(f"node {core.own_id} is {core.role.name.value} in epoch {core.epoch}")
        batch = build_batch([Record(wall_ms, None, value) for value in records])
        result = core.log.append_records(batch, core.epoch, wall_ms, origin=AppendOrigin.RAFT)
        self._deadline.forget()
        return result.last_offset

    def resign(self, now: Instant) -> None:
        """Hands the leadership over, as before a clean stop; does nothing when it does not lead."""
        self._elections.resign(now, "asked to")
        self._settle(now)

    @property
    def is_saying_goodbye(self) -> bool:
        """Whether it has resigned, some voter does not know, and no new epoch has begun."""
        role = self._core.role
        return isinstance(role, Resigned) and not role.is_heard

    def upgrade_version(
        self, level: int, now: Instant, *, validate_only: bool = False
    ) -> tuple[ErrorCode, str]:
        """Makes `level` the `kraft.version`, or only says whether that could be done. What was
        appended may be lost with the leadership."""
        outcome = self._membership.upgrade(level, now, validate_only=validate_only)
        self._settle(now)
        return outcome

    # Snapshots -------------------------------------------------------------------------------

    @property
    def wants_snapshot(self) -> bool:
        """Whether the state is needed on disk now, whatever its age: the log does not begin at 0,
        and the snapshot of what came before was lost."""
        return self.log_start_offset > 0 and self.latest_snapshot is None

    def begin_snapshot(self, snapshot_id: SnapshotId, append_time_ms: int) -> SnapshotWriter | None:
        """Takes the state below a committed offset; `None` when another snapshot is on its way or
        this one would be of no use. The writer may be given up at any time, see its `is_current`.

        Raises `StorageError`.
        """
        core = self._core
        end_offset, epoch = snapshot_id
        if core.snapshots.is_busy or end_offset <= self.log_start_offset:
            return None
        if core.snapshots.latest is not None and snapshot_id <= core.snapshots.latest:
            return None
        assert end_offset <= core.high_watermark, (
            f"snapshot {snapshot_id} above {core.high_watermark}"
        )
        assert core.log.epoch_at(end_offset - 1) == epoch, (
            f"snapshot {snapshot_id}, the log has epoch {core.log.epoch_at(end_offset - 1)}"
        )
        entries = core.snapshot_control_entries(end_offset)
        return core.snapshots.begin(snapshot_id, append_time_ms, entries)

    def _on_snapshot_durable(self, flush: SnapshotFlush, now: Instant) -> None:
        core = self._core
        snapshot_id = core.snapshots.on_flushed(flush)
        if snapshot_id is None or self._snapshot_fetcher.on_published(flush):
            return
        core.env.trace.info(
            SUBJECT,
            "on_flushed",
            "snapshot made",
            snapshot=str(snapshot_id),
            bytes=core.snapshots.size_of(snapshot_id),
        )
        self._cleaner.align()
        self._cleaner.clean(now)

    # Outputs ---------------------------------------------------------------------------------

    def take_outputs(self) -> list[Output]:
        """What may be said now, in order."""
        return self._core.outbox.take(self._core.state_file.durable_sequence)

    def take_committed(self) -> list[Committed]:
        """The batches that were committed since the last call, in order, each once. After every
        start they begin with the newest snapshot, or with the start of the log; a snapshot later
        on takes the place of everything before.

        Raises `StorageError` when the log cannot be read.
        """
        return self._reader.take(self._core.high_watermark)

    def deadline(self) -> Instant | None:
        """When it wants to be woken; in the past when a tick brought something to finish."""
        return self._deadline.get()

    def _next_deadline(self) -> Instant | None:
        core = self._core
        if self._wants_flush():
            return Instant(0)
        return earliest(
            core.role.deadline(),
            core.requests.deadline(),
            self._server.deadline(),
            self._membership.deadline(),
            *(when for _, when in self._due_requests()),
        )

    # What a role wants to send -----------------------------------------------------------------

    def _due_requests(self) -> list[tuple[int, Instant]]:
        """(peer, from when on) for each request that the role wants to send."""
        core = self._core
        role = core.role
        kind = self._request_kind()
        if kind is QuorumFetchRequest and not self._fetcher.may_fetch:
            return []
        if self._snapshot_fetcher.is_waiting:
            return []
        due = []
        for peer_id, wished_at in role.wishes():
            when = max(wished_at, core.requests.ready_at(peer_id, kind))
            if when < NEVER:
                due.append((peer_id, when))
        return due

    def _request_kind(self) -> type[Request]:
        match self._core.role:
            case Leader():
                return BeginQuorumEpochRequest
            case Resigned():
                return EndQuorumEpochRequest
            case Campaign():
                return VoteRequest
            case _ if self._snapshot_fetcher.is_downloading:
                return FetchSnapshotRequest
            case _:
                return QuorumFetchRequest

    def _send_due(self, now: Instant) -> None:
        core = self._core
        for peer_id, when in self._due_requests():
            if when <= now:
                core.send(peer_id, self._make_request(peer_id), now)
                if isinstance(core.role, Leader):
                    core.role.on_begin_sent(peer_id, now)

    def _make_request(self, peer_id: int) -> Request:
        core = self._core
        role = core.role
        identity = core.identity
        endpoints = core.voters[core.own_id].endpoints if core.is_voter else identity.endpoints
        match role:
            case Leader():
                peer = core.voter_key(peer_id)
                return BeginQuorumEpochRequest(
                    identity.cluster_id, *peer, core.own_id, role.epoch, endpoints
                )
            case Resigned():
                return EndQuorumEpochRequest(
                    identity.cluster_id, core.own_id, role.epoch, role.successors, endpoints
                )
            case Campaign():
                return VoteRequest(
                    cluster_id=identity.cluster_id,
                    voter_id=peer_id,
                    voter_directory_id=core.voter_key(peer_id).directory_id,
                    candidate_id=core.own_id,
                    candidate_directory_id=identity.directory_id,
                    epoch=role.epoch,
                    last_epoch=core.last_epoch,
                    last_offset=core.log.log_end_offset,
                    pre_vote=isinstance(role, Prospective),
                )
            case _ if self._snapshot_fetcher.is_downloading:
                return self._snapshot_fetcher.make_request()
            case _:
                return self._fetcher.make_request()

    def _on_answer(self, peer_id: int, request: Request, response: Response, now: Instant) -> None:
        elections = self._elections
        match request, response:
            case VoteRequest(), VoteResponse():
                elections.on_vote_response(peer_id, request, response, now)
            case QuorumFetchRequest(), QuorumFetchResponse():
                self._fetcher.on_response(peer_id, request, response, now)
            case FetchSnapshotRequest(), FetchSnapshotResponse():
                self._fetcher.on_snapshot_response(peer_id, request, response, now)
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse():
                elections.on_begin_response(peer_id, response, now)
            case EndQuorumEpochRequest(), EndQuorumEpochResponse():
                elections.on_end_response(peer_id, response, now)
            case SupportRequest(), SupportResponse():
                self._membership.on_support(request, response, now)
            case (
                AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest(),
                VoterChangeResponse(),
            ):
                self._membership.on_wish_answered(peer_id, response)
            case _:
                raise AssertionError(f"{response} answers {request}")

    def _on_request_failed(self, peer_id: int, request: Request, now: Instant) -> None:
        core = self._core
        core.requests.on_failed(peer_id, now)
        if isinstance(request, QuorumFetchRequest | FetchSnapshotRequest):
            self._fetcher.on_failure(peer_id, now)
        elif isinstance(request, BeginQuorumEpochRequest) and isinstance(core.role, Leader):
            core.role.on_begin_failed(peer_id, now)
        elif isinstance(request, VoteRequest):
            self._elections.count_votes(now)
        elif isinstance(request, SupportRequest):
            self._membership.on_support(request, None, now)

    # The end of an input -----------------------------------------------------------------------

    def _settle(self, now: Instant) -> None:
        self._membership.maybe_resume()
        self._membership.on_high_watermark(now)
        self._membership.end_unless_leading()
        self._membership.maybe_send_wish(now)
        self._server.fail_all_unless_leading()
        self._snapshot_fetcher.give_up_unless_following()
        self._send_due(now)
        self._core.settle()
        self._deadline.forget()
        self._turn_count += 1

    def _wants_flush(self) -> bool:
        core = self._core
        return self._flushing_to is None and core.log.recovery_point < core.log.log_end_offset

    def _maybe_flush(self) -> None:
        if self._wants_flush():
            self._flushing_to = self._core.log.request_flush()

    # Invariants --------------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts every invariant that one replica can see."""
        core = self._core
        role = core.role
        core.state_file.check()
        assert core.state_file.written == role.election, (
            f"DurableBeforeSaid: written {core.state_file.written}, role {role.election}"
        )
        assert core.outbox.is_sealed, "DurableBeforeSaid: something is said and not sealed"
        assert core.log.log_start_offset <= core.high_watermark <= core.log.log_end_offset, (
            f"HighWatermarkMonotonic: {core.log.log_start_offset} <= {core.high_watermark} <= "
            f"{core.log.log_end_offset}"
        )
        assert self._reader.next_offset <= core.high_watermark, (
            f"CommittedOnce: handed out to {self._reader.next_offset}, "
            f"committed to {core.high_watermark}"
        )
        assert core.last_epoch <= core.epoch, (
            f"EpochMonotonic: log of epoch {core.last_epoch} in {core.epoch}"
        )
        self._membership.check()
        core.snapshots.check()
        self._cleaner.check()
        self._snapshot_fetcher.check()
        assert not core.must_listen or isinstance(role, Unattached | Follower | Resigned), (
            f"BaseBeforeLeading: {role.name.value} without a state"
        )
        self._check_role()
        self._check_fetches()

    def _check_role(self) -> None:
        core = self._core
        role = core.role
        own_id = core.own_id
        match role:
            case Leader():
                self._check_leader(role)
            case Resigned():
                assert role.leader_id == own_id, f"ValidRoles: resigned, {role.leader_id} led"
            case Candidate():
                voted = role.voted
                assert voted == core.identity.key, f"ValidRoles: candidate voted {voted}"
                assert role.leader_id == NO_LEADER, f"ValidRoles: candidate of {role.leader_id}"
                counts_itself = own_id in role.ballot.granting
                assert not counts_itself or core.state_file.durable == role.election, (
                    f"DurableBeforeCounted: own vote counted, durable {core.state_file.durable}"
                )
            case Prospective():
                assert core.may_campaign, "ValidRoles: an observer asks for votes"
            case Follower():
                assert role.leader_id not in (NO_LEADER, own_id), f"ValidRoles: {role.election}"
            case Unattached():
                assert core.may_campaign == (role.election_deadline is not None), "ValidRoles"
        assert isinstance(role, Leader) or not self._server.parked_count, (
            f"ValidRoles: {role.name.value} parks {self._server.parked_count} fetches"
        )

    def _check_leader(self, role: Leader) -> None:
        core = self._core
        assert role.voted is not None, "ValidRoles: a leader has voted for itself"
        assert role.voted.node_id == role.leader_id == core.own_id, f"ValidRoles: {role.election}"
        assert role.own_end_offset <= core.log.recovery_point, (
            f"DurableBeforeCounted: counts {role.own_end_offset}, flushed {core.log.recovery_point}"
        )
        assert role.high_watermark == -1 or role.high_watermark > role.epoch_start_offset, (
            f"OwnEpochFirst: {role.high_watermark}, epoch starts at {role.epoch_start_offset}"
        )
        assert role.high_watermark <= core.high_watermark, (
            f"HighWatermarkMonotonic: leader {role.high_watermark}, known {core.high_watermark}"
        )

    def _check_fetches(self) -> None:
        core = self._core
        fetches = core.requests.outstanding(QuorumFetchRequest)
        pieces = core.requests.outstanding(FetchSnapshotRequest)
        assert len(fetches) + len(pieces) <= 1, f"SingleFetchInFlight: {fetches}, {pieces}"
        for fetch in fetches:
            assert isinstance(fetch, QuorumFetchRequest)
            assert fetch.fetch_offset <= core.log.recovery_point, (
                f"DurableBeforeCounted: fetch at {fetch.fetch_offset}, "
                f"flushed {core.log.recovery_point}"
            )
