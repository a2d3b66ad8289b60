"""A disk in memory: the test double of the OS disk for simulation and tests, with power cuts.

It keeps, per file and per directory, what is seen and what would survive a power cut
(`crash_image`). What the OS disk makes durable this one does, and no more:

- `sync` and `replace` make content and the whole path durable, all names in those directories
  included;
- deleting a file is durable at once, unless the caller can do without that;
- creating, linking, renaming, making a directory and deleting one are not: a later sync of
  something in the same directory takes them along, or a power cut undoes them.

Faults are switched on by attributes: `capacity_bytes` (ENOSPC), `failing` (EIO on everything).
Both raise `StorageError`, as the OS disk does. Every operation passes `begin`, where a disk built
on this one can inject faults; every read passes `deliver`.

Left out: devices that lie and bytes that change by themselves; see the simulator's disk.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from tidelog.env.crash_image import Content, Directory, Node
from tidelog.env.disk import UNKNOWN_SPACE, Buffer, DiskSpace, File
from tidelog.env.prng import Prng
from tidelog.errors import StorageError

_MOST_HANDLES: Final = 4096


class Operation(Enum):
    """The operations of a disk."""

    LOOK = "look"
    READ = "read"
    CREATE = "create"
    APPEND = "append"
    TRUNCATE = "truncate"
    SYNC = "sync"
    REPLACE = "replace"
    RENAME = "rename"
    DELETE = "delete"
    MAKE_DIR = "make-dir"
    LINK = "link"


class MemoryFile:
    """An open file of a `MemoryDisk`; implements the `File` port."""

    __slots__ = ("_content", "_directory", "_disk", "closed", "path")

    def __init__(
        self, disk: "MemoryDisk", path: str, parent: Directory | None, content: Content
    ) -> None:
        self._disk = disk
        self.path = path
        # Where the file is; `None` until its first append makes it.
        self._directory = parent
        self._content = content
        # True after `close`, and after a crash of the disk.
        self.closed = False

    @property
    def size_bytes(self) -> int:
        return len(self._content.data)

    def append(self, chunks: Sequence[Buffer]) -> int:
        """Writes all chunks or nothing."""
        self._check_open()
        if self._directory is None:
            self._directory = self._disk.make_file(self.path, self._content)
        data = self._content.data
        position = len(data)
        size_bytes = sum(len(chunk) for chunk in chunks)
        self._disk.begin(Operation.APPEND, self.path)
        self._disk.charge(self.path, size_bytes)
        for chunk in chunks:
            data += chunk
        self._disk.wrote(self.path, data, size_bytes)
        return position

    def read(self, position: int, length: int) -> bytes:
        self._check_open()
        self._disk.begin(Operation.READ, self.path)
        assert position >= 0, f"read of `{self.path}` at {position}"
        assert length >= 0, f"read of `{self.path}` with length {length}"
        with memoryview(self._content.data) as view:
            data = bytes(view[position : position + length])
        return self._disk.deliver(self.path, data)

    def truncate(self, size_bytes: int) -> None:
        self._check_open()
        current_bytes = len(self._content.data)
        assert 0 <= size_bytes <= current_bytes, f"truncate {current_bytes} to {size_bytes}"
        if size_bytes == current_bytes:
            self._disk.begin(Operation.LOOK, self.path)
            return
        self._disk.begin(Operation.TRUNCATE, self.path)
        self._disk.refund(current_bytes - size_bytes)
        self._content.truncate(size_bytes)

    def close(self) -> None:
        self.closed = True

    def sync_content(self) -> None:
        """Makes content and path durable; a closed file has nothing left to protect."""
        if not self.closed and self._directory is not None:
            self._disk.begin(Operation.SYNC, self.path)
            self._content.sync()
            self._directory.sync_path()

    def _check_open(self) -> None:
        assert not self.closed, f"`{self.path}` is closed"


class _Everything(MemoryFile):
    """All files of a `MemoryDisk`."""

    __slots__ = ()

    def sync_content(self) -> None:
        self._disk.begin(Operation.SYNC, self.path)
        self._disk.sync_tree()


class MemoryDisk:
    """A directory tree in memory; implements the `Disk` port."""

    def __init__(self, root: str = "/memory", capacity_bytes: int | None = None) -> None:
        # A name for messages.
        self.root = root
        self._tree = Directory(None)
        # Handles that a crash must invalidate.
        self._handles: list[MemoryFile] = []
        # Beyond so many the closed ones are dropped.
        self._most_handles = _MOST_HANDLES
        # Bytes in all files; kept to answer "disk full" without walking the tree.
        self.used_bytes = 0
        # ENOSPC beyond this; `None` is unlimited. May be changed at any time.
        self.capacity_bytes = capacity_bytes
        # EIO on every operation while set to a message.
        self.failing: str | None = None
        # Power cuts.
        self._crash_count = 0

    @property
    def boot_id(self) -> str:
        return f"boot-{self._crash_count}"

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        node = self._find(path)
        if node is None:
            if not create:
                self.begin(Operation.LOOK, path)
                raise StorageError(path, "no such file")
            node = Content()
            self.make_file(path, node)
        else:
            self.begin(Operation.LOOK, path)
        if isinstance(node, Directory):
            raise StorageError(path, "is a directory")
        return self._add_handle(MemoryFile(self, path, self._parent(path), node))

    def new_file(self, path: str) -> MemoryFile:
        return self._add_handle(MemoryFile(self, path, None, Content()))

    def _add_handle(self, file: MemoryFile) -> MemoryFile:
        self._handles.append(file)
        if len(self._handles) > self._most_handles:
            self._handles = [handle for handle in self._handles if not handle.closed]
            self._most_handles = max(_MOST_HANDLES, 2 * len(self._handles))
        return file

    def exists(self, path: str) -> bool:
        self.begin(Operation.LOOK, path)
        return self._find(path) is not None

    def list_dir(self, path: str = "") -> list[str]:
        self.begin(Operation.LOOK, path)
        node = self._find(path)
        if not isinstance(node, Directory):
            raise StorageError(path, "no such directory")
        return sorted(node.entries)

    def make_dir(self, path: str) -> bool:
        is_new = False
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            below = "/".join(parts[:count])
            found = self._find(below)
            self.begin(Operation.LOOK if found else Operation.MAKE_DIR, below)
            is_new = found is None
            if found is None:
                parent = self._parent(below)
                parent.change((_name(below), Directory(parent)))
        return is_new

    def read_file(self, path: str) -> bytes | None:
        self.begin(Operation.READ, path)
        node = self._find(path)
        return self.deliver(path, bytes(node.data)) if isinstance(node, Content) else None

    def read_head(self, path: str, length: int) -> bytes | None:
        self.begin(Operation.READ, path)
        node = self._find(path)
        return self.deliver(path, bytes(node.data[:length])) if isinstance(node, Content) else None

    def replace(self, path: str, data: bytes) -> None:
        parent = self._parent(path)
        old = parent.entries.get(_name(path))
        self.begin(Operation.REPLACE, path)
        self.charge(path, len(data) - (len(old.data) if isinstance(old, Content) else 0))
        content = Content()
        content.data += data
        content.sync()
        parent.change((_name(path), content))
        parent.sync_path()

    def rename(self, source: str, target: str) -> None:
        """Renames a file or a whole directory within one directory."""
        self.begin(Operation.RENAME, source)
        node = self._find(source)
        if self._find(target) is not None:
            raise StorageError(target, "already there")
        if node is None:
            raise StorageError(source, "no such file or directory")
        parent = self._parent(target)
        assert parent is self._parent(source), f"rename of `{source}` to another directory"
        parent.change((_name(source), None), (_name(target), node))
        if isinstance(node, Directory):
            below = f"{source}/"
            for handle in self._handles:
                if handle.path.startswith(below):
                    handle.path = f"{target}/{handle.path.removeprefix(below)}"

    def link(self, source: str, target: str) -> bool:
        """Takes the space of a second file: each name gives it back."""
        self.begin(Operation.LINK, target)
        node, parent = self._find(source), self._find(target.rpartition("/")[0])
        if not isinstance(node, Content) or not isinstance(parent, Directory):
            return False
        if _name(target) in parent.entries:
            raise StorageError(target, "already there")
        self.charge(target, len(node.data))
        parent.change((_name(target), node))
        return True

    def delete(self, path: str, *, durable: bool = True) -> None:
        node = self._find(path)
        self.begin(Operation.LOOK if node is None else Operation.DELETE, path)
        if node is None:
            return
        parent = self._parent(path)
        parent.change((_name(path), None))
        if isinstance(node, Content):
            self.refund(len(node.data))
            if durable:
                parent.sync()
        else:
            self._empty(node)

    def delete_some(self, path: str, limit: int) -> int:
        node = self._find(path)
        self.begin(Operation.DELETE if isinstance(node, Directory) else Operation.LOOK, path)
        if isinstance(node, Content):
            self.delete(path, durable=False)
        if not isinstance(node, Directory):
            return 0
        names = sorted(node.entries)[:limit]
        for name in names:
            content = node.entries[name]
            node.change((name, None))
            if isinstance(content, Content):
                self.refund(len(content.data))
            else:
                self._empty(content)
        if len(names) < limit:
            self._parent(path).change((_name(path), None))
        return len(names)

    def _empty(self, directory: Directory) -> None:
        for name, node in list(directory.entries.items()):
            directory.change((name, None))
            if isinstance(node, Directory):
                self._empty(node)
            else:
                self.refund(len(node.data))

    def sync(self, file: File) -> None:
        assert isinstance(file, MemoryFile), f"`{file.path}` is a file of another disk"
        file.sync_content()

    def everything(self) -> File:
        return _Everything(self, "", None, Content())

    def sync_tree(self) -> None:
        """Makes everything durable."""
        _sync_below(self._tree)

    # Faults ----------------------------------------------------------------------------------

    def crash(self, prng: Prng | None = None) -> Counter[str]:
        """A power cut: what was not synced is lost, or with a generator a random part of it; open
        files become unusable. Returns what happened, by kind."""
        self._crash_count += 1
        for handle in self._handles:
            handle.closed = True
        self._handles.clear()
        fired: Counter[str] = Counter()
        self._tree.lose(prng, fired)
        self.used_bytes = sum(len(content.data) for _, content in self.contents())
        return fired

    def flip_bit(self, path: str, bit: int) -> None:
        """Damages one bit of a file, as a failing medium does."""
        self.content(path).data[bit // 8] ^= 1 << (bit % 8)

    def content(self, path: str) -> Content:
        """A file's two images, for faults and checkers; the file must be there."""
        node = self._find(path)
        assert isinstance(node, Content), f"`{path}` is not a file"
        return node

    def contents(self) -> Iterator[tuple[str, Content]]:
        """Every file that is seen, by path in order."""
        return _walk(self._tree, "", durable=False)

    def durable_files(self) -> dict[str, bytes]:
        """What a power cut would leave for sure, by path."""
        files = _walk(self._tree, "", durable=True)
        return {path: content.durable_image for path, content in files}

    # For the files, and for disks built on this one ---------------------------------------------

    def make_file(self, path: str, content: Content) -> Directory:
        """Enters a new file in its directory, which is returned."""
        self.begin(Operation.CREATE, path)
        if self._find(path) is not None:
            raise StorageError(path, "already there")
        parent = self._parent(path)
        parent.change((_name(path), content))
        return parent

    def begin(self, operation: Operation, path: str) -> None:
        """Called before anything is done; raises `StorageError` while the disk fails."""
        del operation
        if self.failing is not None:
            raise StorageError(path, self.failing)

    def wrote(self, path: str, data: bytearray, size_bytes: int) -> None:
        """An append is done: the last `size_bytes` of a file."""
        del path, data, size_bytes

    def deliver(self, path: str, data: bytes) -> bytes:
        """What a read of a file hands out."""
        del path
        return data

    def space(self) -> DiskSpace:
        if self.capacity_bytes is None:
            return UNKNOWN_SPACE
        return DiskSpace(self.capacity_bytes, max(0, self.capacity_bytes - self.used_bytes))

    def charge(self, path: str, size_bytes: int) -> None:
        """Takes space; raises `StorageError` when there is not enough."""
        used_bytes = self.used_bytes + size_bytes
        if self.capacity_bytes is not None and size_bytes > 0 and used_bytes > self.capacity_bytes:
            raise StorageError(path, "no space left on device")
        self.used_bytes = used_bytes

    def refund(self, size_bytes: int) -> None:
        """Gives space back."""
        self.used_bytes -= size_bytes

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._tree
        for name in path.split("/") if path else ():
            node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def _parent(self, path: str) -> Directory:
        node = self._find(path.rpartition("/")[0])
        if not isinstance(node, Directory):
            raise StorageError(path, "no such directory")
        return node


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _sync_below(directory: Directory) -> None:
    directory.sync()
    for node in directory.entries.values():
        if isinstance(node, Directory):
            _sync_below(node)
        else:
            node.sync()


def _walk(directory: Directory, prefix: str, *, durable: bool) -> Iterator[tuple[str, Content]]:
    entries = directory.durable_entries if durable else directory.entries
    for name in sorted(entries):
        node = entries[name]
        if isinstance(node, Content):
            yield prefix + name, node
        else:
            yield from _walk(node, f"{prefix}{name}/", durable=durable)
