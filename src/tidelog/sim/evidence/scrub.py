"""Reads every file of a disk as a stranger would, and says what is wrong with it.

It shares the decoders of the formats with the product and nothing else: no indexes, no caches, no
repair. What may lawfully be old (the index files of an active segment, a checkpoint that lags) is
only looked at for its form.
"""

from collections.abc import Iterator, Mapping
from struct import iter_unpack
from typing import Final, NamedTuple

from tidelog.env.disk import Disk
from tidelog.errors import CorruptBatch, StorageError, UsageError
from tidelog.kraft.quorum_state import decode_state
from tidelog.log import checkpoint
from tidelog.log.file_names import (
    GAPS_FILE,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_of,
)
from tidelog.log.flushed_end import FlushedEnd
from tidelog.log.partition_directories import parse_partition_name
from tidelog.log.producer_snapshots import SnapshotDamaged, decode_snapshot
from tidelog.model import INTERNAL_TOPICS, METADATA_PARTITION, TopicPartition
from tidelog.records.batch import batch_size_at, read_header, verify_crc

_NAME_DIGITS: Final = 20
OFFSET_FILES: Final = (
    checkpoint.HIGH_WATERMARK_FILE,
    checkpoint.LOG_START_FILE,
    checkpoint.RECOVERY_POINT_FILE,
)
_DAMAGE: Final = (
    *(checkpoint.CheckpointDamaged, SnapshotDamaged, CorruptBatch),
    *(StorageError, UsageError, UnicodeDecodeError),
)


class ScrubbedBatch(NamedTuple):
    """A whole batch with a right checksum."""

    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


def batches_of(data: bytes, start: int = 0) -> tuple[list[ScrubbedBatch], str | None]:
    """The sound batches from `start` on, and what follows them if it is none."""
    found: list[ScrubbedBatch] = []
    position = start
    while position < len(data):
        size_bytes = batch_size_at(data, position)
        if size_bytes is None or size_bytes < 61 or position + size_bytes > len(data):
            return found, f"{len(data) - position} bytes at {position} are no batch"
        try:
            header = read_header(data, position)
        except CorruptBatch as error:
            return found, f"no batch at {position}: {error.message}"
        if not verify_crc(data, position):
            return found, f"wrong checksum at {position}"
        if found and header.base_offset <= found[-1].last_offset:
            return found, f"offset {header.base_offset} at {position} after {found[-1]}"
        found.append(
            ScrubbedBatch(
                position, header.base_offset, header.last_offset, header.leader_epoch, header.crc
            )
        )
        position += size_bytes
    return found, None


def scrub(disk: Disk, *, settled: bool) -> list[str]:
    """Everything that is wrong. `settled`: nothing is being written, so that what lags behind for
    a moment must agree too."""
    found = list(_scrub_root(disk))
    cleaned = _offsets_in(disk, checkpoint.CLEANER_FILE)
    recovery_points = _offsets_in(disk, checkpoint.RECOVERY_POINT_FILE)
    log_starts = _offsets_in(disk, checkpoint.LOG_START_FILE)
    high_watermarks = _offsets_in(disk, checkpoint.HIGH_WATERMARK_FILE)
    for name in disk.list_dir():
        partition = parse_partition_name(name)
        if partition is not None:
            may_have_gaps = partition in cleaned or partition.topic in INTERNAL_TOPICS
            may_have_gaps |= disk.exists(f"{name}/{GAPS_FILE}")
            files, batches, complaints = _scrub_segments(disk, name, may_have_gaps)
            complaints += _scrub_small(files)
            if settled:
                log_start, claimed_to = (
                    log_starts.get(partition, 0),
                    recovery_points.get(partition, 0),
                )
                complaints += _scrub_epochs(files, batches, log_start, claimed_to)
                if partition == METADATA_PARTITION:
                    # A voter cuts only above its high watermark, and writes no checkpoint then.
                    claimed_to = min(claimed_to, high_watermarks.get(partition, 0))
                    claimed_to = max(claimed_to, FlushedEnd(disk, name).read())
                complaints += _scrub_end(files, batches, claimed_to)
                if batches and checkpoint.PARTITION_METADATA_FILE not in files:
                    # The process has it in memory; the next one may drop the records (1093490072).
                    complaints.append(f"{checkpoint.PARTITION_METADATA_FILE}: missing")
            found += (f"{name}/{complaint}" for complaint in complaints)
    return found


def _scrub_root(disk: Disk) -> Iterator[str]:
    for name in OFFSET_FILES:
        try:
            checkpoint.decode_offsets(disk.read_file(name) or b"")
        except _DAMAGE as error:
            yield f"{name}: {error}"
    try:
        if (
            checkpoint.decode_properties(
                disk.read_file(checkpoint.META_PROPERTIES_FILE) or b""
            ).get("version")
            != "1"
        ):
            yield f"{checkpoint.META_PROPERTIES_FILE}: no version"
    except _DAMAGE as error:
        yield f"{checkpoint.META_PROPERTIES_FILE}: {error}"


def _offsets_in(disk: Disk, name: str) -> Mapping[TopicPartition, int]:
    """An offset checkpoint; it counts as empty if it cannot be read."""
    try:
        return checkpoint.decode_offsets(disk.read_file(name) or b"")
    except _DAMAGE:
        return {}


def _scrub_segments(
    disk: Disk, directory: str, may_have_gaps: bool
) -> tuple[dict[str, bytes], list[ScrubbedBatch], list[str]]:
    """The files of a partition, the batches in them, and what is wrong with the segments."""
    files = {
        name: disk.read_file(f"{directory}/{name}") or b"" for name in disk.list_dir(directory)
    }
    logs = sorted(name for name in files if _is_kind(name, LOG_SUFFIX))
    everything: list[ScrubbedBatch] = []
    found: list[str] = []
    for name in files:
        # A file may be gone from under a process that still has it open.
        log = name.removesuffix(INDEX_SUFFIX) + LOG_SUFFIX
        if _is_kind(name, INDEX_SUFFIX) and log not in files:
            found.append(f"{log}: missing")
    for name in logs:
        batches, complaint = batches_of(files[name])
        if complaint is not None:
            found.append(f"{name}: {complaint}")
        due = everything[-1].last_offset + 1 if everything else 0
        begin = batches[0].base_offset if batches else due
        if begin < due or (everything and begin > due and not may_have_gaps):
            found.append(f"{name}: begins with {batches[0]} after {everything[-1]}")
        everything += batches
        if name != logs[-1]:
            found += _scrub_indexes(files, name.removesuffix(LOG_SUFFIX), batches)
    return files, everything, found


def _is_kind(name: str, suffix: str) -> bool:
    return len(name) == _NAME_DIGITS + len(suffix) and name.endswith(suffix)


def _scrub_indexes(
    files: dict[str, bytes], base_name: str, batches: list[ScrubbedBatch]
) -> Iterator[str]:
    """The indexes of a sealed segment: every entry speaks of a batch that is there."""
    base = int(base_name)
    at = {batch.position: batch for batch in batches}
    last_offsets = {batch.last_offset for batch in batches}
    for suffix, size, form in ((INDEX_SUFFIX, 8, ">ii"), (TIME_INDEX_SUFFIX, 12, ">qi")):
        data = files.get(base_name + suffix)
        if data is None or len(data) % size:
            yield f"{base_name}{suffix}: {'missing' if data is None else 'cut'}"
            continue
        previous = (-1 << 62, -1 << 62)
        for entry in iter_unpack(form, data):
            if suffix == INDEX_SUFFIX:
                batch = at.get(entry[1])
                right = batch is not None and batch.last_offset == base + entry[0]
            else:
                right = base + entry[1] in last_offsets or not batches
            if not right or entry[0] <= previous[0] or entry[1] < previous[1]:
                yield f"{base_name}{suffix}: wrong entry {entry}"
            previous = entry


def _scrub_small(files: dict[str, bytes]) -> Iterator[str]:
    for name, data in files.items():
        try:
            if _is_kind(name, SNAPSHOT_SUFFIX):
                decode_snapshot(data)
            elif name == checkpoint.LEADER_EPOCH_FILE:
                checkpoint.decode_epochs(data)
            elif name == checkpoint.PARTITION_METADATA_FILE:
                checkpoint.decode_partition_metadata(data)
            elif name == "quorum-state":
                decode_state(data)
        except _DAMAGE as error:
            yield f"{name}: {error}"


def _scrub_end(
    files: Mapping[str, bytes], batches: list[ScrubbedBatch], claimed_to: int
) -> Iterator[str]:
    """The log reaches what the recovery point claims (*ClaimBeforeCut*). A file that is gone from
    under a process may have left nothing else behind (seed 86543929)."""
    ends = [offset_of(name) for name in files if _is_kind(name, LOG_SUFFIX)]
    ends += [batch.last_offset + 1 for batch in batches[-1:]]
    end = max(ends, default=0)
    if end < claimed_to:
        yield f"ends at {end}, {claimed_to} was durable"


def _scrub_epochs(
    files: Mapping[str, bytes], batches: list[ScrubbedBatch], log_start: int, recovery_point: int
) -> Iterator[str]:
    """The epoch file says of every batch in which epoch it was written. Of batches below the log
    start, which leave with their segment, it says nothing. A log of which the recovery point claims
    no record need not have the file yet (*EpochsBeforeClaim*)."""
    data = files.get(checkpoint.LEADER_EPOCH_FILE)
    if data is None and batches and recovery_point <= batches[0].base_offset:
        return
    try:
        entries = checkpoint.decode_epochs(data or b"")
    except checkpoint.CheckpointDamaged:
        return
    first_offset = max(log_start, entries[0][1] if entries else 0)
    for batch in batches:
        if batch.base_offset < first_offset:
            continue
        known = [epoch for epoch, start in entries if start <= batch.base_offset]
        if batch.leader_epoch >= 0 and (known[-1:] or [-1])[0] != batch.leader_epoch:
            yield f"{checkpoint.LEADER_EPOCH_FILE}: {entries} does not fit {batch}"
            return
