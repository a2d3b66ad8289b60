"""Files of segments that are no longer part of a log, until it is time to delete them.

A segment that retention or cleaning takes out is renamed (`.deleted`) and stays on the disk for
`file.delete.delay.ms`, so that tools that copy or read a directory are not surprised. A start
deletes what it finds (`replacement.py`).

A rename may be undone by a crash until something in its directory is synced. Segments that come
back look like damage unless the log start is known to be above them. So a log *owes* its log start
to the checkpoint for as long as it has files here: the last of them is deleted durably, which makes
all the renames durable that came before.

A base offset may come twice, of a segment and of the one that has taken its place. Then the second
rename has replaced the files of the first, which is forgotten. Taken for there it would delete
those of the second too early, and the last deletion of the log would find none and sync nothing.

Invariant: what a log has here is in the order in which it is due, but for what could not be
deleted, and nothing of a log that was deleted or set aside is here: its directory has another name.

Source: Kafka's `LocalLog.deleteSegmentFiles`.
"""

from collections import deque
from collections.abc import Set
from typing import NamedTuple

from tidelog.env.disk import Disk
from tidelog.env.instant import Instant
from tidelog.errors import StorageError
from tidelog.log import file_names
from tidelog.model import TopicPartition


class DeletedSegment(NamedTuple):
    """The files of one segment, under their new names."""

    topic_partition: TopicPartition
    base_offset: int
    due_at: Instant


class DeletionNotDurable(StorageError):
    """The last files of a log are deleted, and a crash may undo that and all renames before it."""

    def __init__(self, partition: TopicPartition, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.topic_partition = partition


class DeletedFiles:
    """What waits to be deleted in one log directory."""

    __slots__ = ("_disk", "_latest", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # In the order of their renames; one with a longer delay holds up those behind it.
        self._waiting: deque[DeletedSegment] = deque()
        # Those of each log by base offset, without the replaced ones; no log that has none.
        self._latest: dict[TopicPartition, dict[int, DeletedSegment]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._latest.values()))

    @property
    def owing(self) -> Set[TopicPartition]:
        """The logs of which files may get their names back in a crash."""
        return self._latest.keys()

    @property
    def next_at(self) -> Instant | None:
        """When the next one is due; `None` when there is none."""
        return self._waiting[0].due_at if self._waiting else None

    def add(self, segment: DeletedSegment) -> None:
        """The files of a segment have their new names."""
        self._waiting.append(segment)
        self._latest.setdefault(segment.topic_partition, {})[segment.base_offset] = segment

    def forget(self, partition: TopicPartition) -> None:
        """The directory of a log has another name: its files go with it."""
        if self._latest.pop(partition, None) is not None:
            kept = (each for each in self._waiting if each.topic_partition != partition)
            self._waiting = deque(kept)

    def clear(self, now: Instant, most: int) -> int:
        """Deletes what is due, at most so many segments; returns how many. Raises `StorageError`
        with the failed one still here, behind all others: they do not wait for it. Where its files
        are gone, and only the sync failed, another one proves nothing: `DeletionNotDurable`."""
        count = 0
        while count < most and self._waiting and self._waiting[0].due_at <= now:
            segment = self._waiting[0]
            if self._latest[segment.topic_partition].get(segment.base_offset) is segment:
                try:
                    self._delete(segment)
                except StorageError:
                    self._waiting.rotate(-1)
                    raise
            self._waiting.popleft()
            count += 1
        return count

    def _delete(self, segment: DeletedSegment) -> None:
        partition = segment.topic_partition
        path = f"{partition}/{file_names.offset_name(segment.base_offset)}"
        latest = self._latest[partition]
        # The log file last: there is one for sure, and the last deletion is to sync the directory.
        for suffix in (file_names.SNAPSHOT_SUFFIX, *reversed(file_names.SEGMENT_SUFFIXES)):
            name = path + suffix + file_names.DELETED_SUFFIX
            durable = len(latest) == 1 and suffix == file_names.LOG_SUFFIX
            try:
                self._disk.delete(name, durable=durable)
            except StorageError as error:
                if durable and not self._disk.exists(name):
                    raise DeletionNotDurable(partition, name, str(error)) from error
                raise
        del latest[segment.base_offset]
        if not latest:
            del self._latest[partition]
