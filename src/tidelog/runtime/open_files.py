"""Keeps the files of a disk that have a descriptor below a limit.

A log keeps a file open for as long as it is in service, and a node of ten thousand replicas has
more of them than a process may have descriptors. So an open file of the core need not have one: a
*parked* file gave its own away, and gets one again when it is used (`os_file.OsFile`). This module
decides which files are parked. The core, and with it the simulator, does not notice.

**Only a synced file is parked.** Linux reports a failed write-back at the next fsync of each
description that was open then; a description that is closed before gets no report. A file that was
written since its last sync therefore keeps its descriptor. Where all are of that kind, the oldest
are synced beforehand, on the flush thread. If it does not keep up, one of them is synced at once,
which stops the loop for the time of an fdatasync. A sync that fails is repeated on the flush
thread, which ends the node as any failed sync does (decision 0010). Here it raises no error: the
caller only wanted another file opened.

The victim is a file that was not used since the hand came by last (CLOCK, an approximation of least
recently used that costs a file in use one assignment).

A parked file is found again by its name. When its directory gets another name, it gets another
path (`move`), and so does a file that its first append is still to make. Before a name goes, `keep`
gives its file a descriptor that stays: a component that holds a deleted file can still read it, as
without this module.

Invariants
- At most `limit` descriptors are in use, plus those of files that a sync is using at the moment and
  of files without a name.
- A parked file was synced after its last write, or has failed and refuses everything.

All of this belongs to the event loop's thread. Of a file's state only "is synced" changes on the
flush thread, and only from no to yes.

Source: Corbató, "A Paging Experiment with the Multics System", 1968 (CLOCK); Linux's errseq_t.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from tidelog.env.disk import File
from tidelog.errors import StorageError

SPARE_DESCRIPTORS: Final = 32
"""Neither for files nor for connections: listeners, the event loop, files that are replaced."""

_SHARE_OF_OTHERS: Final = 4
_AHEAD_COUNT: Final = 16


class ParkableFile(File, Protocol):
    """An open file that can do without its descriptor for a while."""

    used: bool
    """Set at every use; cleared when the hand comes by."""

    @property
    def is_parked(self) -> bool:
        """Whether it has no descriptor."""

    @property
    def is_absent(self) -> bool:
        """Whether its first append is still to make it."""

    @property
    def is_synced(self) -> bool:
        """Whether nothing can be lost by closing its descriptor."""

    def maybe_park(self) -> bool:
        """Gives its descriptor away unless a sync is using it."""

    def unpark(self) -> None:
        """Gets one again. Raises `StorageError`."""

    def sync_bytes(self) -> None:
        """Blocks until its content is durable. Raises `StorageError`, and refuses everything."""

    def move_to(self, path: str, full_path: str) -> None:
        """Its directory has another name."""


class OpenFiles:
    """The open files of one disk, with a descriptor or without."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        assert limit > 0, f"limit {limit}"
        # How many may have a descriptor.
        self.limit = limit
        # Has a file synced on the flush thread, which also reports a failure; set by the driver.
        self.sync_later: Callable[[File], None] = lambda file: None
        # All that are not closed, by directory.
        self._by_directory: dict[str, dict[ParkableFile, None]] = {}
        # With a descriptor and a name, in the order of the hand. Some may have been written.
        self._ring: OrderedDict[ParkableFile, None] = OrderedDict()
        # Likewise; met unsynced by the hand, in the order in which that is looked at again.
        self._unsynced: OrderedDict[ParkableFile, None] = OrderedDict()
        # Those of them that the flush thread is to sync.
        self._asked: set[ParkableFile] = set()
        # With a descriptor and without a name: they keep it.
        self._nameless: set[ParkableFile] = set()

    @property
    def descriptor_count(self) -> int:
        """How many have a descriptor."""
        return len(self._ring) + len(self._unsynced) + len(self._nameless)

    def add(self, file: ParkableFile) -> None:
        """A file was opened and has a descriptor, which the limit allowed."""
        self.add_absent(file)
        self._ring[file] = None

    def add_absent(self, file: ParkableFile) -> None:
        """There is a file without a descriptor that its first append makes."""
        self._by_directory.setdefault(_directory_of(file.path), {})[file] = None

    def unparked(self, file: ParkableFile) -> None:
        """A parked file has a descriptor again, which the limit allowed."""
        self._ring[file] = None

    def remove(self, file: ParkableFile) -> None:
        """A file was closed."""
        self._ring.pop(file, None)
        self._unsynced.pop(file, None)
        self._asked.discard(file)
        self._nameless.discard(file)
        directory = _directory_of(file.path)
        beside = self._by_directory.get(directory)
        if beside is not None:
            beside.pop(file, None)
            if not beside:
                del self._by_directory[directory]

    def keep(self, path: str) -> None:
        """The name of a file, or of a directory of files, is about to go: those that are open keep
        a descriptor."""
        self.keep_file(path)
        self._keep(self._by_directory.pop(path, ()))

    def keep_file(self, path: str) -> None:
        """As `keep`, where a directory of this name keeps its files."""
        # They stay among those of their directory: a sync of them goes by its path.
        beside = self._by_directory.get(_directory_of(path), {})
        self._keep([file for file in beside if file.path == path])

    def move(self, source: str, target: str, full_path: str) -> None:
        """A directory was renamed: the open files in it have other paths now."""
        moved = self._by_directory.pop(source, None)
        if moved is not None:
            self._by_directory[target] = moved
            for file in moved:
                name = file.path.rpartition("/")[2]
                file.move_to(f"{target}/{name}", f"{full_path}/{name}")

    def _keep(self, files: Iterable[ParkableFile]) -> None:
        for file in files:
            if file.is_parked:
                # Its name is gone already: the next use of it fails.
                with suppress(StorageError):
                    file.unpark()
            if not (file.is_parked or file.is_absent):
                self._ring.pop(file, None)
                self._unsynced.pop(file, None)
                self._asked.discard(file)
                self._nameless.add(file)

    # Parking ---------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Parks files until one more may have a descriptor."""
        while self.descriptor_count >= self.limit:
            if self._unsynced:
                self._look_ahead()
            if not (self._turn_hand() or self._park_by_force()):
                return

    def _look_ahead(self) -> None:
        """What was synced meanwhile is back in the ring; the rest is submitted for a sync."""
        for _ in range(min(_AHEAD_COUNT, len(self._unsynced))):
            file, _ = self._unsynced.popitem(last=False)
            if file.is_synced:
                self._asked.discard(file)
                self._ring[file] = None
                continue
            self._unsynced[file] = None
            if file not in self._asked:
                self._asked.add(file)
                self.sync_later(file)

    def _turn_hand(self) -> bool:
        """Parks the first file that may be; twice around, because the first turn clears marks."""
        for _ in range(2 * len(self._ring)):
            file = next(iter(self._ring), None)
            if file is None:
                break
            if not file.is_synced:
                del self._ring[file]
                self._unsynced[file] = None
            elif file.used or not file.maybe_park():
                file.used = False
                self._ring.move_to_end(file)
            else:
                del self._ring[file]
                return True
        return False

    def _park_by_force(self) -> bool:
        """Syncs one file and parks it; false when there is none, or its sync is under way."""
        if not self._unsynced:
            return False
        file, _ = self._unsynced.popitem(last=False)
        self._asked.discard(file)
        try:
            file.sync_bytes()
        except StorageError:
            self.sync_later(file)
        if file.maybe_park():
            return True
        self._ring[file] = None
        return False


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]


def share_of_files(descriptors: int) -> int:
    """How many of a process's descriptors log files may have; connections have the rest."""
    assert descriptors > 4 * SPARE_DESCRIPTORS, f"{descriptors} open files"
    return descriptors - max(2 * SPARE_DESCRIPTORS, descriptors // _SHARE_OF_OTHERS)
