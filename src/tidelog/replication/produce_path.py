"""Produce: from the records of a request to its answer.

    acks  answered                                          needs
    0     after the append, by silence                      -
    1     after the append                                  -
    -1    when the high watermark passes the records        the min ISR, before and after

Before an append with acks=all the committed ISR must reach the min ISR, else nothing is written
and the answer is NOT_ENOUGH_REPLICAS. When the high watermark has passed the records, the maximal
ISR must reach it, else NOT_ENOUGH_REPLICAS_AFTER_APPEND: the records are there and committed, but
not as safely as promised. A replica that stops leading answers NOT_LEADER_OR_FOLLOWER to all that
wait, and a deadline answers REQUEST_TIMED_OUT; in both cases the records may yet be committed.

A batch that would open a transaction waits for the transaction coordinator before it is appended
(`verification`); the other partitions of its request do not.

Per request a handful of objects, per record none: batches are handed to the log as they came.

Left out: whether the client may write here at all, the shape of topic names, internal topics; the
broker asks that before.

Source: KIP-679, KIP-966; Kafka's ReplicaManager for the error codes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError, StorageError
from tidelog.kraft.messages import NotLeader
from tidelog.limits import FIRST_RECORDS_WORK
from tidelog.log.validation import Judged
from tidelog.log.values import AppendOrigin, InvalidRecords
from tidelog.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicPartition
from tidelog.records.batch import HEADER_BYTES, read_header
from tidelog.records.control import build_end_txn_marker
from tidelog.replication.messages import MarkerToWrite, Reply, ReplyTo, TransactionalProducer
from tidelog.replication.partition import Partition
from tidelog.replication.purgatory import UNAPPENDED, DelayedProduce
from tidelog.replication.shared import Env
from tidelog.replication.verification import Verdict, Verification
from tidelog.wire.fetch import LeaderHint
from tidelog.wire.produce import (
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)

ACKS_ALL: Final = -1
_ACKS: Final = frozenset((ACKS_ALL, 0, 1))
JudgedByPlace: TypeAlias = Mapping[int, Judged]
"""What is known of the batches of a request, by their places in it."""
NOTHING_JUDGED: Final[JudgedByPlace] = {}
"""Batches are validated where they are appended."""

_Waiting = tuple[Partition, int, int]
"""A partition, the high watermark that an ack needs, and its index in the request."""


class _Opening(NamedTuple):
    """A batch that would open a transaction, and its place in the request."""

    partition: Partition
    part: ProducePartition
    producer: TransactionalProducer
    acks: int
    position: int
    judged: Judged | None


class ProducePath:
    """Appends of clients, and the acks that wait."""

    __slots__ = ("_env", "_fresh", "_verification")

    def __init__(self, env: Env, verification: Verification) -> None:
        self._env = env
        self._verification = verification
        # Requests of this tick that wait.
        self._fresh: list[DelayedProduce] = []

    def produce(
        self,
        request: ProduceRequest,
        reply_to: ReplyTo,
        now: Instant,
        wall_ms: int,
        *,
        bumps_epoch: bool,
        judged: JudgedByPlace = NOTHING_JUDGED,
    ) -> int:
        """Appends what can be appended; answers at once or leaves the request waiting. `judged`:
        what is known of batches, by their places in the request. Returns for how many milliseconds
        the client is to wait (`LeaderState.pause_of_writers_ms`)."""
        env, acks = self._env, request.acks
        if acks not in _ACKS:
            refused = [
                _failure(part, ErrorCode.INVALID_REQUIRED_ACKS) for part in request.partitions
            ]
            env.outbox.emit(Reply(reply_to, ProduceResponse(refused)))
            return 0
        pause_ms = 0
        results: list[ProducedPartition] = []
        waiting: list[_Waiting] = []
        opening: list[_Opening] = []
        for place, part in enumerate(request.partitions):
            found = env.hosted.find(part.topic, part.partition, part.topic_id, NO_EPOCH)
            if not isinstance(found, Partition):
                results.append(_failure(part, found))
                continue
            known = judged.get(place)
            if request.transactional_id is not None:
                producer = _producer_of(part, request.transactional_id, bumps_epoch)
                code = producer and self._verification.judge(found, producer)
                if producer is not None and code is not None:
                    if code is ErrorCode.NONE:
                        position = len(results)
                        opening.append(_Opening(found, part, producer, acks, position, known))
                    results.append(_failure(part, code))
                    continue
            result, required = self._append(found, part, acks, wall_ms, judged=known)
            if found.leadership is not None:
                pause_ms = max(pause_ms, found.leadership.pause_of_writers_ms(now))
            if env.measures.enabled and result.error_code is ErrorCode.NONE:
                env.measures.on_append(found, now)
            if acks == ACKS_ALL and result.error_code is ErrorCode.NONE:
                waiting.append((found, required, len(results)))
            results.append(result)
        delayed = self._answer_or_wait(reply_to, results, waiting, now, request.timeout_ms, opening)
        if delayed is not None:
            for each in opening:
                self._hold(delayed, each, wall_ms)
        return pause_ms

    def write_markers(
        self,
        markers: Sequence[MarkerToWrite],
        reply_to: ReplyTo,
        now: Instant,
        wall_ms: int,
        *,
        timeout_ms: int,
    ) -> None:
        """Ends transactions; answers when all markers are replicated."""
        results: list[ProducedPartition] = []
        waiting: list[_Waiting] = []
        for topic, number, producer_id, producer_epoch, marker, bumps_epoch in markers:
            batch = build_end_txn_marker(marker, producer_id, producer_epoch, wall_ms)
            part = ProducePartition(topic, ZERO_TOPIC_ID, number, memoryview(batch))
            found = self._env.hosted.find(topic, number, ZERO_TOPIC_ID, NO_EPOCH)
            if not isinstance(found, Partition):
                results.append(_failure(part, found))
                continue
            origin = AppendOrigin.COORDINATOR
            result, required = self._append(found, part, ACKS_ALL, wall_ms, origin, bumps_epoch)
            if result.error_code is ErrorCode.NONE:
                waiting.append((found, required, len(results)))
            results.append(result)
        self._answer_or_wait(reply_to, results, waiting, now, timeout_ms)

    def _answer_or_wait(
        self,
        reply_to: ReplyTo,
        results: list[ProducedPartition],
        waiting: list[_Waiting],
        now: Instant,
        timeout_ms: int,
        opening: Sequence[_Opening] = (),
    ) -> DelayedProduce | None:
        """Answers, or returns what waits."""
        if not (waiting or opening):
            self._env.outbox.emit(Reply(reply_to, ProduceResponse(results)))
            return None
        delayed = DelayedProduce(reply_to, results, now=now, timeout_ms=timeout_ms)
        for partition, required, index in waiting:
            partition.acks.add(required, delayed, index)
        for each in opening:
            delayed.pending[each.position] = UNAPPENDED
        self._fresh.append(delayed)
        return delayed

    # Opening transactions -------------------------------------------------------------------

    def _hold(self, delayed: DelayedProduce, opening: _Opening, wall_ms: int) -> None:
        """Appends the batch once the coordinator knows of it."""
        partition, part, producer, _, index, _ = opening
        assert part.records is not None, f"{partition} has nothing to open a transaction with"
        # The request's frame does not outlive its turn.
        records = bytes(part.records)
        kept = opening._replace(part=part._replace(records=memoryview(records)))

        def release(verdict: Verdict) -> None:
            if index in delayed.pending:
                self._open(delayed, kept, verdict)

        sequence = read_header(records).base_sequence
        self._verification.hold(partition, producer, sequence, wall_ms, release)

    def _open(self, delayed: DelayedProduce, opening: _Opening, verdict: Verdict) -> None:
        partition, part, _, acks, index, judged = opening
        result, required = _failure(part, verdict.code), NO_OFFSET
        if verdict.code is ErrorCode.NONE:
            result, required = self._append(partition, part, acks, verdict.wall_ms, judged=judged)
        code = result.error_code
        delayed.results[index] = result
        if self._env.measures.enabled and code is ErrorCode.NONE:
            self._env.measures.on_append(partition, verdict.now)
        if acks == ACKS_ALL and code is ErrorCode.NONE:
            partition.acks.add(required, delayed, index)
        elif delayed.resolve(index, code, result.current_leader):
            self._env.answer(delayed)

    # Appending ------------------------------------------------------------------------------

    def _append(
        self,
        partition: Partition,
        part: ProducePartition,
        acks: int,
        wall_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        bumps_epoch: bool = False,
        judged: Judged | None = None,
    ) -> tuple[ProducedPartition, int]:
        """Appends to one partition; returns its result and the high watermark an ack needs."""
        leadership = partition.leadership
        if leadership is None:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return _failure(part, code, leader=partition.leader_hint), NO_OFFSET
        if part.records is None:
            code = ErrorCode.INVALID_RECORD
            return _failure(part, code, "a partition without records"), NO_OFFSET
        if acks == ACKS_ALL and leadership.is_under_min_isr:
            isr = leadership.isr
            message = f"in-sync replicas {isr} are fewer than min.insync.replicas"
            return _failure(part, ErrorCode.NOT_ENOUGH_REPLICAS, message), NO_OFFSET
        log = partition.log
        inspected_before = log.inspection_work
        try:
            appended = log.append_as_leader(
                part.records,
                leadership.leader_epoch,
                wall_ms,
                origin=origin,
                bumps_epoch=bumps_epoch,
                judged=judged,
            )
        except InvalidRecords as error:
            failure = _failure(part, error.code, error.message)
            return failure._replace(
                record_errors=error.record_errors, log_start_offset=log.log_start_offset
            ), NO_OFFSET
        except ProtocolError as error:
            return _failure(part, error.code, error.message), NO_OFFSET
        except StorageError as error:
            self._env.changed.failed.append((partition, error))
            return _failure(part, ErrorCode.KAFKA_STORAGE_ERROR), NO_OFFSET
        finally:
            self._env.work.spend(log.inspection_work - inspected_before)
        if log.segments.active.size_bytes == appended.size_bytes:
            self._env.work.spend(FIRST_RECORDS_WORK)
        self._env.changed.mark_appended(partition)
        result = ProducedPartition(
            part.topic,
            part.topic_id,
            part.partition,
            ErrorCode.NONE,
            appended.first_offset,
            appended.log_append_time_ms,
            log.log_start_offset,
        )
        return result, appended.last_offset + 1

    def append_as_coordinator(
        self,
        key: TopicPartition,
        leader_epoch: int,
        batch: bytes,
        wall_ms: int,
        *,
        bumps_epoch: bool,
    ) -> int:
        """Appends a batch of the coordinator that this leadership has; returns its last offset. Its
        commit is the high watermark's business, also below the min ISR.

        Raises `NotLeader`, and `ProtocolError` for a batch that is too large, of a deposed producer
        or of a deposed transaction coordinator."""
        partition = self._env.hosted.partitions.get(key)
        leadership = None if partition is None else partition.leadership
        if partition is None or leadership is None or leadership.leader_epoch != leader_epoch:
            raise NotLeader(f"{key} is not led here in epoch {leader_epoch}")
        log = partition.log
        if len(batch) > log.config.max_message_bytes:
            detail = f"`{len(batch)}` bytes, {log.config.max_message_bytes} are allowed"
            raise ProtocolError(ErrorCode.RECORD_LIST_TOO_LARGE, detail)
        try:
            appended = log.append_as_leader(
                batch,
                leader_epoch,
                wall_ms,
                origin=AppendOrigin.COORDINATOR,
                bumps_epoch=bumps_epoch,
            )
        except StorageError as error:
            self._env.changed.failed.append((partition, error))
            raise NotLeader(str(error)) from error
        self._env.changed.mark_appended(partition)
        return appended.last_offset

    # Completion -----------------------------------------------------------------------------

    def complete_acks(self, partition: Partition) -> None:
        """Answers the acks of a led partition that its high watermark satisfies.
        `Replicas.end_tick` calls it for each changed partition with acks, also if the high
        watermark stood still."""
        leadership = partition.leadership
        assert leadership is not None, f"{partition} is not led by this node"
        enough = leadership.min_isr <= len(leadership.maximal_isr)
        code = ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self._resolve(partition.acks.take_up_to(partition.log.high_watermark), code, None)

    def fail_acks(self, partition: Partition, code: ErrorCode) -> None:
        """The replica ceased to lead, or to be: answers everything that waits for it."""
        lost = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        hint = partition.leader_hint if lost else None
        self._resolve(partition.acks.take_all(), code, hint)

    def _resolve(
        self, acks: Iterable[tuple[DelayedProduce, int]], code: ErrorCode, leader: LeaderHint | None
    ) -> None:
        for delayed, index in acks:
            if delayed.resolve(index, code, leader):
                self._env.answer(delayed)

    def end_tick(self) -> None:
        """Gives a deadline to the requests of this tick that still wait."""
        for delayed in self._fresh:
            if not delayed.done:
                self._env.deadlines.add(delayed)
        self._fresh.clear()


def _producer_of(
    part: ProducePartition, transactional_id: str, bumps_epoch: bool
) -> TransactionalProducer | None:
    """Whose transaction a batch belongs to; `None` for one that is in none."""
    records = part.records
    if records is None or len(records) < HEADER_BYTES:
        return None
    header = read_header(records)
    if not header.is_transactional or header.is_control or header.producer_id < 0:
        return None
    return TransactionalProducer(
        transactional_id, header.producer_id, header.producer_epoch, bumps_epoch
    )


def _failure(
    part: ProducePartition,
    code: ErrorCode,
    message: str | None = None,
    leader: LeaderHint | None = None,
) -> ProducedPartition:
    topic, topic_id, number, _ = part
    return ProducedPartition(
        topic, topic_id, number, code, NO_OFFSET, NO_TIMESTAMP, NO_OFFSET, (), message, leader
    )
