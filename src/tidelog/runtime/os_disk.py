"""A log directory on the file system: the twin of the memory disk for real nodes.

Reads and appends are plain system calls on the event loop's thread; they hit the page cache.
What blocks on the device, fsync, is done by the runtime's flush thread through `fsync_file` and
`replace_durably`, the only functions here that another thread may call.

An append that fails half way (disk full) is cut back, so that the file is as before; if even that
fails the file refuses everything from then on. After a failed fsync the kernel may have dropped the
pages and a second fsync would succeed without them ("fsyncgate"), so a file whose fsync failed
refuses everything too: what was not synced must be taken as lost.

A name is durable only when its directory was synced: `sync` and `replace` see to the whole path
(`directory_syncs`), deleting a file syncs its directory at once. Renaming, and making or deleting a
directory, are durable with the next sync of something beside it, not before; whoever starts on
this directory again must be able to live with either.

A file may be closed while the flush thread syncs it. The descriptor then stays open until the
sync is over, or its number could be given to another file in between.

Every failure is a `StorageError`; nothing else escapes.
"""

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from tidelog.env.disk import Buffer, DiskSpace, File
from tidelog.errors import StorageError, UsageError
from tidelog.runtime.directory_syncs import (
    DirectorySyncs,
    fsync_directory,
    make_directory_durably,
)

T = TypeVar("T")
_MAX_VECTORS: Final = 512
_LOCK_FILE: Final = ".lock"


class OsFile:
    """An open file of an `OsDisk`."""

    __slots__ = (
        "_closing",
        "_descriptor",
        "_failure",
        "_guard",
        "_path",
        "_size_bytes",
        "_syncing",
        "_syncs",
    )

    def __init__(self, descriptor: int, path: str, syncs: DirectorySyncs) -> None:
        self._descriptor = descriptor
        self._path = path
        # Knows which directories of the path must be synced with the file.
        self._syncs = syncs
        # The current length; only this object changes it.
        self._size_bytes = os.fstat(self._descriptor).st_size
        # Why the file refuses everything; `None` while it works.
        self._failure: str | None = None
        # Protects `_syncing` and `_closing` between the loop's thread and the flush thread.
        self._guard = threading.Lock()
        # Number of syncs under way.
        self._syncing = 0
        # Set by `close`; the descriptor goes when no sync is under way.
        self._closing = False

    @property
    def path(self) -> str:
        """The path relative to the disk's root."""
        return self._path

    @property
    def size_bytes(self) -> int:
        """The current length."""
        return self._size_bytes

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closing

    def append(self, chunks: Sequence[Buffer]) -> int:
        """Writes all chunks or nothing."""
        self._check_usable()
        position = self._size_bytes
        try:
            if len(chunks) == 1:
                written = os.write(self._descriptor, chunks[0])
                if written != len(chunks[0]):
                    written += self._write_rest(chunks, written)
            else:
                written = self._write_rest(chunks, 0)
        except OSError as error:
            self._cut_back(position)
            raise StorageError(self._path, _reason(error)) from error
        self._size_bytes = position + written
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
            self._failure = f"a partial write could not be undone: {_reason(error)}"

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes."""
        self._check_usable()
        assert position >= 0, f"read of `{self._path}` at {position}"
        assert length >= 0, f"read of `{self._path}` with length {length}"
        data = _guarded(self._path, lambda: os.pread(self._descriptor, length, position))
        wanted = min(length, self._size_bytes - position)
        while 0 < len(data) < wanted:
            # The kernel may give less than there is; callers take that for the end of the file.
            rest, at = wanted - len(data), position + len(data)
            more = _guarded(self._path, lambda: os.pread(self._descriptor, rest, at))  # noqa: B023
            if not more:
                break
            data += more
        return data

    def truncate(self, size_bytes: int) -> None:
        """Cuts the file."""
        self._check_usable()
        assert 0 <= size_bytes <= self._size_bytes, f"truncate {self._size_bytes} to {size_bytes}"
        _guarded(self._path, lambda: os.ftruncate(self._descriptor, size_bytes))
        self._size_bytes = size_bytes

    def close(self) -> None:
        """Releases the file, at the latest when a sync that is under way has ended."""
        with self._guard:
            if self._closing:
                return
            self._closing = True
            if not self._syncing:
                os.close(self._descriptor)

    def fileno(self) -> int:
        """The descriptor, for `sendfile`."""
        self._check_usable()
        return self._descriptor

    def sync_content(self) -> None:
        """Makes the content and the path durable; a closed file has nothing left to protect. May
        be called by the flush thread."""
        if not self._begin_sync():
            return
        try:
            os.fdatasync(self._descriptor)
            self._syncs.sync_path(self._path)
        except OSError as error:
            self._failure = f"fsync failed: {_reason(error)}"
            raise StorageError(self._path, self._failure) from error
        finally:
            self._end_sync()

    def _begin_sync(self) -> bool:
        with self._guard:
            if not self._closing:
                self._syncing += 1
            return not self._closing

    def _end_sync(self) -> None:
        with self._guard:
            self._syncing -= 1
            if self._closing and not self._syncing:
                os.close(self._descriptor)

    def _check_usable(self) -> None:
        assert not self._closing, f"`{self._path}` is closed"
        if self._failure is not None:
            raise StorageError(self._path, self._failure)


class OsDisk:
    """A directory on the file system; implements the `Disk` port. It is made when missing."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        # Holds the lock of this directory while set.
        self._lock_descriptor: int | None = None
        self._syncs = DirectorySyncs(self._root)
        _guarded(root, lambda: make_directory_durably(self._root))

    @property
    def root(self) -> str:
        """The directory's path."""
        return str(self._root)

    def lock(self) -> None:
        """Keeps other processes out until `unlock` or the end of this process.

        Raises `UsageError` when another process has the directory.
        """
        path = self._root / _LOCK_FILE
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = _guarded(_LOCK_FILE, lambda: os.open(path, flags, 0o644))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise UsageError(
                f"log directory `{self._root}` is in use by another process",
                "stop the other node, or give this one its own directory",
            ) from None
        self._lock_descriptor = descriptor

    def unlock(self) -> None:
        """Lets other processes in."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """Opens or creates a file."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        full_path = self._root / path
        is_new = create and not _guarded(path, full_path.exists)
        if is_new:
            flags |= os.O_CREAT
        descriptor = _guarded(path, lambda: os.open(full_path, flags, 0o644))
        if is_new:
            self._syncs.changed(path)
        return _guarded(path, lambda: OsFile(descriptor, path, self._syncs))

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return _guarded(path, (self._root / path).exists)

    def list_dir(self, path: str = "") -> list[str]:
        """The sorted names inside a directory."""
        return _guarded(
            path or self.root, lambda: sorted(entry.name for entry in (self._root / path).iterdir())
        )

    def make_dir(self, path: str) -> None:
        """Makes a directory and its parents."""
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            below = "/".join(parts[:count])
            if not self.exists(below):
                _guarded(path, (self._root / below).mkdir)
                self._syncs.changed(below)

    def read_file(self, path: str) -> bytes | None:
        """The whole content or `None`."""
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(path, _reason(error)) from error

    def replace(self, path: str, data: bytes) -> None:
        """Replaces the content; durable when it returns."""
        replace_durably(self._root, path, data)
        _guarded(path, lambda: self._syncs.sync_path(path))

    def rename(self, source: str, target: str) -> None:
        """Renames a file or a whole directory."""
        if self.exists(target):
            raise StorageError(target, "already there")
        _guarded(source, lambda: (self._root / source).rename(self._root / target))
        for name in (source, target):
            self._syncs.forget(name)
            self._syncs.changed(name)

    def delete(self, path: str) -> None:
        """Deletes a file or a directory with all that is in it; a deleted file stays deleted
        through a power cut."""
        full_path = self._root / path
        if full_path.is_dir():
            _guarded(path, lambda: shutil.rmtree(full_path))
            self._syncs.forget(path)
            self._syncs.changed(path)
            return
        if not _guarded(path, full_path.exists):
            return
        _guarded(path, full_path.unlink)
        self._syncs.changed(path)
        _guarded(path, lambda: self._syncs.sync(path.rpartition("/")[0]))

    def sync(self, file: File) -> None:
        """Makes the content of an open file and its path durable."""
        fsync_file(file)

    def space(self) -> DiskSpace:
        """The file system's figures; what is usable is what an ordinary user may fill."""
        found = _guarded("", lambda: os.statvfs(self._root))
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def fsync_file(file: File) -> None:
    """Makes everything appended to `file` so far durable; for the flush thread.

    A file that was closed meanwhile is skipped. Raises `StorageError`.
    """
    assert isinstance(file, OsFile), f"`{file.path}` is a file of another disk"
    file.sync_content()


def replace_durably(root: str | Path, path: str, data: bytes) -> None:
    """Writes a whole file atomically and durably; for the flush thread and start-up.

    Raises `StorageError`, also when the directory is gone (its topic was deleted).
    """
    target = Path(root) / path
    temporary = target.with_name(target.name + ".tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(target)
        fsync_directory(target.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StorageError(path, _reason(error)) from error


def _guarded(path: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except OSError as error:
        raise StorageError(path, _reason(error)) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
