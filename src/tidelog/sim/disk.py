"""The simulator's disk: a memory disk that can end its process in the middle of its work.

`fuse` counts the writes (appends and replacements) that still succeed; the one after them does not
happen, and the process dies on the spot: whatever it had written before stays, whatever it was
about to do is never done. That is kill -9 at a chosen write, which random kills between events
cannot reach.
"""

from tidelog.env.memory_disk import MemoryDisk


class ProcessKilled(BaseException):
    """The process ended inside a write. Not an `Exception`: no handler of the node may see it."""


class SimDisk(MemoryDisk):
    """A memory disk with a fuse."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        # Writes until the process dies; `None` for never.
        self.fuse: int | None = None

    def charge(self, path: str, size_bytes: int) -> None:
        """Takes space for a write, unless the fuse has burnt down."""
        if self.fuse is not None:
            if self.fuse == 0:
                self.fuse = None
                raise ProcessKilled(path)
            self.fuse -= 1
        super().charge(path, size_bytes)
