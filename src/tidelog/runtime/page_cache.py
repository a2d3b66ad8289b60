"""Takes out of the page cache what the device may not have.

After a failed write-back Linux (ext4, for one) keeps the pages of a file in memory and calls them
clean. They are read as if nothing had happened, until memory is short or the machine restarts. The
process that saw the failure ends, and the next one would find all records there, sync a file that
has nothing to write any more, and claim records as durable that no device has. So pages that were
given up are dropped at once: from then on a read finds what the device has. What is still to be
written stays, and is written, or fails and is reported.
"""

import os
from contextlib import suppress


def forget_file(path: str) -> None:
    """Drops the clean pages of a file; of one that is gone there is nothing to drop."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            forget_pages(descriptor)
        finally:
            os.close(descriptor)


def forget_pages(descriptor: int) -> None:
    """Likewise, of an open file."""
    # Not every system has such a call.
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def forget_tree(path: str) -> None:
    """Likewise, of all files below a directory."""
    for directory, _, names in os.walk(path):
        for name in names:
            forget_file(f"{directory}/{name}")
