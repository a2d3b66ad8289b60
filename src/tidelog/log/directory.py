"""One Kafka log directory: every log of a node, its checkpoints and its markers.

Layout: `meta.properties` says whose directory it is; `<topic>-<partition>` directories hold the
logs, the metadata log among them; three checkpoint files hold each log's recovery point, start
offset and high watermark; `.kafka_cleanshutdown` is there only between a clean stop and the next
start. It is deleted as soon as it is read: a process that dies later must not look clean, or an
election that trusts the marker could pick a replica with lost data.

Deleting a topic renames its directories first (`<topic>-<partition>.<32 hex>-delete`), so that a
topic of the same name can be created at once, and removes them when the checkpoints that do not
speak of it any more are durable. What is set aside (`-aside`) becomes a `-stray` then, and is kept.

A log whose durable records are gone or damaged is not opened, or is taken out of service when that
is noticed: it is in `damaged`, and its files stay as they are, because a shorter log that says
nothing could be elected. The recovery point checkpoint goes on naming its former end, so that a
restart sees it too. Once replication has made sure that nobody counts on the replica any more,
`repair` removes the bad segment and all behind it, and what is left is a log again.

Checkpoints are written by `Replace` effects. A clean stop too is a sequence of effects, each
after the one before: data, indexes and snapshots, checkpoints, and last the marker, whose
`Replace` carries the subject `DirectoryClosed`. Once that is answered the node may exit.

Invariants
- A log is in `logs` exactly while its directory carries its plain name.
- The recovery point checkpoint never claims more than was flushed when it was emitted.
- A log is in `logs` or in `damaged`, never in both.
- A renamed directory outlives the checkpoints that still speak of it, on the device: else they
  would accuse the log of a topic that was created again under the same name.
- A flush that a former log asked for is never taken for one of its successor.

Left out: the lock against a second process (the runtime's disk takes it) and more than one
directory per node (JBOD).

Source: Kafka's `LogManager`, `MetaPropertiesEnsemble`; KIP-858, KIP-966 (clean shutdown epoch).
"""

from collections.abc import Hashable, Set
from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue, Replace
from tidelog.env.trace import Trace
from tidelog.errors import LogDamaged, UsageError
from tidelog.log.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    CheckpointDamaged,
    CleanShutdown,
    decode_clean_shutdown,
    decode_offsets,
    decode_properties,
    encode_clean_shutdown,
    encode_meta_properties,
    encode_offsets,
)
from tidelog.log.loading import Checkpoints, cut_from, open_log, read_topic_id
from tidelog.log.log import Log
from tidelog.log.tail_budget import TailBudget
from tidelog.log.values import LogEnv
from tidelog.model import (
    METADATA_PARTITION,
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
    Uuid,
    uuid_from_text,
)

_DELETE_SUFFIX: Final = "-delete"
_ASIDE_SUFFIX: Final = "-aside"
_STRAY_SUFFIX: Final = "-stray"
_FUTURE_SUFFIX: Final = "-future"
_TOPIC_NAME_CHARS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


class DirectoryClosed(NamedTuple):
    """Subject of the last effect of a clean stop."""

    directory_id: Uuid


class RenamesForgotten(NamedTuple):
    """Subject of the last checkpoint of a set that does not speak of renamed directories."""

    upto: int
    """Counts the renames: all before this one."""


class DirectoryIdentity(NamedTuple):
    """What `meta.properties` says."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


class Damage(NamedTuple):
    """What is known of a log that must not be served."""

    base_offset: int
    """Where the first bad segment begins: what lies below is not known to be wrong."""
    cause: str
    checkpoints: Checkpoints
    """What the log claimed before."""
    topic_id: TopicId = ZERO_TOPIC_ID
    """`ZERO_TOPIC_ID` when its identity is not known."""
    truncation_count: int = -1
    """Of the log that was in service in this process; -1 when none was."""

    def is_of_another_topic(self, topic_id: TopicId) -> bool:
        """Whether the log belongs to a topic that was deleted and created again."""
        return self.topic_id not in (ZERO_TOPIC_ID, topic_id)


class LogDirectory:
    """All logs below one root."""

    def __init__(
        self,
        env: LogEnv,
        identity: DirectoryIdentity,
        default_config: LogConfig,
        clean_shutdown: CleanShutdown | None,
    ) -> None:
        # From `meta.properties`; never changes.
        self.cluster_id = identity.cluster_id
        self.node_id = identity.node_id
        self.directory_id = identity.directory_id
        # What the last clean stop has left; `None` after a crash and on a new directory.
        self.clean_shutdown = clean_shutdown
        # Every log in service, the metadata log included.
        self.logs: dict[TopicPartition, Log] = {}
        # Logs whose durable records are gone or damaged: out of service, files untouched.
        self.damaged: dict[TopicPartition, Damage] = {}
        # Logs in service that lack what they had before a repair, and must not forget it.
        self.remembered: dict[TopicPartition, Damage] = {}
        self._env = env
        # For logs found on disk, until their topic's own configuration is applied.
        self._default_config = default_config
        # Whether the checkpoints still speak of logs that were taken away.
        self._checkpoints_are_stale = False
        # Whether a checkpoint could not be read at the start.
        self._has_bad_checkpoint = False
        # Directories that were renamed to be deleted or set aside, and still have that name.
        self._renamed: list[str] = []
        # The number of the first of them, and of the first of which a checkpoint may still speak.
        self._first_renamed = 0
        self._forgotten_end = 0
        # How often logs were cut that are gone: their flushes may still be under way.
        self._cut_count = -1
        # Numbers the renames of this run, so that no two names are equal.
        self._rename_count = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        *,
        effects: EffectQueue,
        trace: Trace,
        default_config: LogConfig,
        wall_ms: int,
    ) -> "LogDirectory":
        """Loads every partition directory; recovers logs unless the last stop was clean.

        Raises `UsageError` for a directory that is not formatted, `StorageError` for a bad disk.
        """
        identity = read_identity(disk)
        clean_shutdown = _read_clean_shutdown(disk, trace)
        disk.delete(CLEAN_SHUTDOWN_FILE)
        env = LogEnv(disk, effects, trace, TailBudget())
        directory = cls(env, identity, default_config, clean_shutdown)
        directory._load_logs(clean_shutdown is not None, wall_ms)
        return directory

    def _load_logs(self, clean: bool, wall_ms: int) -> None:
        disk = self._env.disk
        names = disk.list_dir()
        self._renamed = [name for name in names if name.endswith((_DELETE_SUFFIX, _ASIDE_SUFFIX))]
        self._checkpoints_are_stale = bool(self._renamed)
        found = self._read_checkpoints(names, clean)
        first_time = False
        for name in names:
            partition = parse_partition_name(name)
            if partition is None:
                continue
            checkpoints = found.pop(partition, Checkpoints())
            if partition == METADATA_PARTITION and not clean:
                # A quorum never cuts below its high watermark, but above it, and tells nobody.
                durable_end = min(checkpoints.recovery_point, checkpoints.high_watermark)
                checkpoints = checkpoints._replace(recovery_point=durable_end)
            try:
                self.logs[partition] = open_log(
                    self._env,
                    name,
                    partition,
                    self._default_config,
                    checkpoints,
                    clean=clean,
                    wall_ms=wall_ms,
                )
            except LogDamaged as error:
                self._note_damage(partition, error, checkpoints)
            else:
                # Recovery has made durable what no checkpoint speaks of.
                first_time |= self.logs[partition].recovery_point > checkpoints.recovery_point == 0
        for partition, checkpoints in found.items():
            if checkpoints.recovery_point > checkpoints.log_start_offset:
                missing = LogDamaged(f"`{partition}` is missing", 0)
                self._note_damage(partition, missing, checkpoints)
        if self._has_bad_checkpoint:
            self._checkpoint_all()
        elif first_time:
            self.checkpoint_recovery_points()
        self._env.trace.info(
            disk.root,
            "open",
            "loaded",
            "" if clean else "no clean shutdown marker, logs were recovered",
            logs=len(self.logs),
            damaged=len(self.damaged),
        )

    def _note_damage(
        self, partition: TopicPartition, error: LogDamaged, checkpoints: Checkpoints
    ) -> None:
        log = self.logs.pop(partition, None)
        if log is not None:
            log.close()
        self.damaged[partition] = Damage(
            error.base_offset,
            error.message,
            checkpoints,
            read_topic_id(self._env, str(partition)) if log is None else log.topic_id,
            -1 if log is None else log.truncation_count,
        )
        self._env.trace.error(
            partition,
            "quarantine",
            "out of service",
            error.message,
            bad_from=error.base_offset,
            was_durable_to=checkpoints.recovery_point,
        )

    def _read_checkpoints(self, names: list[str], clean: bool) -> dict[TopicPartition, Checkpoints]:
        """What the checkpoints say of each partition, also of those that have no directory.

        After a crash they may still speak of a log that was renamed just before, and another log
        may have its name: then they say nothing.
        """
        disk = self._env.disk
        has_logs = any(parse_partition_name(name) is not None for name in names)
        if not has_logs and not disk.exists(RECOVERY_POINT_FILE):
            # From now on a missing file is a lost one.
            disk.replace(RECOVERY_POINT_FILE, encode_offsets({}))
        stale = set() if clean else {_renamed_from(name) for name in names}
        recovery_points = self._read_checkpoint(RECOVERY_POINT_FILE, stale)
        if has_logs and not disk.read_file(RECOVERY_POINT_FILE):
            recovery_points = None
            self._has_bad_checkpoint = True
            self._env.trace.warn(RECOVERY_POINT_FILE, "open", "missing", "all counts as durable")
        complete = recovery_points is not None
        recovery_points = recovery_points or {}
        log_starts = self._read_checkpoint(LOG_START_FILE, stale) or {}
        high_watermarks = self._read_checkpoint(HIGH_WATERMARK_FILE, stale) or {}
        cleaned = self._read_checkpoint(CLEANER_FILE, set()) or {}
        partitions = {parse_partition_name(name) for name in names} - {None}
        return {
            partition: Checkpoints(
                recovery_points.get(partition, 0),
                log_starts.get(partition, 0),
                high_watermarks.get(partition, 0),
                complete,
                partition in cleaned,
            )
            for partition in sorted(partitions | recovery_points.keys())  # type: ignore[type-var]
            if partition is not None
        }

    def _read_checkpoint(
        self, file: str, stale: Set[TopicPartition | None]
    ) -> dict[TopicPartition, int] | None:
        """A checkpoint without what it says of stale names; `None` when it is damaged. Recovery
        then looks at everything, and all checkpoints are written anew."""
        try:
            offsets = decode_offsets(self._env.disk.read_file(file) or b"")
            return {name: offset for name, offset in offsets.items() if name not in stale}
        except CheckpointDamaged as error:
            self._env.trace.warn(file, "open", "ignored", str(error))
            self._has_bad_checkpoint = True
            return None

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Makes a new empty log; it must not exist yet."""
        assert topic_partition not in self.logs, f"{topic_partition} exists"
        path = str(topic_partition)
        self._env.disk.make_dir(path)
        log = open_log(
            self._env, path, topic_partition, config, Checkpoints(), clean=True, wall_ms=-1
        )
        if self._cut_count >= 0:
            log.continue_after(self._cut_count)
        log.assign_topic_id(topic_id)
        self.logs[topic_partition] = log
        return log

    def schedule_delete(self, topic_partition: TopicPartition) -> None:
        """Takes the log out of service and renames its directory; see `clear_renamed`."""
        target = self._rename(topic_partition, _DELETE_SUFFIX)
        if target is not None:
            self._env.trace.info(topic_partition, "schedule_delete", "renamed", directory=target)

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Takes the log out of service and keeps its directory, in the end under a name that ends
        in `-stray`. Nothing here looks at it again then: an operator decides."""
        target = self._rename(topic_partition, _ASIDE_SUFFIX)
        if target is not None:
            self._env.trace.info(topic_partition, "set_aside", "renamed", directory=target)

    def _rename(self, topic_partition: TopicPartition, suffix: str) -> str | None:
        """Moves the files of a log or a damaged log; `None` when there are none any more."""
        damage = self.damaged.pop(topic_partition, None)
        if damage is None:
            log = self.logs.pop(topic_partition)
            self._cut_count = max(self._cut_count, log.truncation_count)
            log.close()
        else:
            self._cut_count = max(self._cut_count, damage.truncation_count)
            if not self._env.disk.exists(str(topic_partition)):
                return None
        while True:
            self._rename_count += 1
            target = f"{topic_partition}.{self._rename_count:032x}{suffix}"
            if not self._env.disk.exists(target):
                break
        self._env.disk.rename(str(topic_partition), target)
        self._renamed.append(target)
        self._checkpoints_are_stale = True
        return target

    def forget_renamed(self) -> None:
        """Takes logs that are gone out of the checkpoints. A checkpoint knows a log by name only:
        after a power cut it would say of a topic that was made anew under the same name what was
        true of the former one, and a high watermark that nobody committed would count."""
        if self._checkpoints_are_stale:
            self._checkpoints_are_stale = False
            self._checkpoint_all(RenamesForgotten(self._first_renamed + len(self._renamed)))

    def on_renames_forgotten(self, subject: RenamesForgotten) -> None:
        """Those checkpoints are durable, with what was before them."""
        self._forgotten_end = max(self._forgotten_end, subject.upto)

    def clear_renamed(self) -> int:
        """Deletes the renamed directories of which no checkpoint speaks any more, or lets them be;
        returns how many."""
        count = 0
        while self._first_renamed < self._forgotten_end:
            name = self._renamed[0]
            if name.endswith(_DELETE_SUFFIX):
                self._env.disk.delete(name)
            else:
                self._env.disk.rename(name, name.removesuffix(_ASIDE_SUFFIX) + _STRAY_SUFFIX)
            self._renamed.pop(0)
            self._first_renamed += 1
            count += 1
        return count

    # Damage ----------------------------------------------------------------------------------

    def quarantine(self, topic_partition: TopicPartition, error: LogDamaged) -> None:
        """Takes a log out of service whose files were found to be damaged."""
        log = self.logs[topic_partition]
        # All of it counts as durable from now on: were a crash allowed to shorten the log, it could
        # be taken for a sound one that is merely shorter.
        checkpoints = Checkpoints(log.log_end_offset, log.log_start_offset, log.high_watermark)
        self._note_damage(topic_partition, error, checkpoints)
        self.checkpoint_recovery_points()

    def is_sound(self, topic_partition: TopicPartition) -> bool:
        """Reads all of a log and takes it out of service if it is damaged; one that does not exist
        is sound."""
        log = self.logs.get(topic_partition)
        if log is not None:
            try:
                log.verify()
            except LogDamaged as error:
                self.quarantine(topic_partition, error)
        return topic_partition not in self.damaged

    def repair(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        *,
        remember: bool = False,
    ) -> Log:
        """Removes the bad segment of a damaged log and all behind it; the rest is in service again,
        a shorter log than the cluster may believe this replica to have.

        With `remember` the checkpoints go on naming the former end, so that a restart finds the
        log damaged again, until `forget_former_end`; and what is removed is set aside.
        """
        damage = self.damaged[topic_partition]
        path = str(topic_partition)
        self._env.disk.make_dir(path)
        bad_from = damage.base_offset
        while True:
            kept = cut_from(self._env.disk, path, bad_from, set_aside=remember)
            known = damage.checkpoints if kept else Checkpoints()
            checkpoints = Checkpoints(
                log_start_offset=min(known.log_start_offset, bad_from),
                high_watermark=min(known.high_watermark, bad_from),
                compacted=known.compacted,
            )
            try:
                log = open_log(
                    self._env, path, topic_partition, config, checkpoints, clean=True, wall_ms=-1
                )
                break
            except LogDamaged as error:
                bad_from = error.base_offset if error.base_offset < bad_from else 0
        for segment in log.segments:
            # Its files were closed with flushes under way, which were skipped.
            for file in segment.unsynced_files():
                self._env.disk.sync(file)
        del self.damaged[topic_partition]
        log.continue_after(damage.truncation_count)
        log.assign_topic_id(topic_id)
        self.logs[topic_partition] = log
        if remember:
            self.remembered[topic_partition] = damage
        self.checkpoint_recovery_points()
        return log

    def forget_former_end(self, topic_partition: TopicPartition) -> None:
        """The log has again what it had before it was repaired."""
        del self.remembered[topic_partition]
        self.checkpoint_recovery_points()
        self.checkpoint_high_watermarks()

    # Checkpoints -----------------------------------------------------------------------------

    def checkpoint_high_watermarks(self, subject: Hashable | None = None) -> None:
        """Emits `replication-offset-checkpoint`."""
        self._checkpoint(
            HIGH_WATERMARK_FILE,
            {partition: log.high_watermark for partition, log in self.logs.items()}
            | {key: damage.checkpoints.high_watermark for key, damage in self.remembered.items()},
            subject,
        )

    def checkpoint_recovery_points(self, subject: Hashable | None = None) -> None:
        """Emits `recovery-point-offset-checkpoint`: what a log may lack no record of after a crash.
        Nothing is claimed of what is about to be cut (*ClaimBeforeCut*)."""
        claims = {
            partition: min(log.recovery_point, log.announced_end)
            for partition, log in self.logs.items()
        }
        self._checkpoint(RECOVERY_POINT_FILE, claims | self._former_ends, subject)

    @property
    def _former_ends(self) -> dict[TopicPartition, int]:
        """What the damaged logs were known to have: it must not be forgotten before it is back."""
        return {
            partition: damage.checkpoints.recovery_point
            for partition, damage in (*self.damaged.items(), *self.remembered.items())
        }

    def checkpoint_log_start_offsets(self, subject: Hashable | None = None) -> None:
        """Emits `log-start-offset-checkpoint`, for logs that start above their first segment."""
        self._checkpoint(
            LOG_START_FILE,
            {
                partition: log.log_start_offset
                for partition, log in self.logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            },
            subject,
        )

    def _checkpoint_all(self, subject: Hashable | None = None) -> None:
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks(subject)

    def _checkpoint(
        self, name: str, offsets: dict[TopicPartition, int], subject: Hashable | None = None
    ) -> None:
        self._env.effects.emit(Replace(name, encode_offsets(offsets), subject))

    def close_cleanly(self, marker: CleanShutdown) -> DirectoryClosed:
        """Emits everything a clean stop needs, the marker last; returns its subject.

        The effects must all be carried out before the process ends. Files stay open until then;
        nothing may be appended any more.
        """
        for log in self.logs.values():
            log.prepare_close()
        self._checkpoint(
            RECOVERY_POINT_FILE,
            {partition: log.log_end_offset for partition, log in self.logs.items()}
            | self._former_ends,
        )
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()
        subject = DirectoryClosed(self.directory_id)
        data = encode_clean_shutdown(marker)
        self._env.effects.emit(Replace(CLEAN_SHUTDOWN_FILE, data, subject))
        return subject

    def close(self) -> None:
        """Releases all files without any promise about their content."""
        for log in self.logs.values():
            log.close()

    def check(self) -> None:
        """Asserts the invariants of every log."""
        for partition, log in self.logs.items():
            assert log.topic_partition == partition, f"{log.topic_partition} under {partition}"
            assert partition not in self.damaged, f"{partition} is damaged and in service"
            log.check()


def _read_clean_shutdown(disk: Disk, trace: Trace) -> CleanShutdown | None:
    """The marker of a clean stop; `None` without one."""
    marker = disk.read_file(CLEAN_SHUTDOWN_FILE)
    try:
        return None if marker is None else decode_clean_shutdown(marker)
    except CheckpointDamaged as error:
        trace.warn(CLEAN_SHUTDOWN_FILE, "open", "ignored, all logs are recovered", str(error))
        return None


def format_directory(disk: Disk, *, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
    """Writes `meta.properties`. Raises `UsageError` when the directory is formatted already."""
    require_unformatted(disk)
    disk.replace(META_PROPERTIES_FILE, encode_meta_properties(cluster_id, node_id, directory_id))


def require_unformatted(disk: Disk) -> None:
    """Raises `UsageError` when the directory has a `meta.properties`."""
    if is_formatted(disk):
        raise UsageError(
            f"log directory `{disk.root}` is already formatted",
            "use it as it is, or choose an empty directory",
        )


def is_formatted(disk: Disk) -> bool:
    """Whether the directory has a `meta.properties`."""
    return disk.exists(META_PROPERTIES_FILE)


def read_identity(disk: Disk) -> DirectoryIdentity:
    """Whose directory this is. Raises `UsageError` when that cannot be told."""
    data = disk.read_file(META_PROPERTIES_FILE)
    if data is None:
        if any(parse_partition_name(name) is not None for name in disk.list_dir()):
            raise UsageError(
                f"`{disk.root}/{META_PROPERTIES_FILE}` is missing from a directory with logs",
                "restore the file; what it says, cluster, node and directory id, is in the node's "
                "log, and in the metadata of the others",
            )
        raise UsageError(
            f"log directory `{disk.root}` is not formatted",
            "run `tidelog format FILE.properties --cluster-id ID` first",
        )
    try:
        properties = decode_properties(data)
        if properties["version"] != "1":
            raise UsageError(
                f"`{disk.root}/{META_PROPERTIES_FILE}` has version `{properties['version']}`",
                "only version 1 is known; upgrade the directory with Kafka 3.7 or later",
            )
        return DirectoryIdentity(
            properties["cluster.id"],
            int(properties["node.id"]),
            uuid_from_text(properties["directory.id"]),
        )
    except (CheckpointDamaged, KeyError, ValueError) as error:
        detail = f"it has no `{error.args[0]}`" if isinstance(error, KeyError) else error
        raise UsageError(
            f"`{disk.root}/{META_PROPERTIES_FILE}` cannot be used: {detail}",
            "restore the file, or format an empty directory",
        ) from None


def parse_partition_name(name: str) -> TopicPartition | None:
    """The partition that a directory name stands for; `None` for other names."""
    if name.endswith((_DELETE_SUFFIX, _STRAY_SUFFIX, _FUTURE_SUFFIX)):
        return None
    topic, separator, number = name.rpartition("-")
    if not separator or not topic or not number.isdecimal():
        return None
    if not _TOPIC_NAME_CHARS.issuperset(topic):
        return None
    return TopicPartition(topic, int(number))


def _renamed_from(name: str) -> TopicPartition | None:
    """The partition whose log lies in a directory that was renamed, as long as a checkpoint may
    speak of it; `None` for other names."""
    if not name.endswith((_DELETE_SUFFIX, _ASIDE_SUFFIX)):
        return None
    return parse_partition_name(name.rpartition(".")[0])
