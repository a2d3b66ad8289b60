"""Which directories have names that the device may not know, and making it know them.

fsync of a file saves its bytes, not the name under which they are found; that is in the directory,
and the directory's own name is in the one above. So a caller that promises a durable file syncs the
path to it as well, once per change: `changed` notes a change, `sync_path` syncs what has changed
between a file and the root.

A directory is taken for changed until it was synced once in this process: another process may have
made it, and died before it synced anything.

Invariant: a directory counts as synced only up to the last change that was noted before the fsync
began. `changed` belongs to the event loop's thread and is called after the change; `sync_path` may
run on the flush thread at the same time, without a lock: stamps only rise.
"""

import ctypes
import os
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

_SYNCFS: Final = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
"""Python has no name for it."""


class DirectorySyncs:
    """The stamps of one log directory's directories."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Held while a directory gets another name, until all that is open in it has its new path.
        self.renaming = threading.Lock()
        self._stamps = count(1)
        # Stamp of the last change by directory, relative to the root; missing: none by us.
        self._changed: dict[str, int] = {}
        # Stamp of the last change that the device knows; missing: never synced by us.
        self._synced: dict[str, int] = {}
        # How often a directory lost its name.
        self._forgotten_count = 0

    def changed(self, path: str) -> None:
        """The entry of `path` was made, removed or renamed."""
        self._changed[_parent(path)] = next(self._stamps)

    def forget(self, path: str) -> None:
        """A directory is gone, or has another name now."""
        self._forgotten_count += 1
        for stamps in (self._changed, self._synced):
            stamps.pop(path, None)

    def sync_path(self, path: str) -> None:
        """Syncs every directory from that of `path` up to the root. Raises `OSError`."""
        while path:
            path = _parent(path)
            self.sync(path)

    def sync_again(self, path: str) -> None:
        """Like `sync_path`, for an entry that this thread has just changed. Raises `OSError`."""
        directory = _parent(path)
        self._sync(directory, self._changed.get(directory, 0))
        self.sync_path(directory)

    def sync(self, directory: str) -> None:
        """Syncs one directory unless the device knows it. Raises `OSError`."""
        stamp = self._changed.get(directory, 0)
        if self._synced.get(directory, -1) < stamp:
            self._sync(directory, stamp)

    def _sync(self, directory: str, stamp: int) -> None:
        forgotten_count = self._forgotten_count
        fsync_directory(self._root / directory)
        with self.renaming:
            # Else another directory may have the name by now, with names that were never synced.
            if forgotten_count == self._forgotten_count:
                self._synced[directory] = stamp


def make_directory_durably(path: Path) -> None:
    """Makes a directory and those above it, names included. Raises `OSError`."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        fsync_directory(made.parent)


def sync_tree(path: str, witness: int | None = None) -> None:
    """Makes everything below `path` durable. Raises `OSError`. In one call, which takes the whole
    file system along, where there is one. Else file by file: `os.sync` reports nothing, and need
    not wait.

    Linux reports a failed write-back there since 5.8, once to each description that was open then.
    One that is opened for the call learns only what was reported to none: another log directory on
    the file system, or another program, may have taken the report. `witness` is a descriptor of a
    file in `path` that was open before anything was written."""
    if _SYNCFS is None:
        for directory, _, names in os.walk(path, topdown=False, onerror=_raise):
            for name in names:
                with suppress(FileNotFoundError):
                    _fsync(f"{directory}/{name}")
            _fsync(directory)
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if witness is None else witness
    try:
        if _SYNCFS(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        if witness is None:
            os.close(descriptor)


def _raise(error: OSError) -> None:
    raise error


def fsync_directory(path: Path) -> None:
    """Makes the names in a directory durable. Raises `OSError`."""
    _fsync(path)


def _fsync(path: Path | str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
