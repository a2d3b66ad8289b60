"""A log directory on the file system: the twin of the memory disk for real nodes.

Reads and appends are plain system calls on the event loop's thread; they hit the page cache.
What blocks on the device, fsync, is done by the runtime's flush thread through `fsync_file` and
`replace_durably`, the only functions here that another thread may call.

An append that fails half way (disk full) is cut back, so that the file is as before; if even that
fails the file refuses everything from then on. After a failed fsync the kernel may have dropped the
pages and a second fsync would succeed without them ("fsyncgate"), so a file whose fsync failed
refuses everything too: what was not synced must be taken as lost.

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

from tidelog.env.disk import Buffer, File
from tidelog.errors import StorageError, UsageError

T = TypeVar("T")
_MAX_VECTORS: Final = 512
_LOCK_FILE: Final = ".lock"


class OsFile:
    """An open file of an `OsDisk`."""

    __slots__ = (
        "_closing",
        "_descriptor",
        "_failure",
        "_full_path",
        "_guard",
        "_new",
        "_path",
        "_size_bytes",
        "_syncing",
    )

    def __init__(self, full_path: Path, path: str, *, create: bool) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        # Whether the directory entry may not be durable yet.
        self._new = create and not full_path.exists()
        self._descriptor = os.open(full_path, flags, 0o644)
        self._full_path = full_path
        self._path = path
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
        return _guarded(self._path, lambda: os.pread(self._descriptor, length, position))

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
        """Makes the content and the directory entry durable; a closed file has nothing left to
        protect. May be called by the flush thread."""
        if not self._begin_sync():
            return
        try:
            os.fdatasync(self._descriptor)
            if self._new:
                _sync_directory(self._full_path.parent)
                _sync_directory(self._full_path.parent.parent)
                self._new = False
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
        _guarded(root, lambda: self._root.mkdir(parents=True, exist_ok=True))

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
        return _guarded(path, lambda: OsFile(self._root / path, path, create=create))

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
        _guarded(path, lambda: (self._root / path).mkdir(parents=True, exist_ok=True))

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

    def rename(self, source: str, target: str) -> None:
        """Renames a file or a whole directory."""
        if self.exists(target):
            raise StorageError(target, "already there")
        _guarded(source, lambda: (self._root / source).rename(self._root / target))

    def delete(self, path: str) -> None:
        """Deletes a file or a directory with all that is in it; a deleted file stays deleted
        through a power cut."""
        full_path = self._root / path
        if full_path.is_dir():
            _guarded(path, lambda: shutil.rmtree(full_path))
            return
        if not _guarded(path, full_path.exists):
            return
        _guarded(path, full_path.unlink)
        _guarded(path, lambda: _sync_directory(full_path.parent))

    def sync(self, file: File) -> None:
        """Makes the content of an open file durable."""
        fsync_file(file)


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
        _sync_directory(target.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StorageError(path, _reason(error)) from error


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _guarded(path: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except OSError as error:
        raise StorageError(path, _reason(error)) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
