"""One replica of the metadata quorum: the facade for every input and output.

`Quorum` puts the parts together: `elections.py` decides on the leader, `fetch_server.py` and
`fetcher.py` replicate, `committed.py` hands out what is committed, `core.py` holds what they share.
Theory and named properties: `docs/protocol/kraft.md`.

One input at a time: a method is called, the parts act, then everything is settled (after all but
`append`): requests that a role wants to send are sent, the election state is written if it changed,
and what is to be sent is sealed behind that write.

The driver calls `wake(now)` at the end of each tick (and at the deadline). There, the parked
fetches are answered once for everything that the tick brought, and one flush is requested for
everything that was appended. While a flush is under way no other is requested; when it is done,
the next one covers all that came meanwhile (group commit). `controller.quorum.append.linger.ms` is
therefore not waited out: what it saves elsewhere, the flush in flight saves here.

Asserted by `check()`, by name: EpochMonotonic, VoteUniqueness, DurableBeforeSent,
DurableBeforeCounted, SingleFetchInFlight, HighWatermarkMonotonic, OwnEpochFirst, ValidRoles,
SnapshotAtLogStart, BaseBeforeLeading.
Asserted where they could break: ElectionSafety, ValidTransitions, NoCommittedTruncation,
CommittedOnce. Seen only from outside, by comparing replicas: LeaderCompleteness, LogMatching.
"""

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from tidelog.config import QuorumConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.known_deadline import KnownDeadline
from tidelog.errors import ErrorCode, UsageError
from tidelog.kraft import elections, epochs
from tidelog.kraft.control_records import read_history
from tidelog.kraft.core import QuorumCore, QuorumEnv
from tidelog.kraft.events import RoleReason, SnapshotMade
from tidelog.kraft.exchange import Exchange
from tidelog.kraft.invariants import check_core, check_role
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import (
    Committed,
    NotLeader,
    Output,
    QuorumDescription,
    ReplicaProgress,
    Request,
    Response,
    SnapshotId,
    Voter,
    VoterIdentity,
)
from tidelog.kraft.quorum_state import QuorumStateFlush
from tidelog.kraft.recovery import do_without_base, recover
from tidelog.kraft.roles import Resigned
from tidelog.kraft.snapshots import SnapshotFlush, SnapshotWriter
from tidelog.log.file_names import CORRUPT_SUFFIX
from tidelog.log.log import Log
from tidelog.log.values import AppendOrigin, LogFlush
from tidelog.model import ZERO_UUID, Endpoint
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

__all__ = ["Quorum", "QuorumEnv"]


class Quorum(QuorumCore):
    """One voter (or observer) of the metadata quorum: what goes in and out, over its state."""

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
        super().__init__(
            identity=identity, voters=voters, log=log, config=config, env=env, bootstrap=bootstrap
        )
        # All that decides, and the way from there to the other replicas.
        self._exchange = Exchange(self)
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

    def distrust_log(self) -> None:
        """To be called before `start` when damage has shortened the log: the replica listens until
        a leader has given it back what is committed."""
        self.must_catch_up = True

    @property
    def is_leader(self) -> bool:
        """Whether it leads. Its promise to do so only once in this epoch may not be durable
        yet; until it is, none of its messages leaves."""
        return isinstance(self.role, Leader)

    @property
    def log_end_offset(self) -> int:
        """The next offset to write."""
        return self.log.log_end_offset

    @property
    def epoch_start_offset(self) -> int:
        """Where the epoch that this replica leads begins; -1 when it does not lead."""
        role = self.role
        return role.epoch_start_offset if isinstance(role, Leader) else -1

    @property
    def voter_sets(self) -> Sequence[tuple[int, Mapping[int, Voter]]]:
        """The voter sets that a truncation may bring back and the newest, each with the offset from
        which it counts; -1 for what formatting wrote. None with configured voters."""
        return self.history.sets

    @property
    def is_changing_voters(self) -> bool:
        """Whether this leader has a change of the voters under way."""
        return self._exchange.membership.is_changing

    @property
    def kraft_version(self) -> int:
        """0 with configured voters, 1 with voters in the log."""
        return self.history.version

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Where a voter or the leader is reached, as far as it is known."""
        return self.addresses.of(node_id)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that counts."""
        return self.snapshots.latest

    @property
    def snapshot_paths(self) -> list[str]:
        """The files of all snapshots that count, oldest first."""
        return [self.snapshots.path_of(one) for one in self.snapshots.ids]

    def describe(self, now: Instant) -> QuorumDescription:
        """For DescribeQuorum; only the leader knows how far the others are. Configured voters are
        known by their ids alone, as in Kafka, so their directories are not named."""
        role = self.role
        if not isinstance(role, Leader):
            return QuorumDescription(self.leader_id, self.epoch, self.high_watermark)
        voters = {key: voter.describe(key) for key, voter in role.voters.items()}
        if role.counts_itself:
            voters[self.own_id] = ReplicaProgress(
                self.own_id, self.identity.directory_id, self.log.log_end_offset, now, now
            )
        if not self.is_dynamic:
            voters = {key: replace(seen, directory_id=ZERO_UUID) for key, seen in voters.items()}
        return QuorumDescription(
            self.own_id,
            self.epoch,
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
        content = recover(self)
        if content is not None:
            self._exchange.reader.restart(content)
        elif self.lacks_base:
            self._exchange.reader.begin_at_zero()
        read_history(self, 0 if content is None else content.snapshot_id.end_offset)
        if self.lacks_base:
            do_without_base(self)
        if self.must_catch_up and self.is_alone:
            path = f"{self.env.disk.root}/{self.log.path}"
            raise UsageError(
                f"the metadata log in `{path}` is damaged, and this is the only voter",
                "put an intact copy of the directory back; the damaged segments are there as "
                f"`*.log{CORRUPT_SUFFIX}`",
            )
        elections.start(self, now)
        self._settle(now)

    def on_request(self, request: Request, reply_to: Hashable, now: Instant) -> None:
        """A replica asks; the answer is a `Reply` with the same `reply_to`, now or later."""
        self._exchange.on_request(request, reply_to, now)
        self._settle(now)

    def on_response(
        self, peer_id: int, request: Request, response: Response | None, now: Instant
    ) -> None:
        """The answer to a `SendRequest`, with that very request; `None` when it failed or the
        connection is gone."""
        self._exchange.on_response(peer_id, request, response, now)
        self._settle(now)

    def on_peer_suspected(self, peer_id: int, now: Instant) -> None:
        """The peer's process is gone: its sockets closed and it refused to be reached for the
        grace period."""
        elections.on_peer_suspected(self, peer_id, now)
        self._settle(now)

    def on_flushed(self, subject: Hashable, now: Instant) -> None:
        """`QuorumStateFlush`: an election state is durable. `LogFlush` of the metadata log, which
        the log itself was given before: records are. `SnapshotFlush`: a snapshot is. Any other
        subject is ignored."""
        if isinstance(subject, QuorumStateFlush):
            self.state_file.on_durable(subject.sequence)
            elections.count_votes(self, now)
        elif isinstance(subject, SnapshotFlush):
            self._on_snapshot_flushed(subject, now)
        elif isinstance(subject, LogFlush) and subject.completes:
            if subject.topic_partition != self.log.topic_partition:
                return
            self._flushing_to = None
            self._exchange.server.maybe_raise_high_watermark()
        self._settle(now)

    def wake(self, now: Instant) -> None:
        """A deadline has passed, or a tick ends."""
        deadline = self.deadline()
        if deadline is None or deadline > now:
            return
        self._exchange.fail_overdue(now)
        elections.wake(self, now)
        self._exchange.membership.wake(now)
        self._maybe_flush()
        self._exchange.snapshot_fetcher.wake(now)
        if not self._exchange.snapshot_fetcher.is_emptying:
            self._exchange.cleaner.wake(now)
        self._exchange.server.on_tick_end(now)
        self._settle(now)

    def append(self, records: Sequence[bytes], now: Instant, wall_ms: int) -> int:
        """Appends one batch; returns the offset of its last record. It is committed when
        `take_committed` hands it out, and may be lost with the leadership.

        Raises `NotLeader`.
        """
        if not isinstance(self.role, Leader):
            raise NotLeader(f"node {self.own_id} is {self.role.name.value} in epoch {self.epoch}")
        batch = build_batch([Record(wall_ms, None, value) for value in records])
        result = self.log.append_as_leader(batch, self.epoch, wall_ms, origin=AppendOrigin.RAFT)
        self._deadline.forget()
        return result.last_offset

    def resign(self, now: Instant) -> None:
        """Hands the leadership over, as before a clean stop; does nothing when it does not lead."""
        epochs.resign(self, now, RoleReason.ASKED_TO_RESIGN)
        self._settle(now)

    @property
    def is_resigning(self) -> bool:
        """Whether it has resigned, a voter has not confirmed that, and no new epoch has begun."""
        role = self.role
        return isinstance(role, Resigned) and not role.is_acknowledged

    def upgrade_version(
        self, level: int, now: Instant, *, validate_only: bool = False
    ) -> tuple[ErrorCode, str]:
        """Makes `level` the `kraft.version`, or only checks whether that could be done. What was
        appended may be lost with the leadership."""
        outcome = self._exchange.membership.upgrade(level, now, validate_only=validate_only)
        self._settle(now)
        return outcome

    # Snapshots -------------------------------------------------------------------------------

    @property
    def wants_snapshot(self) -> bool:
        """Whether the state is needed on disk now, whatever its age: the log does not begin at 0,
        and the snapshot of what came before was lost."""
        return self.log.log_start_offset > 0 and self.latest_snapshot is None

    def begin_snapshot(self, snapshot_id: SnapshotId, append_time_ms: int) -> SnapshotWriter | None:
        """Takes the state below a committed offset; `None` when another snapshot is on its way or
        this one would be of no use. The writer may be given up at any time, see its `is_current`.

        Raises `StorageError`.
        """
        end_offset, epoch = snapshot_id
        log_start = self.log.log_start_offset
        # The one at the log's start is of use when it was lost.
        least_end = log_start if self.wants_snapshot else log_start + 1
        if self.snapshots.is_busy or end_offset < least_end:
            return None
        if self.snapshots.latest is not None and snapshot_id <= self.snapshots.latest:
            return None
        assert end_offset <= self.high_watermark, (
            f"snapshot {snapshot_id} above {self.high_watermark}"
        )
        assert end_offset == log_start or self.log.epoch_at(end_offset - 1) == epoch, (
            f"snapshot {snapshot_id}, the log has epoch {self.log.epoch_at(end_offset - 1)}"
        )
        entries = self.history.records_at(end_offset)
        return self.snapshots.begin(snapshot_id, append_time_ms, entries)

    def _on_snapshot_flushed(self, flush: SnapshotFlush, now: Instant) -> None:
        """A snapshot, this node's own or the leader's, is durable."""
        parts = self._exchange
        snapshot_id = self.snapshots.on_flushed(flush)
        if snapshot_id is None or parts.snapshot_fetcher.on_published(flush):
            return
        self.env.trace.event(
            SnapshotMade(snapshot=str(snapshot_id), bytes=self.snapshots.size_of(snapshot_id))
        )
        parts.cleaner.align()
        parts.cleaner.clean(now)

    # Outputs ---------------------------------------------------------------------------------

    def take_outputs(self) -> list[Output]:
        """What may be sent now, in order."""
        return self.outbox.take(self.state_file.durable_sequence)

    @property
    def has_committed(self) -> bool:
        """Whether `take_committed` has something."""
        parts = self._exchange
        is_readable = not parts.snapshot_fetcher.is_emptying
        return is_readable and parts.reader.has_more(self.high_watermark)

    def take_committed(self, most_records: int = sys.maxsize) -> list[Committed]:
        """The next committed batches, up to the one that reaches so many records, in order, each
        once. After every start they begin with the newest snapshot, or with the start of the log; a
        snapshot later on takes the place of everything before.

        Raises `StorageError` when the log cannot be read.
        """
        if self._exchange.snapshot_fetcher.is_emptying:
            return []
        return self._exchange.reader.take(self.high_watermark, most_records)

    def deadline(self) -> Instant | None:
        """When it wants to be woken; in the past when a tick brought something to finish."""
        return self._deadline.get()

    def _next_deadline(self) -> Instant | None:
        if self._wants_flush():
            return Instant(0)
        is_emptying = self._exchange.snapshot_fetcher.is_emptying
        return earliest(
            None if is_emptying else self._exchange.cleaner.deadline(),
            self.role.deadline(),
            self.requests.deadline(),
            self._exchange.server.deadline(),
            self._exchange.membership.deadline(),
            self._exchange.own_voter.deadline(),
            self._exchange.snapshot_fetcher.deadline(),
            *(when for _, when in self._exchange.due_requests()),
        )

    # The end of an input -----------------------------------------------------------------------

    def _settle(self, now: Instant) -> None:
        parts = self._exchange
        parts.membership.maybe_resume()
        parts.membership.on_high_watermark(now)
        parts.membership.end_unless_leading()
        parts.own_voter.maybe_send(now)
        parts.server.fail_all_unless_leading()
        parts.snapshot_fetcher.give_up_unless_following()
        self._exchange.send_due(now)
        self.settle()
        self._deadline.forget()
        self._turn_count += 1

    def _wants_flush(self) -> bool:
        return self._flushing_to is None and self.log.recovery_point < self.log.log_end_offset

    def _maybe_flush(self) -> None:
        if self._wants_flush():
            self._flushing_to = self.log.request_flush()

    # Invariants --------------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts every invariant that one replica can see."""
        parts = self._exchange
        check_core(self)
        check_role(self, parts.server.parked_count)
        parts.reader.check(self.high_watermark)
        parts.membership.check()
        if not parts.snapshot_fetcher.is_emptying:
            parts.cleaner.check()
        parts.snapshot_fetcher.check()
