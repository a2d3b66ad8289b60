"""All replicas that one broker hosts: the package's front door.

The package owns the logs of the partitions assigned to this node, as long as the metadata assigns
them here. `Replicas` composes the parts that do the work and owns none of their rules:

| part | owns |
| --- | --- |
| `partition.Partition` | one hosted replica and its role |
| `leader.LeaderState`, `isr` | followers' progress, high watermark, in-sync replicas |
| `isr_changes`, `isr_updates`, `isr_checks` | proposals, their way to the controller, lag and \
stalls |
| `fetchers`, `fetcher`, `fetch_state`, `fetch_answers`, `leader_bounds`, `follower` | fetching, \
divergence, truncation |
| `verification` | transactions that the coordinator is asked about before they begin |
| `produce_path`, `fetch_path`, `fetch_reading`, `interest`, `delete_path`, `purgatory` | requests \
and their waiting |
| `offset_queries` | questions about offsets |
| `quarantine` | damaged logs: out of service, reported, repaired |
| `directory_reports` | in which log directories replicas are, for the controller |
| `throttle` | how fast replicas that catch up may be fed |
| `read_replica` | which replica a consumer is sent to |
| `metadata_changes`, `step_queue`, `hosting`, `roles` | which partitions to host, and what that \
takes |
| `retention` | what is too old or too much; files of segments that were taken out |
| `cleaning`, `producer_expiry` | compaction; producers that are idle |
| `moves` | replicas that go to another log directory |
| `durability` | flushes and checkpoints |
| `shared`, `turn_work` | what the parts share, and how much of a turn they may take |

**A tick.** Inputs act at once where nothing has to wait: a produce appends and answers acks=0 and
acks=1, an answer of the controller commits an ISR. For the rest they note which partitions changed.
`end_tick` then, in this order: advances high watermarks, answers acks and DeleteRecords; answers
parked fetches; asks for flushes; sends ISR proposals and reports of damage; sends the next fetches.
So a hundred appends of one tick move the high watermark once and wake a parked fetch once.

Invariants: `ActsOnPresentMetadata` (`hosting`), `LateReplicasWait`, `ConfigBeforeIsr` and
`PublishedRolesServe` (`metadata_changes`), `FollowsItsLeader` (`fetchers`), and those of the
parts. `docs/protocol/replication.md` explains them, but for `DamagedNotServed` (`quarantine`).
"""

from collections.abc import Iterable, Mapping, Sequence

from tidelog.config import ReplicationConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.known_deadline import KnownDeadline
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, LogDamaged, StorageError
from tidelog.kraft.committed import contiguous
from tidelog.limits import MAX_PARTITIONS_READ_PER_TURN
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.directories import LogDirectories
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.values import HighWatermarksSaved, LogFlush
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage
from tidelog.model import TopicPartition
from tidelog.replication import messages
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.cleaning import LogCleaner
from tidelog.replication.delete_path import DeletePath
from tidelog.replication.durability import Durability
from tidelog.replication.fetch_path import FetchPath
from tidelog.replication.fetchers import Fetchers
from tidelog.replication.interest import DelayedFetch, Interest, interest_of
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.isr_checks import IsrChecks
from tidelog.replication.isr_updates import IsrUpdates
from tidelog.replication.measures import Measures
from tidelog.replication.messages import LogStartsSaved, Token, TruncationsAnnounced
from tidelog.replication.metadata_changes import MetadataChanges
from tidelog.replication.moves import MoveFlush, ReplicaMoves
from tidelog.replication.offset_queries import epoch_end, list_offset
from tidelog.replication.partition import Partition
from tidelog.replication.produce_path import NOTHING_JUDGED, JudgedByPlace, ProducePath
from tidelog.replication.producer_expiry import ProducerExpiry
from tidelog.replication.quarantine import Quarantine
from tidelog.replication.retention import Retention
from tidelog.replication.roles import Roles
from tidelog.replication.shared import Env
from tidelog.replication.throttle import Throttles
from tidelog.replication.transaction_part import TransactionPart
from tidelog.replication.turn_work import TickPart, TurnWork
from tidelog.replication.verification import Verification
from tidelog.wire.fetch import FetchRequest, FetchResponse
from tidelog.wire.produce import ProduceRequest

Checkpointed = TruncationsAnnounced | LogStartsSaved | RenamesForgotten | HighWatermarksSaved
"""Subjects of checkpoints that something waits for."""


class Replicas:
    """Leaders, followers, fetchers, purgatories and ISR updates of one broker."""

    def __init__(
        self, *, node_id: int, directories: LogDirectories, config: ReplicationConfig, trace: Trace
    ) -> None:
        measures, self.throttles = Measures(trace), Throttles(node_id, config)
        # What this turn may still do of what takes long.
        self.work = TurnWork(config.metadata_work_per_turn)
        self._env = env = Env(
            node_id, config, BrokerEpochs(), trace, directories, self.throttles, measures, self.work
        )
        self._isr_updates = IsrUpdates(env)
        self._quarantine = Quarantine(env)
        env.hosted.damaged = self._quarantine.cases
        self._isr_changes = IsrChanges(env, self._isr_updates)
        self._isr_checks = IsrChecks(env, self._isr_changes)
        self._verification = Verification(env)
        self._produce = ProducePath(env, self._verification)
        # What coordinators of transactions, and of groups in transactions, ask of partitions.
        self.transactions = TransactionPart(env, self._produce, self._verification, self._stir)
        self._fetch = FetchPath(env, self._isr_changes)
        self._delete = DeletePath(env)
        self._fetchers = Fetchers(env)
        self._roles = Roles(
            env,
            self._produce,
            self._fetch,
            self._delete,
            self._fetchers,
            self._isr_updates,
            self._quarantine,
        )
        self._metadata = MetadataChanges(self._roles)
        self._retention = Retention(env)
        self._cleaner = LogCleaner(env)
        self._durability = Durability(self._roles, self._retention)
        self.moves = ReplicaMoves(env, self._quarantine.reports, self._stir)
        self._expiry = ProducerExpiry(env)
        # All of it begins when the metadata is in force.
        self._recurring = (
            self._isr_checks.schedule,
            self._durability.high_watermarks,
            self._durability.recovery_points,
            self._expiry.checks,
            self._retention.checks,
            self._cleaner.checks,
        )
        # Wall time in ms minus monotonic time in ms; set by the node.
        self.wall_offset_ms = 0
        # Whether any input has come since `wake` last had to look: most ticks of a node are about
        # something else, and then a look at everything would find nothing.
        self._is_stirred = True
        # Kept since then.
        self._deadline = KnownDeadline(self._next_deadline)

    def _stir(self) -> None:
        """Some input has come: the next `wake` looks at everything."""
        self._is_stirred = True
        self._deadline.forget()

    @property
    def broker_epoch(self) -> int:
        """This node's broker epoch, -1 before it is registered. The node sets it after each
        registration; it goes into fetches and AlterPartition."""
        return self._env.brokers.own_epoch

    @broker_epoch.setter
    def broker_epoch(self, value: int) -> None:
        self._env.brokers.own_epoch = value
        self._stir()

    def set_throttled_rates(self, *, leader: int, follower: int, moves: int) -> None:
        """Bytes a second that throttled followers may be sent, and may fetch, and that moves to
        other log directories may copy, from now on."""
        self.throttles.set_rates(leader=leader, follower=follower, moves=moves)
        self._stir()

    def suspect(self, broker_ids: frozenset[int], now: Instant) -> None:
        """These brokers, and no others, seem to be dead (`broker/failure_detector.py`)."""
        newly = broker_ids - self._env.brokers.suspected
        self._env.brokers.suspected = broker_ids
        if newly:
            self._isr_checks.on_brokers_changed(now)
        self._stir()

    # Metadata ---------------------------------------------------------------------------------

    def apply(
        self,
        delta: MetadataDelta,
        image: MetadataImage,
        log_configs: messages.LogConfigs,
        now: Instant,
    ) -> None:
        """Follows the metadata: creates, opens and deletes logs, changes roles and configs, now or
        in the turns that follow (`applied_offset`).

        To be called after each group of committed metadata batches, in order. Nothing is done
        before the image contains this node's registration under `broker_epoch`; then everything
        is caught up.
        """
        self._stir()
        self._metadata.apply(delta, image, log_configs, now)
        if self._metadata.in_force:
            self._start_recurring(now)
            if delta.changed_brokers:
                self._isr_checks.on_brokers_changed(now)
                self._fetch.release_followers(delta.changed_brokers)

    def _start_recurring(self, now: Instant) -> None:
        for recurring in self._recurring:
            recurring.start(now)

    @property
    def applied_offset(self) -> int:
        """The newest metadata according to which all replicas here lead and follow."""
        return self._metadata.applied_offset

    @property
    def is_behind(self) -> bool:
        """Whether a replica does not follow the newest metadata yet, and waits for its turn."""
        return self._env.hosted.is_behind

    @property
    def has_deletions(self) -> bool:
        """Whether a log still has to be taken away, as the metadata demands."""
        return self._metadata.has_deletions

    def remove_strays(self, now: Instant) -> None:
        """Sets logs aside that the metadata does not place on this node, from now on, in the turns
        that follow. They are kept: metadata that was lost or is another cluster's must not cost
        records. To be called after a start, when the metadata has caught up. Does nothing before
        it is in force."""
        self._stir()
        self._metadata.set_aside_strays(now)
        self.moves.drop_strays()

    # Requests ---------------------------------------------------------------------------------

    def produce(
        self,
        request: ProduceRequest,
        reply_to: messages.ReplyTo,
        now: Instant,
        wall_ms: int,
        *,
        bumps_epoch: bool = False,
        judged: JudgedByPlace = NOTHING_JUDGED,
    ) -> int:
        """Appends; the `Reply` follows, at once or when the high watermark has passed. Returns how
        long the client waits, in ms. With `bumps_epoch` it is of transaction version 2."""
        self._stir()
        self.work.on_input()
        return self._produce.produce(
            request, reply_to, now, wall_ms, bumps_epoch=bumps_epoch, judged=judged
        )

    def append_as_coordinator(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        batch: bytes,
        wall_ms: int,
        *,
        bumps_epoch: bool = False,
    ) -> int:
        """Appends a batch of a coordinator on the leader of its partition; returns the last offset,
        which is committed when the high watermark has passed it. `bumps_epoch`: it is a marker with
        the epoch of the next transaction.

        Raises `NotLeader` when the partition is not led here in this epoch, and `ProtocolError` for
        a batch that is too large or of a deposed producer; nothing is appended then."""
        self._stir()
        return self._produce.append_as_coordinator(
            topic_partition, leader_epoch, batch, wall_ms, bumps_epoch=bumps_epoch
        )

    def read_committed(
        self, topic_partition: TopicPartition, offset: int, max_bytes: int, now: Instant
    ) -> bytes | None:
        """Whole batches of a led partition from `offset` on, below the high watermark, at least
        one. `None` when the log cannot be read: then it is out of service."""
        self._stir()
        partition = self._env.hosted.partitions[topic_partition]
        log = partition.log
        try:
            found = log.read(offset, max_bytes, log.high_watermark, at_least_one=True)
            return contiguous(found.chunks)
        except (StorageError, LogDamaged) as error:
            self._env.changed.failed.append((partition, error))
            self._take_failed(now)
            return None

    def fetch(
        self,
        request: FetchRequest,
        reply_to: messages.ReplyTo,
        now: Instant,
        *,
        interest: Interest | None = None,
        followers_may_serve: bool = True,
        listener: str = "",
    ) -> None:
        """Reads, as a replica when `request.replica_id >= 0`, else as a consumer.

        The partitions are those of the session's `interest`, which has taken in the request's;
        without a session those of the request. The answer lists what was read; the broker leaves
        out what has not changed, and sets the session's id.

        `followers_may_serve` is false for consumers below version 11; others may be sent to a
        follower that is reached on the same `listener`.
        """
        self._stir()
        if interest is None:
            interest = interest_of(request.partitions, by_id=False, standing=False)
        parked = DelayedFetch(
            reply_to,
            request,
            interest,
            now=now,
            followers_may_serve=followers_may_serve,
            listener=listener,
        )
        self._fetch.fetch(parked, now)

    def delete_records(
        self,
        wanted: Sequence[messages.RecordsToDelete],
        reply_to: messages.ReplyTo,
        now: Instant,
        *,
        timeout_ms: int,
    ) -> None:
        """Raises log starts; the `Reply` follows when all alive replicas have raised theirs."""
        self._stir()
        for partition in self._delete.delete(wanted, reply_to, now, timeout_ms=timeout_ms):
            self._fetch.release_followers(partition.replicas)

    def delete_as_coordinator(self, topic_partition: TopicPartition, offset: int) -> None:
        """Raises the log start of a led partition: its coordinator needs nothing below."""
        self._stir()
        partition = self._env.hosted.partitions[topic_partition]
        self._delete.delete_before(partition, offset)
        self._fetch.release_followers(partition.replicas)

    def list_offset(
        self, query: messages.ListOffsetsQuery, *, replica_id: int, isolation_level: int
    ) -> messages.ListOffsetsResult:
        """Answers a query of ListOffsets at once. OFFSET_NOT_AVAILABLE is for version 5 and up; the
        handler turns it into LEADER_NOT_AVAILABLE below."""
        self._stir()
        return list_offset(self._roles, query, replica_id, isolation_level)

    def end_offset_for_epoch(self, query: messages.EpochEndQuery) -> messages.EpochEndResult:
        """Answers a query of OffsetForLeaderEpoch at once."""
        return epoch_end(self._env, query)

    # Answers ----------------------------------------------------------------------------------

    def on_fetch_response(self, token: Token, response: FetchResponse | None, now: Instant) -> None:
        """The answer to a `SendFetch`; `None` when the leader could not be reached."""
        self.work.on_input()
        self._fetchers.on_fetch_response(token, response, now)
        self._stir()
        self._take_failed(now)

    def on_list_offsets_response(
        self, token: Token, results: Sequence[messages.ListOffsetsResult] | None, now: Instant
    ) -> None:
        """The answer to a `SendListOffsets`; `None` when the leader could not be reached."""
        self._fetchers.on_list_offsets_response(token, results, now)
        self._stir()
        self._take_failed(now)

    def _take_failed(self, now: Instant) -> None:
        """What failed under requests and answers, and directories that have gone offline."""
        failed = self._env.changed.failed
        for partition, error in failed:
            self._roles.on_failure(partition, error, now)
        failed.clear()
        if self._env.directories.has_failed:
            self._roles.lose_directories()

    def on_assign_replicas_response(self, token: Token, refusal: str | None, now: Instant) -> None:
        """The answer to a `SendAssignReplicas`; `refusal` is why it was not followed, if so."""
        self._stir()
        self._quarantine.reports.on_response(token, refusal, now)

    @property
    def damaged(self) -> Iterable[TopicPartition]:
        """The replicas whose logs are out of service because they were found damaged."""
        return self._quarantine.cases.keys()

    @property
    def is_reporting_damage(self) -> bool:
        """Whether the controller still counts on a damaged log of this node."""
        return self._quarantine.is_reporting

    def on_alter_partition_response(
        self, token: Token, results: Sequence[messages.IsrResult] | ErrorCode | None, now: Instant
    ) -> None:
        """The answer to a `SendAlterPartition`: a result for each partition, or the error of the
        whole request, or `None` when no controller could be reached."""
        self._stir()
        self._isr_changes.on_alter_partition_response(token, results, now)

    def on_flushed(self, subject: LogFlush | CleanedFlush | MoveFlush, now: Instant) -> None:
        """A flush of a hosted log is durable, or of a copy."""
        self._stir()
        if isinstance(subject, CleanedFlush):
            self._cleaner.on_flushed(subject, now)
        elif isinstance(subject, MoveFlush) or subject.is_future:
            self.moves.on_flushed(subject, now)
        else:
            self._durability.on_flushed(subject)

    def on_flush_failed(self, subject: LogFlush | CleanedFlush, error: str, now: Instant) -> None:
        """A flush failed: what was not yet durable is taken to be lost."""
        self._stir()
        if isinstance(subject, CleanedFlush):
            self._cleaner.on_flush_failed(subject, error)
            self._take_failed(now)
        else:
            self._durability.on_flush_failed(subject, error)

    def on_directory_failed(self, number: int, error: str) -> None:
        """A write to the log directory of this number, which is not the first, has failed."""
        self._stir()
        self._env.directories.on_flush_failed(number, error)

    def on_checkpointed(self, subject: Checkpointed, now: Instant) -> None:
        """A checkpoint is durable that no longer names the logs to truncate or rename, or that
        holds new log starts."""
        self._stir()
        match subject:
            case TruncationsAnnounced():
                self.work.on_input()
                self._fetchers.on_announced(subject)
            case LogStartsSaved():
                self._retention.on_log_starts_saved(subject, now)
            case RenamesForgotten() | HighWatermarksSaved():
                self._durability.on_saved(subject, now)
        self._take_failed(now)

    # Time -------------------------------------------------------------------------------------

    def end_tick(self, now: Instant) -> None:
        """Completes what this tick's inputs made ready and sends the next requests. Called once
        after each group of inputs; `wake` does it too."""
        self._take_failed(now)
        changed, measures = self._env.changed.take(), self._env.measures
        suspected = self._env.brokers.suspected
        self._env.trace.steps.begin("changed partitions", len(changed))
        self.moves.on_changed(changed, now)
        for partition in changed:
            leadership = partition.leadership
            if leadership is not None:
                if leadership.maybe_advance_high_watermark(now):
                    self._env.changed.mark_readable(partition)
                    if measures.enabled:
                        measures.on_advance(partition, leadership, now)
                elif suspected:
                    self._isr_changes.shrink_stalled(partition, leadership, now)
                if partition.acks:
                    self._produce.complete_acks(partition)
                if partition.deletions:
                    self._delete.complete(partition)
        self._fetch.end_tick(now)
        self._produce.end_tick()
        self._durability.end_tick()
        self._isr_updates.maybe_send(now)
        self._quarantine.reports.maybe_send(now)
        self._env.trace.steps.begin("fetchers")
        self._fetchers.poll(now)
        self._env.trace.steps.begin("tick")

    def wake(self, now: Instant) -> None:
        """Runs what is due: ISR checks, expiries, pauses, checkpoints; then ends the tick."""
        if not self._is_stirred:
            deadline = self.deadline()
            if deadline is None or now < deadline:
                return
        self.work.on_tick(now)
        self._fetchers.apply_rest(now)
        if not self._metadata.in_force and self._metadata.maybe_take_effect(now):
            self._start_recurring(now)
        elif self._metadata.has_work:
            self._env.trace.steps.begin("replicas follow metadata")
            self._metadata.work(now)
        self._env.trace.steps.begin("replicas' timers")
        self._isr_checks.check_isrs(now)
        if self._retention.work(now, now + self.wall_offset_ms):
            self._durability.save_log_starts(now)
        self._cleaner.work(now, now + self.wall_offset_ms)
        self.moves.work(now)
        self._durability.write_due(now, may_forget=self._metadata.is_idle)
        self._expiry.work(now, now + self.wall_offset_ms)
        if self._fetch.is_reading_due(now) and self.work.lets(TickPart.READING):
            self._env.trace.steps.begin("a large fetch", MAX_PARTITIONS_READ_PER_TURN)
            self._fetch.read_on(now)
        self.end_tick(now)
        for parked in self._env.deadlines.take_due(now):
            if isinstance(parked, DelayedFetch):
                self._fetch.complete(parked, now)
            else:
                parked.expire()
                self._env.outbox.emit(parked.reply())
        self._take_failed(now)
        self._is_stirred = bool(self._env.changed) or self._fetch.has_released
        self._deadline.forget()

    def deadline(self) -> Instant | None:
        """The next instant at which `wake` has something to do."""
        return self._deadline.get()

    def _next_deadline(self) -> Instant | None:
        return earliest(
            *(recurring.due_at for recurring in self._recurring),
            self._env.deadlines.next(),
            self._isr_updates.deadline(),
            self._quarantine.reports.deadline(),
            self._fetchers.deadline(),
            self._metadata.deadline(),
            self._isr_checks.deadline(),
            self._durability.deadline(),
            self._retention.deadline(),
            self._cleaner.deadline(),
            self.moves.deadline(),
            self._expiry.next_at,
            self._fetch.read_on_at,
        )

    def take_outputs(self) -> list[messages.Output]:
        """What was decided since the last call, in order."""
        return self._env.outbox.take()

    # Views and invariants ---------------------------------------------------------------------

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The hosted replicas, to be looked at and not changed."""
        return self._env.hosted.partitions

    def check(self) -> None:
        """Asserts every invariant of the package."""
        self._metadata.check()
        self._deadline.check()
        for key, partition in self._env.hosted.partitions.items():
            assert key == partition.topic_partition, f"{key} holds {partition}"
            partition.check()
        self._fetchers.check(self._env.hosted.partitions.values())
        self._fetch.check()
        self._isr_updates.check()
        self._quarantine.check()
        self.moves.check()
        for key in self._quarantine.cases:
            assert key not in self._env.hosted.partitions, f"DamagedNotServed: {key}"
        self._env.deadlines.check()
