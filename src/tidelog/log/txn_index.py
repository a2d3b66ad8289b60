"""The transaction index of one segment: its aborted transactions, so that readers can skip them.

34 bytes an entry: version 0, producer id, first offset of the transaction, offset of its abort
marker, and the last stable offset at that moment. An entry lies in the segment that holds the
*marker*. Committed transactions are not listed; a segment without aborts has no file.

A reader of [from, upper) takes the entries with `last_offset >= from` and `first_offset < upper`.
Entries ascend by marker; once one was written when the last stable offset had reached `upper`, no
later transaction can touch the range, so the search stops there instead of walking every segment.

Source: KIP-98, "Transaction index".
"""

from bisect import bisect_left
from struct import Struct
from typing import Final, NamedTuple

from tidelog.env.disk import Disk, File

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the abort marker, inclusive."""
    last_stable_offset: int
    """Right after the marker was appended."""


class TransactionIndex:
    """Aborted transactions of one segment, written through."""

    __slots__ = ("_disk", "entries", "file", "may_exist", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        # Moves with the directory of the log.
        self.path = path
        # Ascending by last offset; equal to the file.
        self.entries: list[AbortedTxn] = []
        # Opened by the first entry; part of every flush.
        self.file: File | None = None
        # False for an index that is known to have no file: then none is looked for.
        self.may_exist = True

    def load(self) -> bool:
        """Reads the file; returns whether it makes sense, else the index is empty."""
        data = self._disk.read_file(self.path) if self.may_exist else None
        if data is None:
            return True
        if len(data) % _ENTRY.size:
            return False
        entries: list[AbortedTxn] = []
        for version, *values in _ENTRY.iter_unpack(data):
            entry = AbortedTxn(*values)
            if version != _VERSION or entry.first_offset > entry.last_offset:
                return False
            if entries and entry.last_offset <= entries[-1].last_offset:
                return False
            entries.append(entry)
        self.entries = entries
        self.file = self._disk.open(self.path)
        return True

    def append(self, entry: AbortedTxn) -> None:
        """Adds an aborted transaction."""
        last = self.entries[-1].last_offset if self.entries else -1
        assert entry.last_offset > last, f"{entry} after {last}"
        if self.file is None:
            self.file = self._disk.open(self.path, create=True)
            self.may_exist = True
        self.file.append([_ENTRY.pack(_VERSION, *entry)])
        self.entries.append(entry)

    def collect(self, start: int, upper: int, found: list[AbortedTxn]) -> bool:
        """Adds the transactions that touch [start, upper); returns whether the search is done."""
        for entry in self.entries:
            if entry.last_offset >= start and entry.first_offset < upper:
                found.append(entry)
            if entry.last_stable_offset >= upper:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Drops transactions whose marker is at or above `offset`."""
        keep = bisect_left(self.entries, offset, key=lambda entry: entry.last_offset)
        if keep < len(self.entries):
            assert self.file is not None
            self.file.truncate(keep * _ENTRY.size)
            del self.entries[keep:]

    def reset(self) -> None:
        """Drops everything, the file included."""
        self.close()
        self.entries.clear()
        if self.may_exist:
            self._disk.delete(self.path)
            self.may_exist = False

    def close(self) -> None:
        """Releases the file."""
        if self.file is not None:
            self.file.close()
            self.file = None
