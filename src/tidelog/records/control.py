"""Control batches: records for the log's own readers, not for applications.

A control record's key is a version (int16, 0) and a type (int16). Transaction markers end a
producer's transaction in one partition; the other types live in the metadata log and its
snapshots. Values of the latter are flexible messages of the protocol; the ones a quorum leader
writes are packed here, the rest is left to `kio`.

A control batch occupies offsets like any other; applications skip it.

Source: KIP-98 (markers), KIP-595 (leader change), KIP-630 (snapshot frame), KIP-853 (voters).
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.env.disk import Buffer
from tidelog.errors import CorruptBatch
from tidelog.records.batch import build_batch, decode_body, read_header
from tidelog.records.record import Record

_KEY: Final = struct.Struct(">hh")
_END_TXN_VALUE: Final = struct.Struct(">hi")


class ControlType(IntEnum):
    """Types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """A control record; `control_type` may be a number that this version does not know."""

    control_type: int
    value: bytes
    timestamp: int
    offset: int


class EndTxnMarker(NamedTuple):
    """A transaction marker."""

    is_commit: bool
    coordinator_epoch: int


def control_record(control_type: ControlType, value: bytes, timestamp: int) -> Record:
    """The record for `build_batch(..., is_control=True)`."""
    return Record(timestamp, _KEY.pack(0, control_type), value)


def read_control_records(buf: Buffer, pos: int = 0) -> list[ControlRecord]:
    """The control records of the batch at `pos`; the checksum is taken as checked. Empty when
    compaction removed them all. Raises `CorruptBatch` for unreadable ones."""
    header = read_header(buf, pos)
    assert header.is_control, f"batch at offset {header.base_offset} is not a control batch"
    found: list[ControlRecord] = []
    for record in decode_body(buf, pos, header):
        if record.key is None or len(record.key) < _KEY.size:
            raise CorruptBatch(f"control record at offset `{record.offset}` has no type")
        control_type = _KEY.unpack_from(record.key)[1]
        value = record.value or b""
        found.append(ControlRecord(control_type, value, record.timestamp, record.offset))
    return found


def read_end_txn_marker(buf: Buffer, pos: int = 0) -> EndTxnMarker | None:
    """The marker in the control batch at `pos`; `None` when it holds no marker."""
    records = read_control_records(buf, pos)
    if not records or records[0].control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if len(records[0].value) < _END_TXN_VALUE.size:
        raise CorruptBatch(f"transaction marker at offset `{records[0].offset}` is cut")
    coordinator_epoch = _END_TXN_VALUE.unpack_from(records[0].value)[1]
    return EndTxnMarker(records[0].control_type == ControlType.COMMIT, coordinator_epoch)


def build_end_txn_marker(
    marker: EndTxnMarker, producer_id: int, producer_epoch: int, timestamp: int
) -> bytes:
    """The batch that ends a transaction in one partition."""
    control_type = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    value = _END_TXN_VALUE.pack(0, marker.coordinator_epoch)
    return build_batch(
        [control_record(control_type, value, timestamp)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_control=True,
        is_transactional=True,
    )


def leader_change_value(leader_id: int, voters: Sequence[int], granting: Sequence[int]) -> bytes:
    """The value of a LEADER_CHANGE record, version 0: voters without directory ids."""
    return struct.pack(">hi", 0, leader_id) + _voter_list(voters) + _voter_list(granting) + b"\x00"


def _voter_list(voters: Sequence[int]) -> bytes:
    assert len(voters) < 127, f"{len(voters)} voters do not fit one length byte"
    entries = b"".join(struct.pack(">ib", voter, 0) for voter in voters)
    return bytes((len(voters) + 1,)) + entries


def snapshot_header_value(last_contained_log_timestamp: int) -> bytes:
    """The value of a SNAPSHOT_HEADER record, version 0."""
    return struct.pack(">hqb", 0, last_contained_log_timestamp, 0)


def snapshot_footer_value() -> bytes:
    """The value of a SNAPSHOT_FOOTER record, version 0."""
    return struct.pack(">hb", 0, 0)


def kraft_version_value(kraft_version: int) -> bytes:
    """The value of a KRAFT_VERSION record, version 0."""
    return struct.pack(">hhb", 0, kraft_version, 0)
