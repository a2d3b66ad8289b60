"""The log directories of a node (JBOD): which log is where, and which of them are offline.

A node has one log directory on each of its disks. Everything about a log stays within the
directory that it is in, and so do its checkpoints; this module only knows where each log is, and
asks all directories for what concerns all. With one directory it adds nothing.

The first directory has the metadata log. The others are numbered in the order of `log.dirs`, and
effects on them name that number (`env/effects.py`). `metadata.log.dir` may be a directory of its
own, which gets no other log.

**Placement.** A new log goes into the directory that the metadata names. Where it names none, the
directory with the fewest logs takes it, and the broker reports that directory to the controller. A
log that the metadata places in a directory that is not here may be in one that is offline: then no
new log is made, because that would be an empty one. It may be there too where the metadata names
another place or none, since reports come late: then one is made if the partition is new or another
replica leads (`hosting.may_come_back`). An operator who takes the broken directory out of
`log.dirs` has decided that the log is to be made anew. An administrator may have said before
where a log is to go that does not exist yet (`prefer`).

**Moves.** A log that moves to another directory is copied there first (`futures.py`). The metadata
names the new directory before the copy takes the log's place. So where a start finds a copy in the
directory that the metadata names, and no log, the log is in a directory that is not there now
(`has_lost_original`).

**Offline directories.** The first storage error in a directory takes it offline for the rest of the
process's life: nothing is read or written there any more. Without the directory of the metadata log
a node cannot go on, so an error there ends it. A node that was stopped while a directory was
offline was not stopped cleanly: that directory has no marker.

Invariant `OneDirectoryPerLog`: no partition that is hosted has logs in two directories. A start may
find such *copies*: a log was made anew while the directory with the former one was offline, before
the controller had a report of either; or a move was about to end, and only one of them is complete.
The one that the metadata names is the replica, damaged or not, unless another one has all of it and
more (`settle`). Of the others those are deleted whose records it has, the rest is set aside, when
its name is durable. Kafka does not start then.

Source: KIP-112, KIP-113, KIP-858; Kafka's `LogManager`.
"""

import sys
from collections import ChainMap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from tidelog.config import LogConfig
from tidelog.env.instant import Instant, earliest
from tidelog.errors import LogDamaged, StorageError
from tidelog.limits import MAX_PREFERRED_DIRECTORIES
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.copying import hand_over
from tidelog.log.deleted_files import DeletedSegment, DeletionNotDurable
from tidelog.log.directory import LogDirectory
from tidelog.log.futures import FutureLog
from tidelog.log.log import Log
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.pieces import Pieces
from tidelog.log.repair import Damage
from tidelog.log.values import DirectoryClosed, LogsRecovered, OfflineDirectory
from tidelog.model import (
    LOST_DIRECTORY,
    METADATA_PARTITION,
    ZERO_TOPIC_ID,
    ZERO_UUID,
    TopicId,
    TopicPartition,
    Uuid,
)

T = TypeVar("T")


class LogDirectories:
    """All log directories of one node."""

    def __init__(
        self,
        online: Mapping[int, LogDirectory],
        offline: Mapping[int, OfflineDirectory],
        *,
        first_takes_logs: bool = True,
    ) -> None:
        """By their numbers."""
        # Has the metadata log.
        self.metadata = online[0]
        # Directories in service, and the others, by number.
        self.online = dict(online)
        # All that were ever in service.
        self._known = list(online.values())
        self.offline = dict(offline)
        # Whether other logs may be beside the metadata log.
        self._first_takes_logs = first_takes_logs
        # Where logs are to go that do not exist yet, the newest wish last.
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        # Whether the start has ended, which it does once; every tick asks for it.
        self._is_loaded = False
        # Directories that have gone offline and that `take_failed` has not returned.
        self._failed: list[tuple[LogDirectory, str]] = []
        # Every log in service, and every damaged one, wherever it is.
        self.logs: Mapping[TopicPartition, Log]
        self.damaged: Mapping[TopicPartition, Damage]
        self._gather()
        # What the last clean stop has left; `None` unless it has closed all directories.
        stops = [directory.clean_shutdown for directory in self.online.values()]
        agree = not offline and all(stop == stops[0] for stop in stops)
        self.clean_shutdown = stops[0] if agree else None
        # Directories that a clean stop has not closed yet, once it is under way, and the subjects
        # of the last effects of the others.
        self._unclosed: list[LogDirectory] | None = None
        self._closing: set[DirectoryClosed] = set()

    @classmethod
    def of_one(cls, directory: LogDirectory) -> "LogDirectories":
        """Those of a node with one directory."""
        return cls({0: directory}, {})

    def _gather(self) -> None:
        first, *others = self.online.values()
        if not others:
            self.logs, self.damaged = first.logs, first.damaged
            return
        self.logs = ChainMap(first.logs, *(each.logs for each in others))
        self.damaged = ChainMap(first.damaged, *(each.damaged for each in others))

    @property
    def cluster_id(self) -> str:
        """The same in all directories."""
        return self.metadata.cluster_id

    # Where logs are --------------------------------------------------------------------------

    @property
    def hosting(self) -> list[LogDirectory]:
        """The directories in service that take logs of partitions."""
        first = self._first_takes_logs
        return [each for number, each in self.online.items() if number or first]

    def of(self, key: TopicPartition) -> LogDirectory | None:
        """Where a log or a damaged log is; `None` for neither."""
        for directory in self.online.values():
            if key in directory.logs or key in directory.damaged:
                return directory
        return None

    def copies_of(self, key: TopicPartition) -> list[LogDirectory]:
        """The directories that have a log or a damaged log of this name."""
        online = self.online.values()
        return [each for each in online if key in each.logs or key in each.damaged]

    def settle(self, key: TopicPartition, topic_id: TopicId, said: Uuid) -> list[LogDirectory]:
        """Keeps one of the copies of a log: that in the directory `said` by the metadata, damaged
        or not, unless another has all of it and more. Where there is none: that of the topic, with
        the newest epoch and the most records. The others are deleted if it has all that they have,
        else set aside. Returns where these were. Raises `StorageError`."""
        copies = self.copies_of(key) if len(self.online) > 1 else []
        if len(copies) < 2:
            return []
        kept = _best_of(copies, key, topic_id, said)
        with self._using(kept):
            _make_names_durable(kept, key)
        aside = []
        for directory in copies:
            if directory is kept:
                continue
            with self._using(directory):
                if _has_all_of(kept.logs.get(key), directory.logs.get(key)):
                    directory.schedule_delete(key)
                else:
                    directory.set_aside(key)
                    aside.append(directory)
        return aside

    def _holder_of(self, key: TopicPartition) -> LogDirectory:
        directory = self.of(key)
        assert directory is not None, f"{key} is in no directory"
        return directory

    def split(
        self, items: Iterable[T], key_of: Callable[[T], TopicPartition]
    ) -> list[tuple[LogDirectory, list[T]]]:
        """Each directory in service with those of the items whose logs are in it."""
        parts: dict[LogDirectory, list[T]] = {each: [] for each in self.online.values()}
        for item in items:
            directory = self.of(key_of(item))
            if directory is not None:
                parts[directory].append(item)
        return list(parts.items())

    def place_of(self, wanted: Uuid) -> LogDirectory | None:
        """Where to make a log that the metadata places in the directory `wanted`, zero for no
        certain one; `None` if it may be in a directory that is offline."""
        hosting = self.hosting
        for directory in hosting:
            if directory.directory_id == wanted:
                return directory
        if not hosting or self.may_be_offline(wanted):
            return None
        return min(hosting, key=_log_count)

    def may_be_offline(self, said: Uuid) -> bool:
        """Whether the directory `said` by the metadata may be one of those that are offline: the id
        of one that could not be read is not known."""
        is_online = any(each.directory_id == said for each in self.online.values())
        return bool(self.offline) and not is_online and said not in (ZERO_UUID, LOST_DIRECTORY)

    # Failures --------------------------------------------------------------------------------

    def fail(self, directory: LogDirectory, error: str) -> bool:
        """Takes a directory offline; returns whether the node can go on without it."""
        if directory is self.metadata:
            return False
        for number, each in list(self.online.items()):
            if each is directory:
                del self.online[number]
                root, directory_id = directory.disk.root, directory.directory_id
                self.offline[number] = OfflineDirectory(root, directory_id, error)
                self._failed.append((directory, error))
                self._gather()
        return True

    @property
    def has_failed(self) -> bool:
        """Whether `take_failed` has something to return."""
        return bool(self._failed)

    def take_failed(self) -> list[tuple[LogDirectory, str]]:
        """Directories that have gone offline since the last call, and why."""
        failed, self._failed = self._failed, []
        return failed

    @contextmanager
    def _using(self, directory: LogDirectory) -> Iterator[None]:
        try:
            yield
        except StorageError as error:
            self.fail(directory, str(error))
            raise

    def _each(self, act: Callable[[LogDirectory], None]) -> None:
        """Does something in all directories. One that fails goes offline, and does not keep the
        others from it, unless it is that of the metadata: then `StorageError` is raised."""
        for directory in list(self.online.values()):
            try:
                act(directory)
            except StorageError as error:
                if not self.fail(directory, str(error)):
                    raise

    # Start -----------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether every log is in service, or known to be damaged."""
        if not self._is_loaded:
            self._is_loaded = all(directory.is_loaded for directory in self.online.values())
        return self._is_loaded

    @property
    def has_logs_to_load(self) -> bool:
        """Whether `load` has something to do."""
        return not self.is_loaded and any(each.has_logs_to_load for each in self.online.values())

    def load(self, most_work: int) -> None:
        """Goes on with the start; each directory gets its share of the work."""
        loading = [each for each in self.online.values() if each.has_logs_to_load]

        def load_some(directory: LogDirectory) -> None:
            if directory in loading:
                directory.load(max(1, most_work // len(loading)))

        self._each(load_some)

    def on_logs_recovered(self, subject: LogsRecovered) -> None:
        """What the recovery of a directory kept is durable."""
        for directory in self.online.values():
            if directory.directory_id == subject.directory_id:
                directory.on_logs_recovered()

    # Logs ------------------------------------------------------------------------------------

    def create(
        self, key: TopicPartition, topic_id: TopicId, config: LogConfig, wanted: Uuid = ZERO_UUID
    ) -> Log:
        """Makes a new empty log where `prefer` or `place_of` says. Raises `StorageError`."""
        directory = self.place_of(wanted)
        assert directory is not None, f"{key} may be in a directory that is offline"
        preferred = self._preferred.pop(key, None)
        if preferred in self.hosting:
            directory = preferred
        self._drop_copies(key)
        with self._using(directory):
            log = directory.create(key, topic_id, config)
        if len(self._known) > 1:
            # Flushes of a former log in another directory may be under way.
            log.ledger.begin_after(max(each.cut_count_of(key) for each in self._known))
        return log

    def schedule_delete(self, key: TopicPartition) -> None:
        """Takes a log out of service, and its files away later. In a directory that is offline
        they stay. Raises `StorageError`."""
        self._drop_copies(key)
        for directory in self.copies_of(key):
            with self._using(directory):
                directory.schedule_delete(key)

    def set_aside(self, key: TopicPartition) -> None:
        """Takes a log out of service and keeps its files. Raises `StorageError`."""
        self._drop_copies(key)
        for directory in self.copies_of(key):
            with self._using(directory):
                directory.set_aside(key)

    def quarantine(self, key: TopicPartition, error: LogDamaged) -> None:
        """Takes a log out of service because its files are damaged."""
        self._holder_of(key).quarantine(key, error)

    def doubt_all(self, key: TopicPartition) -> None:
        """Nothing of a damaged log is to be kept by its repair."""
        self._holder_of(key).doubt_all(key)

    def repaired(self, key: TopicPartition, topic_id: TopicId, config: LogConfig) -> Pieces[Log]:
        """Removes what is damaged of a log and all behind it. Raises `StorageError`."""
        directory = self._holder_of(key)
        with self._using(directory):
            return (yield from directory.repaired(key, topic_id, config))

    # Moves -----------------------------------------------------------------------------------

    def at(self, root: str) -> LogDirectory | None:
        """The directory in service that an administrator names by its path."""
        return next((each for each in self.hosting if each.disk.root == root), None)

    def prefer(self, key: TopicPartition, directory: LogDirectory) -> None:
        """A log that does not exist yet is to be made there."""
        self._preferred.pop(key, None)
        self._preferred[key] = directory
        if len(self._preferred) > MAX_PREFERRED_DIRECTORIES:
            del self._preferred[next(iter(self._preferred))]

    def target_of(self, key: TopicPartition, said: Uuid = ZERO_UUID) -> LogDirectory | None:
        """The directory with the copy of a log that moves, of several the one with this id if it is
        among them; `None` for none."""
        found = [each for each in self.online.values() if key in each.futures.logs]
        return next((each for each in found if each.directory_id == said), next(iter(found), None))

    def has_lost_original(self, key: TopicPartition, said: Uuid) -> bool:
        """Whether only an unfinished copy of a log is in the directory that the metadata names, or
        was there and is damaged."""
        return self.of(key) is None and any(
            each.directory_id == said and (key in each.futures.logs or key in each.futures.damaged)
            for each in self.online.values()
        )

    @property
    def futures(self) -> list[TopicPartition]:
        """The partitions with a copy in some directory."""
        return [key for each in self.online.values() for key in each.futures.logs]

    def begin_move(self, log: Log, target: LogDirectory) -> FutureLog:
        """Makes the empty copy of a log. Raises `StorageError`."""
        key = log.topic_partition
        with self._using(target):
            future = target.futures.create(key, log.topic_id, log.config)
        # Flushes of a former copy in another directory may be under way.
        cuts = max(each.futures.cut_count_of(key) for each in self._known)
        future.log.ledger.begin_after(cuts)
        return future

    def end_move(self, key: TopicPartition, target: LogDirectory) -> Log:
        """Puts the copy in the place of the log, which is closed, and returns it. Raises
        `StorageError`."""
        source = self._holder_of(key)
        with self._using(target):
            log = target.futures.promote(key)
            hand_over(source.logs[key], log)
        source.retire(key)
        target.logs[key] = log
        return log

    def drop_future(self, key: TopicPartition, *, but: LogDirectory | None = None) -> None:
        """Gives the copy up, if there is one; of several all but one. Raises `StorageError`."""
        for directory in [each for each in self.online.values() if each is not but]:
            directory.futures.damaged.discard(key)
            if key in directory.futures.logs:
                with self._using(directory):
                    directory.futures.drop(key)

    def drop_replaced(self, key: TopicPartition) -> None:
        """The copies that have taken a log's place are durable. Raises `StorageError`."""
        for directory in list(self.online.values()):
            if key in directory.futures.replaced:
                with self._using(directory):
                    directory.futures.drop_replaced(key)

    def _drop_copies(self, key: TopicPartition) -> None:
        self.drop_future(key)
        self.drop_replaced(key)

    # Files of deleted logs and segments --------------------------------------------------------

    @property
    def has_stale_renames(self) -> bool:
        """Whether `forget_renamed` has something to do."""
        return any(each.renamed.is_stale for each in self.online.values())

    def forget_renamed(self) -> Pieces[None]:
        """Takes renamed logs out of the checkpoints, of which it writes one in a piece."""
        for directory in list(self.online.values()):
            for price in directory.forget_renamed():
                yield price
                if directory not in self.online.values():
                    break

    def on_renames_forgotten(self, subject: RenamesForgotten) -> None:
        """The checkpoints of a directory are durable without its renamed logs."""
        for directory in self.online.values():
            if directory.directory_id == subject.directory_id:
                directory.renamed.on_renames_forgotten(subject)

    def clear_renamed(self, most: int) -> int:
        """Deletes so many renamed directories; returns how many. Raises `StorageError`."""
        return self._clear_each(lambda directory: directory.clear_renamed(most))

    def add_deleted(self, segment: DeletedSegment) -> None:
        """The files of a segment are to be deleted at their time."""
        directory = self.of(segment.topic_partition)
        if directory is not None:
            directory.deleted_files.add(segment)

    @property
    def deleted_files_at(self) -> Instant | None:
        """When the next of them are due; `None` when there are none."""
        return earliest(*(each.deleted_files.next_at for each in self.online.values()))

    def clear_deleted(self, now: Instant, most: int) -> None:
        """Deletes the files of so many segments. Raises `StorageError`."""
        self._clear_each(lambda directory: directory.deleted_files.clear(now, most))

    def _clear_each(self, clear: Callable[[LogDirectory], int]) -> int:
        """Deletes in all directories; returns how many. Raises the first error behind the last."""
        count, errors = 0, []
        for directory in self.online.values():
            try:
                count += clear(directory)
            except StorageError as error:
                errors.append(error)
        if errors:
            raise next((e for e in errors if isinstance(e, DeletionNotDurable)), errors[0])
        return count

    # Checkpoints -----------------------------------------------------------------------------

    def checkpoint_recovery_points(self) -> None:
        """Asks each directory for its recovery points."""
        for directory in self.online.values():
            directory.checkpoint_recovery_points()

    def checkpoint_cleaned(self) -> None:
        """Asks each directory how far its logs are cleaned."""
        for directory in self.online.values():
            directory.checkpoint_cleaned()

    # Stop ------------------------------------------------------------------------------------

    def close_cleanly(self, marker: CleanShutdown, most_work: int = sys.maxsize) -> bool:
        """Goes on closing directories; returns whether all effects that this needs are emitted. A
        directory that fails gets no marker. Raises `StorageError` for that of the metadata."""
        if self._unclosed is None:
            self._unclosed = list(self.online.values())

        def close(directory: LogDirectory) -> None:
            assert self._unclosed is not None, "no stop is under way"
            if directory in self._unclosed:
                subject = directory.close_cleanly(marker, max(1, most_work))
                if subject is not None:
                    self._unclosed.remove(directory)
                    self._closing.add(subject)

        self._each(close)
        self._unclosed = [each for each in self._unclosed if each in self.online.values()]
        return not self._unclosed

    def on_closed(self, subject: Hashable) -> bool:
        """The effect with this subject is durable, if it is one; returns whether all directories
        are closed that are in service."""
        if isinstance(subject, DirectoryClosed):
            self._closing.discard(subject)
        return self._unclosed is not None and not self._unclosed and not self._closing

    def on_flush_failed(self, number: int, error: str) -> bool:
        """A write to the directory of this number failed; returns whether the node can go on."""
        directory = self.online.get(number)
        if directory is None:
            return True
        self._closing.discard(DirectoryClosed(directory.directory_id))
        return self.fail(directory, error)


def _log_count(directory: LogDirectory) -> int:
    count = len(directory.logs) + len(directory.damaged) + len(directory.futures.logs)
    return count - (METADATA_PARTITION in directory.logs)


def _best_of(
    copies: list[LogDirectory], key: TopicPartition, topic_id: TopicId, said: Uuid
) -> LogDirectory:
    def id_in(directory: LogDirectory) -> TopicId:
        log = directory.logs.get(key)
        return directory.damaged[key].topic_id if log is None else log.topic_id

    def worth(directory: LogDirectory) -> tuple[bool, int, int]:
        log, is_ours = directory.logs.get(key), id_in(directory) == topic_id
        return (is_ours, -1, -1) if log is None else (is_ours, log.latest_epoch, log.log_end_offset)

    named = next((each for each in copies if each.directory_id == said), None)
    if named is None or id_in(named) not in (ZERO_TOPIC_ID, topic_id):
        return max(copies, key=worth)
    # The cluster may count on this one. What another has beside may never have been committed.
    log = named.logs.get(key)
    longer = [each for each in copies if _has_more_than(log, each.logs.get(key))]
    return max(longer, key=worth, default=named)


def _make_names_durable(directory: LogDirectory, key: TopicPartition) -> None:
    """That of a log's directory, and those in it. A move may have given the log its name just
    before the process died: a power cut would take the name back. Raises `StorageError`."""
    path, disk = str(key), directory.disk
    names = disk.list_dir(path) if disk.exists(path) else []
    for name in names[:1]:
        # One file takes all names along; what is in the others was made durable by the start.
        file = disk.open(f"{path}/{name}")
        disk.sync(file)
        file.close()


def _has_more_than(log: Log | None, other: Log | None) -> bool:
    """Whether all records of a log are in the other one, and more."""
    if log is None or other is None or not _has_all_of(other, log):
        return False
    return other.log_end_offset > log.log_end_offset


def _has_all_of(kept: Log | None, other: Log | None) -> bool:
    """Whether all records of a log are in another of the same partition (`LogMatching`)."""
    if kept is None or other is None or kept.topic_id != other.topic_id:
        return False
    if other.log_start_offset == other.log_end_offset:
        return kept.log_end_offset >= other.log_end_offset
    end = kept.end_offset_for_epoch(other.latest_epoch)
    return end.leader_epoch == other.latest_epoch and end.end_offset >= other.log_end_offset
