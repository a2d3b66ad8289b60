"""One Kafka log directory: every log of a node, its checkpoints and its markers.

Layout: `meta.properties` says whose directory it is; `<topic>-<partition>` directories hold the
logs, the metadata log among them; three checkpoint files hold each log's recovery point, start
offset and high watermark; `.kafka_cleanshutdown` is there only between a clean stop and the next
start. It is deleted as soon as it is read: a process that dies later must not look clean, or an
election that trusts the marker could pick a replica with lost data.

Deleting a topic renames its directories first (`<topic>-<partition>.<32 hex>-delete`), so that a
topic of the same name can be created at once, and removes them later.

Checkpoints are written by `Replace` effects. A clean stop too is a sequence of effects, each
after the one before: data, indexes and snapshots, checkpoints, and last the marker, whose
`Replace` carries the subject `DirectoryClosed`. Once that is answered the node may exit.

Invariants
- A log is in `logs` exactly while its directory carries its plain name.
- The recovery point checkpoint never claims more than was flushed when it was emitted.

Left out: the lock against a second process (the runtime's disk takes it) and more than one
directory per node (JBOD).

Source: Kafka's `LogManager`, `MetaPropertiesEnsemble`; KIP-858, KIP-966 (clean shutdown epoch).
"""

from typing import Final, NamedTuple

from tidelog.config import LogConfig
from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue, Replace
from tidelog.env.trace import Trace
from tidelog.errors import UsageError
from tidelog.log.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    CheckpointDamaged,
    decode_clean_shutdown,
    decode_offsets,
    decode_properties,
    encode_clean_shutdown,
    encode_meta_properties,
    encode_offsets,
)
from tidelog.log.loading import Checkpoints, open_log
from tidelog.log.log import Log
from tidelog.log.tail_budget import TailBudget
from tidelog.log.values import LogEnv
from tidelog.model import TopicId, TopicPartition, Uuid, uuid_from_text

_DELETE_SUFFIX: Final = "-delete"
_STRAY_SUFFIX: Final = "-stray"
_FUTURE_SUFFIX: Final = "-future"
_TOPIC_NAME_CHARS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


class DirectoryClosed(NamedTuple):
    """Subject of the last effect of a clean stop."""

    directory_id: Uuid


class DirectoryIdentity(NamedTuple):
    """What `meta.properties` says."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


class LogDirectory:
    """All logs below one root."""

    def __init__(
        self,
        env: LogEnv,
        identity: DirectoryIdentity,
        default_config: LogConfig,
        clean_shutdown_broker_epoch: int | None,
    ) -> None:
        # From `meta.properties`; never changes.
        self.cluster_id = identity.cluster_id
        self.node_id = identity.node_id
        self.directory_id = identity.directory_id
        # Broker epoch of the last clean stop (-1 when the marker had none); `None` after a crash
        # and on a new directory.
        self.clean_shutdown_broker_epoch = clean_shutdown_broker_epoch
        # Every log in service, the metadata log included.
        self.logs: dict[TopicPartition, Log] = {}
        self._env = env
        # For logs found on disk, until their topic's own configuration is applied.
        self._default_config = default_config
        # Directories that were renamed for deletion and still exist.
        self._renamed: list[str] = []
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
        marker = disk.read_file(CLEAN_SHUTDOWN_FILE)
        broker_epoch = None if marker is None else decode_clean_shutdown(marker)
        disk.delete(CLEAN_SHUTDOWN_FILE)
        env = LogEnv(disk, effects, trace, TailBudget())
        directory = cls(env, identity, default_config, broker_epoch)
        directory._load_logs(marker is not None, wall_ms)
        return directory

    def _load_logs(self, clean: bool, wall_ms: int) -> None:
        disk = self._env.disk
        recovery_points = self._read_checkpoint(RECOVERY_POINT_FILE)
        log_starts = self._read_checkpoint(LOG_START_FILE)
        high_watermarks = self._read_checkpoint(HIGH_WATERMARK_FILE)
        for name in disk.list_dir():
            if name.endswith(_DELETE_SUFFIX):
                self._renamed.append(name)
                continue
            partition = parse_partition_name(name)
            if partition is None:
                continue
            checkpoints = Checkpoints(
                recovery_points.get(partition, 0),
                log_starts.get(partition, 0),
                high_watermarks.get(partition, 0),
            )
            log = open_log(
                self._env,
                name,
                partition,
                self._default_config,
                checkpoints,
                clean=clean,
                wall_ms=wall_ms,
            )
            self.logs[partition] = log
        self._env.trace.info(
            disk.root,
            "open",
            "loaded",
            "" if clean else "no clean shutdown marker, logs were recovered",
            logs=len(self.logs),
        )

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint counts as empty: recovery then looks at everything."""
        try:
            return decode_offsets(self._env.disk.read_file(name) or b"")
        except CheckpointDamaged as error:
            self._env.trace.warn(name, "open", "ignored", str(error))
            return {}

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Makes a new empty log; it must not exist yet."""
        assert topic_partition not in self.logs, f"{topic_partition} exists"
        path = str(topic_partition)
        self._env.disk.make_dir(path)
        log = open_log(
            self._env, path, topic_partition, config, Checkpoints(), clean=True, wall_ms=-1
        )
        log.assign_topic_id(topic_id)
        self.logs[topic_partition] = log
        return log

    def schedule_delete(self, topic_partition: TopicPartition) -> None:
        """Takes the log out of service and renames its directory; see `delete_renamed`."""
        log = self.logs.pop(topic_partition)
        log.close()
        while True:
            self._rename_count += 1
            target = f"{topic_partition}.{self._rename_count:032x}{_DELETE_SUFFIX}"
            if not self._env.disk.exists(target):
                break
        self._env.disk.rename(str(topic_partition), target)
        self._renamed.append(target)
        self._env.trace.info(topic_partition, "schedule_delete", "renamed", directory=target)

    def delete_renamed(self) -> int:
        """Deletes all renamed directories; returns how many."""
        count = len(self._renamed)
        while self._renamed:
            self._env.disk.delete(self._renamed[-1])
            self._renamed.pop()
        return count

    # Checkpoints -----------------------------------------------------------------------------

    def checkpoint_high_watermarks(self) -> None:
        """Emits `replication-offset-checkpoint`."""
        self._checkpoint(
            HIGH_WATERMARK_FILE,
            {partition: log.high_watermark for partition, log in self.logs.items()},
        )

    def checkpoint_recovery_points(self) -> None:
        """Emits `recovery-point-offset-checkpoint`."""
        self._checkpoint(
            RECOVERY_POINT_FILE,
            {partition: log.recovery_point for partition, log in self.logs.items()},
        )

    def checkpoint_log_start_offsets(self) -> None:
        """Emits `log-start-offset-checkpoint`, for logs that start above their first segment."""
        self._checkpoint(
            LOG_START_FILE,
            {
                partition: log.log_start_offset
                for partition, log in self.logs.items()
                if log.log_start_offset > log.segments[0].base_offset
            },
        )

    def _checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        self._env.effects.emit(Replace(name, encode_offsets(offsets)))

    def close_cleanly(self, broker_epoch: int) -> DirectoryClosed:
        """Emits everything a clean stop needs, the marker last; returns its subject.

        The effects must all be carried out before the process ends. Files stay open until then;
        nothing may be appended any more.
        """
        for log in self.logs.values():
            log.prepare_close()
        self._checkpoint(
            RECOVERY_POINT_FILE,
            {partition: log.log_end_offset for partition, log in self.logs.items()},
        )
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()
        subject = DirectoryClosed(self.directory_id)
        marker = encode_clean_shutdown(broker_epoch)
        self._env.effects.emit(Replace(CLEAN_SHUTDOWN_FILE, marker, subject))
        return subject

    def close(self) -> None:
        """Releases all files without any promise about their content."""
        for log in self.logs.values():
            log.close()

    def check(self) -> None:
        """Asserts the invariants of every log."""
        for partition, log in self.logs.items():
            assert log.topic_partition == partition, f"{log.topic_partition} under {partition}"
            log.check()


def format_directory(disk: Disk, *, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
    """Writes `meta.properties`. Raises `UsageError` when the directory is formatted already."""
    if disk.exists(META_PROPERTIES_FILE):
        raise UsageError(
            f"log directory `{disk.root}` is already formatted",
            "use it as it is, or choose an empty directory",
        )
    disk.replace(META_PROPERTIES_FILE, encode_meta_properties(cluster_id, node_id, directory_id))


def is_formatted(disk: Disk) -> bool:
    """Whether the directory has a `meta.properties`."""
    return disk.exists(META_PROPERTIES_FILE)


def read_identity(disk: Disk) -> DirectoryIdentity:
    """Whose directory this is. Raises `UsageError` when that cannot be told."""
    data = disk.read_file(META_PROPERTIES_FILE)
    if data is None:
        raise UsageError(
            f"log directory `{disk.root}` is not formatted",
            "run `tidelog format FILE.properties --cluster-id ID` first",
        )
    try:
        properties = decode_properties(data)
        if properties.get("version") != "1":
            raise UsageError(
                f"`{disk.root}/{META_PROPERTIES_FILE}` has version `{properties.get('version')}`",
                "only version 1 is known; upgrade the directory with Kafka 3.7 or later",
            )
        return DirectoryIdentity(
            properties["cluster.id"],
            int(properties["node.id"]),
            uuid_from_text(properties["directory.id"]),
        )
    except (CheckpointDamaged, KeyError, ValueError) as error:
        raise UsageError(
            f"`{disk.root}/{META_PROPERTIES_FILE}` cannot be used: {error}",
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
