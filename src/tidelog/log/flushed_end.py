"""How far the metadata log is durable, noted at each flush: the witness of a voter's promise.

A voter reports to its leader what is durable, which counts on it. If a start takes damage below
that for a torn tail and cuts it, the voter has forgotten what it promised, and its next vote may
elect a voter without committed records. Checkpoints show the durable end too, but are up to a
minute old. To make them as new as the log would take another fsync for each one of the log.

So the end is noted *without* a sync: a few bytes behind the last ones of a small file, before the
message leaves that claims it. What was written outlives the process, in the page cache, and that is
all it has to outlive: after a kill the log is what was written to it, and whatever is missing below
the noted end is damage (property *FlushedEndOutlivesKill*). After a power cut the page cache is
gone, and a note could claim what a cut of the log, not synced either, has taken: one of several
unsynced writes may survive without the others. Such notes are of another boot and do not count.

Each note is eight bytes, the offset, and a CRC-32 of them. The last sound one counts. The file
begins with the boot id and a line feed. Apache Kafka does not look at a file of this name.

Left out: systems that do not say which boot it is (all but Linux), where the checkpoints alone
decide; within the minute after a checkpoint, damage and a power cut, or damage to the log and to
this file.

Source: Alagappan et al., "Protocol-Aware Recovery" (FAST '18), which keeps such a witness on the
device.
"""

from typing import Final
from zlib import crc32

from tidelog.env.disk import Disk, File
from tidelog.log.values import Checkpoints

FLUSHED_END_FILE: Final = "flushed-end"
_MOST_BYTES: Final = 1 << 16
"""Then the file begins anew."""
_OFFSET_BYTES: Final = 8
_NOTE_BYTES: Final = 12


class FlushedEnd:
    """The noted end of the log in one directory."""

    __slots__ = ("_disk", "_file", "_head", "_path")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FLUSHED_END_FILE}"
        self._head = f"{disk.boot_id}\n".encode("ascii")
        # Open from the first note on.
        self._file: File | None = None

    def applied_to(self, checkpoints: Checkpoints, *, may_be_cut: bool) -> Checkpoints:
        """The checkpoints of the log, with a recovery point that says how far it was durable for
        sure. `may_be_cut`: the log may have been cut since they were written, as before an unclean
        end. Where one could not be read the high watermark does not bound anything."""
        durable_end = checkpoints.recovery_point
        if may_be_cut:
            # A voter truncates only above the high watermark, and writes no checkpoint then.
            durable_end = min(durable_end, checkpoints.high_watermark)
        return checkpoints._replace(recovery_point=max(durable_end, self.read()))

    def read(self) -> int:
        """What was noted last in this life of the machine; 0 for nothing."""
        data = self._disk.read_file(self._path) or b""
        if not self._disk.boot_id or not data.startswith(self._head):
            return 0
        for position in reversed(range(len(self._head), len(data), _NOTE_BYTES)):
            end = int.from_bytes(data[position : position + _OFFSET_BYTES])
            if data[position : position + _NOTE_BYTES] == _encoded(end):
                return end
        return 0

    def note(self, end: int) -> None:
        """Everything below `end` is durable, and no more."""
        if not self._disk.boot_id:
            return
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self._path, create=True)
            # Without the part of a note that the last process did not get to write.
            whole_bytes = file.size_bytes - (file.size_bytes - len(self._head)) % _NOTE_BYTES
            is_current = file.read(0, len(self._head)) == self._head
            file.truncate(whole_bytes if is_current else 0)
        elif file.size_bytes >= _MOST_BYTES:
            file.truncate(0)
        head = b"" if file.size_bytes else self._head
        file.append([head, _encoded(end)])

    def close(self) -> None:
        """Releases the file."""
        if self._file is not None:
            self._file.close()


def _encoded(end: int) -> bytes:
    offset = end.to_bytes(_OFFSET_BYTES)
    return offset + crc32(offset).to_bytes(_NOTE_BYTES - _OFFSET_BYTES)
