"""Producer snapshots: their format, and the files of one log.

A snapshot is the producer state of a log as of some offset, which names the file. It keeps only the
last batch of each producer; `replay.py` completes the rest from the log. Entries are written in the
iteration order of Java's hash map, so that equal states give equal files on both implementations.

Files are written at once and made durable by a later flush, not by a `Replace` effect: a truncation
deletes snapshots at once, and a replacement that was still queued would bring one back that is of
other records.

Invariant: a file stands on the disk exactly for the offsets of `ProducerSnapshots`, once strays of
a crash were dropped by loading.

Source: KIP-98; Kafka's `ProducerStateManager`, `SnapshotFile`.
"""

import sys
from collections.abc import Iterable
from struct import Struct
from typing import Final

import crc32c as _crc32c

from tidelog.env.disk import Disk, File
from tidelog.log.file_names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_name
from tidelog.log.producer_entry import ProducerBatch, ProducerEntry
from tidelog.model import NO_OFFSET

SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")


class SnapshotDamaged(Exception):
    """A producer snapshot file cannot be used."""


class ProducerSnapshots:
    """The snapshot files of one log."""

    __slots__ = ("_disk", "_offsets", "directory")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        # The partition's directory below the disk's root.
        self.directory = directory
        # The offsets that have a file: each holds the state before the record at its offset.
        self._offsets = set(offsets)

    def __contains__(self, offset: int) -> bool:
        return offset in self._offsets

    @property
    def offsets(self) -> list[int]:
        """The offsets that have a file, ascending."""
        return sorted(self._offsets)

    def path(self, offset: int) -> str:
        """Where the snapshot as of `offset` lies."""
        return f"{self.directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"

    def read(self, offset: int) -> bytes:
        """The content of a file; empty when there is none."""
        return self._disk.read_file(self.path(offset)) or b""

    def reopened(self, offset: int) -> File:
        """A file that is there, open once more, for a flush."""
        return self._disk.open(self.path(offset))

    def write(self, offset: int, data: bytes) -> File:
        """Writes a file, not yet durable; returns it open, for the flush to come."""
        file = self._disk.open(self.path(offset), create=True)
        file.truncate(0)
        file.append((data,))
        self._offsets.add(offset)
        return file

    def drop(self, offset: int) -> None:
        """Deletes one file."""
        self._disk.delete(self.path(offset))
        self._offsets.discard(offset)

    def set_aside_below(self, first: int) -> None:
        """Gives those before `first` a name that is no longer part of the log. A crash may undo
        that; the file is still the state as of its offset, and the next start drops it."""
        for known in [known for known in self._offsets if known < first]:
            self.set_aside(known)

    def set_aside(self, offset: int) -> None:
        """Likewise one of them, if there is one."""
        if offset in self._offsets:
            aside = self.path(offset) + DELETED_SUFFIX
            self._disk.delete(aside, durable=False)
            self._disk.rename(self.path(offset), aside)
            self._offsets.discard(offset)

    def drop_outside(self, first: int, last: int = sys.maxsize) -> None:
        """Deletes the snapshots before `first`, and those that hold records beyond `last`."""
        for known in self.offsets:
            if not first <= known <= last:
                self.drop(known)


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """A snapshot file."""
    ordered = _in_java_order(list(entries))
    body = bytearray(len(ordered).to_bytes(4, "big"))
    for entry in ordered:
        last = entry.batches[-1] if entry.batches else ProducerBatch(-1, -1, 0, -1)
        body += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
    crc = int(_crc32c.crc32c(bytes(body)))
    return SNAPSHOT_VERSION.to_bytes(2, "big") + crc.to_bytes(4, "big") + bytes(body)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The entries of a snapshot file. Raises `SnapshotDamaged`."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise SnapshotDamaged(f"{len(data)} bytes are not a snapshot")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise SnapshotDamaged(f"snapshot version `{version}` is unknown")
    if _crc32c.crc32c(data[6:]) != crc:
        raise SnapshotDamaged("snapshot has a wrong checksum")
    if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise SnapshotDamaged(f"{count} entries in {len(data)} bytes")
    found: list[ProducerEntry] = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, txn_first = fields
        batches = [ProducerBatch(sequence, offset, delta, timestamp)] if offset >= 0 else []
        found.append(ProducerEntry(producer_id, epoch, batches, coordinator, timestamp, txn_first))
    return found


def check_entries(entries: list[ProducerEntry], offset: int) -> None:
    """Raises `SnapshotDamaged` where no log has these entries at `offset`, whatever the checksum:
    the file may be another log's, or that of another offset."""
    begun = [entry.txn_first_offset for entry in entries if entry.txn_first_offset != NO_OFFSET]
    known = {entry.producer_id for entry in entries}
    if len(known) < len(entries) or len(set(begun)) < len(begun):
        raise SnapshotDamaged("a producer or a transaction is in the snapshot twice")
    places = [*begun, *(batch.last_offset for entry in entries for batch in entry.batches)]
    if min(known, default=0) < 0 or not all(0 <= place < offset for place in places):
        raise SnapshotDamaged(f"the snapshot has what no log has below offset {offset}")


def _in_java_order(entries: list[ProducerEntry]) -> list[ProducerEntry]:
    """By bucket of a hash map that grew to hold them, then by first appearance."""
    bucket_count = 16
    while len(entries) > bucket_count * 3 // 4:
        bucket_count *= 2

    def bucket(entry: ProducerEntry) -> int:
        folded = (entry.producer_id ^ (entry.producer_id >> 32)) & 0xFFFFFFFF
        return (folded ^ (folded >> 16)) & (bucket_count - 1)

    return sorted(entries, key=bucket)
