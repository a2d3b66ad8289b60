"""What Spark's own processes write to stderr: kept aside for a command, shown at a prompt.

Java and the Python workers write much that the command reports better, and at the end workers
report the sockets that are closed on them. So a command lets them write to a file, and deletes it
at the end, unless a failure names it because it may have more. A prompt shows what they write,
until the session ends.

The file and the pipe are in the temporary directory, and named after this process.
"""

import os
import select
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import Final

_CHUNK_BYTES: Final = 65_536


class LogFile:
    """A file that is gone at the end, unless a failure named it."""

    def __init__(self, directory: Path | None = None) -> None:
        self.path = (directory or _temporary()) / f"tidelog-spark-{os.getpid()}.log"
        # Whether a failure named it.
        self._is_named = False
        # A process with the same number may have left one.
        self.path.unlink(missing_ok=True)

    def named(self, hint: str) -> str:
        """The hint of a failure, with the path of the log unless that is empty; then it stays."""
        if not self.path.exists() or not self.path.stat().st_size:
            return hint
        self._is_named = True
        return f"{hint}; Spark's log is `{self.path}`"

    def mute(self) -> None:
        """The session is about to end. Nothing to do: a file is not shown."""

    def close(self) -> None:
        """Removes the log, unless a failure named it."""
        if not self._is_named:
            self.path.unlink(missing_ok=True)


class Relay:
    """A pipe whose contents are written to our stderr as they come, until it is muted."""

    def __init__(self, directory: Path | None = None) -> None:
        self.path = (directory or _temporary()) / f"tidelog-spark-{os.getpid()}.pipe"
        self.path.unlink(missing_ok=True)
        os.mkfifo(self.path, 0o600)
        # Open for writing too: so it never ends, and never waits for a first writer.
        self._descriptor = os.open(self.path, os.O_RDWR)
        # A pipe; when it ends, the thread shows what is left and stops.
        self._listening, self._mute = os.pipe()
        self._thread = Thread(target=self._show, daemon=True)
        self._thread.start()

    def named(self, hint: str) -> str:
        """The hint alone: what was written was shown."""
        return hint

    def mute(self) -> None:
        """The session is about to end: what is written from now on is of no use. Returns when
        everything that was written before is shown."""
        if self._mute >= 0:
            os.close(self._mute)
            self._mute = -1
            self._thread.join()

    def close(self) -> None:
        """Removes the name; what writers that have it open still write is lost."""
        self.mute()
        self.path.unlink(missing_ok=True)

    def _show(self) -> None:
        while True:
            readable, _, _ = select.select([self._descriptor, self._listening], [], [])
            if self._descriptor in readable:
                chunk = os.read(self._descriptor, _CHUNK_BYTES)
                sys.stderr.write(chunk.decode(errors="replace"))
                sys.stderr.flush()
            else:
                break
        os.close(self._listening)
        Thread(target=self._swallow, daemon=True).start()

    def _swallow(self) -> None:
        """No writer may wait for a full pipe."""
        while os.read(self._descriptor, _CHUNK_BYTES):
            pass


SparkLog = LogFile | Relay
"""Where a session's processes write: `path` is to be opened for appending."""


def _temporary() -> Path:
    return Path(tempfile.gettempdir())
