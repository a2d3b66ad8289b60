"""The checkpoint files of a log directory: read at a start, written where they have changed.

Recovery learns from them which records were durable. When one is missing or damaged, everything
counts as durable, and all checkpoints are written anew. A log that is damaged then keeps an entry
that says the same to the next start (`UNKNOWN_END`), until it reads as sound or is repaired. After
a clean stop the high watermarks say where logs have ended at least, if the file of the recovery
points does not.
"""

from collections.abc import Hashable, Set

from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue, Replace
from tidelog.env.trace import Trace
from tidelog.log import checkpoint
from tidelog.log.events import RecoveryPointsMissing
from tidelog.log.partition_directories import future_of, parse_partition_name, renamed_from
from tidelog.log.values import UNKNOWN_END, Checkpoints, HighWatermarksSaved
from tidelog.model import TopicPartition

_Offsets = dict[TopicPartition, int]


class WrittenCheckpoints:
    """The offset checkpoints of one directory as they were written last."""

    def __init__(self, effects: EffectQueue) -> None:
        self._effects = effects
        # By the file's name.
        self._files: dict[str, checkpoint.OffsetLines] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def write(self, name: str, offsets: _Offsets, subject: Hashable) -> bool:
        """Emits the file if it has other offsets than the last time, or its subject is awaited;
        returns whether it did."""
        written = self._files.get(name)
        if written is None:
            written = self._files[name] = checkpoint.OffsetLines()
        elif written.offsets == offsets and isinstance(subject, HighWatermarksSaved | None):
            return False
        self._effects.emit(Replace(name, written.encode(offsets), subject))
        return True


def read_checkpoints(
    disk: Disk, trace: Trace, names: list[str], clean: bool
) -> tuple[dict[TopicPartition, Checkpoints], bool]:
    """The offsets that the checkpoints have for each partition, also those that have no directory;
    and whether every file could be read. After a crash a checkpoint may still name a log that was
    renamed just before, and another log may have that name now. Such entries are left out. So are
    those of a copy that has its name back, beside a log: no checkpoint was written since."""
    named = (parse_partition_name(name) for name in names)
    partitions = {partition for partition in named if partition is not None}
    if not partitions and not disk.exists(checkpoint.RECOVERY_POINT_FILE):
        # From now on a missing file is a lost one.
        disk.replace(checkpoint.RECOVERY_POINT_FILE, checkpoint.encode_offsets({}))
    copies = {copy for copy in map(future_of, names) if copy is not None}
    stale = set() if clean else {renamed_from(name) for name in names} | (copies & partitions)
    recovery_points = _read_checkpoint(disk, trace, checkpoint.RECOVERY_POINT_FILE, stale)
    if partitions and not disk.read_file(checkpoint.RECOVERY_POINT_FILE):
        recovery_points = None
        trace.event(RecoveryPointsMissing())
    others = [
        _read_checkpoint(disk, trace, checkpoint.LOG_START_FILE, stale),
        _read_checkpoint(disk, trace, checkpoint.HIGH_WATERMARK_FILE, stale),
        _read_checkpoint(disk, trace, checkpoint.CLEANER_FILE, stale),
    ]
    log_starts, high_watermarks, cleaned = (offsets or {} for offsets in others)
    # Without the file every log may have gaps.
    unknown = -1 if others[-1] is not None else 0
    complete = recovery_points is not None
    if recovery_points is None:
        # A clean stop flushes all that is committed, and no crash takes the directory of a log.
        recovery_points = {
            partition: offset
            for partition, offset in high_watermarks.items()
            if clean or partition not in partitions
        }
    by_partition = {
        partition: Checkpoints(
            recovery_points.get(partition, 0) % UNKNOWN_END,
            log_starts.get(partition, 0),
            high_watermarks.get(partition, 0),
            complete and recovery_points.get(partition, 0) < UNKNOWN_END,
            cleaned.get(partition, unknown),
        )
        for partition in sorted(partitions | copies | recovery_points.keys())
    }
    return by_partition, complete and None not in others


def _read_checkpoint(
    disk: Disk, trace: Trace, file: str, stale: Set[TopicPartition | None]
) -> _Offsets | None:
    """A checkpoint without the entries of stale names; `None` when it is damaged."""
    try:
        offsets = checkpoint.decode_offsets(disk.read_file(file) or b"")
        return {name: offset for name, offset in offsets.items() if name not in stale}
    except checkpoint.CheckpointDamaged as error:
        trace.warn(file, "read_checkpoint", "ignored", str(error))
        return None


def read_clean_shutdown(disk: Disk, trace: Trace) -> checkpoint.CleanShutdown | None:
    """The marker of a clean stop; `None` without one."""
    marker = disk.read_file(checkpoint.CLEAN_SHUTDOWN_FILE)
    try:
        return None if marker is None else checkpoint.decode_clean_shutdown(marker)
    except checkpoint.CheckpointDamaged as error:
        decision = "ignored, all logs are recovered"
        trace.warn(checkpoint.CLEAN_SHUTDOWN_FILE, "read_clean_shutdown", decision, str(error))
        return None
