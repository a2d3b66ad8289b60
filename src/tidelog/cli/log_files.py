"""Reading the files of a log directory for people: one dictionary per entry.

Every kind of file that Kafka keeps beside records is known by its name. Entries come one by one,
so a segment of any size can be dumped; a segment is mapped, not read. A damaged file gives what
can be read and then one entry of kind `damage` with the place and the reason.

Left out: `.deleted`, `.cleaned` and `.swap` files, which are the other kinds under another name.
"""

import json
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from tidelog.cli.metadata_json import describe_control, describe_record
from tidelog.errors import CorruptBatch, ProtocolError, UsageError
from tidelog.log import checkpoint
from tidelog.log.producer_snapshots import SnapshotDamaged, decode_snapshot
from tidelog.records.batch import (
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    decode_body,
    read_header,
    verify_crc,
)
from tidelog.records.compression import Codec
from tidelog.records.control import ControlType, read_control_records, read_end_txn_marker
from tidelog.records.record import Record

Entry = dict[str, Any]

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TXN_ENTRY: Final = Struct(">hqqqq")
_SEQUENCE_COUNT: Final = 2**31
_LAST_BATCH: Final = ("first_sequence", "last_sequence", "last_offset", "offset_delta", "timestamp")
_CONTROL_NAMES: Final = {int(kind): kind.name for kind in ControlType}


class DumpOptions(NamedTuple):
    """What to show of a segment."""

    deep: bool = False
    """Each record, not only each batch."""
    print_data: bool = False
    """Keys and payloads too."""
    metadata: bool = False
    """Payloads are metadata records."""


def read_entries(path: Path, options: DumpOptions) -> Iterator[Entry]:
    """The entries of one file; the first is `{"kind": "file", …}`.

    Raises `UsageError` for a file that is not there or of an unknown kind.
    """
    reader = _reader_of(path)
    try:
        size_bytes = path.stat().st_size
        yield {"kind": "file", "file": str(path), "size_bytes": size_bytes}
        yield from reader(path, options)
    except OSError as error:
        raise UsageError(
            f"`{path}` cannot be read: {error.strerror}", "give the path of a file"
        ) from None


def _reader_of(path: Path) -> Callable[[Path, DumpOptions], Iterator[Entry]]:
    by_suffix = {
        ".log": _read_segment,
        ".checkpoint": _read_segment,
        ".index": _read_offset_index,
        ".timeindex": _read_time_index,
        ".txnindex": _read_txn_index,
        ".snapshot": _read_producer_snapshot,
    }
    by_name = {
        "leader-epoch-checkpoint": _read_epochs,
        "partition.metadata": _read_lines,
        "meta.properties": _read_properties,
        "quorum-state": _read_json,
        ".kafka_cleanshutdown": _read_json,
    }
    if path.name in by_name:
        return by_name[path.name]
    if path.name.endswith("-offset-checkpoint"):
        return _read_offsets
    if path.suffix in by_suffix:
        return by_suffix[path.suffix]
    raise UsageError(
        f"`{path}` is not a file of a log directory that can be dumped",
        "give .log, .checkpoint, .index, .timeindex, .txnindex or .snapshot files, or checkpoints",
    )


def _damage(where: str, reason: object) -> Entry:
    return {"kind": "damage", "where": where, "reason": str(reason)}


# Segments -------------------------------------------------------------------------------------


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield memoryview(b"")
            return
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            yield view


def _read_segment(path: Path, options: DumpOptions) -> Iterator[Entry]:
    with _mapped(path) as view:
        position = 0
        while position < len(view):
            try:
                header = read_header(view, position)
            except CorruptBatch as error:
                left = len(view) - position
                yield _damage(f"position {position}, {left} bytes before the end", error)
                return
            yield _batch_entry(view, position, header, options)
            position += header.size_bytes


def _batch_entry(
    view: memoryview, position: int, header: BatchHeader, options: DumpOptions
) -> Entry:
    valid = verify_crc(view, position)
    entry: Entry = {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": _sequence(header, header.last_offset_delta),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": _delete_horizon(header),
        "position": position,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "size_bytes": header.size_bytes,
        "magic": header.magic,
        "codec": _codec_name(header.codec),
        "crc": header.crc,
        "is_valid": valid,
    }
    if options.deep and valid:
        try:
            entry["records"] = _record_entries(view, position, header, options)
        except CorruptBatch as error:
            entry["is_valid"] = False
            entry["error"] = str(error)
    return entry


def _sequence(header: BatchHeader, delta: int) -> int:
    return -1 if header.base_sequence < 0 else (header.base_sequence + delta) % _SEQUENCE_COUNT


def _delete_horizon(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON_FLAG else None


def _codec_name(codec: int) -> str:
    try:
        return Codec(codec).name.lower()
    except ValueError:
        return f"unknown({codec})"


def _record_entries(
    view: memoryview, position: int, header: BatchHeader, options: DumpOptions
) -> list[Entry]:
    batch = bytes(view[position : position + header.size_bytes])
    control = _control_entries(batch) if header.is_control else {}
    entries = []
    for record in decode_body(batch, 0, header):
        entry: Entry = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key_size": -1 if record.key is None else len(record.key),
            "value_size": -1 if record.value is None else len(record.value),
            "sequence": _sequence(header, record.offset - header.base_offset),
            "header_keys": [_text(key) for key, _ in record.headers],
        }
        if record.offset in control:
            entry["control"] = control[record.offset]
        elif options.print_data or options.metadata:
            entry |= _data_of(record, options)
        entries.append(entry)
    return entries


def _data_of(record: Record, options: DumpOptions) -> Entry:
    data: Entry = {}
    if record.key is not None:
        data["key"] = _text(record.key)
    if record.value is not None and options.metadata:
        try:
            data["payload"] = describe_record(record.value)
        except ProtocolError as error:
            data["payload"] = f"<no metadata record: {error}>"
    elif record.value is not None:
        data["payload"] = _text(record.value)
    return data


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode(errors="replace")


def _control_entries(batch: bytes) -> dict[int, Entry]:
    marker = read_end_txn_marker(batch)
    entries = {}
    for record in read_control_records(batch):
        if marker is not None:
            entry: Entry = {
                "type": "COMMIT" if marker.is_commit else "ABORT",
                "coordinator_epoch": marker.coordinator_epoch,
            }
        else:
            name = _CONTROL_NAMES.get(record.control_type, "UNKNOWN")
            entry = {"type": name, "type_id": record.control_type}
            described = describe_control(record.control_type, record.value)
            if described is not None:
                entry["label"], entry["data"] = described
        entries[record.offset] = entry
    return entries


# Indexes and snapshots ------------------------------------------------------------------------


def _base_offset(path: Path) -> int:
    try:
        return int(path.name.partition(".")[0])
    except ValueError:
        raise UsageError(
            f"`{path}` does not begin with its base offset",
            "keep the name of the segment, 20 digits, in front",
        ) from None


def _entries_of(path: Path, layout: Struct) -> Iterator[tuple[int, ...]]:
    """Whole entries up to the zeros that an index which was not closed ends with."""
    data = path.read_bytes()
    whole = len(data) // layout.size * layout.size
    for number, fields in enumerate(layout.iter_unpack(data[:whole])):
        if number and not any(fields):
            return
        yield fields


def _read_offset_index(path: Path, options: DumpOptions) -> Iterator[Entry]:
    base_offset = _base_offset(path)
    segment = path.with_suffix(".log")
    if not segment.exists():
        for relative, position in _entries_of(path, _OFFSET_ENTRY):
            yield {"kind": "index", "offset": base_offset + relative, "position": position}
        return
    with _mapped(segment) as view:
        for relative, position in _entries_of(path, _OFFSET_ENTRY):
            offset = base_offset + relative
            yield {"kind": "index", "offset": offset, "position": position}
            found = _last_offset_at(view, position)
            if found != offset:
                reason = f"the batch at position {position} ends with offset {found}"
                yield _damage(f"offset {offset}", reason)


def _last_offset_at(view: memoryview, position: int) -> int | None:
    if not 0 <= position <= len(view) - LOG_OVERHEAD_BYTES:
        return None
    try:
        return read_header(view, position).last_offset
    except CorruptBatch:
        return None


def _read_time_index(path: Path, options: DumpOptions) -> Iterator[Entry]:
    base_offset = _base_offset(path)
    previous = -1
    for timestamp, relative in _entries_of(path, _TIME_ENTRY):
        yield {"kind": "timeindex", "timestamp": timestamp, "offset": base_offset + relative}
        if timestamp < previous:
            yield _damage(f"timestamp {timestamp}", f"it is below the one before, {previous}")
        previous = timestamp


def _read_txn_index(path: Path, options: DumpOptions) -> Iterator[Entry]:
    for version, producer_id, first, last, last_stable in _entries_of(path, _TXN_ENTRY):
        yield {
            "kind": "txnindex",
            "version": version,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": last_stable,
        }


def _read_producer_snapshot(path: Path, options: DumpOptions) -> Iterator[Entry]:
    try:
        producers = decode_snapshot(path.read_bytes())
    except SnapshotDamaged as error:
        yield _damage("snapshot", error)
        return
    for producer in producers:
        last = producer.batches[-1] if producer.batches else None
        first_offset = producer.txn_first_offset
        yield {
            "kind": "producer",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "coordinator_epoch": producer.coordinator_epoch,
            "current_txn_first_offset": first_offset if first_offset >= 0 else None,
            "last_timestamp": producer.last_timestamp,
            **{name: getattr(last, name, None) for name in _LAST_BATCH},
        }


# Text files -----------------------------------------------------------------------------------


def _read_epochs(path: Path, options: DumpOptions) -> Iterator[Entry]:
    try:
        for epoch, start_offset in checkpoint.decode_epochs(path.read_bytes()):
            yield {"kind": "epoch", "leader_epoch": epoch, "start_offset": start_offset}
    except checkpoint.CheckpointDamaged as error:
        yield _damage("checkpoint", error)


def _read_offsets(path: Path, options: DumpOptions) -> Iterator[Entry]:
    try:
        for (topic, partition), offset in checkpoint.decode_offsets(path.read_bytes()).items():
            yield {"kind": "offset", "topic": topic, "partition": partition, "offset": offset}
    except checkpoint.CheckpointDamaged as error:
        yield _damage("checkpoint", error)


def _read_properties(path: Path, options: DumpOptions) -> Iterator[Entry]:
    try:
        for name, value in checkpoint.decode_properties(path.read_bytes()).items():
            yield {"kind": "property", "name": name, "value": value}
    except checkpoint.CheckpointDamaged as error:
        yield _damage("properties", error)


def _read_lines(path: Path, options: DumpOptions) -> Iterator[Entry]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        yield {"kind": "property", "name": name.strip(), "value": value.strip()}


def _read_json(path: Path, options: DumpOptions) -> Iterator[Entry]:
    try:
        content = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except ValueError as error:
        yield _damage("content", error)
        return
    for name, value in content.items():
        yield {"kind": "property", "name": name, "value": value}
