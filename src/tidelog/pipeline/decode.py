"""Raw record batches to Arrow: no Python object per record.

Works on what `batches.py` found in a Fetch response or a segment. Per group of batches: the record
boundaries (`varints.py`), then each field of all records at once, then key and value columns,
which Arrow copies out of the record bytes in one pass each: long values from *views* (start and
length), short ones by taking every second range of the bytes cut at all their edges.

Control batches are left out, and so are records outside the wanted range (a Fetch response may
begin before the fetch offset). A caller that accounts for every offset asks for `is_control`,
and gets control records as rows too. A record of a LogAppendTime batch takes the batch's maximal
timestamp. Missing headers are null, as in the JVM connector.

Invariants: every record's fields end exactly at its length and every batch's records end
where the batch ends, else `CorruptBatch`; no view points outside the buffer; rows are in buffer
order; a yielded batch holds at most about `MAX_GROUP_BYTES` of record bytes.
Left out: aborted transactions, whose batches `reader.py` marks as control batches. Source: KIP-98
for the format, the Arrow columnar format for views.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.errors import CorruptBatch
from tidelog.pipeline.batches import BatchTable, Bodies, record_bodies
from tidelog.pipeline.spark_columns import LINEAGE_TYPES, RECORD_TYPES, arrow_schema
from tidelog.pipeline.varints import Int64s, RecordBytes, record_starts
from tidelog.records.batch import CONTROL_FLAG, LOG_APPEND_TIME, TIMESTAMP_TYPE_FLAG

MAX_GROUP_BYTES: Final = 32 << 20
"""Record bytes decoded together, so at most so many are in one Arrow batch, single larger record
batches aside; Spark's socket wants Arrow batches below 64 MiB."""
ROWS_PER_ARROW_BATCH: Final = 8192
"""Small enough for all fields of these rows to stay in a core's cache."""
_MIN_RECORD_BYTES: Final = 7
"""The smallest record: six one-byte varints and the attributes."""
_INLINE_BYTES: Final = 12
"""Arrow stores values up to this size inside the view itself."""

DECODED_SCHEMA: Final = arrow_schema(RECORD_TYPES | LINEAGE_TYPES)
"""Every column that `decode_table` can make."""
_HEADERS_TYPE: Final = DECODED_SCHEMA.field("headers").type
_BATCH_FIELDS: Final = (
    "base_offset", "leader_epoch", "base_timestamp", "max_timestamp", "producer_id",
    "producer_epoch",
)  # fmt: skip
_MAX_MILLIS: Final = (2**63 - 1) // 1000


def decode_table(
    table: BatchTable,
    *,
    start_offset: int,
    end_offset: int,
    columns: Sequence[str],
    times_ms: tuple[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of batches whose CRCs were checked, from `start_offset` up to `end_offset`
    exclusive. `times_ms` are the first and the last timestamp wanted, both inclusive. Raises
    `CorruptBatch`."""
    wanted = (table.last_offsets >= start_offset) & (table.base_offsets < end_offset)
    if "is_control" not in columns:
        wanted &= (table.field("attributes") & CONTROL_FLAG) == 0
    if times_ms is not None:
        wanted &= table.field("max_timestamp") >= times_ms[0]
    for bodies in record_bodies(table.select(wanted), MAX_GROUP_BYTES):
        source = RecordBytes(bodies.buffer)
        for rows in _record_rows(source, bodies):
            records = _read_records(source, rows)
            inside = (records["offset"] >= start_offset) & (records["offset"] < end_offset)
            if times_ms is not None:
                inside &= records["timestamp"] >= times_ms[0]
                inside &= records["timestamp"] <= times_ms[1]
            if not inside.all():
                records = {name: values[inside] for name, values in records.items()}
            if inside.any():
                yield _to_arrow(source, records, columns)


_Fields = dict[str, Int64s]
"""Fields of some records, a row per record. `*_start` are positions in the bodies' buffer,
`*_length` are -1 for null; `header_start` is where the first header begins."""


def _record_rows(source: RecordBytes, bodies: Bodies) -> Iterator[_Fields]:
    """Where each record begins and ends, and the fields of its batch, some thousand at a time."""
    table = bodies.table
    counts = _checked_counts(bodies)
    starts = record_starts(source, bodies.starts, bodies.ends, counts)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    some = counts > 0
    ends[(np.cumsum(counts) - 1)[some]] = bodies.ends[some]
    batch_of = np.repeat(np.arange(len(table)), counts)
    attributes = table.field("attributes")
    batch_fields = {
        **{name: table.field(name) for name in _BATCH_FIELDS},
        "last_offset": table.last_offsets,
        "timestamp_type": ((attributes & TIMESTAMP_TYPE_FLAG) != 0).astype(np.int64),
        "is_control": (attributes & CONTROL_FLAG) != 0,
    }
    for first in range(0, len(starts), ROWS_PER_ARROW_BATCH):
        rows = slice(first, first + ROWS_PER_ARROW_BATCH)
        fields = {name: values[batch_of[rows]] for name, values in batch_fields.items()}
        yield {"start": starts[rows], "end": ends[rows], **fields}


def _read_records(source: RecordBytes, rows: _Fields) -> _Fields:
    ends = rows["end"]
    lengths, position = source.varints_at(rows["start"])
    if (position + lengths != ends).any():
        raise CorruptBatch("the records of a batch do not follow each other to its end")
    timestamp_deltas, position = source.varints_at(position + 1)
    offset_deltas, position = source.varints_at(position)
    key_lengths, key_starts = source.varints_at(position)
    value_lengths, value_starts = source.varints_at(key_starts + np.maximum(key_lengths, 0))
    header_counts, position = source.varints_at(value_starts + np.maximum(value_lengths, 0))
    _check_lengths("key", key_lengths, ends - key_starts)
    _check_lengths("value", value_lengths, ends - value_starts)
    finished = position == ends
    if (
        (header_counts < 0).any()
        or (position > ends).any()
        or (finished != (header_counts == 0)).any()
    ):
        raise CorruptBatch("the fields of a record do not end where the record ends")
    offsets = rows["base_offset"] + offset_deltas
    if (np.diff(offsets) <= 0).any():
        raise CorruptBatch("the offsets of records do not ascend")
    if (offset_deltas < 0).any() or (offsets > rows["last_offset"]).any():
        raise CorruptBatch("the offset of a record is not within its batch")
    timestamps = np.where(
        rows["timestamp_type"] == LOG_APPEND_TIME,
        rows["max_timestamp"],
        rows["base_timestamp"] + timestamp_deltas,
    )
    return {
        **{name: rows[name] for name in ("leader_epoch", "timestamp_type", *LINEAGE_TYPES)},
        "offset": offsets,
        "timestamp": timestamps,
        "key_start": key_starts,
        "key_length": key_lengths,
        "value_start": value_starts,
        "value_length": value_lengths,
        "header_count": header_counts,
        "header_start": position,
        "end": ends,
    }


def _checked_counts(bodies: Bodies) -> Int64s:
    counts = bodies.table.field("record_count")
    if ((counts < 0) | (counts * _MIN_RECORD_BYTES > bodies.ends - bodies.starts)).any():
        raise CorruptBatch("a batch claims more records than its bytes can hold")
    return counts


def _check_lengths(name: str, lengths: Int64s, limits: Int64s) -> None:
    if ((lengths < -1) | (lengths > limits)).any():
        raise CorruptBatch(f"a record's {name} has an impossible length")


def _to_arrow(source: RecordBytes, records: _Fields, columns: Sequence[str]) -> pa.RecordBatch:
    arrays = [_column(source, name, records) for name in columns]
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([DECODED_SCHEMA.field(name) for name in columns])
    )


def _column(source: RecordBytes, name: str, records: _Fields) -> pa.Array:
    if name in ("key", "value"):
        return binary_column(source, records[f"{name}_start"], records[f"{name}_length"])
    if name == "headers":
        return _headers_column(source, records)
    if name == "timestamp":
        millis = np.clip(records["timestamp"], -_MAX_MILLIS, _MAX_MILLIS)
        return pa.array(millis * 1000).view(DECODED_SCHEMA.field(name).type)
    return pa.array(records[name].astype(DECODED_SCHEMA.field(name).type.to_pandas_dtype()))


def binary_column(source: RecordBytes, starts: Int64s, lengths: Int64s) -> pa.Array:
    """A binary array of the byte ranges of `source`; length -1 is null. All ranges must lie inside
    the buffer, in ascending order, and the buffer must be smaller than 2 GiB."""
    if (lengths > _INLINE_BYTES).all():
        return _long_values(source, starts, lengths)
    if (lengths < 0).all():
        return pa.nulls(len(lengths), pa.binary())
    # An array of every range and every gap between two ranges, of which every second is taken.
    cuts = np.empty(2 * len(starts) + 1, dtype=np.int32)
    cuts[0:-1:2] = starts
    cuts[1::2] = starts + np.maximum(lengths, 0)
    cuts[-1] = cuts[-2]
    buffers = [None, pa.py_buffer(cuts), source.arrow_buffer]
    ranges_and_gaps = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, buffers)
    ranges = np.arange(0, len(cuts) - 1, 2, dtype=np.int32)
    return ranges_and_gaps.take(pa.array(ranges, mask=lengths < 0))


def _long_values(source: RecordBytes, starts: Int64s, lengths: Int64s) -> pa.Array:
    """The same for values that are all too long for a view to hold them, and never null."""
    views = np.zeros((len(starts), 4), dtype=np.int32)
    views[:, 0] = lengths
    views[:, 3] = starts
    buffers = [None, pa.py_buffer(views), source.arrow_buffer]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())


def _headers_column(source: RecordBytes, records: _Fields) -> pa.Array:
    """list<struct<key, value>> per record, null where there are no headers."""
    counts = records["header_count"]
    if not counts.any():
        return pa.nulls(len(counts), _HEADERS_TYPE)
    keys, values = _read_headers(source, records)
    edges = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=edges[1:])
    fields = list(_HEADERS_TYPE.value_type)
    pairs = pa.StructArray.from_arrays([_text(keys), values], fields=fields)
    return pa.ListArray.from_arrays(
        pa.array(edges), pairs, type=_HEADERS_TYPE, mask=pa.array(counts == 0)
    )


def _read_headers(source: RecordBytes, records: _Fields) -> tuple[pa.Array, pa.Array]:
    """Keys and values of all headers in record order: all records read their first header, then
    all that have one their second, and so on."""
    counts, ends = records["header_count"], records["end"]
    if (counts * 2 > ends - records["header_start"]).any():
        raise CorruptBatch("a record claims more headers than its bytes can hold")
    slots = np.cumsum(counts) - counts
    spans = np.empty((4, int(counts.sum())), dtype=np.int64)
    rows = np.flatnonzero(counts)
    position = records["header_start"][rows]
    for step in range(int(counts.max())):
        going = counts[rows] > step
        rows, position = rows[going], position[going]
        key_lengths, key_starts = source.varints_at(position)
        _check_lengths("header key", key_lengths - 1, ends[rows] - key_starts - 1)
        value_lengths, value_starts = source.varints_at(key_starts + key_lengths)
        _check_lengths("header value", value_lengths, ends[rows] - value_starts)
        position = value_starts + np.maximum(value_lengths, 0)
        spans[:, slots[rows] + step] = key_starts, key_lengths, value_starts, value_lengths
        finished = counts[rows] == step + 1
        if (position[finished] != ends[rows][finished]).any():
            raise CorruptBatch("a record is longer than its headers")
    return binary_column(source, spans[0], spans[1]), binary_column(source, spans[2], spans[3])


def _text(keys: pa.Array) -> pa.Array:
    """Header keys as strings; bytes that are not UTF-8 become replacement characters, as in
    Kafka's own clients."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
