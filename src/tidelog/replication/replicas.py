"""All replicas that one broker hosts: the room's front door.

The room owns the logs of the partitions assigned to this node, from the moment the metadata says so
until it says otherwise. It composes the parts that do the work and owns none of their rules:

| part | owns |
| --- | --- |
| `partition.Partition` | one hosted replica and its role |
| `leader.LeaderState`, `isr` | followers' progress, high watermark, in-sync replicas |
| `follower`, `fetcher`, `fetchers` | fetching, divergence, truncation |
| `produce_path`, `fetch_path`, `delete_path`, `purgatory` | requests and their waiting |
| `isr_updates` | proposals on their way to the controller |
| `lookups` | questions about offsets |
| `quarantine` | damaged logs: out of service, reported, repaired |
| `throttle` | how fast replicas that catch up may be fed |
| `read_replica` | which replica a consumer is told to read from |
| `hosting`, `roles` | which partitions to host, from the metadata, and what that takes |

**A tick.** Inputs of one tick (requests, answers, metadata, flushes) only note what moved.
`end_tick` then, in this order: advances high watermarks and answers acks; answers parked fetches;
asks for flushes; sends ISR proposals; sends the next fetches. So a hundred appends of one tick move
the high watermark once and wake a parked fetch once.

Invariants: `ActsOnPresentMetadata` (`hosting`), `FollowsItsLeader` (`fetchers`), and those of the
parts; all are explained in `docs/protocol/replication.md`.
"""

from collections.abc import Iterable, Mapping, Sequence

from tidelog.config import ReplicationConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.known_deadline import KnownDeadline
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, LogDamaged, ProtocolError, StorageError
from tidelog.log.directory import RenamesForgotten
from tidelog.log.log import LogFlush
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from tidelog.model import (
    METADATA_PARTITION,
    TopicPartition,
)
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.delete_path import DeletePath
from tidelog.replication.fetch_path import FetchPath
from tidelog.replication.fetcher import FetcherEnv, FetchOutcome
from tidelog.replication.fetchers import Fetchers
from tidelog.replication.hosted import Hosted
from tidelog.replication.hosting import (
    Drop,
    Host,
    all_topics,
    changed_topics,
    decide_hosting,
    decide_strays,
    is_in_force,
)
from tidelog.replication.isr_updates import IsrUpdates
from tidelog.replication.lookups import epoch_end, list_offset
from tidelog.replication.measures import Measures
from tidelog.replication.messages import (
    AlterPartitionResult,
    EpochEndQuery,
    EpochEndResult,
    ListOffsetsQuery,
    ListOffsetsResult,
    LogStartsSaved,
    Output,
    PartitionView,
    RecordsToDelete,
    ReplyTo,
    Token,
    TruncationsAnnounced,
)
from tidelog.replication.moved import Moved
from tidelog.replication.outbox import Outbox
from tidelog.replication.partition import Partition, PartitionEnv
from tidelog.replication.produce_path import ProducePath
from tidelog.replication.purgatory import Deadlines, DelayedDelete, DelayedProduce
from tidelog.replication.quarantine import Quarantine
from tidelog.replication.read_replica import ReadReplicaSelector
from tidelog.replication.roles import LogConfigs, LogStore, Parts, Roles
from tidelog.replication.schedule import Recurring
from tidelog.replication.throttle import Throttles
from tidelog.wire.fetch import FetchRequest, FetchResponse
from tidelog.wire.produce import ProduceRequest

Checkpointed = TruncationsAnnounced | LogStartsSaved | RenamesForgotten
"""Subjects of checkpoints that something waits for."""


class Replicas:
    """Leaders, followers, fetchers, purgatories and ISR updates of one broker."""

    def __init__(
        self, *, node_id: int, directory: LogStore, config: ReplicationConfig, trace: Trace
    ) -> None:
        self.node_id = node_id
        self._directory = directory
        self._config = config
        self._trace = trace
        self._brokers = BrokerEpochs()
        self._outbox = Outbox()
        self._hosted = Hosted()
        # The quotas of throttled replicas; the node sets the rates.
        self._throttles = Throttles(node_id, config)
        self._deadlines = Deadlines()
        # Commit latencies and lags, where somebody wants them.
        self._measures = Measures(trace)
        self._produce = ProducePath(self._hosted, self._outbox, self._deadlines, self._measures)
        self._fetch = self._make_fetch_path()
        self._delete = DeletePath(self._hosted, self._outbox, self._deadlines)
        self._fetchers = Fetchers(
            FetcherEnv(node_id, config, self._brokers, self._outbox, trace, self._throttles)
        )
        self._isr_updates = IsrUpdates(self._outbox, config.alter_partition_retry_ms, trace)
        self._quarantine = Quarantine(
            node_id,
            directory,
            outbox=self._outbox,
            retry_ms=config.alter_partition_retry_ms,
            trace=trace,
        )
        self._hosted.damaged = self._quarantine.cases
        # Whether the metadata is recent enough to act on; once true it stays so.
        self._in_force = False
        # Whether this tick made the first records of some log durable.
        self._first_flush = False
        # Of the newest metadata.
        self._log_configs: LogConfigs | None = None
        # What this tick's inputs have moved.
        self._moved = Moved()
        self._roles = self._make_roles()
        # Members that lag are looked for at half the allowed lag, so that one leaves the ISR
        # after one to one and a half times the limit.
        self._isr_checks = Recurring(max(1, config.replica_lag_time_max_ms // 2))
        self._high_watermark_checkpoints = Recurring(config.high_watermark_checkpoint_interval_ms)
        self._recovery_checkpoints = Recurring(config.recovery_point_checkpoint_interval_ms)
        self._expiry_checks = Recurring(config.producer_expiration_check_interval_ms)
        # Wall time in ms minus monotonic time in ms; set by the node.
        self.wall_offset_ms = 0
        # Whether anything has reached this room since `wake` last had to look: most ticks of a
        # node are about something else, and then a look at everything would find nothing.
        self._is_stirred = True
        # Kept since then.
        self._deadline = KnownDeadline(self._next_deadline)

    def _make_fetch_path(self) -> FetchPath:
        config, brokers = self._config, self._brokers
        return FetchPath(
            self._hosted,
            brokers=brokers,
            config=config,
            outbox=self._outbox,
            deadlines=self._deadlines,
            selector=ReadReplicaSelector(config.replica_selector_class, self.node_id, brokers),
            throttles=self._throttles,
        )

    def _make_roles(self) -> Roles:
        parts = Parts(
            self._hosted,
            self._produce,
            self._fetch,
            self._delete,
            self._fetchers,
            self._isr_updates,
            self._moved,
            self._outbox,
            self._quarantine,
        )
        env = PartitionEnv(self.node_id, self._config, self._brokers, self._trace)
        return Roles(self._directory, parts, env, self._trace)

    def _stir(self) -> None:
        """Something has reached this room: the next `wake` looks at everything."""
        self._is_stirred = True
        self._deadline.forget()

    @property
    def broker_epoch(self) -> int:
        """This node's broker epoch, -1 before it is registered. The node sets it after each
        registration; it goes into fetches and AlterPartition."""
        return self._brokers.own_epoch

    @broker_epoch.setter
    def broker_epoch(self, value: int) -> None:
        self._brokers.own_epoch = value
        self._stir()

    def set_throttled_rates(self, *, leader: int, follower: int) -> None:
        """Bytes a second that throttled followers may be sent, and may fetch, from now on."""
        self._throttles.leader.rate = leader
        self._throttles.follower.rate = follower
        self._stir()

    # Metadata ---------------------------------------------------------------------------------

    def apply(
        self, delta: MetadataDelta, image: MetadataImage, log_configs: LogConfigs, now: Instant
    ) -> None:
        """Follows the metadata: creates, opens and deletes logs, changes roles and configs.

        To be called after each group of committed metadata batches, in order. Nothing is done
        before the image contains this node's registration under `broker_epoch`; then everything
        is caught up at once.
        """
        self._stir()
        self._hosted.image = image
        self._log_configs = log_configs
        if not self._in_force:
            self._maybe_take_effect(now)
            return
        if delta.changed_brokers:
            self._brokers.follow(image)
            self._fetchers.resume(sorted(delta.changed_brokers))
            # Whoever may no longer join an ISR, or is fenced, is no longer waited for.
            self._mark_uncommitted()
        self._carry_out(
            decide_hosting(
                changed_topics(delta, image),
                delta.deleted_topics,
                self._hosted.partitions,
                self.node_id,
            ),
            now,
        )
        self._roles.follow_damaged(image, now)
        self._directory.forget_renamed()
        self._reconfigure(delta)

    def _maybe_take_effect(self, now: Instant) -> None:
        image = self._hosted.image
        if not is_in_force(image, self.node_id, self.broker_epoch):
            return
        self._in_force = True
        self._brokers.follow(image)
        for recurring in (
            self._isr_checks,
            self._high_watermark_checkpoints,
            self._recovery_checkpoints,
            self._expiry_checks,
        ):
            recurring.start(now)
        topics = all_topics(image)
        self._carry_out(decide_hosting(topics, (), self._hosted.partitions, self.node_id), now)
        self._directory.forget_renamed()

    def remove_strays(self) -> list[TopicPartition]:
        """Sets logs aside that the metadata does not place on this node; returns them. They are
        kept: metadata that was lost or is another cluster's must not cost records. To be called
        once after a start, when the metadata has caught up. Does nothing before it is in force."""
        if not self._in_force:
            return []
        self._stir()
        logs = {
            key: log.topic_id
            for key, log in self._directory.logs.items()
            if key != METADATA_PARTITION
        }
        found = decide_strays(self._hosted.image, logs, self.node_id)
        known = {METADATA_PARTITION, *self._quarantine.cases}
        found += [key for key in self._directory.damaged if key not in known]
        for key in found:
            self._trace.warn(
                key,
                "remove_strays",
                "set aside",
                "not placed on this node; hint: delete the directory that ends in `-stray` when "
                "nobody misses its records",
            )
            self._roles.set_aside(key)
        self._directory.forget_renamed()
        return found

    def _carry_out(self, decisions: Iterable[Drop | Host], now: Instant) -> None:
        assert self._log_configs is not None, "no metadata was applied"
        self._roles.carry_out(decisions, self._log_configs, now)

    def _reconfigure(self, delta: MetadataDelta) -> None:
        if not delta.changed_configs:
            return
        assert self._log_configs is not None, "no metadata was applied"
        everything = any(
            resource.resource_type == BROKER_RESOURCE for resource in delta.changed_configs
        )
        topics = {
            resource.name
            for resource in delta.changed_configs
            if resource.resource_type == TOPIC_RESOURCE
        }
        for key, partition in self._hosted.partitions.items():
            if everything or key.topic in topics:
                partition.log.config = self._log_configs(key.topic)
                self._moved.mark(partition)

    # Requests ---------------------------------------------------------------------------------

    def produce(
        self, request: ProduceRequest, reply_to: ReplyTo, now: Instant, wall_ms: int
    ) -> None:
        """Appends; the `Reply` follows, at once or when the high watermark has passed."""
        self._stir()
        self._produce.produce(request, reply_to, now, wall_ms)

    def append_batch(self, topic_partition: TopicPartition, batch: bytes, wall_ms: int) -> int:
        """Appends one built batch of a coordinator living here; returns its last offset. It is
        committed once `high_watermark(topic_partition)` is larger.

        Raises `ProtocolError`: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR.
        """
        self._stir()
        partition = self._hosted.partitions.get(topic_partition)
        if partition is None or partition.leadership is None:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if partition.leadership.is_under_min_isr:
            raise ProtocolError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            result = partition.log.append_records(batch, partition.leader_epoch, wall_ms)
        except StorageError as error:
            self._roles.go_offline(partition, str(error))
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._moved.mark(partition)
        return result.last_offset

    def fetch(
        self,
        request: FetchRequest,
        reply_to: ReplyTo,
        now: Instant,
        *,
        followers_may_serve: bool = True,
        listener: str = "",
    ) -> None:
        """Reads, as a replica when `request.replica_id >= 0`, else as a consumer.

        `followers_may_serve` is false for consumers below version 11; others may be sent to a
        follower that is reached on the same `listener`. The broker has turned sessions into full
        partition lists; it patches session id and epoch itself.
        """
        self._stir()
        self._fetch.fetch(
            request, reply_to, now, followers_may_serve=followers_may_serve, listener=listener
        )
        if self._fetch.expandable:
            self._expand_isrs()

    def _expand_isrs(self) -> None:
        found = self._fetch.expandable
        self._fetch.expandable = []
        for partition, replica_id in found:
            leadership = partition.leadership
            if leadership is None or not leadership.may_expand(replica_id):
                continue
            if self._isr_updates.takes(partition.topic_partition, partition.topic_id):
                proposal = partition.propose_expand(replica_id, self.broker_epoch)
                self._isr_updates.submit(proposal)
                self._moved.mark(partition)

    def delete_records(
        self,
        wanted: Sequence[RecordsToDelete],
        reply_to: ReplyTo,
        now: Instant,
        *,
        timeout_ms: int,
    ) -> None:
        """Raises log starts; the `Reply` follows when all alive replicas have raised theirs."""
        self._stir()
        for partition in self._delete.delete(wanted, reply_to, now, timeout_ms=timeout_ms):
            self._moved.mark(partition, log_changed=False)
            self._fetch.release_followers(partition.replicas)

    def list_offsets(
        self, queries: Sequence[ListOffsetsQuery], *, replica_id: int, isolation_level: int
    ) -> list[ListOffsetsResult]:
        """Answers ListOffsets at once. OFFSET_NOT_AVAILABLE is for version 5 and up; the handler
        turns it into LEADER_NOT_AVAILABLE below."""
        self._stir()
        results = []
        for query in queries:
            try:
                result = list_offset(
                    self._hosted, query, replica_id=replica_id, isolation_level=isolation_level
                )
            except StorageError as error:
                key = TopicPartition(query.topic, query.partition)
                self._roles.go_offline(self._hosted.partitions[key], str(error))
                result = ListOffsetsResult(*key, ErrorCode.KAFKA_STORAGE_ERROR)
            except LogDamaged as damage:
                key = TopicPartition(query.topic, query.partition)
                self._fetch.failed.append((self._hosted.partitions[key], damage))
                result = ListOffsetsResult(*key, ErrorCode.KAFKA_STORAGE_ERROR)
            results.append(result)
        return results

    def end_offsets_for_epochs(self, queries: Sequence[EpochEndQuery]) -> list[EpochEndResult]:
        """Answers OffsetForLeaderEpoch at once."""
        return [epoch_end(self._hosted, query) for query in queries]

    # Answers ----------------------------------------------------------------------------------

    def on_fetch_response(self, token: Token, response: FetchResponse | None, now: Instant) -> None:
        """The answer to a `SendFetch`; `None` when the leader could not be reached."""
        self._take_outcome(self._fetchers.on_fetch_response(token, response, now), now)

    def on_list_offsets_response(
        self, token: Token, results: Sequence[ListOffsetsResult] | None, now: Instant
    ) -> None:
        """The answer to a `SendListOffsets`; `None` when the leader could not be reached."""
        self._take_outcome(self._fetchers.on_list_offsets_response(token, results, now), now)

    def _take_outcome(self, outcome: FetchOutcome, now: Instant) -> None:
        self._stir()
        for partition in outcome.moved:
            self._moved.mark(partition)
        for partition, error in outcome.failed:
            self._roles.on_failure(partition, error, now)
        if outcome.cutting:
            announced = self._fetchers.announce(outcome.cutting)
            self._directory.checkpoint_recovery_points(announced)

    def on_assign_replicas_response(self, token: Token, refusal: str | None, now: Instant) -> None:
        """The answer to a `SendAssignReplicas`; `refusal` says why it was not followed, if so."""
        self._stir()
        self._quarantine.on_response(token, refusal, now)

    @property
    def damaged(self) -> Iterable[TopicPartition]:
        """The replicas whose logs are out of service because they were found damaged."""
        return self._quarantine.cases.keys()

    @property
    def is_reporting_damage(self) -> bool:
        """Whether the controller still counts on a damaged log of this node."""
        return self._quarantine.is_reporting

    def on_alter_partition_response(
        self,
        token: Token,
        results: Sequence[AlterPartitionResult] | ErrorCode | None,
        now: Instant,
    ) -> None:
        """The answer to a `SendAlterPartition`: a result for each partition, or the error of the
        whole request, or `None` when no controller could be reached."""
        self._stir()
        for proposal, result in self._isr_updates.on_response(token, results, now):
            partition = self._hosted.partitions.get(proposal.topic_partition)
            if partition is None or partition.topic_id != proposal.topic_id:
                continue
            if partition.on_isr_answer(proposal, result):
                self._isr_updates.resubmit(proposal, now)
            self._moved.mark(partition)

    def on_flushed(self, subject: LogFlush, now: Instant) -> None:
        """A flush of a hosted log is durable."""
        partition = self._hosted_by(subject)
        if partition is None:
            return
        was_durable = partition.log.recovery_point > 0
        partition.log.on_flushed(subject)
        if subject.completes:
            self._first_flush |= not was_durable and partition.log.recovery_point > 0
            partition.on_flushed()
            self._moved.mark(partition)

    def on_checkpointed(self, subject: Checkpointed, now: Instant) -> None:
        """A checkpoint without what is to be cut or was renamed, or with where logs start, is
        durable."""
        match subject:
            case TruncationsAnnounced():
                self._take_outcome(self._fetchers.on_announced(subject), now)
            case LogStartsSaved():
                for partition, error in self._delete.on_log_starts_saved(subject):
                    self._roles.go_offline(partition, str(error))
            case RenamesForgotten():
                self._directory.on_renames_forgotten(subject)
                self._clear_renamed()

    def on_flush_failed(self, subject: LogFlush, error: str, now: Instant) -> None:
        """A flush failed: what was not yet durable is taken to be lost."""
        partition = self._hosted_by(subject)
        if partition is not None:
            self._roles.go_offline(partition, f"flush failed: {error}")

    def _hosted_by(self, subject: LogFlush) -> Partition | None:
        self._stir()
        partition = self._hosted.partitions.get(subject.topic_partition)
        if partition is None or partition.topic_id != subject.topic_id:
            return None
        return None if partition.offline is not None else partition

    # Time -------------------------------------------------------------------------------------

    def end_tick(self, now: Instant) -> None:
        """Completes what this tick's inputs made ready and sends the next requests. Called once
        after each group of inputs; `wake` does it too."""
        self._collect(now)
        moved = self._moved.take()
        for partition in moved:
            leadership = partition.leadership
            if leadership is not None:
                if leadership.maybe_advance_high_watermark(now) and self._measures.enabled:
                    self._measures.on_advance(partition, leadership, now)
                if partition.acks:
                    self._produce.complete_acks(partition)
                if partition.deletions:
                    self._delete.complete(partition)
        self._fetch.end_tick(moved, now)
        self._produce.end_tick()
        self._request_flushes()
        if self._first_flush:
            # A start that finds no recovery point takes the records for ones that never counted.
            self._first_flush = False
            self._directory.checkpoint_recovery_points()
        self._isr_updates.maybe_send(self.broker_epoch, now)
        self._quarantine.maybe_send(self.broker_epoch, now)
        self._fetchers.poll(now)

    def _collect(self, now: Instant) -> None:
        """Takes over what requests have moved and what failed under them."""
        appended, progressed = self._produce.appended, self._fetch.progressed
        if appended:
            for partition in appended:
                self._moved.mark(partition)
            appended.clear()
        if progressed:
            for partition in progressed:
                self._moved.mark(partition, log_changed=False)
            progressed.clear()
        for failed in (self._produce.failed, self._fetch.failed):
            for partition, error in failed:
                self._roles.on_failure(partition, error, now)
            failed.clear()

    def _request_flushes(self) -> None:
        for partition in self._moved.take_unflushed():
            try:
                partition.maybe_request_flush()
            except StorageError as error:
                self._roles.go_offline(partition, str(error))

    def wake(self, now: Instant) -> None:
        """Runs what is due: ISR checks, expiries, pauses, checkpoints; then ends the tick."""
        if not self._is_stirred:
            deadline = self.deadline()
            if deadline is None or now < deadline:
                return
        if not self._in_force:
            self._maybe_take_effect(now)
        late_ms = self._isr_checks.due(now)
        if late_ms is not None:
            self._check_isrs(late_ms, now)
        if self._high_watermark_checkpoints.due(now) is not None:
            self._directory.checkpoint_high_watermarks()
        if self._recovery_checkpoints.due(now) is not None:
            self._directory.checkpoint_recovery_points()
            self._directory.checkpoint_log_start_offsets(self._delete.log_starts_to_save())
            self._clear_renamed()
        if self._expiry_checks.due(now) is not None:
            self._expire_producers(now + self.wall_offset_ms)
        self.end_tick(now)
        for parked in self._deadlines.take_due(now):
            if isinstance(parked, DelayedProduce):
                self._produce.expire(parked)
            elif isinstance(parked, DelayedDelete):
                self._delete.expire(parked)
            else:
                self._fetch.complete(parked, now)
        self._collect(now)
        self._is_stirred = bool(self._moved) or self._fetch.has_released
        self._deadline.forget()

    def _clear_renamed(self) -> None:
        try:
            self._directory.clear_renamed()
        except StorageError as error:
            # Nobody reads there any more, so nothing is at stake but space; the next time again.
            self._trace.warn("replicas", "clear_renamed", "postponed", str(error))

    def _expire_producers(self, wall_ms: int) -> None:
        for partition in self._hosted.partitions.values():
            log = partition.log
            log.producers.expire(wall_ms, log.config.producer_id_expiration_ms)

    def _mark_uncommitted(self) -> None:
        """Looks again at led partitions that wait for others."""
        for partition in self._hosted.partitions.values():
            log = partition.log
            waits = log.high_watermark < log.log_end_offset or partition.deletions
            if partition.leadership is not None and waits:
                self._moved.mark(partition, log_changed=False)

    def _check_isrs(self, late_ms: int, now: Instant) -> None:
        # The high watermark also waits for replicas outside of the ISR that were level lately;
        # that they no longer are is told by nothing but time.
        self._mark_uncommitted()
        if late_ms > self._isr_checks.interval_ms:
            # This process stood still, so nobody's fetch could arrive: they wait in the sockets.
            # The next check is early enough for those who really lag.
            self._trace.info("replicas", "check_isrs", "skipped", "paused", late_ms=late_ms)
            return
        for partition in self._hosted.partitions.values():
            if partition.leadership is None:
                continue
            if self._isr_updates.takes(partition.topic_partition, partition.topic_id):
                proposal = partition.propose_shrink(self.broker_epoch, now)
                if proposal is not None:
                    self._isr_updates.submit(proposal)
            self._explain_stall(partition, now)
        if self._measures.enabled:
            self._measure_lags(now)

    def _measure_lags(self, now: Instant) -> None:
        led = 0
        for partition in self._hosted.partitions.values():
            if partition.leadership is not None:
                led += 1
                self._measures.tell_lag(partition, partition.leadership, now)
        self._measures.set_leader_count(led)

    def _explain_stall(self, partition: Partition, now: Instant) -> None:
        leadership = partition.leadership
        oldest = partition.acks.oldest()
        if leadership is None or oldest is None or leadership.stall_reported:
            return
        required, delayed = oldest
        stalled_ms = now - max(leadership.advanced_at, delayed.parked_at)
        if stalled_ms <= self._config.replica_lag_time_max_ms // 2:
            return
        leadership.stall_reported = True
        reason, values = leadership.held_back_by(now)
        values |= {
            "for_ms": stalled_ms,
            "high_watermark": partition.log.high_watermark,
            "required": required,
            "acks": len(partition.acks),
        }
        self._trace.info(partition, "check_isrs", "high watermark stands still", reason, **values)

    def deadline(self) -> Instant | None:
        """The next instant at which `wake` has something to do."""
        return self._deadline.get()

    def _next_deadline(self) -> Instant | None:
        return earliest(
            self._isr_checks.due_at,
            self._high_watermark_checkpoints.due_at,
            self._recovery_checkpoints.due_at,
            self._expiry_checks.due_at,
            self._deadlines.next(),
            self._isr_updates.deadline(),
            self._quarantine.deadline(),
            self._fetchers.deadline(),
        )

    def take_outputs(self) -> list[Output]:
        """What was decided since the last call, in order."""
        return self._outbox.take()

    # Views and invariants ---------------------------------------------------------------------

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The hosted replicas, to be looked at and not changed."""
        return self._hosted.partitions

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """The high watermark of a hosted replica, -1 when it is not hosted."""
        partition = self._hosted.partitions.get(topic_partition)
        return -1 if partition is None else partition.log.high_watermark

    def describe(self, now: Instant) -> list[PartitionView]:
        """Every hosted partition, ordered by topic and partition."""
        hosted = self._hosted.partitions
        return [hosted[key].view(now) for key in sorted(hosted)]

    def check(self) -> None:
        """Asserts every invariant of the room."""
        assert self._in_force or not self._hosted.partitions, "ActsOnPresentMetadata"
        self._deadline.check()
        for key, partition in self._hosted.partitions.items():
            assert key == partition.topic_partition, f"{key} holds {partition}"
            partition.check()
        self._fetchers.check(self._hosted.partitions.values())
        self._fetch.check()
        self._isr_updates.check()
        self._quarantine.check()
        for key in self._quarantine.cases:
            assert key not in self._hosted.partitions, f"DamagedNotServed: {key}"
        self._deadlines.check()
