"""The directories of partitions: their names, and those that were renamed to be taken away.

Deleting a topic renames its directories first (`<topic>-<partition>.<32 hex>-delete`), so that a
topic of the same name can be created at once, and removes them when the checkpoints that do not
name them any more are durable. A log that moves here from another directory is in a `-future` until
it is complete (`futures.py`). What is set aside (`aside-stray`) loses the `aside` then, and is
kept. Kafka, which does not start on a name that it does not know, takes both for strays.

A checkpoint knows a log by its name only. After a power cut, entries of a deleted topic would count
for a topic that was created again under the same name, and so would a high watermark above its
committed records. Hence the invariant: a renamed directory outlives the checkpoints that still name
its log, on the device.

Source: Kafka's `LocalLog.logDeleteDirName`.
"""

from contextlib import suppress
from typing import Final, NamedTuple

from tidelog.env.disk import Disk
from tidelog.errors import StorageError
from tidelog.limits import MAX_FILES_DELETED
from tidelog.log.file_names import CORRUPT_SUFFIX
from tidelog.model import TopicPartition, Uuid

DELETE_SUFFIX: Final = "-delete"
ASIDE_SUFFIX: Final = "aside-stray"
_STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
_TOPIC_NAME_CHARS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


class RenamesForgotten(NamedTuple):
    """Subject of the last checkpoint of a set that does not name renamed directories."""

    directory_id: Uuid
    """The log directory in which they are."""
    upto: int
    """Counts the renames: all before this one."""


class RenamedDirectories:
    """Directories that were renamed, and still have that name."""

    def __init__(self, disk: Disk, directory_id: Uuid) -> None:
        self._disk = disk
        self._directory_id = directory_id
        # In the order of their renames.
        self._names: list[str] = []
        # The number of the first of them, and of the first that a checkpoint may still name.
        self._first_renamed = 0
        self._forgotten_end = 0
        # The number of the first that the checkpoints may name that were asked for last.
        self._announced_end = 0
        # Numbers the renames of this process, so that no two names are equal.
        self._rename_count = 0

    def find(self, names: list[str]) -> None:
        """Those that a start finds in the log directory. What is named so and never was a
        partition's is left alone."""
        self._names += [name for name in names if renamed_from(name) is not None]

    def has(self, topic_partition: TopicPartition) -> bool:
        """Whether a directory of this partition was renamed, and still has that name."""
        return any(renamed_from(name) == topic_partition for name in self._names)

    def rename(self, topic_partition: TopicPartition, suffix: str, source: str = "") -> str:
        """Renames a partition's directory, or another one (`source`) that has its log; returns its
        new name."""
        while True:
            self._rename_count += 1
            stem = f"{topic_partition}.{self._rename_count:032x}"
            target = f"{stem}{suffix}"
            if not self._disk.exists(target) and not self._disk.exists(f"{stem}{_STRAY_SUFFIX}"):
                break
        self._disk.rename(source or str(topic_partition), target)
        self._names.append(target)
        return target

    @property
    def _end(self) -> int:
        """The number of the next rename."""
        return self._first_renamed + len(self._names)

    @property
    def is_stale(self) -> bool:
        """Whether checkpoints have to be written; not before those are durable that were written
        for the same reason, so that a disk that hangs gets them once."""
        return self._forgotten_end == self._announced_end < self._end

    def take_stale(self) -> RenamesForgotten:
        """The subject for the checkpoints that have to be written."""
        assert self.is_stale, "all renames are forgotten, or about to be"
        self._announced_end = self._end
        return RenamesForgotten(self._directory_id, self._announced_end)

    def on_renames_forgotten(self, subject: RenamesForgotten) -> None:
        """Those checkpoints are durable, with what was before them."""
        self._forgotten_end = max(self._forgotten_end, subject.upto)

    def clear(self, most: int) -> int:
        """Deletes what no checkpoint names any more, or makes strays of it, up to so many; returns
        how many."""
        count = 0
        while count < most and self._first_renamed < self._forgotten_end:
            name = self._names[0]
            if name.endswith(DELETE_SUFFIX):
                if self._disk.delete_some(name, MAX_FILES_DELETED) == MAX_FILES_DELETED:
                    count += 1
                    continue
            else:
                self._disk.rename(name, name.removesuffix(ASIDE_SUFFIX) + _STRAY_SUFFIX)
            self._names.pop(0)
            self._first_renamed += 1
            count += 1
        return count


def is_file(disk: Disk, name: str) -> bool:
    """Whether a file has this name, and no directory."""
    with suppress(StorageError):
        return disk.read_head(name, 1) is not None
    return False


def make_partition_dir(disk: Disk, name: str) -> bool:
    """Makes a partition's directory unless it is there; returns whether it is new. A file of that
    name is set aside."""
    if disk.make_dir(name):
        return True
    if not is_file(disk, name):
        return False
    disk.delete(name + CORRUPT_SUFFIX)
    disk.rename(name, name + CORRUPT_SUFFIX)
    return disk.make_dir(name)


def parse_partition_name(name: str) -> TopicPartition | None:
    """The partition that a directory name stands for; `None` for other names."""
    if name.endswith((DELETE_SUFFIX, _STRAY_SUFFIX, FUTURE_SUFFIX)):
        return None
    topic, _, number = name.rpartition("-")
    if not (topic and number.isdecimal() and _TOPIC_NAME_CHARS.issuperset(topic)):
        return None
    partition = TopicPartition(topic, int(number))
    return partition if str(partition) == name else None


def future_of(name: str) -> TopicPartition | None:
    """The partition whose log is copied into a directory of this name; else `None`."""
    if not name.endswith(FUTURE_SUFFIX):
        return None
    return parse_partition_name(name.rpartition(".")[0])


def renamed_from(name: str) -> TopicPartition | None:
    """The partition of a renamed directory that a checkpoint may still name; else `None`."""
    if not name.endswith((DELETE_SUFFIX, ASIDE_SUFFIX)):
        return None
    return parse_partition_name(name.rpartition(".")[0])
