"""Reading the checkpoint files of a log directory at a start.

Recovery learns from them which records were durable. When one is missing or damaged, everything
counts as durable, and all checkpoints are written anew.
"""

from collections.abc import Set
from typing import NamedTuple

from tidelog.env.disk import Disk
from tidelog.env.trace import Trace
from tidelog.log.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    CheckpointDamaged,
    CleanShutdown,
    decode_clean_shutdown,
    decode_offsets,
    encode_offsets,
)
from tidelog.log.events import RecoveryPointsMissing
from tidelog.log.partition_directories import parse_partition_name, renamed_from
from tidelog.log.values import Checkpoints
from tidelog.model import TopicPartition

_Offsets = dict[TopicPartition, int]


class FoundCheckpoints(NamedTuple):
    """The checkpoints of a directory."""

    by_partition: dict[TopicPartition, Checkpoints]
    """Also of partitions that have no directory."""
    sound: bool
    """Whether every file could be read."""


def read_checkpoints(disk: Disk, trace: Trace, names: list[str], clean: bool) -> FoundCheckpoints:
    """The offsets that the checkpoints have for each partition.

    After a crash a checkpoint may still name a log that was renamed just before, and another log
    may have that name now. Such entries are left out.
    """
    has_logs = any(parse_partition_name(name) is not None for name in names)
    if not has_logs and not disk.exists(RECOVERY_POINT_FILE):
        # From now on a missing file is a lost one.
        disk.replace(RECOVERY_POINT_FILE, encode_offsets({}))
    stale = set() if clean else {renamed_from(name) for name in names}
    recovery_points = _read_checkpoint(disk, trace, RECOVERY_POINT_FILE, stale)
    if has_logs and not disk.read_file(RECOVERY_POINT_FILE):
        recovery_points = None
        trace.event(RecoveryPointsMissing())
    others = [
        _read_checkpoint(disk, trace, LOG_START_FILE, stale),
        _read_checkpoint(disk, trace, HIGH_WATERMARK_FILE, stale),
        _read_checkpoint(disk, trace, CLEANER_FILE, set()),
    ]
    log_starts, high_watermarks, cleaned = (offsets or {} for offsets in others)
    complete = recovery_points is not None
    recovery_points = recovery_points or {}
    named = (parse_partition_name(name) for name in names)
    partitions = {partition for partition in named if partition is not None}
    by_partition = {
        partition: Checkpoints(
            recovery_points.get(partition, 0),
            log_starts.get(partition, 0),
            high_watermarks.get(partition, 0),
            complete,
            partition in cleaned,
        )
        for partition in sorted(partitions | recovery_points.keys())
    }
    return FoundCheckpoints(by_partition, complete and None not in others)


def _read_checkpoint(
    disk: Disk, trace: Trace, file: str, stale: Set[TopicPartition | None]
) -> _Offsets | None:
    """A checkpoint without the entries of stale names; `None` when it is damaged."""
    try:
        offsets = decode_offsets(disk.read_file(file) or b"")
        return {name: offset for name, offset in offsets.items() if name not in stale}
    except CheckpointDamaged as error:
        trace.warn(file, "read_checkpoint", "ignored", str(error))
        return None


def read_clean_shutdown(disk: Disk, trace: Trace) -> CleanShutdown | None:
    """The marker of a clean stop; `None` without one."""
    marker = disk.read_file(CLEAN_SHUTDOWN_FILE)
    try:
        return None if marker is None else decode_clean_shutdown(marker)
    except CheckpointDamaged as error:
        decision = "ignored, all logs are recovered"
        trace.warn(CLEAN_SHUTDOWN_FILE, "read_clean_shutdown", decision, str(error))
        return None
