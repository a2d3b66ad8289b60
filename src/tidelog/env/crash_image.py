"""What a power cut leaves of files and directories: the model below the memory disk.

A file is bytes; a directory is names. Both live twice: as programs see them, in the page cache, and
as the device has them. A sync makes the second equal to the first. A power cut makes the first
equal to the second, or to something between: what was on its way.

Files
- The device's image is a prefix of what is seen plus, after a truncation that was not synced, the
  bytes that it cut off. So a sync costs nothing, and a power cut can bring cut bytes back.
- Without a generator a power cut takes everything that was not synced. With one it draws for each
  file, independently of all others (so writes are *reordered* between files), one of: nothing of it
  survives; a prefix does; any subset of its pages does, the others being zeros, one page perhaps
  *torn* at a sector; only the new length does (a *zero-filled tail*); all of it does.
- Sectors are atomic, and a byte that was synced is never damaged by writing behind it.

Directories
- Creating, renaming and deleting change names; each change is atomic, and durable once the
  directory was synced. Syncing a file's content is not enough to find it again.
- A power cut undoes all changes that were not synced, or a drawn part of them. A change is never
  kept without the earlier changes of the same names.

Source: Pillai and others, "All File Systems Are Not Created Equal" (OSDI '14); the page and sector
model follows FoundationDB's and TigerBeetle's simulators.
"""

from collections import Counter
from typing import Final, Union

from tidelog.env.prng import Prng

SECTOR_BYTES: Final = 512
PAGE_BYTES: Final = 4096


class Content:
    """The bytes of one file, shared by everything that has it open."""

    __slots__ = ("cut_off", "data", "durable_bytes")

    def __init__(self) -> None:
        # What reads see.
        self.data = bytearray()
        # Length of the prefix of `data` that the device has.
        self.durable_bytes = 0
        # The device's bytes after that prefix, which an unsynced truncation removed from `data`.
        self.cut_off = b""

    @property
    def is_durable(self) -> bool:
        """Whether a power cut would change nothing."""
        return self.durable_bytes == len(self.data) and not self.cut_off

    @property
    def durable_image(self) -> bytes:
        """What the device has for sure."""
        return bytes(self.data[: self.durable_bytes]) + self.cut_off

    def truncate(self, size_bytes: int) -> None:
        """Cuts what is seen."""
        if size_bytes < self.durable_bytes:
            self.cut_off = bytes(self.data[size_bytes : self.durable_bytes]) + self.cut_off
            self.durable_bytes = size_bytes
        del self.data[size_bytes:]

    def sync(self) -> None:
        """The device has everything."""
        self.durable_bytes = len(self.data)
        self.cut_off = b""

    def lose(self, prng: Prng | None, fired: Counter[str]) -> None:
        """A power cut; notes in `fired` what it did."""
        if self.is_durable:
            return
        if prng is None or (self.cut_off and prng.chance(1, 2)):
            fired["undone-truncation" if self.cut_off else "dropped-writes"] += 1
            self.data = self.data[: self.durable_bytes] + self.cut_off
        else:
            self._keep_some(prng, fired)
        self.sync()

    def _keep_some(self, prng: Prng, fired: Counter[str]) -> None:
        """The truncation happened; of what was appended after it something survives."""
        data, start = self.data, self.durable_bytes
        if start == len(data):
            return
        match prng.below(6):
            case 0:
                fired["dropped-writes"] += 1
                del data[start:]
            case 1 | 2:
                fired["kept-prefix"] += 1
                del data[prng.between(start, len(data)) :]
                self._tear_last_sector(prng, fired)
            case 3:
                fired["reordered-pages"] += 1
                self._drop_pages(prng, fired)
            case 4:
                fired["zero-filled-tail"] += 1
                del data[prng.between(start + 1, len(data)) :]
                data[start:] = bytes(len(data) - start)
            case _:
                fired["kept-all"] += 1

    def _tear_last_sector(self, prng: Prng, fired: Counter[str]) -> None:
        torn_from = max(self.durable_bytes, len(self.data) - SECTOR_BYTES)
        if torn_from < len(self.data) and prng.chance(1, 3):
            fired["torn-write"] += 1
            self.data[torn_from:] = bytes(len(self.data) - torn_from)

    def _drop_pages(self, prng: Prng, fired: Counter[str]) -> None:
        """Each page that was being written is there or not; one of them may be torn."""
        data, start = self.data, self.durable_bytes
        position = start
        while position < len(data):
            page_end = min(len(data), (position // PAGE_BYTES + 1) * PAGE_BYTES)
            if prng.chance(1, 2):
                data[position:page_end] = bytes(page_end - position)
            elif prng.chance(1, 4):
                fired["torn-write"] += 1
                sectors = (page_end - position) // SECTOR_BYTES + 1
                torn_from = min(page_end, position + prng.below(sectors) * SECTOR_BYTES)
                data[torn_from:page_end] = bytes(page_end - torn_from)
            position = page_end


Node = Union["Directory", Content]


class Directory:
    """The names in one directory."""

    __slots__ = ("_changes", "durable_entries", "entries", "parent")

    def __init__(self, parent: "Directory | None") -> None:
        # The directory whose entry leads here; None for the root, which is always there.
        self.parent = parent
        # What lookups see.
        self.entries: dict[str, Node] = {}
        # What the device has for sure.
        self.durable_entries: dict[str, Node] = {}
        # Atomic changes since the last sync, in order: (name, its node or None when gone).
        self._changes: list[tuple[tuple[str, Node | None], ...]] = []

    def change(self, *pairs: tuple[str, Node | None]) -> None:
        """Sets or removes names, all or none of them in a power cut."""
        self._apply(pairs, self.entries)
        self._changes.append(pairs)

    @staticmethod
    def _apply(pairs: tuple[tuple[str, Node | None], ...], entries: dict[str, Node]) -> None:
        for name, node in pairs:
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node

    def sync(self) -> None:
        """The device has all names."""
        if self._changes:
            self.durable_entries = dict(self.entries)
            self._changes.clear()

    def sync_path(self) -> None:
        """Syncs this directory and all above it."""
        directory: Directory | None = self
        while directory is not None:
            directory.sync()
            directory = directory.parent

    def lose(self, prng: Prng | None, fired: Counter[str]) -> None:
        """A power cut, here and in everything below that is still there afterwards."""
        self._lose_names(prng, fired)
        for name in sorted(self.entries):
            node = self.entries[name]
            if isinstance(node, Directory):
                node.parent = self
            node.lose(prng, fired)

    def _lose_names(self, prng: Prng | None, fired: Counter[str]) -> None:
        if not self._changes:
            return
        keep_percent = 0 if prng is None else prng.choice((0, 50, 90, 100))
        lost: dict[str, None] = {}
        for pairs in self._changes:
            names = [name for name, _ in pairs]
            kept = prng is not None and prng.chance(keep_percent, 100)
            if kept and not any(name in lost for name in names):
                self._apply(pairs, self.durable_entries)
            else:
                fired["lost-entry"] += 1
                lost.update(dict.fromkeys(names))
        self.entries = dict(self.durable_entries)
        self._changes.clear()
