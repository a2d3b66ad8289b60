"""Replicas that move between the log directories of this node (AlterReplicaLogDirs, KIP-113).

| step | what it takes |
| --- | --- |
| an administrator names a directory | an empty future log there (`log/futures.py`) |
| copying | `MOVE_BYTES_PER_TURN` a turn, below `replica.alter.log.dirs.io.max.bytes.per.second` |
| the copy has caught up | all of it is flushed, its directory's name included, behind the log |
| the copy is durable | the new directory is reported to the controller, and copying goes on |
| the metadata names the new directory | in a turn in which the copy has everything, it gets the \
log's plain name and takes the log's place |
| the copy is durable under its new name | the former log is renamed to be deleted |

The replica leads or follows all the time, from the one log or the other.

**Why the controller knows before** (KIP-858). Once the log is in the new directory, a failure of
that directory must show the controller which replicas are gone. From the report to the swap it is
the other way round: the log is where the metadata does not say. If that directory fails, the
replica is reported as lost (`Roles.lose_directories`). If the process dies as well, the next one
finds a copy in the directory that the metadata names and no log: it makes none anew, which would be
an empty log that counts as a complete one (`LogDirectories.has_lost_original`). Nor does it once
the replica is reported as lost, or if the copy is gone, before another one leads
(`hosting.may_come_back`).

**A former log is not the replica.** While it has its name the copy gets all new records already.
If that one's directory is offline at the next start, the former log is not hosted before another
replica leads (`Roles._is_out_of_reach`). It may also be the log of a move that had not come to
the swap: nothing on its disk shows which.

**A crash** leaves the log, the copy, or both under the plain name (`LogDirectories.settle`). Where
it leaves a log and a copy, the move goes on; the copy is cut back to what both have
(`log/copying.py`). Unlike Kafka, a start never takes a copy for the log because the metadata names
its directory: the log may have records that the copy lacks.

**A move ends without a swap** when the administrator names the present directory, or the device of
the copy fails, or is full. The copy stays until the metadata names the present directory, for the
reason above. A device on which the files of a copy cannot be made, or given their names, takes its
directory offline, as for each log, and as in Kafka.

`MovesComplete`: a copy that takes a log's place has the same offsets, from the log start to the
log end, and the same high watermark.

While a replica moves its log is not compacted (`cleaning`). A start finds the copy of one that was
compacted, perhaps since, and makes it anew, under the same name. No move begins while one of the
directories is offline, as in Kafka: the copy of a former move may be there.

Source: KIP-113, KIP-858; Kafka's `ReplicaAlterLogDirsThread`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.env.effects import EffectQueue, Flush
from tidelog.env.instant import Instant
from tidelog.errors import CorruptBatch, ErrorCode, LogDamaged, StorageError
from tidelog.limits import (
    MOVE_BATCHES_PER_TURN,
    MOVE_BYTES_PER_TURN,
    MOVE_PAUSE_MS,
    MOVE_RETRY_MS,
    MOVE_STEPS_PER_TURN,
)
from tidelog.log import copying
from tidelog.log.directory import LogDirectory
from tidelog.log.futures import FutureLog, has_room_for_name
from tidelog.log.log import Log
from tidelog.log.state import UNCUT
from tidelog.log.values import LogFlush
from tidelog.model import ZERO_UUID, TopicPartition, Uuid
from tidelog.replication.directory_reports import DirectoryReports
from tidelog.replication.events.moves import MoveBegan, MoveEnded, MoveGivenUp
from tidelog.replication.hosting import placed_here
from tidelog.replication.move import Move
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env
from tidelog.replication.throttle import UNLIMITED

_BATCH_PRICE: Final = MOVE_BYTES_PER_TURN // MOVE_BATCHES_PER_TURN
_STEP_PRICE: Final = MOVE_BYTES_PER_TURN // MOVE_STEPS_PER_TURN


class MoveFlush(NamedTuple):
    """Subject of the `Flush` behind all other effects of a copy, or of its log."""

    topic_partition: TopicPartition
    number: int


class ReplicaMoves:
    """The moves of one node."""

    __slots__ = (
        "_at",
        "_env",
        "_flush_number",
        "_found",
        "_moves",
        "_rate",
        "_ready",
        "_reports",
        "_stir",
    )

    def __init__(self, env: Env, reports: DirectoryReports, stir: Callable[[], None]) -> None:
        self._env = env
        self._reports = reports
        # Reports to `Replicas` that some input has come.
        self._stir = stir
        # What moves; the cleaner leaves these alone.
        self._moves: dict[TopicPartition, Move] = {}
        env.hosted.moving = self._moves
        # Those that have something to do, the next one first.
        self._ready: dict[TopicPartition, None] = {}
        # When that is done; `None` if there are none.
        self._at: Instant | None = None
        # The throttle with which that instant was reckoned.
        self._rate = UNLIMITED
        # Copies that a former process has left, until their replicas are hosted; `None` before the
        # logs are loaded.
        self._found: set[TopicPartition] | None = None
        # Numbers the flushes.
        self._flush_number = 0

    # What administrators want ------------------------------------------------------------------

    def request(self, key: TopicPartition, root: str, now: Instant) -> ErrorCode:
        """A replica is to be in the log directory with this path; returns what stands against it.
        REPLICA_NOT_AVAILABLE: there is none yet, and it will be made there."""
        self._stir()
        directories, hosted = self._env.directories, self._env.hosted
        if not has_room_for_name(key):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        target = directories.at(root)
        if target is None:
            is_known = any(each.root == root for each in directories.offline.values())
            return ErrorCode.KAFKA_STORAGE_ERROR if is_known else ErrorCode.LOG_DIR_NOT_FOUND
        partition = hosted.partitions.get(key)
        if partition is None:
            directories.prefer(key, target)
            code = hosted.error_of_missing(*key)
            is_elsewhere = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else code
        if partition.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        move = self._moves.get(key)
        if move is not None:
            return self._redirect(key, move, target, now)
        if directories.of(key) is target:
            return ErrorCode.NONE
        if directories.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._begin(key, target, now)
        return ErrorCode.NONE

    def _redirect(
        self, key: TopicPartition, move: Move, target: LogDirectory, now: Instant
    ) -> ErrorCode:
        is_ending = move.source is not None
        move.then = None
        if target is move.target and (is_ending or move.given_up is None):
            return ErrorCode.NONE
        if is_ending or self._env.directories.of(key) is not target:
            move.then = target
        if not is_ending:
            self._give_up(key, move, "another directory is wanted")
            self._make_ready(key, now)
        return ErrorCode.NONE

    def _begin(self, key: TopicPartition, target: LogDirectory, now: Instant) -> None:
        self._moves[key] = Move(target, now)
        self._make_ready(key, now)
        self._maybe_make_copy(self._env.hosted.partitions[key], self._moves[key])

    def _make_ready(self, key: TopicPartition, now: Instant, pause_ms: int = 0) -> None:
        self._ready[key] = None
        at = Instant(now + pause_ms)
        self._at = at if self._at is None else min(self._at, at)

    # What changes meanwhile --------------------------------------------------------------------

    def on_changed(self, partitions: dict[Partition, None], now: Instant) -> None:
        """These replicas may have other roles, logs or records."""
        self._find()
        if not self._moves and not self._found:
            return
        for partition in partitions:
            key = partition.topic_partition
            if self._found and key in self._found:
                self._found.discard(key)
                self._resume(partition, now)
            elif key in self._moves:
                self._make_ready(key, now)

    def _find(self) -> None:
        if self._found is None and self._env.directories.is_loaded:
            self._found = set(self._env.directories.futures)

    def _resume(self, partition: Partition, now: Instant) -> None:
        """A former process has begun to move this replica."""
        key, directories = partition.topic_partition, self._env.directories
        target = directories.target_of(key, self._said_of(partition))
        if target is None or directories.of(key) is None:
            return
        # An operator may have brought two together.
        self._guarded(lambda: directories.drop_future(key, but=target))
        future = target.futures.logs[key]
        if future.log.topic_id != partition.topic_id:
            self._guarded(lambda: directories.drop_future(key))
            return
        # A cleaner may have been there while the directory of the copy was missing.
        is_stale = partition.log.cleaned_to >= 0
        self._moves[key] = Move(target, now, future, is_stale=is_stale)
        self._note_begin(partition, self._moves[key])
        self._make_ready(key, now)

    def drop_strays(self) -> None:
        """Deletes the copies of logs that the metadata does not place here any more."""
        image, directories = self._env.hosted.image, self._env.directories
        for key in sorted(self._found or ()):
            if placed_here(image, key, self._env.node_id) is None and directories.of(key) is None:
                self._guarded(lambda key=key: directories.drop_future(key))  # type: ignore[misc]

    def on_flushed(self, subject: MoveFlush | LogFlush, now: Instant) -> None:
        """A flush of a copy is durable."""
        key = subject.topic_partition
        move = self._moves.get(key)
        if isinstance(subject, LogFlush):
            if move is not None and move.future is not None:
                move.future.log.on_flushed(subject)
        elif move is not None and subject.number in move.flushes:
            move.flushes.remove(subject.number)
            self._make_ready(key, now)

    # Turns -------------------------------------------------------------------------------------

    def deadline(self) -> Instant | None:
        """The next instant at which `work` has something to do."""
        return self._at

    def work(self, now: Instant) -> None:
        """Copies a slice, if it is time, and takes the steps that are due."""
        self._find()
        for key in list(self._moves):
            self._forget_ended(key)
        quota = self._env.throttles.moves
        if self._at is None or (now < self._at and quota.rate == self._rate):
            return
        self._at, self._rate = quota.free_at(now), quota.rate
        if self._at is not None:
            return
        self._env.trace.steps.begin("moves between directories")
        left = MOVE_BYTES_PER_TURN
        for key in list(self._ready):
            if left <= 0:
                break
            del self._ready[key]
            move = self._moves.get(key)
            if move is not None:
                left -= max(_STEP_PRICE, self._step(key, move, now))
        if self._ready:
            self._make_ready(next(iter(self._ready)), now, MOVE_PAUSE_MS)

    def _forget_ended(self, key: TopicPartition) -> None:
        """Forgets a move whose copy is gone, with its topic, its replica or its directory."""
        directories, move = self._env.directories, self._moves[key]
        is_online = move.target in directories.online.values()
        if move.future is not None:
            is_there = is_online and move.target.futures.logs.get(key) is move.future
        elif move.source is not None:
            is_there = is_online and key in move.source.futures.replaced
        else:
            is_there = is_online and key in self._env.hosted.partitions
        if is_there:
            return
        del self._moves[key]
        partition = self._env.hosted.partitions.get(key)
        if partition is not None and partition.image is not None and partition.offline is None:
            self._reports.forget(key)
            self._reports.compare(key, partition.topic_id, partition.image)

    def _step(self, key: TopicPartition, move: Move, now: Instant) -> int:
        """Takes the next steps of a move; returns the price of what that has copied."""
        if move.flushes:
            return 0
        if move.source is not None:
            self._end(key, move, move.source, now)
            return 0
        partition = self._env.hosted.partitions.get(key)
        if partition is None or self._env.directories.of(key) is None:
            # It is damaged, and hosted again when it is repaired; or its directory has failed.
            return 0
        if move.given_up is not None:
            self._drop(partition, move, now)
            return 0
        if not self._maybe_make_copy(partition, move) or _is_busy(partition.log):
            self._make_ready(key, now, MOVE_RETRY_MS)
            return 0
        assert move.future is not None, f"{key} has no copy"
        price = self._copy(partition, move, move.future.log, now)
        if price is not None and move.given_up is None:
            self._go_on(partition, move, move.future, now)
        return price or 0

    def _maybe_make_copy(self, partition: Partition, move: Move) -> bool:
        """Makes the empty copy; returns whether there is one. A log that was there before has to be
        gone from the checkpoints first."""
        key = partition.topic_partition
        if move.future is None and move.given_up is None and move.target.futures.is_free(key):
            try:
                move.future = self._env.directories.begin_move(partition.log, move.target)
            except StorageError as error:
                self._give_up(key, move, str(error))
                return False
            self._note_begin(partition, move)
        return move.future is not None

    def _note_begin(self, partition: Partition, move: Move) -> None:
        source = self._env.directories.of(partition.topic_partition)
        assert source is not None and move.future is not None, f"{partition} does not move"
        self._env.trace.event(
            MoveBegan(
                partition=partition.topic_partition,
                source=source.disk.root,
                target=move.target.disk.root,
                log_end=partition.log.log_end_offset,
                copied_to=move.future.log.log_end_offset,
            )
        )

    def _claim_cut(self, move: Move, future: Log) -> None:
        """Nothing is copied behind a cut while the checkpoints claim what was there before: a start
        would take it for durable, and drop what lies below a former log start."""
        assert move.future is not None, f"{future.topic_partition} has no copy"
        move.target.checkpoint_recovery_points()
        move.target.checkpoint_log_start_offsets()
        self._await(future, move, move.future.effects)

    def _copy(self, partition: Partition, move: Move, future: Log, now: Instant) -> int | None:
        """Copies a slice of what the copy lacks; returns its price in bytes, `None` where that
        cannot be done, or not yet."""
        current, data = partition.log, b""
        try:
            if move.must_compare(current, future):
                if not copying.reconcile(future, current, anew=move.is_stale):
                    # The rest of what the copy has too much goes in the turns that follow.
                    move.log = None
                    return MOVE_BYTES_PER_TURN
                move.is_stale = False
            if move.has_unclaimed_cut(future):
                self._claim_cut(move, future)
                return None
            copying.follow_bounds(future, current)
        except (StorageError, CorruptBatch) as error:
            self._fail_copy(partition, move, error, now)
            return None
        try:
            if future.log_end_offset < current.log_end_offset:
                most_bytes = min(move.slice_bytes, MOVE_BYTES_PER_TURN)
                data = bytes(copying.read_some(future, current, most_bytes))
        except (StorageError, LogDamaged) as error:
            self._env.changed.failed.append((partition, error))
            return None
        try:
            if data:
                copying.copy_some(data, future)
            copying.follow_bounds(future, current)
        except (StorageError, CorruptBatch) as error:
            self._fail_copy(partition, move, error, now)
            return None
        move.copied_bytes += len(data)
        self._env.throttles.moves.record(len(data), now)
        price = max(len(data), copying.batch_count(data) * _BATCH_PRICE)
        if price > MOVE_BYTES_PER_TURN:
            move.slice_bytes = max(1, len(data) // 2)
        elif len(data) > move.slice_bytes // 2:
            move.slice_bytes = min(2 * move.slice_bytes, MOVE_BYTES_PER_TURN)
        return price

    def _fail_copy(
        self, partition: Partition, move: Move, error: StorageError | CorruptBatch, now: Instant
    ) -> None:
        self._give_up(partition.topic_partition, move, str(error))
        # The copy goes also where nothing of the replica changes any more.
        self._make_ready(partition.topic_partition, now)
        if isinstance(error, LogDamaged):
            move.then = move.target

    def _go_on(self, partition: Partition, move: Move, future: FutureLog, now: Instant) -> None:
        """A slice is copied: what comes next?"""
        key, current = partition.topic_partition, partition.log
        if future.log.log_end_offset < current.log_end_offset:
            self._make_ready(key, now)
        elif not copying.is_complete(future.log, current):
            self._make_ready(key, now, MOVE_RETRY_MS)
        elif move.flushed != future.written:
            self._save_both(partition, move, future, now)
        elif self._said_of(partition) == move.target.directory_id:
            self._swap(partition, move, now)
        else:
            self._reports.report(key, partition.topic_id, move.target.directory_id)

    def _save_both(self, partition: Partition, move: Move, future: FutureLog, now: Instant) -> None:
        """The copy becomes durable, and before it the name of the log, which may never have had a
        record. A power cut that left the copy alone would make the replica a lost one. A log start
        that was saved of the log is saved of the copy, or what was deleted would come back."""
        current = partition.log
        try:
            current.request_flush_of_name()
        except StorageError as error:
            self._env.changed.failed.append((partition, error))
            return
        if not current.recovery_point:
            # That of the copy, on another disk, does not show that this one is durable.
            self._await(current, move, current.env.effects)
        log = future.log
        if log.log_start_offset > log.segments.first_base_offset:
            move.target.checkpoint_log_start_offsets()
        try:
            self._flush(log, move, future)
        except StorageError as error:
            self._fail_copy(partition, move, error, now)

    def _said_of(self, partition: Partition) -> Uuid:
        image = partition.image
        return ZERO_UUID if image is None else image.directory_of(self._env.node_id)

    def _flush(self, log: Log, move: Move, future: FutureLog) -> None:
        """Asks for an answer when all effects of the copy are carried out. No path of it may change
        before, and nothing more may be asked for meanwhile. Raises `StorageError`."""
        log.request_flush_of_name()
        self._await(log, move, future.effects)
        move.flushed = future.written

    def _await(self, log: Log, move: Move, effects: EffectQueue) -> None:
        """The move goes on when what was asked for of this log is done."""
        self._flush_number += 1
        move.flushes.add(self._flush_number)
        subject = MoveFlush(log.topic_partition, self._flush_number)
        effects.emit(Flush(log.segments.active.file, subject))

    def _swap(self, partition: Partition, move: Move, now: Instant) -> None:
        """The copy takes the log's place, in this turn. Raises `StorageError` where the directory
        of the metadata log fails."""
        key, directories, future = partition.topic_partition, self._env.directories, move.future
        source = directories.of(key)
        assert future is not None and source is not None, f"{key} does not move"
        try:
            log = directories.end_move(key, move.target)
        except StorageError:
            if move.target is directories.metadata:
                raise
            return
        partition.take_log(log)
        move.future, move.source = None, source
        self._env.changed.mark(partition)
        try:
            self._flush(log, move, future)
        except StorageError as error:
            self._env.changed.failed.append((partition, error))

    def _end(self, key: TopicPartition, move: Move, source: LogDirectory, now: Instant) -> None:
        """The new log is durable under its name: the former one goes."""
        move.target.checkpoint_recovery_points()
        if not self._guarded(lambda: self._env.directories.drop_replaced(key)):
            return
        del self._moves[key]
        partition = self._env.hosted.partitions.get(key)
        if partition is None:
            return
        self._env.trace.event(
            MoveEnded(
                partition=key,
                source=source.disk.root,
                target=move.target.disk.root,
                log_end=partition.log.log_end_offset,
                bytes=move.copied_bytes,
                ms=now - move.began_at,
            )
        )
        self._go_elsewhere(key, move, now)

    # Ends without a swap -------------------------------------------------------------------------

    def _give_up(self, key: TopicPartition, move: Move, reason: str) -> None:
        if move.given_up is None:
            move.given_up = reason
            self._env.trace.event(
                MoveGivenUp(partition=key, reason=reason, target=move.target.disk.root)
            )

    def _drop(self, partition: Partition, move: Move, now: Instant) -> None:
        """Deletes a copy that is not wanted any more, unless the metadata names its directory."""
        key, directories = partition.topic_partition, self._env.directories
        source = directories.of(key)
        if source is not None and self._said_of(partition) == move.target.directory_id:
            self._reports.report(key, partition.topic_id, source.directory_id)
            return
        self._reports.forget(key)
        if self._guarded(lambda: directories.drop_future(key)):
            del self._moves[key]
            assert partition.image is not None, f"{key} is hosted without metadata"
            self._reports.compare(key, partition.topic_id, partition.image)
            self._go_elsewhere(key, move, now)

    def _go_elsewhere(self, key: TopicPartition, move: Move, now: Instant) -> None:
        directories, then = self._env.directories, move.then
        if then is None or then not in directories.online.values() or directories.offline:
            return
        if directories.of(key) is not then:
            self._begin(key, then, now)

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Changes something of a directory; returns whether it could be done. One that fails is
        offline then; the error is raised where it is that of the metadata log."""
        try:
            act()
        except StorageError:
            if not self._env.directories.has_failed:
                raise
            return False
        return True

    def check(self) -> None:
        """Asserts what must hold between two events."""
        for key, move in self._moves.items():
            assert move.future is None or move.source is None, f"{key} has moved and moves"
        assert self._at is not None or not self._ready, f"{self._ready} waits for nothing"


def _is_busy(log: Log) -> bool:
    """Whether a log is being cleaned, or is about to be cut."""
    return log.cleaning is not None or log.announced_end != UNCUT
