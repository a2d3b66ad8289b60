"""What of a log is on a device for sure, and in what its process sees: batches, file by file.

Works on the files alone, so that it can judge what the product makes of them. What was read once is
not read again: a file that still begins with the bytes of the last look is read on from there.

A `.log.swap` is complete: a start puts it in the place of the segments whose offsets it covers, and
so does this. Its names are not durable at once, while the active segment is written on; a power cut
may keep what was written of the one and lose the names of the other.
"""

from collections.abc import Mapping
from typing import NamedTuple

import crc32c

from tidelog.log.checkpoint import (
    LOG_START_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    CheckpointDamaged,
    decode_offsets,
    decode_partition_metadata,
)
from tidelog.log.file_names import LOG_SUFFIX, offset_of
from tidelog.log.partition_directories import parse_partition_name
from tidelog.log.replacement import CLEANED_SUFFIX, SWAP_SUFFIX
from tidelog.model import TopicId
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.evidence.scrub import ScrubbedBatch, batches_of


class LogImages(NamedTuple):
    """The batches of one log before a power cut."""

    written: tuple[ScrubbedBatch, ...]
    """As the process saw them, in order."""
    on_device: tuple[ScrubbedBatch, ...]
    """As the device had them for sure, up to the first hole."""
    under_old_names: tuple[ScrubbedBatch, ...] = ()
    """While a swap is under way: as the process saw them in the files that the device has names
    for."""

    log_start: int = 0
    """Where the log began by its files and its checkpoint. Whatever is below may be there or not,
    and is left out of the rest."""
    is_safe: bool = True
    """Whether a start may not drop the log: the device has its topic id, or its recovery point
    claims records."""

    def allow(self, found: tuple[ScrubbedBatch, ...]) -> bool:
        """Whether a start may find this from the log start on."""
        images = (self.written, self.on_device, self.under_old_names)
        return any(found == image[: len(found)] for image in images)

    @property
    def kept_count(self) -> int:
        """How many of the first written batches the device had for sure. A flush that covers no
        record may take one along that was written since, and the first that covers one makes the
        topic id durable: without it a start cannot say whose log this is, and drops it."""
        if not self.is_safe:
            return 0
        pairs = zip(self.written, self.on_device, strict=False)
        return next(
            (index for index, (mine, theirs) in enumerate(pairs) if mine != theirs),
            min(len(self.written), len(self.on_device)),
        )


class _Read(NamedTuple):
    size_bytes: int
    checksum: int
    batches: list[ScrubbedBatch]


class LogReader:
    """Reads the logs of many disks again and again."""

    def __init__(self) -> None:
        # By disk and path: what was sound at the last look.
        self._read: dict[tuple[str, str], _Read] = {}

    def batches(
        self, root: str, files: Mapping[str, bytes], directory: str
    ) -> tuple[ScrubbedBatch, ...]:
        """The batches of a log as far as they follow each other without damage."""
        found: list[ScrubbedBatch] = []
        covered_to = -1
        for path in _log_paths(files, directory):
            if offset_of(_name(path)) < covered_to:
                continue
            batches, is_whole = self._batches_of(root, path, files[path])
            if path.endswith(SWAP_SUFFIX) and batches:
                covered_to = batches[-1].last_offset + 1
            if found and batches and batches[0].base_offset <= found[-1].last_offset:
                break
            found += batches
            if not is_whole:
                break
        return tuple(found)

    def _batches_of(self, root: str, path: str, data: bytes) -> tuple[list[ScrubbedBatch], bool]:
        start, before = 0, self._read.get((root, path))
        known: list[ScrubbedBatch] = []
        if before is not None and crc32c.crc32c(data[: before.size_bytes]) == before.checksum:
            start, known = before.size_bytes, before.batches
        fresh, complaint = batches_of(data, start)
        if known and fresh and fresh[0].base_offset <= known[-1].last_offset:
            return known, False
        found = known + fresh
        if complaint is None:
            self._read[root, path] = _Read(len(data), crc32c.crc32c(data), found)
        return found, complaint is None

    def images(self, disk: SimDisk, directories: list[str]) -> dict[str, LogImages]:
        """What a power cut would make a choice between, by directory."""
        seen, durable = seen_files(disk), disk.durable_files()
        mixed = {path: seen.get(path, data) for path, data in durable.items()}
        swapping = {
            path.rpartition("/")[0] for path in (*seen, *durable) if path.endswith(SWAP_SUFFIX)
        }
        found: dict[str, LogImages] = {}
        for name in directories:
            start = log_start_in(seen, name)
            found[name] = LogImages(
                from_offset(start, self.batches(disk.root, seen, name)),
                from_offset(start, self.batches(disk.root, durable, name)),
                from_offset(
                    start, self.batches(disk.root, mixed if name in swapping else {}, name)
                ),
                start,
                topic_id_in(durable, name) is not None
                or bool(_offset_in(RECOVERY_POINT_FILE, durable, name)),
            )
        return found


def log_start_in(files: Mapping[str, bytes], directory: str) -> int:
    """Where a log begins: at its first segment, or above it by the checkpoint."""
    first = min((offset_of(_name(path)) for path in _log_paths(files, directory)), default=0)
    return max(first, _offset_in(LOG_START_FILE, files, directory))


def _offset_in(checkpoint: str, files: Mapping[str, bytes], directory: str) -> int:
    """What a checkpoint says of a log; 0 if nothing."""
    partition = parse_partition_name(directory)
    try:
        offsets = decode_offsets(files.get(checkpoint, b""))
    except CheckpointDamaged:
        return 0
    return 0 if partition is None else offsets.get(partition, 0)


def topic_id_in(files: Mapping[str, bytes], directory: str) -> TopicId | None:
    """Whose log a directory says that it is."""
    try:
        return decode_partition_metadata(files.get(f"{directory}/{PARTITION_METADATA_FILE}", b""))
    except CheckpointDamaged:
        return None


def from_offset(start: int, batches: tuple[ScrubbedBatch, ...]) -> tuple[ScrubbedBatch, ...]:
    """Those that begin there or above."""
    return tuple(batch for batch in batches if batch.base_offset >= start)


def seen_files(disk: SimDisk) -> dict[str, bytes]:
    """Every file as its process sees it."""
    return {path: bytes(content.data) for path, content in disk.contents()}


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _log_paths(files: Mapping[str, bytes], directory: str) -> list[str]:
    """In order; a `.swap` comes before the segments that it covers, and not at all where a
    `.cleaned` of its round shows that a start deletes it."""
    prefix = f"{directory}/"
    names = sorted(path.removeprefix(prefix) for path in files if path.startswith(prefix))
    unfinished = min(
        (offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)), default=-1
    )
    swaps = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if unfinished >= 0:
        swaps = [name for name in swaps if offset_of(name) < unfinished]
    logs = swaps + [name for name in names if name.endswith(LOG_SUFFIX)]
    return [prefix + name for name in sorted(logs, key=offset_of)]
