"""Wider types for columns of a table that has rows: its files are written anew.

The Delta log has a feature by which a column gets a wider type while files keep the narrower one,
but no writer in Python records it, and a reader without it may fail. So every file is copied with
the wider types, and one commit has the new columns and puts the copies in the place of the files.
It needs the time of reading and writing the table, once, and no reader has to know about it.

Nothing may be committed meanwhile: files of an ingest would have the narrower types, those of a
compaction would be there twice. So the commit is the version after the one that was read, or none;
and an ingest compares the types before it commits (`table.py`).
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import CommitProperties

from tidelog.pipeline.tables.addresses import TableAddress
from tidelog.pipeline.tables.data_files import DataFile, OpenFile, partition_text

_ROWS: Final = 1 << 17


def widen(table: TableAddress, delta: DeltaTable, schema: pa.Schema, topic_column: str) -> None:
    """Gives the table the columns of `schema`. Raises `CommitFailedError`, `OSError`; then the
    table is as it was."""
    columns = delta.metadata().partition_columns
    files = pa.schema([field for field in schema if field.name not in columns])
    actions = pa.table(delta.get_add_actions(flatten=True))
    copies: list[DataFile] = []
    try:
        for row in actions.to_pylist():
            partition = {name: partition_text(row[f"partition.{name}"]) for name in columns}
            topic = partition.pop(topic_column) or ""
            copies += _copied(table, unquote(row["path"]), files, topic, partition)
        delta.create_write_transaction(
            [one.add_action(topic_column) for one in copies],
            "overwrite",
            Schema.from_arrow(schema),
            columns,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except BaseException:
        for one in copies:
            table.remove(one.path)
        raise


def _copied(
    table: TableAddress,
    name: str,
    schema: pa.Schema,
    topic: str,
    partition: Mapping[str, str | None],
) -> list[DataFile]:
    copy: OpenFile | None = None
    try:
        with table.parquet(name) as file:
            for rows in file.iter_batches(batch_size=_ROWS):
                if copy is None:
                    batch = rows.column("ingest_batch")[0].as_py()
                    copy = OpenFile(table, topic, batch, schema, partition)
                copy.write(rows)
    except BaseException:
        if copy is not None:
            copy.discard()
        raise
    return [] if copy is None else [copy.finish()]
