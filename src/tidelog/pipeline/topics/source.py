"""What the Spark source's tasks do: planned ranges to Arrow batches in Spark's exact types.

The columns are those of `SOURCE_TYPES`. The JVM connector has no `leader_epoch` and no lineage; the
other columns mean what they mean there. A user's own schema may name any of them in any order:
Spark's Python sources have no column pruning, so this is how a job avoids shipping values that it
only counts.

`reader.py` (batches) and `decode.py` (records) check that no record is missing.
No Spark import here; `pyspark_tidelog` is the thin shell around it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from tidelog.errors import CorruptBatch
from tidelog.pipeline.batches import BatchTable
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.decode import DECODED_SCHEMA, decode_table
from tidelog.pipeline.spark_columns import PLAN_TYPES, RECORD_TYPES, SOURCE_TYPES, arrow_schema
from tidelog.pipeline.topics.reader import RangeReader
from tidelog.pipeline.values import OffsetRange, PlannedRange, ReadRules

SOURCE_SCHEMA: Final = arrow_schema(SOURCE_TYPES)

_CHOICES: Final = (
    "its checksum is right, so its producer wrote it like that: find the producer; meanwhile read "
    "around it (a batch by `endingOffsets` and `startingOffsets`, a stream with a new checkpoint)"
)


def plan_rows(planned: Sequence[PlannedRange]) -> pa.RecordBatch:
    """Ranges as rows of `PLAN_TYPES`."""
    ranges = [one.wanted for one in planned]
    columns = {
        "topic": [one.topic for one in ranges],
        "partition": [one.partition for one in ranges],
        "start_offset": [one.start for one in ranges],
        "end_offset": [one.end for one in ranges],
        "topic_id": [one.topic_id for one in planned],
    }
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema(PLAN_TYPES))


def planned_ranges(rows: pa.RecordBatch) -> list[PlannedRange]:
    """The inverse of `plan_rows`."""
    return [
        PlannedRange(
            OffsetRange(row["topic"], row["partition"], row["start_offset"], row["end_offset"]),
            row["topic_id"],
        )
        for row in rows.to_pylist()
    ]


def read_ranges(
    planned: Iterable[PlannedRange],
    rules: ReadRules,
    columns: Sequence[str],
    times_ms: tuple[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of some ranges one after the other, with the chosen columns of `SOURCE_SCHEMA` in
    that order; `times_ms` are the first and the last timestamp wanted, both inclusive. Raises
    `DataLoss`, `CorruptBatch`, `ClusterUnavailable`, `UsageError`."""
    own = [name for name in columns if name in DECODED_SCHEMA.names] or ["offset"]
    schema = pa.schema([SOURCE_SCHEMA.field(name) for name in columns])
    with Client.of(rules) as client:
        for one in planned:
            wanted = one.wanted
            for table in RangeReader(client, one, rules).tables():
                for batch in _decoded(table, wanted, own, times_ms):
                    yield _with_partition(batch, wanted.topic, wanted.partition, schema)


def _decoded(
    table: BatchTable, wanted: OffsetRange, columns: Sequence[str], times_ms: tuple[int, int] | None
) -> Iterator[pa.RecordBatch]:
    """The records of whole batches. Raises `CorruptBatch`, which names the batch."""
    try:
        yield from decode_table(
            table,
            start_offset=wanted.start,
            end_offset=wanted.end,
            columns=columns,
            times_ms=times_ms,
        )
    except CorruptBatch as error:
        place = _first_undecodable(table)
        raise CorruptBatch(f"{wanted}: {place}{error.message}\nhint: {_CHOICES}") from None


def _first_undecodable(table: BatchTable) -> str:
    """Names the batch by decoding one after the other, because the read ends anyway."""
    for row in range(len(table)):
        one = table.select(slice(row, row + 1))
        first, last = int(one.base_offsets[0]), int(one.last_offsets[0])
        try:
            columns = list(RECORD_TYPES)
            for _ in decode_table(one, start_offset=first, end_offset=last + 1, columns=columns):
                pass
        except CorruptBatch:
            return f"the batch of offsets {first} to {last} cannot be decoded: "
    return ""


def _with_partition(
    batch: pa.RecordBatch, topic: str, partition: int, schema: pa.Schema
) -> pa.RecordBatch:
    same = {"topic": topic, "partition": partition}
    arrays = [
        pa.repeat(pa.scalar(same[field.name], field.type), len(batch))
        if field.name in same
        else batch.column(field.name)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
