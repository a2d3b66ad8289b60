"""Files are deleted without waiting for their blocks to be free.

A file system frees the blocks of a file when its last name and its last descriptor are gone: 50 to
200 ms for a segment of 1 GB, in which a node's loop would stand still. So a large file is open
while its name goes, and a thread of its own closes it.
"""

import os
from contextlib import suppress
from threading import Thread
from typing import Final

THREAD_NAME: Final = "tidelog-frees-a-file"
_LARGE_BYTES: Final = 16 << 20


def unlink(path: str) -> None:
    """Deletes a file, as `os.unlink` does. Raises `OSError`."""
    descriptor = None
    if os.lstat(path).st_size >= _LARGE_BYTES:
        # Without a descriptor left, deleting it takes longer and that is all.
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.unlink(path)
    finally:
        if descriptor is not None:
            Thread(target=os.close, args=(descriptor,), name=THREAD_NAME, daemon=True).start()
