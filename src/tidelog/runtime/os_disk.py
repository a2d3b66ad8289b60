"""A log directory on the file system. The memory disk passes the same tests.

Reads and appends are plain system calls on the event loop's thread; they hit the page cache.
What blocks on the device, fsync, is done by the runtime's flush thread through `sync` and
`replace`; it calls nothing else.

An open file (`os_file`) need not have a descriptor all the time: a node may have more logs than a
process may have descriptors (`open_files`). `replace` must not be called for a file that is open.

A name is durable only when its directory was synced. `sync` and `replace` sync the whole path
(`directory_syncs`), and deleting a file durably syncs its directory at once. Renaming, deleting
otherwise, and making or deleting a directory, are durable with the next sync of something beside
it, not before. A start on this directory must work with either state.

A node has ten thousand directories, so paths are texts here: making a `Path` takes longer than
most system calls.

Every failure is a `StorageError`; nothing else escapes.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tidelog.env.disk import DiskSpace, File
from tidelog.errors import StorageError, UsageError
from tidelog.runtime.directory_syncs import DirectorySyncs, make_directory_durably, sync_tree
from tidelog.runtime.open_files import OpenFiles
from tidelog.runtime.os_file import ABSENT, OPEN_FLAGS, OsFile, guarded, reason_of
from tidelog.runtime.page_cache import forget_tree
from tidelog.runtime.unlinking import unlink

_LOCK_FILE: Final = ".lock"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Linux alone says it."""
_FIRST_READ_BYTES: Final = 1 << 12
_READ_BYTES: Final = 1 << 16
_CANNOT_LINK: Final = frozenset(
    (errno.ENOENT, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)
)
"""The file is gone or has names enough, or its file system or the kernel's rules allow no other."""


class _Everything(OsFile):
    """All files of an `OsDisk`, and of the others on its file system."""

    __slots__ = ("witness",)

    # A descriptor that was open before they were written, if there is one.
    witness: int | None

    def sync_content(self) -> None:
        try:
            sync_tree(self._full_path, self.witness)
        except OSError as error:
            # Of which files it was is not known.
            forget_tree(self._full_path)
            raise StorageError(self._full_path, reason_of(error)) from error


class OsDisk:
    """A directory on the file system; implements the `Disk` port. It is made when missing."""

    def __init__(self, root: str, open_files: OpenFiles | None = None) -> None:
        self._root = Path(root)
        # The same as text: paths are made of it ten times faster.
        self.root = str(self._root)
        try:
            self.boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            self.boot_id = ""
        # The files that were opened here and not closed, with a descriptor or without.
        self._open_files = open_files or OpenFiles()
        # Holds the lock of this directory while set, and learns of every write-back that fails.
        self._lock_descriptor: int | None = None
        self._syncs = DirectorySyncs(self._root)
        guarded(root, lambda: make_directory_durably(self._root))

    def lock(self) -> None:
        """Keeps other processes out until `unlock` or the end of this process. Raises `UsageError`
        when another process has the directory."""
        path = self._root / _LOCK_FILE
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = guarded(_LOCK_FILE, lambda: os.open(path, flags, 0o644))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise UsageError(
                f"log directory `{self._root}` is in use by another process",
                "stop the other node, or give this one its own directory",
            ) from None
        self._lock_descriptor = descriptor

    def settle(self, directories: Iterable[str]) -> None:
        """Makes the names in these directories durable, as far as they are there. A process may die
        when a file was replaced and its directory is not synced: the next one reads the new file,
        and a power cut brings back the old one."""
        for directory in directories:
            if self.exists(directory):
                guarded(directory or self.root, partial(self._syncs.sync, directory))

    def unlock(self) -> None:
        """Lets other processes in."""
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def open(self, path: str, *, create: bool = False) -> OsFile:
        self._open_files.make_room()
        full_path = f"{self.root}/{path}"
        try:
            descriptor = os.open(full_path, OPEN_FLAGS)
        except FileNotFoundError as error:
            if not create:
                raise StorageError(path, reason_of(error)) from error
            descriptor = guarded(path, lambda: os.open(full_path, OPEN_FLAGS | os.O_CREAT, 0o644))
            self._syncs.changed(path)
        except OSError as error:
            raise StorageError(path, reason_of(error)) from error
        return guarded(
            path, lambda: OsFile(descriptor, full_path, path, self._syncs, self._open_files)
        )

    def new_file(self, path: str) -> OsFile:
        file = OsFile(ABSENT, f"{self.root}/{path}", path, self._syncs, self._open_files)
        self._open_files.add_absent(file)
        return file

    def exists(self, path: str) -> bool:
        try:
            os.stat(f"{self.root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise StorageError(path, reason_of(error)) from error
        return True

    def list_dir(self, path: str = "") -> list[str]:
        return sorted(guarded(path or self.root, lambda: os.listdir(f"{self.root}/{path}")))

    def make_dir(self, path: str) -> bool:
        try:
            os.mkdir(f"{self.root}/{path}")
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            above = path.rpartition("/")[0]
            if not above:
                raise StorageError(path, reason_of(error)) from error
            self.make_dir(above)
            return self.make_dir(path)
        except OSError as error:
            raise StorageError(path, reason_of(error)) from error
        self._syncs.changed(path)
        return True

    def read_file(self, path: str) -> bytes | None:
        descriptor = self._open_to_read(path)
        if descriptor is None:
            return None
        try:
            # Most are tiny, and a start reads tens of thousands of them.
            parts = [os.read(descriptor, _FIRST_READ_BYTES)]
            while parts[-1]:
                parts.append(os.read(descriptor, _READ_BYTES))
            return parts[0] if len(parts) == 2 else b"".join(parts)
        except OSError as error:
            raise StorageError(path, reason_of(error)) from error
        finally:
            os.close(descriptor)

    def read_head(self, path: str, length: int) -> bytes | None:
        descriptor = self._open_to_read(path)
        if descriptor is None:
            return None
        try:
            return os.pread(descriptor, length, 0)
        except OSError as error:
            raise StorageError(path, reason_of(error)) from error
        finally:
            os.close(descriptor)

    def _open_to_read(self, path: str) -> int | None:
        """A descriptor; `None` when there is no such file. A pipe in its place is empty: without
        the flag this would wait for another process to write to it."""
        try:
            return os.open(f"{self.root}/{path}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(path, reason_of(error)) from error

    def replace(self, path: str, data: bytes) -> None:
        target = self._root / path
        temporary = target.with_name(target.name + ".tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o644)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(target)
            self._syncs.sync_again(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise StorageError(path, reason_of(error)) from error

    def rename(self, source: str, target: str) -> None:
        if self.exists(target):
            raise StorageError(target, "already there")
        with self._syncs.renaming:
            self._open_files.keep_file(source)
            guarded(source, lambda: os.rename(f"{self.root}/{source}", f"{self.root}/{target}"))
            self._open_files.move(source, target, f"{self.root}/{target}")
            for name in (source, target):
                self._syncs.forget(name)
                self._syncs.changed(name)

    def link(self, source: str, target: str) -> bool:
        try:
            os.link(f"{self.root}/{source}", f"{self.root}/{target}")
        except OSError as error:
            if error.errno in _CANNOT_LINK:
                return False
            raise StorageError(target, reason_of(error)) from error
        self._syncs.changed(target)
        return True

    def delete(self, path: str, *, durable: bool = True) -> None:
        self._open_files.keep(path)
        try:
            unlink(f"{self.root}/{path}")
        except FileNotFoundError:
            return
        except OSError as error:
            full_path = self._root / path
            if not full_path.is_dir():
                raise StorageError(path, reason_of(error)) from error
            guarded(path, lambda: shutil.rmtree(full_path))
            self._forget(path)
        else:
            self._syncs.changed(path)
            if durable:
                guarded(path, lambda: self._syncs.sync(path.rpartition("/")[0]))

    def delete_some(self, path: str, limit: int) -> int:
        self._open_files.keep(path)
        full_path = f"{self.root}/{path}"
        try:
            names = os.listdir(full_path)[:limit]
            for name in names:
                try:
                    unlink(f"{full_path}/{name}")
                except (IsADirectoryError, PermissionError):
                    # None of ours; the name of a directory cannot be unlinked.
                    shutil.rmtree(f"{full_path}/{name}")
            if len(names) < limit:
                os.rmdir(full_path)
                self._forget(path)
        except FileNotFoundError:
            return 0
        except NotADirectoryError:
            self.delete(path, durable=False)
            return 0
        except OSError as error:
            raise StorageError(path, reason_of(error)) from error
        return len(names)

    def _forget(self, directory: str) -> None:
        """It is gone, which the next sync of something beside it makes durable."""
        self._syncs.forget(directory)
        self._syncs.changed(directory)

    def sync(self, file: File) -> None:
        assert isinstance(file, OsFile), f"`{file.path}` is a file of another disk"
        file.sync_content()

    def everything(self) -> File:
        found = _Everything(ABSENT, self.root, "", self._syncs, self._open_files)
        found.witness = self._lock_descriptor
        return found

    def space(self) -> DiskSpace:
        """The file system's figures; what is usable is what an ordinary user may fill."""
        found = guarded("", lambda: os.statvfs(self._root))
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
