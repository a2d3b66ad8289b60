"""An open file on the file system, with a descriptor or, while it is not used, without.

An append that fails half way (disk full) is cut back, so that the file is as before; if even that
fails the file refuses everything from then on. After a failed fsync the kernel may have dropped the
pages and a second fsync would succeed without them ("fsyncgate"), so a file whose fsync failed
refuses everything too: what was not synced must be taken as lost. The next process takes it so as
well, because the page cache no longer has it (`page_cache`).

A file may be closed while the flush thread syncs it. The descriptor then stays open until the
sync is over, or its number could be given to another file in between. For the same reason a file
is not parked (`open_files`) while a sync uses its descriptor; the sync of a parked file opens one
of its own.

A parked file is opened again by its name. If its length is not the one at the time of parking,
another process has written there, and the file refuses everything.

A file may be *absent*: it was not written to yet, and its first append makes it. Of ten thousand
logs most have no record, and each would cost an inode, a name and a descriptor.

Every failure is a `StorageError`; nothing else escapes.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from tidelog.env.disk import Buffer
from tidelog.errors import StorageError
from tidelog.runtime.directory_syncs import DirectorySyncs
from tidelog.runtime.open_files import OpenFiles
from tidelog.runtime.page_cache import forget_file, forget_pages

T = TypeVar("T")
OPEN_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC

_MAX_VECTORS: Final = 512
_PARKED: Final = -1
ABSENT: Final = -2
"""In place of the descriptor of a file that its first append makes."""


class OsFile:
    """An open file of an `OsDisk`; implements the `File` port."""

    __slots__ = (
        "_descriptor",
        "_failure",
        "_full_path",
        "_guard",
        "_open_files",
        "_synced_count",
        "_syncing",
        "_syncs",
        "_write_count",
        "closed",
        "path",
        "size_bytes",
        "used",
    )

    def __init__(
        self,
        descriptor: int,
        full_path: str,
        path: str,
        syncs: DirectorySyncs,
        open_files: OpenFiles,
    ) -> None:
        # `_PARKED` while the file has none, `ABSENT` before its first append; set by the loop's
        # thread.
        self._descriptor = descriptor
        # The path relative to the disk's root, and the whole of it.
        self.path = path
        self._full_path = full_path
        # Knows which directories of the path must be synced with the file.
        self._syncs = syncs
        # Decides when this file is parked.
        self._open_files = open_files
        # Whether it was used since that was thought about last.
        self.used = True
        # The current length; only this object changes it.
        self.size_bytes = 0 if descriptor == ABSENT else os.fstat(descriptor).st_size
        # Writes and cuts so far, and how many of them a sync has covered. The first is counted
        # after the write, so that a sync never counts one as covered that came after it.
        self._write_count = 0
        self._synced_count = 0
        # Why the file refuses everything; `None` while it works.
        self._failure: str | None = None
        # Protects `_descriptor`, `_syncing` and `closed` between the loop's thread and the flush
        # thread.
        self._guard = threading.Lock()
        # Number of syncs under way.
        self._syncing = 0
        # Set by `close`; the descriptor goes when no sync is under way.
        self.closed = False
        if descriptor != ABSENT:
            open_files.add(self)

    # Writing and reading ---------------------------------------------------------------------

    def append(self, chunks: Sequence[Buffer]) -> int:
        """Writes all chunks or nothing."""
        descriptor = self._usable()
        position = self.size_bytes
        try:
            if len(chunks) == 1:
                written = os.write(descriptor, chunks[0])
                if written != len(chunks[0]):
                    written += self._write_rest(chunks, written)
            else:
                written = self._write_rest(chunks, 0)
        except OSError as error:
            self._cut_back(position)
            raise StorageError(self.path, reason_of(error)) from error
        self._write_count += 1
        self.size_bytes = position + written
        return position

    def _write_rest(self, chunks: Sequence[Buffer], skip_bytes: int) -> int:
        """Writes what follows the first `skip_bytes`; returns how many bytes."""
        pending: list[memoryview] = []
        for chunk in chunks:
            view = memoryview(chunk)
            pending.append(view[skip_bytes:])
            skip_bytes = max(0, skip_bytes - len(view))
        total_bytes = 0
        while pending:
            written = os.writev(self._descriptor, pending[:_MAX_VECTORS])
            total_bytes += written
            while pending and written >= len(pending[0]):
                written -= len(pending.pop(0))
            if written:
                pending[0] = pending[0][written:]
        return total_bytes

    def _cut_back(self, size_bytes: int) -> None:
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            self._failure = f"a partial write could not be undone: {reason_of(error)}"
        self._write_count += 1

    def read(self, position: int, length: int) -> bytes:
        if self._descriptor == ABSENT:
            return b""
        descriptor = self._usable()
        assert position >= 0, f"read of `{self.path}` at {position}"
        assert length >= 0, f"read of `{self.path}` with length {length}"
        data = guarded(self.path, lambda: os.pread(descriptor, length, position))
        wanted = min(length, self.size_bytes - position)
        while 0 < len(data) < wanted:
            # The kernel may return less than there is; callers would take that for the end.
            rest, at = wanted - len(data), position + len(data)
            more = guarded(self.path, lambda: os.pread(descriptor, rest, at))  # noqa: B023
            if not more:
                break
            data += more
        return data

    def truncate(self, size_bytes: int) -> None:
        assert 0 <= size_bytes <= self.size_bytes, f"truncate {self.size_bytes} to {size_bytes}"
        if self._descriptor == ABSENT:
            return
        descriptor = self._usable()
        guarded(self.path, lambda: os.ftruncate(descriptor, size_bytes))
        self._write_count += 1
        self.size_bytes = size_bytes

    def close(self) -> None:
        """Releases the file, at the latest when a sync that is under way has ended."""
        with self._guard:
            if self.closed:
                return
            self.closed = True
            if not self._syncing:
                self._release()
        self._open_files.remove(self)

    def fileno(self) -> int:
        """The descriptor, for `sendfile` in this very step: later it may be another file's."""
        return self._usable()

    def _usable(self) -> int:
        assert not self.closed, f"`{self.path}` is closed"
        if self._failure is not None:
            raise StorageError(self.path, self._failure)
        self.used = True
        if self._descriptor < 0:
            if self._descriptor == ABSENT:
                self._make()
            else:
                self.unpark()
        return self._descriptor

    def _make(self) -> None:
        """Makes the file, of which there was nothing so far."""
        self._open_files.make_room()
        flags = OPEN_FLAGS | os.O_CREAT | os.O_EXCL
        self._descriptor = guarded(self.path, lambda: os.open(self._full_path, flags, 0o644))
        self._syncs.changed(self.path)
        self._open_files.add(self)

    # Durability ------------------------------------------------------------------------------

    def sync_content(self) -> None:
        """Makes the content and the path durable; a closed file has nothing left to protect. May
        be called by the flush thread."""
        if not self._begin_sync():
            return
        try:
            self._sync_bytes()
            self._sync_path()
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self._end_sync()

    def _sync_path(self) -> None:
        path = self.path
        try:
            self._syncs.sync_path(path)
        except FileNotFoundError:
            # The loop's thread may have renamed the directory meanwhile.
            with self._syncs.renaming:
                if self.path == path:
                    raise
            self._syncs.sync_path(self.path)

    def sync_bytes(self) -> None:
        """Makes the content durable, not the path."""
        try:
            self._sync_bytes()
        except OSError as error:
            raise self._failed(error) from error

    def _sync_bytes(self) -> None:
        if self._failure is not None:
            raise StorageError(self.path, self._failure)
        write_count = self._write_count
        descriptor = self._descriptor
        if descriptor >= 0:
            os.fdatasync(descriptor)
        else:
            descriptor = self._open_parked()
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
        self._synced_count = write_count

    def _open_parked(self) -> int:
        """A descriptor for one sync."""
        full_path = self._full_path
        try:
            return os.open(full_path, OPEN_FLAGS)
        except FileNotFoundError:
            # The loop's thread may have renamed the directory meanwhile, or the file, which has a
            # descriptor then.
            with self._syncs.renaming:
                if self._descriptor >= 0:
                    return os.dup(self._descriptor)
                if self._full_path == full_path:
                    raise
                return os.open(self._full_path, OPEN_FLAGS)

    def _failed(self, error: OSError) -> StorageError:
        # Nothing is read any more by the time that the pages go.
        self._failure = f"fsync failed: {reason_of(error)}"
        if self._descriptor >= 0:
            forget_pages(self._descriptor)
        else:
            forget_file(self._full_path)
        return StorageError(self.path, self._failure)

    def _begin_sync(self) -> bool:
        with self._guard:
            begins = not self.closed and self._descriptor != ABSENT
            self._syncing += begins
            return begins

    def _end_sync(self) -> None:
        with self._guard:
            self._syncing -= 1
            if self.closed and not self._syncing:
                self._release()

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def move_to(self, path: str, full_path: str) -> None:
        """Its directory has another name."""
        self.path, self._full_path = path, full_path

    # Parking ---------------------------------------------------------------------------------

    @property
    def is_parked(self) -> bool:
        """Whether it has no descriptor."""
        return self._descriptor == _PARKED

    @property
    def is_absent(self) -> bool:
        """Whether its first append is still to make it."""
        return self._descriptor == ABSENT

    @property
    def is_synced(self) -> bool:
        """Whether nothing is lost by parking: all is synced, or given up."""
        return self._synced_count == self._write_count or self._failure is not None

    def maybe_park(self) -> bool:
        """Gives the descriptor away unless a sync is using it."""
        assert self.is_synced, f"`{self.path}` is not synced"
        with self._guard:
            if self._syncing:
                return False
            descriptor, self._descriptor = self._descriptor, _PARKED
        # The error of a close is that of a write, and there was none since the last sync.
        with suppress(OSError):
            os.close(descriptor)
        return True

    def unpark(self) -> None:
        """Opens the file again. Raises `StorageError` when it is not what it was."""
        self._open_files.make_room()
        descriptor = guarded(self.path, lambda: os.open(self._full_path, OPEN_FLAGS))
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes != self.size_bytes:
            os.close(descriptor)
            self._failure = f"another process changed its size, {self.size_bytes} to {size_bytes}"
            raise StorageError(self.path, self._failure)
        with self._guard:
            self._descriptor = descriptor
        self._open_files.unparked(self)


def guarded(path: str, action: Callable[[], T]) -> T:
    """Runs a system call; what fails is a `StorageError` of `path`."""
    try:
        return action()
    except OSError as error:
        raise StorageError(path, reason_of(error)) from error


def reason_of(error: OSError) -> str:
    """The operating system's text of an error."""
    return error.strerror or str(error)
