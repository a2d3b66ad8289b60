"""All replicas that one broker hosts: the room's front door.

The room owns the logs of the partitions assigned to this node, from the moment the metadata says so
until it says otherwise. It composes the parts that do the work and owns none of their rules:

| part | owns |
| --- | --- |
| `partition.Partition` | one hosted replica and its role |
| `leader.LeaderState`, `isr` | followers' progress, high watermark, in-sync replicas |
| `follower`, `fetcher`, `fetchers` | fetching, divergence, truncation |
| `produce_path`, `fetch_path`, `purgatory` | requests and their waiting |
| `isr_updates` | proposals on their way to the controller |
| `lookups` | questions about offsets |
| `hosting` | which partitions to host, from the metadata |

**A tick.** Inputs of one tick (requests, answers, metadata, flushes) only note what moved.
`end_tick` then, in this order: advances high watermarks and answers acks; answers parked fetches;
asks for flushes; sends ISR proposals; sends the next fetches. So a hundred appends of one tick move
the high watermark once and wake a parked fetch once.

**Failing devices.** A `StorageError` takes the replica offline: it leads and follows no longer,
answers KAFKA_STORAGE_ERROR, and `LogDirFailed` tells the node. A failed flush is the same: what it
should have made durable must be taken to be lost, and a later flush that succeeds proves nothing.

Invariants: `ActsOnPresentMetadata` (`hosting`), `FollowsItsLeader` (`fetchers`), and those of the
parts; all are explained in `docs/protocol/replication.md`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from tidelog.config import LogConfig, ReplicationConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, ProtocolError, StorageError
from tidelog.log.log import Log, LogFlush
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from tidelog.model import (
    METADATA_PARTITION,
    NO_LEADER,
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
)
from tidelog.replication.brokers import BrokerEpochs
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
from tidelog.replication.messages import (
    AlterPartitionResult,
    EpochEndQuery,
    EpochEndResult,
    ListOffsetsQuery,
    ListOffsetsResult,
    LogDirFailed,
    Output,
    PartitionView,
    ReplyTo,
    RoleChanged,
    Token,
)
from tidelog.replication.outbox import Outbox
from tidelog.replication.partition import Partition, PartitionEnv
from tidelog.replication.produce_path import ProducePath
from tidelog.replication.purgatory import Deadlines, DelayedProduce
from tidelog.replication.schedule import Recurring
from tidelog.wire.fetch import FetchRequest, FetchResponse
from tidelog.wire.produce import ProduceRequest

LogConfigs = Callable[[str], LogConfig]
"""Topic name to the configuration that its logs obey."""


class LogStore(Protocol):
    """What replication needs of a log directory; `log.directory.LogDirectory` is one."""

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """The open logs, the metadata log included."""

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Makes and opens an empty log."""

    def schedule_delete(self, topic_partition: TopicPartition) -> None:
        """Takes a log out of service and marks its directory for deletion."""

    def delete_renamed(self) -> int:
        """Deletes what was marked for deletion; returns how many directories."""

    def checkpoint_high_watermarks(self) -> None:
        """Emits the write of `replication-offset-checkpoint`."""

    def checkpoint_recovery_points(self) -> None:
        """Emits the write of `recovery-point-offset-checkpoint`."""

    def checkpoint_log_start_offsets(self) -> None:
        """Emits the write of `log-start-offset-checkpoint`."""


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
        self._partition_env = PartitionEnv(node_id, config, self._brokers, trace)
        self._deadlines = Deadlines()
        self._produce = ProducePath(self._hosted, self._outbox, self._deadlines)
        self._fetch = FetchPath(
            self._hosted,
            brokers=self._brokers,
            config=config,
            outbox=self._outbox,
            deadlines=self._deadlines,
        )
        self._fetchers = Fetchers(FetcherEnv(node_id, config, self._brokers, self._outbox, trace))
        self._isr_updates = IsrUpdates(self._outbox, config.alter_partition_retry_ms, trace)
        # Whether the metadata is recent enough to act on; once true it stays so.
        self._in_force = False
        # Of the newest metadata.
        self._log_configs: LogConfigs | None = None
        # Partitions whose log end, high watermark, ISR or role may have moved in this tick.
        self._moved: dict[Partition, None] = {}
        # Partitions that may have enough unflushed records for a flush.
        self._unflushed: dict[Partition, None] = {}
        # Members that lag are looked for at half the allowed lag, so that one leaves the ISR
        # after one to one and a half times the limit.
        self._isr_checks = Recurring(max(1, config.replica_lag_time_max_ms // 2))
        self._high_watermark_checkpoints = Recurring(config.high_watermark_checkpoint_interval_ms)
        self._recovery_checkpoints = Recurring(config.recovery_point_checkpoint_interval_ms)

    @property
    def broker_epoch(self) -> int:
        """This node's broker epoch, -1 before it is registered. The node sets it after each
        registration; it goes into fetches and AlterPartition."""
        return self._brokers.own_epoch

    @broker_epoch.setter
    def broker_epoch(self, value: int) -> None:
        self._brokers.own_epoch = value

    # Metadata ---------------------------------------------------------------------------------

    def apply(
        self, delta: MetadataDelta, image: MetadataImage, log_configs: LogConfigs, now: Instant
    ) -> None:
        """Follows the metadata: creates, opens and deletes logs, changes roles and configs.

        To be called after each group of committed metadata batches, in order. Nothing is done
        before the image contains this node's registration under `broker_epoch`; then everything
        is caught up at once.
        """
        self._hosted.image = image
        self._log_configs = log_configs
        if not self._in_force:
            self._maybe_take_effect(now)
            return
        if delta.changed_brokers:
            self._brokers.follow(image)
            self._fetchers.resume(sorted(delta.changed_brokers))
            # Whoever may no longer join an ISR is no longer waited for.
            self._moved.update(dict.fromkeys(self._uncommitted()))
        self._rehost(
            decide_hosting(
                changed_topics(delta, image),
                delta.deleted_topics,
                self._hosted.partitions,
                self.node_id,
            ),
            now,
        )
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
        ):
            recurring.start(now)
        topics = all_topics(image)
        self._rehost(decide_hosting(topics, (), self._hosted.partitions, self.node_id), now)

    def remove_strays(self) -> list[TopicPartition]:
        """Schedules the deletion of logs that the metadata does not place on this node; returns
        them. To be called once after a start, when the metadata has caught up. Does nothing
        before the metadata is in force."""
        if not self._in_force:
            return []
        logs = {
            key: log.topic_id
            for key, log in self._directory.logs.items()
            if key != METADATA_PARTITION
        }
        found = decide_strays(self._hosted.image, logs, self.node_id)
        for key in found:
            self._trace.warn(key, "remove_strays", "deleted", "not placed on this node")
            self._schedule_delete(key)
        return found

    def _rehost(self, decisions: Iterable[Drop | Host], now: Instant) -> None:
        for decision in list(decisions):
            if isinstance(decision, Drop):
                self._drop(decision.topic_partition, decision.reason)
            else:
                self._host(decision, now)

    def _host(self, decision: Host, now: Instant) -> None:
        key = decision.topic_partition
        partition = self._hosted.partitions.get(key)
        if partition is not None and partition.topic_id != decision.topic_id:
            self._drop(key, "created again with another topic id")
            partition = None
        if partition is None:
            try:
                partition = Partition(self._open(decision), self._partition_env)
            except StorageError as error:
                self._outbox.emit(LogDirFailed(key, str(error)))
                return
            self._hosted.partitions[key] = partition
        objection = partition.objection_to(decision.image)
        if objection is not None:
            self._trace.debug(key, "apply", "ignored", objection)
            return
        try:
            self._change_role(partition, decision, now)
        except StorageError as error:
            self._go_offline(partition, str(error))

    def _open(self, decision: Host) -> Log:
        assert self._log_configs is not None, "no metadata was applied"
        key, topic_id = decision.topic_partition, decision.topic_id
        config = self._log_configs(key.topic)
        log = self._directory.logs.get(key)
        if log is not None and log.topic_id == ZERO_TOPIC_ID:
            log.assign_topic_id(topic_id)
        if log is not None and log.topic_id != topic_id:
            self._trace.info(key, "apply", "deleted", "the log has another topic id")
            self._directory.schedule_delete(key)
            log = None
        if log is None:
            return self._directory.create(key, topic_id, config)
        log.config = config
        return log

    def _change_role(self, partition: Partition, decision: Host, now: Instant) -> None:
        image = decision.image
        led = partition.leadership is not None
        if image.leader_epoch < partition.log.latest_epoch:
            # The metadata was lost or restored from an old copy: records of a leadership that it
            # does not know. Going on would cut them.
            self._go_offline(partition, f"the log has leader epoch {partition.log.latest_epoch}, "
                             f"the metadata {image.leader_epoch}")  # fmt: skip
            return
        self._moved[partition] = None
        self._unflushed[partition] = None
        if image.leader == self.node_id:
            if partition.become_leader(image, now):
                self._fetchers.stop(partition)
                self._fetch.release(partition)
                self._fetch.release_followers(image.replicas)
                self._outbox.emit(RoleChanged(partition.topic_partition, True, image.leader_epoch))
            if not partition.is_proposing:
                # Whatever was proposed was proposed for an older version of the partition.
                self._isr_updates.withdraw(partition.topic_partition, partition.topic_id)
            return
        if not partition.become_follower(image):
            return
        self._produce.fail_acks(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._fetch.release(partition)
        if led:
            self._cease_to_lead(partition)
        if image.leader == NO_LEADER:
            self._fetchers.stop(partition)
        elif self._fetchers.follow(partition):
            self._directory.checkpoint_recovery_points()

    def _cease_to_lead(self, partition: Partition) -> None:
        key = partition.topic_partition
        self._isr_updates.withdraw(key, partition.topic_id)
        self._outbox.emit(RoleChanged(key, False, partition.leader_epoch))

    def _drop(self, key: TopicPartition, reason: str) -> None:
        partition = self._hosted.partitions.pop(key)
        self._trace.info(key, "apply", "dropped", reason, log_end=partition.log.log_end_offset)
        self._put_out_of_service(partition, reason, self._hosted.error_of_missing(*key))
        self._schedule_delete(key)

    def _schedule_delete(self, key: TopicPartition) -> None:
        try:
            self._directory.schedule_delete(key)
        except StorageError as error:
            self._outbox.emit(LogDirFailed(key, str(error)))

    def _put_out_of_service(self, partition: Partition, cause: str, code: ErrorCode) -> None:
        led = partition.leadership is not None
        self._produce.fail_acks(partition, code)
        self._fetch.release(partition)
        self._fetchers.stop(partition)
        partition.go_offline(cause)
        self._moved.pop(partition, None)
        self._unflushed.pop(partition, None)
        if led:
            self._cease_to_lead(partition)

    def _go_offline(self, partition: Partition, error: str) -> None:
        if partition.offline is not None:
            return
        self._trace.error(partition, "go_offline", "offline", error)
        self._put_out_of_service(partition, error, ErrorCode.KAFKA_STORAGE_ERROR)
        self._outbox.emit(LogDirFailed(partition.topic_partition, error))

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
                self._moved[partition] = None
                self._unflushed[partition] = None

    # Requests ---------------------------------------------------------------------------------

    def produce(
        self, request: ProduceRequest, reply_to: ReplyTo, now: Instant, wall_ms: int
    ) -> None:
        """Appends; the `Reply` follows, at once or when the high watermark has passed."""
        self._produce.produce(request, reply_to, now, wall_ms)

    def append_batch(self, topic_partition: TopicPartition, batch: bytes, wall_ms: int) -> int:
        """Appends one built batch of a coordinator living here; returns its last offset. It is
        committed once `high_watermark(topic_partition)` is larger.

        Raises `ProtocolError`: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR.
        """
        partition = self._hosted.partitions.get(topic_partition)
        if partition is None or partition.leadership is None:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if partition.leadership.is_under_min_isr:
            raise ProtocolError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            result = partition.log.append_records(batch, partition.leader_epoch, wall_ms)
        except StorageError as error:
            self._go_offline(partition, str(error))
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._moved[partition] = None
        self._unflushed[partition] = None
        return result.last_offset

    def fetch(
        self,
        request: FetchRequest,
        reply_to: ReplyTo,
        now: Instant,
        *,
        followers_may_serve: bool = True,
    ) -> None:
        """Reads, as a replica when `request.replica_id >= 0`, else as a consumer.

        `followers_may_serve` is false for consumers below version 11. The broker has turned
        sessions into full partition lists; it patches session id and epoch itself.
        """
        self._fetch.fetch(request, reply_to, now, followers_may_serve=followers_may_serve)
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
                self._moved[partition] = None

    def list_offsets(
        self, queries: Sequence[ListOffsetsQuery], *, replica_id: int, isolation_level: int
    ) -> list[ListOffsetsResult]:
        """Answers ListOffsets at once. OFFSET_NOT_AVAILABLE is for version 5 and up; the handler
        turns it into LEADER_NOT_AVAILABLE below."""
        results = []
        for query in queries:
            try:
                result = list_offset(
                    self._hosted, query, replica_id=replica_id, isolation_level=isolation_level
                )
            except StorageError as error:
                key = TopicPartition(query.topic, query.partition)
                self._go_offline(self._hosted.partitions[key], str(error))
                result = ListOffsetsResult(*key, ErrorCode.KAFKA_STORAGE_ERROR)
            results.append(result)
        return results

    def end_offsets_for_epochs(self, queries: Sequence[EpochEndQuery]) -> list[EpochEndResult]:
        """Answers OffsetForLeaderEpoch at once."""
        return [epoch_end(self._hosted, query) for query in queries]

    # Answers ----------------------------------------------------------------------------------

    def on_fetch_response(self, token: Token, response: FetchResponse | None, now: Instant) -> None:
        """The answer to a `SendFetch`; `None` when the leader could not be reached."""
        self._take_outcome(self._fetchers.on_fetch_response(token, response, now))

    def on_list_offsets_response(
        self, token: Token, results: Sequence[ListOffsetsResult] | None, now: Instant
    ) -> None:
        """The answer to a `SendListOffsets`; `None` when the leader could not be reached."""
        self._take_outcome(self._fetchers.on_list_offsets_response(token, results, now))

    def _take_outcome(self, outcome: FetchOutcome) -> None:
        for partition in outcome.moved:
            self._moved[partition] = None
            self._unflushed[partition] = None
        for partition, error in outcome.failed:
            self._go_offline(partition, str(error))
        if outcome.truncated:
            # A recovery point beyond the log's end would be believed after a crash.
            self._directory.checkpoint_recovery_points()

    def on_alter_partition_response(
        self,
        token: Token,
        results: Sequence[AlterPartitionResult] | ErrorCode | None,
        now: Instant,
    ) -> None:
        """The answer to a `SendAlterPartition`: a result for each partition, or the error of the
        whole request, or `None` when no controller could be reached."""
        for proposal, result in self._isr_updates.on_response(token, results, now):
            partition = self._hosted.partitions.get(proposal.topic_partition)
            if partition is None or partition.topic_id != proposal.topic_id:
                continue
            if partition.on_isr_answer(proposal, result):
                self._isr_updates.resubmit(proposal, now)
            self._moved[partition] = None

    def on_flushed(self, subject: LogFlush, now: Instant) -> None:
        """A flush of a hosted log is durable."""
        partition = self._hosted_by(subject)
        if partition is None:
            return
        partition.log.on_flushed(subject)
        if subject.completes:
            partition.on_flushed()
            self._moved[partition] = None
            self._unflushed[partition] = None

    def on_flush_failed(self, subject: LogFlush, error: str, now: Instant) -> None:
        """A flush failed: what was not yet durable is taken to be lost."""
        partition = self._hosted_by(subject)
        if partition is not None:
            self._go_offline(partition, f"flush failed: {error}")

    def _hosted_by(self, subject: LogFlush) -> Partition | None:
        partition = self._hosted.partitions.get(subject.topic_partition)
        if partition is None or partition.topic_id != subject.topic_id:
            return None
        return None if partition.offline is not None else partition

    # Time -------------------------------------------------------------------------------------

    def end_tick(self, now: Instant) -> None:
        """Completes what this tick's inputs made ready and sends the next requests. Called once
        after each group of inputs; `wake` does it too."""
        self._collect()
        moved = self._moved
        self._moved = {}
        for partition in moved:
            leadership = partition.leadership
            if leadership is not None:
                leadership.maybe_advance_high_watermark(now)
                if partition.acks:
                    self._produce.complete_acks(partition)
        self._fetch.end_tick(moved, now)
        self._produce.end_tick()
        self._request_flushes()
        self._isr_updates.maybe_send(self.broker_epoch, now)
        self._fetchers.poll(now)

    def _collect(self) -> None:
        """Takes over what requests have moved and what failed under them."""
        appended, progressed = self._produce.appended, self._fetch.progressed
        if appended:
            self._moved.update(appended)
            self._unflushed.update(appended)
            appended.clear()
        if progressed:
            self._moved.update(progressed)
            progressed.clear()
        for failed in (self._produce.failed, self._fetch.failed):
            for partition, error in failed:
                self._go_offline(partition, str(error))
            failed.clear()

    def _request_flushes(self) -> None:
        if not self._unflushed:
            return
        unflushed = self._unflushed
        self._unflushed = {}
        for partition in unflushed:
            if partition.offline is None:
                try:
                    partition.maybe_request_flush()
                except StorageError as error:
                    self._go_offline(partition, str(error))

    def wake(self, now: Instant) -> None:
        """Runs what is due: ISR checks, expiries, pauses, checkpoints; then ends the tick."""
        if not self._in_force:
            self._maybe_take_effect(now)
        if self._isr_checks.is_due(now):
            self._check_isrs(now)
        if self._high_watermark_checkpoints.is_due(now):
            self._directory.checkpoint_high_watermarks()
        if self._recovery_checkpoints.is_due(now):
            self._directory.checkpoint_recovery_points()
            self._directory.checkpoint_log_start_offsets()
            self._delete_renamed()
        self.end_tick(now)
        for parked in self._deadlines.take_due(now):
            if isinstance(parked, DelayedProduce):
                self._produce.expire(parked)
            else:
                self._fetch.complete(parked, now)
        self._collect()

    def _delete_renamed(self) -> None:
        try:
            self._directory.delete_renamed()
        except StorageError as error:
            # Nobody reads there any more, so nothing is at stake but space; the next time again.
            self._trace.warn("replicas", "delete_renamed", "postponed", str(error))

    def _uncommitted(self) -> Iterator[Partition]:
        """Led partitions with records above the high watermark."""
        for partition in self._hosted.partitions.values():
            log = partition.log
            if partition.leadership is not None and log.high_watermark < log.log_end_offset:
                yield partition

    def _check_isrs(self, now: Instant) -> None:
        # The high watermark also waits for replicas outside of the ISR that were level lately;
        # that they no longer are is told by nothing but time.
        self._moved.update(dict.fromkeys(self._uncommitted()))
        for partition in self._hosted.partitions.values():
            if partition.leadership is None:
                continue
            if self._isr_updates.takes(partition.topic_partition, partition.topic_id):
                proposal = partition.propose_shrink(self.broker_epoch, now)
                if proposal is not None:
                    self._isr_updates.submit(proposal)
            self._explain_stall(partition, now)

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
        return earliest(
            self._isr_checks.due_at,
            self._high_watermark_checkpoints.due_at,
            self._recovery_checkpoints.due_at,
            self._deadlines.next(),
            self._isr_updates.deadline(),
            self._fetchers.deadline(),
        )

    def take_outputs(self) -> list[Output]:
        """What was decided since the last call, in order."""
        return self._outbox.take()

    # Views and invariants ---------------------------------------------------------------------

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
        for key, partition in self._hosted.partitions.items():
            assert key == partition.topic_partition, f"{key} holds {partition}"
            partition.check()
        self._fetchers.check(self._hosted.partitions.values())
        self._fetch.check()
        self._isr_updates.check()
        self._deadlines.check()
