"""Snapshots of the metadata log as bytes: what a `.checkpoint` file holds, and its name.

A snapshot at (end offset, epoch) stands for the whole log below the end offset: replaying
its records gives the state that replaying the log gives. It is a file of ordinary record batches
with offsets of its own, counted from 0:

    header batch    control: SNAPSHOT_HEADER, perhaps KRAFT_VERSION and KRAFT_VOTERS
    record batches  the state, in any number of batches
    footer batch    control: SNAPSHOT_FOOTER

The header has the time at which the last record that the snapshot stands for was appended. The
footer shows that nothing is missing. The name is
`<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`; the epoch is that of the last record below
the end offset.

Invariants
- `read_snapshot` accepts nothing but a whole snapshot: every checksum, offsets without a gap, the
  header first and once, the footer last and once, and not a byte behind it (*SnapshotWhole*).
- Equal states at equal ids give equal bytes: all timestamps are the header's.

Source: KIP-630; Kafka's `Snapshots`, `RecordsSnapshotWriter`, `BatchFileWriter`.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch
from tidelog.kraft.messages import SnapshotId
from tidelog.log.file_names import CHECKPOINT_SUFFIX
from tidelog.records import control
from tidelog.records.batch import BatchHeader, build_batch, crc_of, iter_headers, values_of
from tidelog.records.record import Record

PART_SUFFIX: Final = ".part"
BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
"""What formatting leaves behind: it stands for no record of the log, so no replica fetches it."""

_OFFSET_DIGITS: Final = 20
_EPOCH_DIGITS: Final = 10
_HEADER_VALUE: Final = struct.Struct(">hq")


class ControlEntry(NamedTuple):
    """A control record of the quorum that a snapshot carries beside the state."""

    control_type: control.ControlType
    value: bytes


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """A snapshot as it was read."""

    snapshot_id: SnapshotId
    append_time_ms: int
    """Wall time at which the last record that it stands for was appended."""
    control_entries: tuple[ControlEntry, ...]
    """Version and voters of the quorum, if it has them."""
    records: list[bytes]
    """The state, in the order in which it must be replayed."""


def snapshot_name(snapshot_id: SnapshotId) -> str:
    """The name of a complete snapshot's file."""
    end_offset, epoch = snapshot_id
    return f"{end_offset:0{_OFFSET_DIGITS}d}-{epoch:0{_EPOCH_DIGITS}d}{CHECKPOINT_SUFFIX}"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """The snapshot that a file name stands for; `None` for all other files, `.part` included."""
    if not name.endswith(CHECKPOINT_SUFFIX):
        return None
    offset, separator, epoch = name.removesuffix(CHECKPOINT_SUFFIX).partition("-")
    if not separator or not (offset.isdecimal() and epoch.isdecimal()):
        return None
    if (len(offset), len(epoch)) != (_OFFSET_DIGITS, _EPOCH_DIGITS):
        return None
    return SnapshotId(int(offset), int(epoch))


# Writing -----------------------------------------------------------------------------------


class SnapshotEncoder:
    """Makes the batches of one snapshot, one after the other."""

    def __init__(self, snapshot_id: SnapshotId, append_time_ms: int) -> None:
        # Stamped into every batch.
        self._epoch = snapshot_id.epoch
        # Of the header, and the timestamp of every record.
        self._time_ms = append_time_ms
        # The next record's offset within the file.
        self._offset = 0

    def header(self, control_entries: Sequence[ControlEntry] = ()) -> bytes:
        """The first batch."""
        value = control.snapshot_header_value(self._time_ms)
        entries = (ControlEntry(control.ControlType.SNAPSHOT_HEADER, value), *control_entries)
        return self._control_batch(entries)

    def records(self, values: Sequence[bytes]) -> bytes:
        """A batch of the state."""
        return self._batch([Record(self._time_ms, None, value) for value in values], False)

    def footer(self) -> bytes:
        """The last batch."""
        value = control.snapshot_footer_value()
        return self._control_batch((ControlEntry(control.ControlType.SNAPSHOT_FOOTER, value),))

    def _control_batch(self, entries: Sequence[ControlEntry]) -> bytes:
        records = [control.control_record(kind, value, self._time_ms) for kind, value in entries]
        return self._batch(records, True)

    def _batch(self, records: list[Record], is_control: bool) -> bytes:
        offset = self._offset
        self._offset += len(records)
        return build_batch(
            records, base_offset=offset, leader_epoch=self._epoch, is_control=is_control
        )


def encode_snapshot(
    snapshot_id: SnapshotId,
    append_time_ms: int,
    records: Sequence[bytes],
    control_entries: Sequence[ControlEntry] = (),
) -> bytes:
    """A whole snapshot at once, for small states."""
    encoder = SnapshotEncoder(snapshot_id, append_time_ms)
    batches = [encoder.header(control_entries)]
    if records:
        batches.append(encoder.records(records))
    return b"".join((*batches, encoder.footer()))


# Reading -----------------------------------------------------------------------------------


def read_snapshot(data: Buffer, snapshot_id: SnapshotId) -> SnapshotContent:
    """The content of a whole snapshot. Raises `CorruptBatch` for anything less."""
    reader = _Reader()
    for position, header in iter_headers(data):
        if crc_of(data, position, header.size_bytes) != header.crc:
            raise CorruptBatch(f"batch at byte `{position}` has a wrong checksum")
        reader.take(data, position, header)
    if reader.append_time_ms is None or not reader.has_footer:
        raise CorruptBatch(f"a snapshot of `{len(data)}` bytes ends before its footer")
    return SnapshotContent(
        snapshot_id, reader.append_time_ms, tuple(reader.control_entries), reader.records
    )


class _Reader:
    """Checks the order of batches while it collects them."""

    def __init__(self) -> None:
        # Of the header; `None` before it.
        self.append_time_ms: int | None = None
        # Whether the footer was read: nothing may follow it.
        self.has_footer = False
        # Control records behind the header.
        self.control_entries: list[ControlEntry] = []
        # The state so far.
        self.records: list[bytes] = []
        # The offset that the next batch must have.
        self._offset = 0

    def take(self, data: Buffer, position: int, header: BatchHeader) -> None:
        if self.has_footer:
            raise CorruptBatch(f"batch at byte `{position}` lies behind the footer")
        if header.base_offset != self._offset or not header.record_count:
            raise CorruptBatch(
                f"batch at byte `{position}` begins at offset `{header.base_offset}` with "
                f"`{header.record_count}` records, expected offset `{self._offset}`"
            )
        if header.record_count != header.last_offset_delta + 1:
            raise CorruptBatch(f"batch at byte `{position}` has a gap in its offsets")
        self._offset = header.last_offset + 1
        if header.is_control:
            self._take_control(data, position)
        elif self.append_time_ms is None:
            raise CorruptBatch("a snapshot begins with its header")
        else:
            self.records += values_of(data, position, header)

    def _take_control(self, data: Buffer, position: int) -> None:
        for index, record in enumerate(control.read_control_records(data, position)):
            kind = record.control_type
            if self.append_time_ms is None:
                if kind != control.ControlType.SNAPSHOT_HEADER:
                    raise CorruptBatch(f"a snapshot begins with control record `{kind}`")
                self.append_time_ms = _time_of(record.value)
            elif kind == control.ControlType.SNAPSHOT_FOOTER and index == 0:
                self.has_footer = True
            elif kind in (control.ControlType.KRAFT_VERSION, control.ControlType.KRAFT_VOTERS):
                self.control_entries.append(ControlEntry(control.ControlType(kind), record.value))
            else:
                raise CorruptBatch(f"control record `{kind}` at byte `{position}` of a snapshot")


def _time_of(value: bytes) -> int:
    if len(value) < _HEADER_VALUE.size:
        raise CorruptBatch(f"a snapshot header of `{len(value)}` bytes")
    version, time_ms = _HEADER_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"snapshot header version `{version}`")
    return int(time_ms)
