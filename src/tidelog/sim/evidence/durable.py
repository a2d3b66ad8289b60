"""What of a log is on a device for sure, and in what its process sees: batches, file by file.

Works on the files alone, so that it can judge what the product makes of them. What was read once is
not read again: a file that still begins with the bytes of the last look is read on from there.
"""

from collections.abc import Mapping
from typing import NamedTuple

import crc32c

from tidelog.log.file_names import LOG_SUFFIX
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.evidence.scrub import ScrubbedBatch, batches_of


class LogImages(NamedTuple):
    """The batches of one log before a power cut."""

    written: tuple[ScrubbedBatch, ...]
    """As the process saw them, in order."""
    on_device: tuple[ScrubbedBatch, ...]
    """As the device had them for sure, up to the first hole."""

    @property
    def kept_count(self) -> int:
        """How many of the first written batches the device had for sure."""
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
        for path in sorted(_log_paths(files, directory)):
            batches, is_whole = self._batches_of(root, path, files[path])
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
        return {
            name: LogImages(
                self.batches(disk.root, seen, name), self.batches(disk.root, durable, name)
            )
            for name in directories
        }


def seen_files(disk: SimDisk) -> dict[str, bytes]:
    """Every file as its process sees it."""
    return {path: bytes(content.data) for path, content in disk.contents()}


def _log_paths(files: Mapping[str, bytes], directory: str) -> list[str]:
    prefix = f"{directory}/"
    return [path for path in files if path.startswith(prefix) and path.endswith(LOG_SUFFIX)]
