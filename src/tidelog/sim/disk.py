"""The simulator's disk: a memory disk that can end its process in the middle of its work.

`fuse` counts the writes (appends and replacements) that still succeed; the one after them does not
happen, and the process dies on the spot: whatever it had written before stays, whatever it was
about to do is never done. That is kill -9 at a chosen write, which random kills between events
cannot reach.

`failing_syncs` makes flushes fail while writes go on. What a failed flush should have saved is
gone, whatever later flushes say (fsyncgate): the disk remembers it in `loses_on_exit`, and whoever
drives it lets the unsynced data go when the process has ended.
"""

from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.errors import StorageError


class ProcessKilled(BaseException):
    """The process ended inside a write. Not an `Exception`: no handler of the node may see it."""


class SimDisk(MemoryDisk):
    """A memory disk with a fuse."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        # Writes until the process dies; `None` for never.
        self.fuse: int | None = None
        # Whether flushes fail.
        self.failing_syncs = False
        # Whether a flush has failed in this process's life.
        self.loses_on_exit = False

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with the device now."""
        return self.failing is None and self.capacity_bytes is None and not self.failing_syncs

    def charge(self, path: str, size_bytes: int) -> None:
        """Takes space for a write, unless the fuse has burnt down."""
        if self.fuse is not None:
            if self.fuse == 0:
                self.fuse = None
                raise ProcessKilled(path)
            self.fuse -= 1
        super().charge(path, size_bytes)

    def begin(self, operation: Operation, path: str) -> None:
        """Lets a flush fail."""
        super().begin(operation, path)
        if self.failing_syncs and operation in (Operation.SYNC, Operation.REPLACE):
            self.loses_on_exit = True
            raise StorageError(path, "flush failed")
