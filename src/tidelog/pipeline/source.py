"""What the Spark source's tasks do: one planned range to Arrow batches in Spark's exact types.

Columns: `topic, partition, offset, leader_epoch, timestamp, timestamp_type, key, value, headers`.
The JVM connector has no `leader_epoch`; the other columns mean what they mean there. A user's own
schema may name any of these columns in any order: Spark's Python sources know no column pruning,
so this is how a job avoids shipping values that it only counts. It may also name what a record has
from its batch, `producer_id, producer_epoch, base_offset`, and `is_control`, with which control
records are rows too.

Every batch that is read is counted against the range: a task that would return fewer records than
offsets, control batches and compaction aside, fails instead (`DataLoss`).

No Spark import here; `pyspark_tidelog` is the thin shell around it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.pipeline.batches import BatchTable
from tidelog.pipeline.client import Client
from tidelog.pipeline.decode import (
    DECODED_COLUMNS,
    LINEAGE_SCHEMA,
    RECORD_SCHEMA,
    decode_table,
)
from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.reader import RangeReader
from tidelog.pipeline.values import Address, PlannedRange
from tidelog.records.batch import CONTROL_FLAG

SOURCE_SCHEMA: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), *RECORD_SCHEMA, *LINEAGE_SCHEMA]
)


def read_range(
    bootstrap: Sequence[Address], planned: PlannedRange, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The records of one range, with the chosen columns of `SOURCE_SCHEMA` in that order.

    Raises `DataLoss`, `CorruptBatch`, `ClusterUnavailable`, `UsageError`.
    """
    wanted = planned.wanted
    own = [name for name in columns if name in DECODED_COLUMNS]
    controls_are_rows = "is_control" in own
    schema = pa.schema([SOURCE_SCHEMA.field(name) for name in columns])
    missing = wanted.length
    with Client(bootstrap) as client:
        reader = RangeReader(client, wanted, allow_gaps=planned.allow_gaps)
        for table in reader.tables():
            if not controls_are_rows:
                missing -= _control_offsets(table, wanted.start, wanted.end)
            for batch in decode_table(
                table, start_offset=wanted.start, end_offset=wanted.end, columns=own or ["offset"]
            ):
                missing -= len(batch)
                yield _with_place(batch, wanted.topic, wanted.partition, schema)
    if missing < 0 or (missing > 0 and not planned.allow_gaps):
        raise DataLoss(wanted, f"{wanted.length - missing} records for {wanted.length} offsets")


def _control_offsets(table: BatchTable, start: int, end: int) -> int:
    """How many offsets of [start, end) are taken by control batches."""
    is_control = (table.field("attributes") & CONTROL_FLAG) != 0
    firsts = np.maximum(table.base_offsets[is_control], start)
    ends = np.minimum(table.last_offsets[is_control] + 1, end)
    return int(np.maximum(ends - firsts, 0).sum())


def _with_place(
    batch: pa.RecordBatch, topic: str, partition: int, schema: pa.Schema
) -> pa.RecordBatch:
    """Adds the columns that are the same for the whole range."""
    arrays = []
    for field in schema:
        if field.name == "topic":
            arrays.append(pa.repeat(pa.scalar(topic, pa.string()), len(batch)))
        elif field.name == "partition":
            arrays.append(pa.array(np.full(len(batch), partition, dtype=np.int32)))
        else:
            arrays.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
