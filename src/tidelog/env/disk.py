"""The storage port: what the core may do with a log directory.

Reads and appends are synchronous. Durability is not: the core emits a `Flush` or a `Replace`
effect (`env/effects.py`) and receives `Flushed` when the bytes are durable. Only start-up and
formatting, which run before the first input, may call `replace`, which is durable on return.

There are two complete implementations, which pass the same test suite: `runtime/os_disk.py` and
`env/memory_disk.py`.

Every method raises `errors.StorageError` when the device fails; nothing else escapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file, written at its end and read at any position."""

    @property
    def path(self) -> str:
        """The path relative to the disk's root, with `/` as separator."""

    @property
    def size_bytes(self) -> int:
        """The current length, unflushed appends included."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called: a driver may hold a `FileSlice` for longer than that."""

    def append(self, chunks: Sequence[Buffer]) -> int:
        """Writes all chunks at the end; returns the position where they begin."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; shorter only at the end of the file."""

    def truncate(self, size_bytes: int) -> None:
        """Cuts the file to `size_bytes`; it must not grow."""

    def close(self) -> None:
        """Releases the file; reading or writing it afterwards is a bug."""


class DiskSpace(NamedTuple):
    """The volume that a log directory is on."""

    total_bytes: int
    usable_bytes: int


UNKNOWN_SPACE: Final = DiskSpace(-1, -1)
"""The space of a disk that has no measure of it."""


class Disk(Protocol):
    """One log directory."""

    @property
    def root(self) -> str:
        """Where the directory is, for messages and tools."""

    @property
    def boot_id(self) -> str:
        """Names the life of the machine. While it stays the same, what was written is there, synced
        or not, whatever became of the process; empty where that cannot be known."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens a file; without `create` a missing one is a `StorageError`."""

    def new_file(self, path: str) -> File:
        """A file that its first append makes; a `StorageError` then if there is one by that name.
        Until then nothing of it is in the directory, and it takes nothing from the system."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    def list_dir(self, path: str = "") -> list[str]:
        """The sorted names directly inside a directory."""

    def make_dir(self, path: str) -> bool:
        """Makes a directory and its parents; an existing one is fine. Returns whether it is new."""

    def read_file(self, path: str) -> bytes | None:
        """The whole content, or `None` when there is no such file."""

    def read_head(self, path: str, length: int) -> bytes | None:
        """The first bytes, fewer if the file is shorter; `None` when there is no such file. Less
        work than to open it."""

    def replace(self, path: str, data: bytes) -> None:
        """Writes a whole file atomically and durably: temporary file, fsync, rename, fsync of
        the directory. Blocks; for start-up and formatting only."""

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory; the target must not exist. Files below a directory that are
        open stay open, and have their new paths."""

    def link(self, source: str, target: str) -> bool:
        """Gives a file a second name, which must not exist; each name is deleted by itself. Returns
        whether it has it: a file system need not bear (more) names, nor the source or the directory
        be there. What is written to the file afterwards is seen under both."""

    def delete(self, path: str, *, durable: bool = True) -> None:
        """Deletes a file, or a directory with all that is in it; a missing one is fine. A file that
        is not deleted durably may be back after a crash, until something beside it is synced."""

    def delete_some(self, path: str, limit: int) -> int:
        """Deletes a directory with at most `limit` files, or so many files of a larger one; returns
        how many. It is gone when they are fewer than the limit; none is gone already. A directory
        in it counts as a file, and a file in its place goes as well."""

    def sync(self, file: File) -> None:
        """Makes everything appended to `file` so far durable, its directory entry included.
        Blocks; for start-up, recovery and clean stop only."""

    def everything(self) -> File:
        """Stands for all files: to sync it makes everything durable that was written, names
        included. For thousands of files; it also waits for what others have written beside them.
        Nothing else can be done with it."""

    def space(self) -> DiskSpace:
        """How large the volume is and how much of it is left; for operators."""


class OfflineDisk(NamedTuple):
    """In the place of a `Disk` that could not be opened when the process started."""

    root: str
    error: str


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes of a file that a driver may send without copying them through the core."""

    file: File
    position: int
    length: int
