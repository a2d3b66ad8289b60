"""One Kafka log directory: the logs on one disk of a node, its checkpoints and its markers.

Layout: `meta.properties` says whose directory it is; `<topic>-<partition>` directories hold the
logs, the metadata log among them; three checkpoint files hold each log's recovery point, start
offset and high watermark; `.kafka_cleanshutdown` is there only between a clean stop and the next
start. It is deleted as soon as it is read: a process that dies later must not look clean, or an
election that trusts the marker could pick a replica with lost data.

Deleting a topic renames its directories first (`partition_directories.py`).

A start opens the metadata log first and the others some a turn (`load`), a large one in pieces: the
node has a part in the quorum by then, and becomes a broker when all are loaded. Until then the
checkpoints keep what they have of the logs.

A log whose durable records are missing or damaged is not opened, or is taken out of service when
that is noticed. It is in `damaged`, and its files stay as they are: the controller could elect a
replica with a shorter log that does not report its loss. The recovery point checkpoint keeps the
former log end, so that a restart notices the damage too. Replication makes sure that the cluster no
longer counts on the replica; then `repair` removes the bad segment and all behind it, and the rest
is a log again.

Checkpoints are written by `Replace` effects, if they have changed or a caller waits. A clean stop
is a sequence of effects too: data, indexes and snapshots, checkpoints, and last the marker, whose
`Replace` carries the subject `DirectoryClosed`. Once that is answered the node may exit.

Invariants
- A log is in `logs` exactly while its directory carries its plain name.
- The recovery point checkpoint never claims more than was flushed when it was emitted.
- A log is in `logs` or in `damaged`, never in both.
- A flush that a former log requested never counts for the next log of the same partition; if that
  is in another directory, `directories.py` sees to it.

Left out: the lock against a second process (the runtime's disk takes it), and what a node with
several directories does with them (`directories.py`).

Source: Kafka's `LogManager`; KIP-858, KIP-966 (clean shutdown epoch).
"""

import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from itertools import chain

from tidelog.config import LogConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.trace import Trace
from tidelog.errors import LogDamaged, StorageError
from tidelog.limits import LOG_LOADING_WORK, LOG_SAVING_WORK, SAVED_LOG_WORK, SYNC_ALL_FROM_LOGS
from tidelog.log import checkpoint, partition_directories, repair
from tidelog.log.deleted_files import DeletedFiles
from tidelog.log.directory_checkpoints import (
    WrittenCheckpoints,
    read_checkpoints,
    read_clean_shutdown,
)
from tidelog.log.directory_start import Start
from tidelog.log.events import DirectoryLoaded, LastStop, LogDeleted, LogQuarantined, LogSetAside
from tidelog.log.file_names import GAPS_FILE
from tidelog.log.flushed_end import FlushedEnd
from tidelog.log.futures import FutureLogs
from tidelog.log.identity import DirectoryIdentity, read_identity
from tidelog.log.loading import make_log, opened, read_topic_id
from tidelog.log.log import Log
from tidelog.log.partition_directories import RenamedDirectories, is_file
from tidelog.log.pieces import Pieces, finish
from tidelog.log.repair import Damage
from tidelog.log.tail_cache import TailBudget
from tidelog.log.values import Checkpoints, DirectoryClosed, LogEnv, LogsRecovered, never_compacted
from tidelog.model import METADATA_PARTITION, TopicId, TopicPartition


class LogDirectory:
    """All logs below one root."""

    def __init__(
        self,
        env: LogEnv,
        identity: DirectoryIdentity,
        default_config: LogConfig,
        clean_shutdown: checkpoint.CleanShutdown | None,
    ) -> None:
        # From `meta.properties`; never changes.
        self.cluster_id = identity.cluster_id
        self.node_id = identity.node_id
        self.directory_id = identity.directory_id
        # What the last clean stop has left; `None` after a crash and on a new directory.
        self.clean_shutdown = clean_shutdown
        # Every log in service, the metadata log included.
        self.logs: dict[TopicPartition, Log] = {}
        # Logs whose durable records are missing or damaged: out of service, files untouched.
        self.damaged: dict[TopicPartition, Damage] = {}
        # Logs in service that lack records that they had before a repair; checkpoints keep their
        # former ends.
        self.remembered: dict[TopicPartition, Damage] = {}
        self._env = env
        # For logs found on disk, until their topic's own configuration is applied.
        self._default_config = default_config
        # Directories of logs that were deleted or set aside; none before the logs are loaded.
        self.renamed = RenamedDirectories(env.disk, self.directory_id)
        # Logs that move here from another directory, and those that have left for one.
        self.futures = FutureLogs(env, self.renamed)
        # What each checkpoint has, by the name of its file; nothing before it was written here. It
        # is not written again before it changes: with ten thousand logs that takes milliseconds.
        self._written = WrittenCheckpoints(env.effects)
        # Whether a former process has left the cleaner's: it may name logs that go.
        self._has_cleaned = env.disk.exists(checkpoint.CLEANER_FILE)
        # Files of segments that are no longer part of a log.
        self.deleted_files = DeletedFiles(env.disk)
        # Where the metadata log notes its flushes, if it is here.
        self.flushed_end = FlushedEnd(env.disk, str(METADATA_PARTITION))
        # The log that was made last; the next one of its topic shares its topic id's file.
        self._newest: Log | None = None
        # How often a log was truncated that is not here any more: its flushes may be under way.
        self._cut_count = -1
        # None once all logs are loaded.
        self._start: Start | None = None
        # What a clean stop has still to save, once it is under way.
        self._closing: Pieces[None] | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        *,
        effects: EffectQueue,
        trace: Trace,
        default_config: LogConfig,
        wall_ms: int,
        most_work: int = sys.maxsize,
        tails: TailBudget | None = None,
        identity: DirectoryIdentity | None = None,
        was_compacted: Callable[[str], bool] = never_compacted,
    ) -> "LogDirectory":
        """Loads every partition directory, that of the metadata first; recovers logs unless the
        last stop was clean. What goes beyond the work is left to `load`. Raises `UsageError` for a
        directory that is not formatted, `StorageError` for a bad disk. `tails`: the budget of the
        tail caches, if directories share one. `identity`: what the caller has read of it.
        `was_compacted`: see `LogEnv`."""
        identity = identity or read_identity(disk)
        clean_shutdown = read_clean_shutdown(disk, trace)
        disk.delete(checkpoint.CLEAN_SHUTDOWN_FILE)
        env = LogEnv(disk, effects, trace, tails or TailBudget(), was_compacted)
        directory = cls(env, identity, default_config, clean_shutdown)
        start = directory._begin_start(clean_shutdown is not None, wall_ms, most_work)
        directory._open_some(start, most_work)
        if not start.is_opening:
            if start.sync_later:
                disk.sync(disk.everything())
            directory._end_start(start)
        return directory

    def _begin_start(self, clean: bool, wall_ms: int, most_work: int) -> Start:
        disk = self._env.disk
        names = disk.list_dir()
        self.renamed.find(names)
        found, are_sound = read_checkpoints(disk, self._env.trace, names, clean)
        parsed = map(partition_directories.parse_partition_name, names)
        waiting = deque(partition for partition in parsed if partition is not None)
        if METADATA_PARTITION in waiting:
            waiting.remove(METADATA_PARTITION)
            waiting.appendleft(METADATA_PARTITION)
        waiting.extend(self.futures.find(names))
        known = {partition: found.pop(partition, Checkpoints()) for partition in waiting}
        for partition, checkpoints in found.items():
            # A checkpoint that names it has made its directory's name durable. Records that were
            # deleted count too: their offsets must not be used again.
            if checkpoints.recovery_point or checkpoints.log_start_offset:
                missing = LogDamaged(f"`{partition}` is missing", 0)
                self._note_damage(partition, missing, checkpoints)
        together_from = min(SYNC_ALL_FROM_LOGS, most_work // LOG_LOADING_WORK)
        sync_later = not clean and len(waiting) >= together_from
        self._start = Start(clean, wall_ms, known, are_sound, sync_later, waiting)
        return self._start

    def load(self, most_work: int) -> None:
        """Loads the next logs of the start; it may end with a flush, see `on_logs_recovered`."""
        start = self._start
        assert start is not None, "all logs are loaded"
        self._open_some(start, most_work)
        if start.is_opening or start.is_syncing:
            return
        if start.sync_later:
            start.is_syncing = True
            subject = LogsRecovered(self.directory_id)
            self._env.effects.emit(Flush(self._env.disk.everything(), subject))
        else:
            self._end_start(start)

    def on_logs_recovered(self) -> None:
        """What recovery kept is durable."""
        assert self._start is not None, "all logs are loaded"
        self._end_start(self._start)

    @property
    def disk(self) -> Disk:
        """Where all of it is."""
        return self._env.disk

    @property
    def is_loaded(self) -> bool:
        """Whether every log is in service, or known to be damaged."""
        return self._start is None

    @property
    def has_logs_to_load(self) -> bool:
        """Whether `load` has something to do."""
        return self._start is not None and self._start.is_opening

    def _open_some(self, start: Start, most_work: int) -> None:
        while most_work > 0 and start.is_opening:
            if start.opening is None:
                start.opening = self._open_next(start)
            work = next(start.opening, None)
            if work is None:
                start.opening = None
            else:
                most_work -= work

    def _open_next(self, start: Start) -> Pieces[None]:
        partition = start.waiting.popleft()
        is_metadata = partition == METADATA_PARTITION
        checkpoints = start.known.pop(partition) if is_metadata else start.known[partition]
        if self.futures.is_found(partition):
            yield from self.futures.open(
                partition, self._default_config, checkpoints, start.clean, start.wall_ms
            )
            yield LOG_LOADING_WORK
            return
        if is_metadata:
            may_be_cut = start.checkpoints_are_sound and not start.clean
            checkpoints = self.flushed_end.applied_to(checkpoints, may_be_cut=may_be_cut)
        opening = opened(
            self._env,
            partition,
            self._default_config,
            checkpoints,
            start.clean,
            start.wall_ms,
            sync_later=start.sync_later and not is_metadata,
        )
        try:
            # The node cannot be made without its metadata.
            log = finish(opening) if is_metadata else (yield from opening)
        except LogDamaged as error:
            self._note_damage(partition, error, checkpoints)
        except StorageError:
            if not is_file(self._env.disk, str(partition)):
                raise
            self._on_file(partition, checkpoints)
        else:
            self.logs[partition] = log
            start.has_first |= log.recovery_point > checkpoints.recovery_point == 0
            start.has_first |= not checkpoints.complete
            start.has_lower_marks |= log.high_watermark < checkpoints.high_watermark
        yield LOG_LOADING_WORK

    def _on_file(self, partition: TopicPartition, checkpoints: Checkpoints) -> None:
        """A file has the name of a partition's directory: it is a person's, or stands where a
        log has been."""
        error = LogDamaged(f"`{partition}` is a file and no directory", 0)
        if checkpoints.recovery_point or checkpoints.log_start_offset:
            self._note_damage(partition, error, checkpoints)
        else:
            self._env.trace.warn(partition, "open_log", "ignored", error.message)

    def _end_start(self, start: Start) -> None:
        self._start = None
        if not start.checkpoints_are_sound:
            finish(self._checkpoint_all())
        elif start.has_first:
            self.checkpoint_recovery_points()
        if start.has_lower_marks:
            self.checkpoint_high_watermarks()
        reason = LastStop.CLEAN if start.clean else LastStop.UNCLEAN
        root, logs, damaged = self._env.disk.root, len(self.logs), len(self.damaged)
        self._env.trace.event(DirectoryLoaded(root=root, reason=reason, logs=logs, damaged=damaged))

    def _kept(self) -> Iterable[tuple[TopicPartition, Checkpoints]]:
        """What the checkpoints have for logs whose start has not ended, and for those whose copies
        in other directories are not durable yet."""
        known = {} if self._start is None else self._start.known
        return (*known.items(), *self.futures.replaced.items())

    def _all_damage(self) -> Iterable[tuple[TopicPartition, Damage]]:
        """Of the damaged logs, and of those that were repaired and lack records yet."""
        return chain(self.damaged.items(), self.remembered.items())

    def _all_logs(self) -> Iterable[tuple[TopicPartition, Log]]:
        """The logs in service and those that move here."""
        return chain(self.logs.items(), self.futures.items())

    def _note_damage(
        self, partition: TopicPartition, error: LogDamaged, checkpoints: Checkpoints
    ) -> None:
        log = self.logs.pop(partition, None)
        if log is not None:
            log.close()
        topic_id = read_topic_id(self._env, partition) if log is None else log.topic_id
        cut_count = -1 if log is None else log.ledger.truncation_count
        if checkpoints.cleaned_to < 0 and self._env.disk.exists(f"{partition}/{GAPS_FILE}"):
            # The log itself says that a cleaner was at it, here or on its leader.
            checkpoints = checkpoints._replace(cleaned_to=0)
        bad_from, cause, end = error.base_offset, error.message, checkpoints.recovery_point
        self.damaged[partition] = Damage(bad_from, cause, checkpoints, topic_id, cut_count)
        self._env.trace.event(
            LogQuarantined(partition=partition, reason=cause, bad_from=bad_from, was_durable_to=end)
        )

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Makes a new empty log; it must not exist yet."""
        assert topic_partition not in self.logs, f"{topic_partition} exists"
        sibling = self._sibling_of(topic_id)
        log = make_log(self._env, topic_partition, topic_id, config, sibling=sibling)
        if self._cut_count >= 0:
            log.ledger.begin_after(self._cut_count)
        self.logs[topic_partition] = self._newest = log
        return log

    def cut_count_of(self, topic_partition: TopicPartition) -> int:
        """At least how often a log of this partition was cut that is here, or was; -1 for none."""
        log = self.logs.get(topic_partition)
        return max(self._cut_count, -1 if log is None else log.ledger.truncation_count)

    def _sibling_of(self, topic_id: TopicId) -> str | None:
        newest = self._newest
        if newest is None or self.logs.get(newest.topic_partition) is not newest:
            return None
        return str(newest.topic_partition) if newest.topic_id == topic_id else None

    def schedule_delete(self, topic_partition: TopicPartition) -> None:
        """Takes the log out of service and renames its directory; see `clear_renamed`."""
        target = self._rename(topic_partition, partition_directories.DELETE_SUFFIX)
        if target is not None:
            self._env.trace.event(LogDeleted(partition=topic_partition, directory=target))

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Takes the log out of service and keeps its directory, in the end under a name that ends
        in `-stray`. It is not opened again; an operator decides."""
        target = self._rename(topic_partition, partition_directories.ASIDE_SUFFIX)
        if target is not None:
            self._env.trace.event(LogSetAside(partition=topic_partition, directory=target))

    def retire(self, topic_partition: TopicPartition) -> None:
        """The copy of a log is in service in another directory: closes the log, whose files stay
        until that copy is durable (`futures.drop_replaced`)."""
        log = self.logs.pop(topic_partition)
        self.futures.keep_replaced(topic_partition, log)
        self._cut_count = max(self._cut_count, log.ledger.truncation_count)
        self.deleted_files.forget(topic_partition)
        log.close()

    def _rename(self, topic_partition: TopicPartition, suffix: str) -> str | None:
        """Moves the files of a log or a damaged log; `None` when there are none any more."""
        damage = self.damaged.pop(topic_partition, None)
        if damage is None:
            log = self.logs.pop(topic_partition)
            count = log.ledger.truncation_count
            log.close()
        else:
            count = damage.truncation_count
        self._cut_count = max(self._cut_count, count)
        self.deleted_files.forget(topic_partition)
        if damage is not None and not self._env.disk.exists(str(topic_partition)):
            return None
        return self.renamed.rename(topic_partition, suffix)

    def forget_renamed(self) -> Pieces[None]:
        """Takes deleted logs and those that were set aside out of the checkpoints, of which it
        writes one in a piece."""
        if self.renamed.is_stale:
            yield from self._checkpoint_all(self.renamed.take_stale())

    def clear_renamed(self, most: int) -> int:
        """Deletes what no checkpoint names, or makes strays of it, up to so many; how many."""
        return self.renamed.clear(most)

    # Damage ----------------------------------------------------------------------------------

    def quarantine(self, topic_partition: TopicPartition, error: LogDamaged) -> None:
        """Takes a log out of service because its files are damaged."""
        log = self.logs[topic_partition]
        # All of it counts as durable from now on: otherwise a crash could shorten the log, and the
        # rest would be taken for a sound log.
        checkpoints = Checkpoints(
            log.log_end_offset, log.log_start_offset, log.high_watermark, cleaned_to=log.cleaned_to
        )
        self._note_damage(topic_partition, error, checkpoints)
        self.checkpoint_recovery_points()

    def is_sound(self, topic_partition: TopicPartition) -> bool:
        """Takes a log out of service if it reads as damaged; one that does not exist is sound."""
        log = self.logs.get(topic_partition)
        if log is not None:
            try:
                log.verify()
            except LogDamaged as error:
                self.quarantine(topic_partition, error)
        return topic_partition not in self.damaged

    def doubt_all(self, topic_partition: TopicPartition) -> None:
        """Nothing of a damaged log is to be kept by its repair."""
        self.damaged[topic_partition] = self.damaged[topic_partition]._replace(base_offset=0)

    def repaired(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        *,
        remember: bool = False,
    ) -> Pieces[Log]:
        """Removes the bad segment of a damaged log and all behind it; the rest is in service again,
        a shorter log than the cluster may count on. With `remember` the checkpoints keep the former
        end until `forget_former_end`, so that a restart finds the log damaged again. What is
        removed is set aside then."""
        damage = self.damaged[topic_partition]
        log = yield from repair.reopened(
            self._env, topic_partition, config, damage, set_aside=remember
        )
        del self.damaged[topic_partition]
        log.assign_topic_id(topic_id)
        self.logs[topic_partition] = log
        if remember:
            self.remembered.setdefault(topic_partition, damage.outlasting_repair)
        # It may begin lower now, and a start that finds the former log start would empty it.
        self.checkpoint_log_start_offsets()
        self.checkpoint_recovery_points()
        return log

    def forget_former_end(self, topic_partition: TopicPartition) -> None:
        """The log has again all records that it had before the repair."""
        del self.remembered[topic_partition]
        self.logs[topic_partition].note_flushes(self.flushed_end)
        self.checkpoint_recovery_points()
        self.checkpoint_high_watermarks()

    # Checkpoints -----------------------------------------------------------------------------

    def checkpoint_high_watermarks(self, subject: Hashable | None = None) -> bool:
        """Emits `replication-offset-checkpoint`; returns whether there was a reason to. No mark is
        above a cut that is not durable (*CutBeforeMark*)."""
        marks = {partition: log.saved_high_watermark for partition, log in self._all_logs()}
        # If the recovery points are lost behind a clean stop, these say what was durable.
        for partition, damage in self._all_damage():
            marks[partition] = damage.saved_high_watermark
        marks.update((each, known.high_watermark) for each, known in self._kept())
        return self._written.write(checkpoint.HIGH_WATERMARK_FILE, marks, subject)

    def checkpoint_recovery_points(self, subject: Hashable | None = None) -> None:
        """Emits `recovery-point-offset-checkpoint`: the end of what a log must have after a
        crash. It is never above an announced truncation (*ClaimBeforeCut*)."""
        self._claim({key: log.claimed_end for key, log in self._all_logs()}, subject)

    def checkpoint_cleaned(self) -> None:
        """Emits `cleaner-offset-checkpoint`: how far each log was cleaned. A start takes gaps in
        any other log for damage, unless the log itself says that it has them (`note_gaps`)."""
        claims = ((key, log.claimed_cleaning) for key, log in self._all_logs())
        cleaned = {key: end for key, end in claims if end >= 0}
        damaged = ((partition, damage.checkpoints) for partition, damage in self._all_damage())
        for partition, known in chain(self._kept(), damaged):
            if known.cleaned_to >= 0:
                cleaned[partition] = max(known.cleaned_to, cleaned.get(partition, -1))
        if cleaned or self._has_cleaned or checkpoint.CLEANER_FILE in self._written:
            self._written.write(checkpoint.CLEANER_FILE, cleaned, None)

    def _claim(self, ends: dict[TopicPartition, int], subject: Hashable | None = None) -> None:
        # Gaps are known to be none before anything counts as durable that has them.
        self.checkpoint_cleaned()
        # The former ends of damaged logs are kept until the records are back.
        for partition, damage in self._all_damage():
            ends[partition] = damage.checkpoints.claim
        ends.update((each, known.claim) for each, known in self._kept())
        self._written.write(checkpoint.RECOVERY_POINT_FILE, ends, subject)

    def checkpoint_log_start_offsets(self, subject: Hashable | None = None) -> None:
        """Emits `log-start-offset-checkpoint`, for logs that start above their first segment, may
        have older ones again after a crash, or have no durable record: then at most the name of a
        file says the same."""
        owing = self.deleted_files.owing
        starts = {
            partition: log.log_start_offset
            for partition, log in self._all_logs()
            if log.log_start_offset > log.segments.first_base_offset
            or partition in owing
            or 0 < log.log_start_offset >= log.recovery_point
        }
        damaged = ((each, damage.checkpoints) for each, damage in self.damaged.items())
        for partition, known in (*damaged, *self._kept()):
            if known.log_start_offset:
                starts[partition] = known.log_start_offset
        self._written.write(checkpoint.LOG_START_FILE, starts, subject)

    def _checkpoint_all(self, subject: Hashable | None = None) -> Pieces[None]:
        self.checkpoint_recovery_points()
        yield len(self.logs)
        self.checkpoint_log_start_offsets()
        yield len(self.logs)
        self.checkpoint_high_watermarks(subject)

    def close_cleanly(
        self, marker: checkpoint.CleanShutdown, most_work: int = sys.maxsize
    ) -> DirectoryClosed | None:
        """Emits what a clean stop needs, the marker last; returns its subject then, and `None`
        when the work was spent before: to be called again. The effects must all be carried out
        before the process ends. Files stay open until then; nothing may be appended any more."""
        if self._closing is None:
            self._closing = self._save_all()
        for price in self._closing:
            most_work -= price
            if most_work <= 0:
                return None
        subject = DirectoryClosed(self.directory_id)
        data = checkpoint.encode_clean_shutdown(marker)
        self._env.effects.emit(Replace(checkpoint.CLEAN_SHUTDOWN_FILE, data, subject))
        return subject

    def _save_all(self) -> Pieces[None]:
        """Saves what has changed of each log, then the checkpoints."""
        unsaved: list[Log] = []
        for _, log in list(self._all_logs()):
            if not log.is_saved:
                unsaved.append(log)
            yield SAVED_LOG_WORK
        # Each takes several syncs, and the open files of ten thousand are too many.
        saves_together = len(unsaved) >= SYNC_ALL_FROM_LOGS
        for log in unsaved:
            log.prepare_close(sync_later=saves_together)
            yield LOG_SAVING_WORK
        if saves_together:
            self._env.effects.emit(Flush(self._env.disk.everything(), None))
        self._claim({partition: log.log_end_offset for partition, log in self._all_logs()})
        yield len(self.logs)
        self.checkpoint_log_start_offsets()
        yield len(self.logs)
        self.checkpoint_high_watermarks()

    def close(self) -> None:
        """Releases all files without any promise about their content."""
        self.flushed_end.close()
        for _, log in self._all_logs():
            log.close()

    def check(self) -> None:
        """Asserts the invariants of every log."""
        for partition, log in self.logs.items():
            assert log.topic_partition == partition, f"{log.topic_partition} under {partition}"
            assert partition not in self.damaged, f"{partition} is damaged and in service"
            log.check()
        self.futures.check()
