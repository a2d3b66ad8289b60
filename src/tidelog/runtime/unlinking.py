"""Files are deleted without waiting for their blocks to be free.

A file system frees the blocks of a file when its last name and its last descriptor are gone: 50 to
200 ms for a segment of 1 GB, in which a node's loop would stand still. So a large file is open
while its name goes, and a thread of its own closes it. A topic may have thousands of such files,
and its node needs descriptors for other things: a part of them is for this. Beyond it the loop
waits.
"""

import os
import resource
from contextlib import suppress
from threading import Lock, Thread
from typing import Final

THREAD_NAME: Final = "tidelog-frees-a-file"
_LARGE_BYTES: Final = 16 << 20
_FEWEST: Final = 16
"""Half of what is spared for files that are open for a moment (`open_files.SPARE_DESCRIPTORS`)."""
_PART: Final = 64


class _Places:
    """How many files are being freed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = 0

    def take(self) -> bool:
        """Takes a place if there is one."""
        with self._lock:
            has_place = self._taken < most_at_a_time()
            self._taken += has_place
            return has_place

    def give_back(self) -> None:
        """A file is free, or is not going to be freed by a thread."""
        with self._lock:
            self._taken -= 1


_PLACES: Final = _Places()


def most_at_a_time() -> int:
    """How many files may wait to be freed, by what this process may open."""
    return max(_FEWEST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART)


def unlink(path: str) -> None:
    """Deletes a file, as `os.unlink` does. Raises `OSError`."""
    descriptor = None
    if os.lstat(path).st_size >= _LARGE_BYTES and _PLACES.take():
        # Without a descriptor left, deleting it takes longer and that is all.
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if descriptor is None:
            _PLACES.give_back()
    try:
        os.unlink(path)
    finally:
        if descriptor is not None:
            _free_later(descriptor)


def _free_later(descriptor: int) -> None:
    try:
        Thread(target=_free, args=(descriptor,), name=THREAD_NAME, daemon=True).start()
    except RuntimeError:
        # The process may have no more threads.
        _free(descriptor)


def _free(descriptor: int) -> None:
    try:
        os.close(descriptor)
    finally:
        _PLACES.give_back()
