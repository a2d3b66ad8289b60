"""Upserts: the changes of a topic folded into a table that has one row for each key.

A *changelog* topic says of each key what its row is from now on; a record with a null value, a
*tombstone*, says that there is none. Kafka orders the records of one partition and no others, so
the **version** of a row is the offset of its newest change, and all changes of a key must be in one
partition. Two partitions with the same key (the topic got more partitions, or two producers choose
partitions differently) have no order, and are refused before the commit.

The table is divided by *buckets*: a hash of the key says in which one its row is. A batch goes two
steps:

1. The tasks that read the batch keep the newest change of each key and write it to a *change file*,
   which no reader sees, in row groups by bucket (`ChangeFile`).
2. For each bucket that has changes, a task copies the bucket's rows but for those that the changes
   name, and adds the changes that are not tombstones (`merge`). Its memory holds the changes of
   one bucket and a row group of the table, whatever the table's size.

One commit then replaces the files of these buckets (`table.py`). A batch costs as much as the
buckets that it touches are large, so a large table wants large batches.
A row keeps the lineage of its newest change. No Spark import, as in `table_files.py`.
"""

import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final
from uuid import uuid4
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.pipeline.errors import KeyMoved
from tidelog.pipeline.row_groups import RowGroup
from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.data_files import DataFile, NewFile, OpenFile

KEY_BUCKETS: Final = 16
BUCKET_COLUMN: Final = "key_bucket"
CHANGES_DIRECTORY: Final = "_changes"
BUCKETS: Final = "buckets"
NO_KEY: Final = "a change without a key names no row"
_HELD_ROWS: Final = 1 << 18
_HELD_BYTES: Final = 64 << 20
_MERGED_ROWS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Upsert:
    """How changes name rows."""

    fields: tuple[str, ...] = ()
    """Fields of the record's key; none for a key that is bytes or text, which is taken whole."""
    app: str = ""
    """Of the checkpoint; its change files are in a directory of their own."""


def identities(keys: Any, upsert: Upsert) -> pa.Array:
    """What distinguishes the rows of a table, as bytes; null for a key that names no row."""
    if not upsert.fields:
        return _bytes_of(keys)
    parts = [_bytes_of(pc.struct_field(keys, name)) for name in upsert.fields]
    if len(parts) == 1:
        return parts[0]
    # Each with its length before it: no two keys have the same bytes.
    sized = [
        pc.binary_join_element_wise(_bytes_of(pc.binary_length(part)), part, b":") for part in parts
    ]
    return pc.binary_join_element_wise(*sized, b"")


def _bytes_of(column: Any) -> Any:
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())


def newest(changes: pa.Table, upsert: Upsert) -> pa.Table:
    """The newest change of each key. Raises `KeyMoved`."""
    codes = _column(changes, "key", upsert).dictionary_encode().indices.to_numpy()
    offsets, partitions = (
        changes.column(name).combine_chunks().to_numpy() for name in ("offset", "partition")
    )
    if not len(codes):
        return changes
    last = np.zeros(int(codes.max()) + 1, np.int64)
    # The row of the largest offset is the last that is stored.
    in_order = np.argsort(offsets, kind="stable")
    last[codes[in_order]] = in_order
    moved = np.flatnonzero(partitions != partitions[last][codes])
    if len(moved):
        one, other = int(moved[0]), int(last[codes[moved[0]]])
        raise _moved(changes, one, changes, other)
    return changes.take(pa.array(np.sort(last)))


def _moved(some: pa.Table, one: int, others: pa.Table, other: int) -> KeyMoved:
    places = [
        f"{rows.column('partition')[row].as_py()} at offset {rows.column('offset')[row].as_py()}"
        for rows, row in ((some, one), (others, other))
    ]
    topic, key = (some.column(name)[one].as_py() for name in ("topic", "key"))
    return KeyMoved(topic, repr(key), *places)


def _column(rows: pa.Table, name: str, upsert: Upsert) -> pa.Array:
    found = rows.column(name)
    return identities(
        found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found, upsert
    )


class ChangeFile:
    """The changes of one task in one file; there is none until there is a change."""

    def __init__(self, table: TableAddress, upsert: Upsert) -> None:
        # Where it is to be, and how changes name rows.
        self._table = table
        self._upsert = upsert
        # Changes that are not folded yet, and those that are, each key once.
        self._fresh = RowGroup()
        self._folded: pa.Table | None = None
        # The file, and how many changes it has.
        self._file: NewFile | None = None
        self._rows = 0
        self._topic = ""
        # The buckets for which it has some.
        self._touched: set[int] = set()

    def write(self, changes: pa.RecordBatch) -> None:
        """Takes changes of one topic, keys and values with their types."""
        if not len(changes):
            return
        self._topic = changes.column("topic")[0].as_py()
        self._fresh.add(changes)
        if self._fresh.is_full:
            self._fold()
            assert self._folded is not None
            if len(self._folded) > _HELD_ROWS or self._folded.nbytes > _HELD_BYTES:
                self._write_folded()

    def finish(self) -> list[DataFile]:
        """The file, if there is one. Its statistics name the buckets for which it has changes."""
        self._fold()
        self._write_folded()
        if self._file is None:
            return []
        stats = {"numRecords": self._rows, BUCKETS: sorted(self._touched)}
        return [self._file.finish(self._topic, stats)]

    def discard(self) -> None:
        """Deletes the file if it can."""
        if self._file is not None:
            self._file.discard()

    def _fold(self) -> None:
        fresh = self._fresh.take()
        if fresh is None:
            return
        held = fresh if self._folded is None else pa.concat_tables([self._folded, fresh])
        self._folded = newest(held, self._upsert)

    def _write_folded(self) -> None:
        if self._folded is None:
            return
        found, self._folded = self._folded, None
        buckets = _buckets(_column(found, "key", self._upsert))
        in_order = np.argsort(buckets, kind="stable")
        found = found.append_column(BUCKET_COLUMN, pa.array(buckets)).take(pa.array(in_order))
        if self._file is None:
            name = f"{CHANGES_DIRECTORY}/{self._upsert.app}/{uuid4()}.parquet"
            self._file = NewFile(self._table, name, found.schema)
        edges = np.searchsorted(buckets[in_order], np.arange(KEY_BUCKETS + 1))
        for bucket, (start, end) in enumerate(pairwise(edges.tolist())):
            if end > start:
                self._file.write(found.slice(start, end - start))
                self._touched.add(bucket)
        self._rows += len(found)


def _buckets(names: pa.Array) -> np.ndarray:
    """The bucket of each key. It must never change: tables are divided by it."""
    hashes = np.fromiter(map(crc32, names.to_pylist()), np.uint32, len(names))
    return (hashes % KEY_BUCKETS).astype(np.int32)


@dataclass(frozen=True, slots=True)
class MergeTask:
    """The changes of a batch to one bucket, as Spark carries them to the executors."""

    table: TableAddress
    topic: str
    bucket: int
    batch: int
    upsert: Upsert
    schema: Any
    """The Arrow schema of a file of the table."""
    changes: tuple[str, ...]
    """The change files of the batch; all paths are relative to the table."""
    files: tuple[str, ...]
    """The bucket's files now."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A bucket after a batch."""

    bucket: int
    file: DataFile | None
    """`None` where no row is left."""
    grown: dict[int, int]
    """By partition: how many rows it has more than before."""

    def to_text(self) -> str:
        """The result as Spark carries it to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Merged":
        """The inverse of `to_text`."""
        fields = json.loads(text)
        file = None if fields["file"] is None else DataFile(**fields["file"])
        grown = {int(partition): rows for partition, rows in fields["grown"].items()}
        return cls(fields["bucket"], file, grown)


def merge(task: MergeTask) -> Merged:
    """Writes the bucket anew, with the changes. Raises `KeyMoved`, `OSError`; then it has deleted
    its file."""
    changes = _changes_of(task)
    names = _column(changes, "key", task.upsert)
    added = changes.filter(pc.is_valid(changes.column("value")))
    grown: dict[int, int] = {}
    _count(grown, added.column("partition"), 1)
    place: dict[str, str | None] = {BUCKET_COLUMN: str(task.bucket)}
    file = OpenFile(task.table, task.topic, task.batch, task.schema, place)
    try:
        for name in task.files:
            with task.table.parquet(name) as old:
                for rows in old.iter_batches(batch_size=_MERGED_ROWS):
                    found = pc.index_in(identities(rows.column("key"), task.upsert), names)
                    kept, replaced = _replaced(rows, changes, found)
                    file.write(kept)
                    _count(grown, replaced, -1)
            # Files from before fields were added have other columns.
            file.end_row_group()
        for batch in added.drop_columns([BUCKET_COLUMN]).to_batches():
            file.write(batch)
        done = file.finish()
    except BaseException:
        file.discard()
        raise
    if not file.rows:
        file.discard()
    return Merged(task.bucket, done if file.rows else None, grown)


def _count(grown: dict[int, int], partitions: Any, step: int) -> None:
    for one in pc.value_counts(partitions).to_pylist():
        grown[one["values"]] = grown.get(one["values"], 0) + step * one["counts"]


def _changes_of(task: MergeTask) -> pa.Table:
    """The newest change of each key of the bucket."""
    wanted = [(BUCKET_COLUMN, "==", task.bucket)]
    parts = [task.table.rows(name, filters=wanted) for name in task.changes]
    return newest(pa.concat_tables(parts), task.upsert)


def _replaced(
    rows: pa.RecordBatch, changes: pa.Table, found: pa.Array
) -> tuple[pa.RecordBatch, pa.Array]:
    """The rows that no change names, and the partitions of the others; `found` is the number of the
    change that names each row, or null. Raises `KeyMoved`."""
    is_named = found.is_valid()
    named = rows.filter(is_named)
    by = changes.take(found.drop_null())
    moved = pc.not_equal(named.column("partition"), by.column("partition").combine_chunks())
    if moved.true_count:
        row = pc.index(moved, True).as_py()
        raise _moved(by, row, pa.Table.from_batches([named]), row)
    assert not pc.any(pc.greater_equal(named.column("offset"), by.column("offset"))).as_py()
    return rows.filter(pc.invert(is_named)), named.column("partition")
