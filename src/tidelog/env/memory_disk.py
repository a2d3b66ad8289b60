"""A disk in memory: the twin of the OS disk for simulation and tests, with power cuts.

It keeps, per file, what is written and what would survive a power cut. A file's durable image is
a prefix of its content plus, after a truncation that was not synced, the old bytes that the
truncation cut off: so a sync costs nothing and a crash can bring old bytes back, as real disks do.

The model of a power cut (`crash`)
- Bytes that were not synced are lost; with a generator only a random part of them, and the last
  sector that survives may be torn.
- A file that was never synced is gone; with a generator it may survive.
- Renames and deletions are durable at once, as on a journaling file system in ordered mode.
- `replace` is durable when it returns.

Faults are switched on by attributes: `capacity_bytes` (ENOSPC), `failing` (EIO on everything).
Both raise `StorageError`, as the OS disk does.

Left out: reordering between files and lying devices; the simulator's disk builds on this one.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tidelog.env.disk import Buffer, File
from tidelog.env.prng import Prng
from tidelog.errors import StorageError

_SECTOR_BYTES: Final = 512


class _Content:
    """The bytes of one file, shared by everything that has it open."""

    __slots__ = ("cut_off", "data", "durable_bytes", "ever_synced")

    def __init__(self) -> None:
        # What reads see.
        self.data = bytearray()
        # Length of the prefix of `data` that is durable.
        self.durable_bytes = 0
        # Durable bytes after that prefix which an unsynced truncation has removed from `data`.
        self.cut_off = b""
        # Whether the directory entry is durable.
        self.ever_synced = False

    def truncate(self, size_bytes: int) -> None:
        if size_bytes < self.durable_bytes:
            self.cut_off = bytes(self.data[size_bytes : self.durable_bytes]) + self.cut_off
            self.durable_bytes = size_bytes
        del self.data[size_bytes:]

    def sync(self) -> None:
        self.durable_bytes = len(self.data)
        self.cut_off = b""
        self.ever_synced = True

    def lose_unsynced(self) -> None:
        self.data = self.data[: self.durable_bytes] + self.cut_off
        self.durable_bytes = len(self.data)
        self.cut_off = b""

    def tear(self, prng: Prng) -> None:
        """Keeps a random part of the unsynced bytes, the last sector possibly garbled."""
        unsynced_bytes = len(self.data) - self.durable_bytes
        if self.cut_off or not unsynced_bytes:
            self.lose_unsynced()
            return
        kept = self.durable_bytes + prng.between(0, unsynced_bytes)
        torn_from = max(self.durable_bytes, kept - _SECTOR_BYTES)
        if kept > torn_from and prng.chance(1, 3):
            self.data[torn_from:kept] = bytes(kept - torn_from)
        del self.data[kept:]
        self.durable_bytes = kept


class MemoryFile:
    """An open file of a `MemoryDisk`."""

    __slots__ = ("_content", "_disk", "_open", "_path")

    def __init__(self, disk: "MemoryDisk", path: str, content: _Content) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        # False after `close`, and after a crash of the disk.
        self._open = True

    @property
    def path(self) -> str:
        """The path under which it was opened."""
        return self._path

    @property
    def size_bytes(self) -> int:
        """The current length."""
        return len(self._content.data)

    @property
    def closed(self) -> bool:
        """Whether it was closed, or its disk crashed."""
        return not self._open

    def append(self, chunks: Sequence[Buffer]) -> int:
        """Writes all chunks or nothing."""
        self._check_usable()
        data = self._content.data
        position = len(data)
        self._disk.charge(self._path, sum(len(chunk) for chunk in chunks))
        for chunk in chunks:
            data += chunk
        return position

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes."""
        self._check_usable()
        assert position >= 0, f"read of `{self._path}` at {position}"
        assert length >= 0, f"read of `{self._path}` with length {length}"
        with memoryview(self._content.data) as view:
            return bytes(view[position : position + length])

    def truncate(self, size_bytes: int) -> None:
        """Cuts the file."""
        self._check_usable()
        current_bytes = len(self._content.data)
        assert 0 <= size_bytes <= current_bytes, f"truncate {current_bytes} to {size_bytes}"
        self._disk.refund(current_bytes - size_bytes)
        self._content.truncate(size_bytes)

    def close(self) -> None:
        """Releases the file."""
        self._open = False

    def sync_content(self) -> None:
        """Makes the content durable; a closed file has nothing left to protect."""
        if self._open:
            self._disk.check_working(self._path)
            self._content.sync()

    def _check_usable(self) -> None:
        assert self._open, f"`{self._path}` is closed"
        self._disk.check_working(self._path)


class MemoryDisk:
    """A directory tree in memory; implements the `Disk` port."""

    def __init__(self, root: str = "/memory", capacity_bytes: int | None = None) -> None:
        self._root = root
        # Files by path, `/` separated; directories exist as entries of `_directories`.
        self._files: dict[str, _Content] = {}
        self._directories: set[str] = {""}
        # Handles that a crash must invalidate.
        self._handles: list[MemoryFile] = []
        # Bytes in all files; kept to answer "disk full" without walking the tree.
        self._used_bytes = 0
        # ENOSPC beyond this; `None` is unlimited. May be changed at any time.
        self.capacity_bytes = capacity_bytes
        # EIO on every operation while set to a message.
        self.failing: str | None = None

    @property
    def root(self) -> str:
        """A name for messages."""
        return self._root

    @property
    def used_bytes(self) -> int:
        """Bytes in all files."""
        return self._used_bytes

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """Opens or creates a file."""
        self.check_working(path)
        content = self._files.get(path)
        if content is None:
            if not create:
                raise StorageError(path, "no such file")
            self._require_parent(path)
            content = self._files[path] = _Content()
        file = MemoryFile(self, path, content)
        self._handles.append(file)
        if len(self._handles) > 4096:
            self._handles = [handle for handle in self._handles if handle._open]
        return file

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        self.check_working(path)
        return path in self._files or path in self._directories

    def list_dir(self, path: str = "") -> list[str]:
        """The sorted names inside a directory."""
        self.check_working(path)
        if path not in self._directories:
            raise StorageError(path, "no such directory")
        prefix = f"{path}/" if path else ""
        names = {
            known[len(prefix) :].split("/", 1)[0]
            for known in (*self._files, *self._directories)
            if known.startswith(prefix) and known != path
        }
        return sorted(names)

    def make_dir(self, path: str) -> None:
        """Makes a directory and its parents."""
        self.check_working(path)
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            self._directories.add("/".join(parts[:count]))

    def read_file(self, path: str) -> bytes | None:
        """The whole content or `None`."""
        self.check_working(path)
        content = self._files.get(path)
        return None if content is None else bytes(content.data)

    def replace(self, path: str, data: bytes) -> None:
        """Replaces the content; durable at once."""
        self.check_working(path)
        self._require_parent(path)
        old = self._files.get(path)
        self.charge(path, len(data) - (len(old.data) if old else 0))
        content = self._files[path] = _Content()
        content.data += data
        content.sync()

    def rename(self, source: str, target: str) -> None:
        """Renames a file or a whole directory."""
        self.check_working(source)
        if self.exists(target):
            raise StorageError(target, "already there")
        if source in self._files:
            self._require_parent(target)
            self._files[target] = self._files.pop(source)
            return
        if source not in self._directories:
            raise StorageError(source, "no such file or directory")
        for path in list(self._below(source)):
            self._files[target + path[len(source) :]] = self._files.pop(path)
        for path in [known for known in self._directories if self._is_below(known, source)]:
            self._directories.discard(path)
            self._directories.add(target + path[len(source) :])

    def delete(self, path: str) -> None:
        """Deletes a file or a directory with all that is in it."""
        self.check_working(path)
        for known in list(self._below(path)):
            self.refund(len(self._files.pop(known).data))
        self._directories = {
            known for known in self._directories if not known or not self._is_below(known, path)
        }

    def sync(self, file: File) -> None:
        """Makes the content of an open file durable."""
        assert isinstance(file, MemoryFile), f"`{file.path}` is a file of another disk"
        file.sync_content()

    # Faults ----------------------------------------------------------------------------------

    def crash(self, prng: Prng | None = None) -> None:
        """A power cut: unsynced bytes are lost, open files become unusable.

        With a generator a random part of the unsynced bytes survives, perhaps torn.
        """
        for handle in self._handles:
            handle._open = False
        self._handles.clear()
        for path in sorted(self._files):
            content = self._files[path]
            gone = not content.ever_synced and (prng is None or prng.chance(1, 2))
            if gone:
                del self._files[path]
            elif prng is None:
                content.lose_unsynced()
            else:
                content.tear(prng)
                content.ever_synced = True
        self._used_bytes = sum(len(content.data) for content in self._files.values())

    def flip_bit(self, path: str, bit: int) -> None:
        """Damages one bit of a file, as a failing medium does."""
        self._files[path].data[bit // 8] ^= 1 << (bit % 8)

    # For the files ---------------------------------------------------------------------------

    def check_working(self, path: str) -> None:
        """Raises `StorageError` while the disk fails."""
        if self.failing is not None:
            raise StorageError(path, self.failing)

    def charge(self, path: str, size_bytes: int) -> None:
        """Takes space; raises `StorageError` when there is not enough."""
        used_bytes = self._used_bytes + size_bytes
        if self.capacity_bytes is not None and size_bytes > 0 and used_bytes > self.capacity_bytes:
            raise StorageError(path, "no space left on device")
        self._used_bytes = used_bytes

    def refund(self, size_bytes: int) -> None:
        """Gives space back."""
        self._used_bytes -= size_bytes

    def _require_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent not in self._directories:
            raise StorageError(path, "no such directory")

    def _below(self, path: str) -> Iterator[str]:
        return (known for known in sorted(self._files) if self._is_below(known, path))

    @staticmethod
    def _is_below(known: str, path: str) -> bool:
        return known == path or known.startswith(f"{path}/")
