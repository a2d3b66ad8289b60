"""One data directory, one process: an advisory lock on `.lock`, as Kafka takes it.

The kernel drops the lock with the process, however it dies, so a stale file means nothing.
"""

import fcntl
import os
from pathlib import Path

from tidelog.errors import UsageError


class DataLock:
    """The held lock; it lives as long as the process or until `release`."""

    __slots__ = ("_descriptor",)

    def __init__(self, directory: Path) -> None:
        """Takes the lock of a directory that exists.

        Raises `UsageError` when another process holds it, or when the directory is not there.
        """
        try:
            descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(
                f"the data directory `{directory}` cannot be used: {error.strerror}",
                "format it first with `tidelog format FILE.properties --cluster-id ID`, "
                "or correct `log.dirs`",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise UsageError(
                f"the data directory `{directory}` is in use by another process (pid `{holder}`)",
                "stop that process, or give this node a directory of its own in `log.dirs`",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        # Holds the lock as long as it is open.
        self._descriptor = descriptor

    def release(self) -> None:
        """Lets another process have the directory."""
        os.close(self._descriptor)
