"""Rows as the tasks of the table sink take them, and tables of one topic."""

from pathlib import Path

import pyarrow as pa

from tidelog.pipeline.tables.continuity import judge
from tidelog.pipeline.tables.table import BronzeTable, TableBatch
from tidelog.pipeline.tables.table_files import (
    RAW,
    TableTask,
    file_schema,
    table_schema,
    write_files,
)
from tidelog.pipeline.tables.upserts import BUCKETS, MergeTask, Upsert, merge
from tidelog.pipeline.topics.source import SOURCE_SCHEMA
from tidelog.pipeline.typed.parsing import Layout
from tidelog.pipeline.values import OffsetRange

TOPIC_ID = "00" * 16


def rows(
    start: int,
    end: int,
    *,
    topic: str = "t",
    partition: int = 0,
    control: bool = False,
    value: str = "v%d",
):
    """One row per offset of [start, end); with `control` the last one is a control record. `value`
    takes the offset."""
    found = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "leader_epoch": 1,
            "timestamp": 1_000_000 + offset,
            "timestamp_type": 0,
            "key": b"k",
            "value": (value % offset).encode(),
            "headers": [{"key": "h", "value": None}] if offset % 2 else None,
            "producer_id": 9,
            "producer_epoch": 2,
            "base_offset": start,
            "is_control": control and offset == end - 1,
        }
        for offset in range(start, end)
    ]
    return pa.RecordBatch.from_pylist(found, schema=SOURCE_SCHEMA)


def open_table(
    directory: Path, topic: str = "t", topic_id: str = TOPIC_ID, value: Layout = RAW
) -> BronzeTable:
    """The table, made if it is not there."""
    return BronzeTable.open(directory, topic, topic_id, schema=table_schema(RAW, value))


def written(
    table: BronzeTable, batch: int, *batches: pa.RecordBatch, app="app", value: Layout = RAW
) -> TableBatch:
    """The files and the account of a batch that has exactly these rows; not committed."""
    report = write_files(TableTask(table.address, batch, value=value), iter(batches))
    ranges = [
        OffsetRange(one.topic, one.partition, one.first, one.last + 1) for one in report.pieces
    ]
    account = judge(ranges, report.pieces, table.positions, compacted=False, batch=batch)
    return TableBatch(app, batch, report.files, tuple(account), report.quarantine)


def change_rows(*changes: tuple[int, bytes | None, bytes | None], partition: int = 0):
    """A row per change, `(offset, key, value)`."""
    found = rows(0, len(changes), partition=partition)
    offsets, keys, values = zip(*changes, strict=True) if changes else ((), (), ())
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    for name, column in columns.items():
        field = found.schema.get_field_index(name)
        found = found.set_column(field, found.schema.field(field), column)
    return found


def open_upserts(directory: Path, upsert: Upsert) -> BronzeTable:
    """A table of upserts of raw keys, made if it is not there."""
    schema = table_schema(RAW, RAW, upsert)
    return BronzeTable.open(directory, "t", TOPIC_ID, schema=schema, upsert=upsert)


def merged(table: BronzeTable, batch: int, upsert: Upsert, *batches: pa.RecordBatch) -> TableBatch:
    """A batch of changes, folded and merged with the table's rows; not committed."""
    task = TableTask(table.address, batch, upsert=upsert)
    report = write_files(task, iter(batches))
    ranges = [
        OffsetRange(one.topic, one.partition, one.first, one.last + 1) for one in report.pieces
    ]
    account = judge(ranges, report.pieces, table.positions, compacted=False, batch=batch)
    assert not table.has(upsert.app, batch), "also reads the table as it is now"
    there = table.bucket_files({one for file in report.files for one in file.stats[BUCKETS]})
    changes = tuple(file.path for file in report.files)
    schema = file_schema(table_schema(RAW, RAW, upsert))
    place = table.address, "t"
    done = [
        merge(MergeTask(*place, bucket, batch, upsert, schema, changes, files))
        for bucket, files in there.items()
    ]
    files = tuple(one.file for one in done if one.file is not None)
    return TableBatch(upsert.app, batch, files, tuple(account), report.quarantine, there)
