"""The second step of a batch of upserts: its change files are merged into the buckets they touch.

The driver lists the files of these buckets, Spark's tasks write the buckets anew (`upserts.py`),
and one commit puts the new files in the place of the old ones. It fails where the table has got
another version meanwhile. Then the commit is repeated; if one of the old files has been replaced,
by a compaction for example, the whole step is.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelog.pipeline.errors import FilesReplaced
from tidelog.pipeline.jobs.ingest_plan import Prepared
from tidelog.pipeline.jobs.task_list import rows_of_tasks
from tidelog.pipeline.spark_columns import arrow_schema
from tidelog.pipeline.tables.continuity import Continuity
from tidelog.pipeline.tables.table import TableBatch
from tidelog.pipeline.tables.table_files import REPORT_SCHEMA, file_schema, table_schema
from tidelog.pipeline.tables.upserts import BUCKETS, CHANGES_DIRECTORY, Merged, MergeTask, merge

_ATTEMPTS: Final = 100
"""Each that fails is a commit of another writer that did not."""


@dataclass(frozen=True, slots=True)
class Merging:
    """Runs the step."""

    spark: SparkSession
    prepared: Prepared
    parallelism: int
    """At most so many tasks."""

    def commit(self, changes: TableBatch) -> list[Continuity]:
        """Merges the change files of a batch and commits it. Returns its account, with the numbers
        of rows by which the table grew. Raises `TableConflict`; a task may raise `KeyMoved`."""
        table = self.prepared.table
        buckets = {bucket for file in changes.files for bucket in file.stats[BUCKETS]}
        new = self._merged(changes, table.bucket_files(buckets))
        for attempt in range(_ATTEMPTS):
            try:
                table.commit(new)
                break
            except FilesReplaced:
                if attempt + 1 == _ATTEMPTS:
                    raise
                table.reload()
                there = table.bucket_files(buckets)
                if new.replaced != there:
                    new = self._merged(changes, there)
        self.remove_changes()
        return list(new.account)

    def remove_changes(self) -> None:
        """Deletes the change files of this checkpoint: those of a batch that is committed, or of
        one that did not end. No other process writes any."""
        directory = f"{CHANGES_DIRECTORY}/{self.prepared.identity.app}"
        self.prepared.table.address.remove_below(directory)

    def _merged(self, changes: TableBatch, there: dict[int, tuple[str, ...]]) -> TableBatch:
        """The batch with the new files of the buckets in the place of its change files."""
        prepared = self.prepared
        assert prepared.upsert is not None
        layouts = prepared.key, prepared.value
        schema = table_schema(*layouts, prepared.upsert, prepared.transform)
        tasks = [
            MergeTask(
                table=prepared.table.address,
                topic=prepared.plan.topic,
                bucket=bucket,
                batch=changes.batch,
                upsert=prepared.upsert,
                schema=file_schema(schema),
                changes=tuple(file.path for file in changes.files if bucket in file.stats[BUCKETS]),
                files=files,
            )
            for bucket, files in sorted(there.items())
        ]
        groups = [tasks[first :: self.parallelism] for first in range(self.parallelism)]
        rows = rows_of_tasks(
            self.spark, [one for one in groups if one], _merge_all, arrow_schema(REPORT_SCHEMA)
        )
        merged = [Merged.from_text(row["report"]) for row in rows.collect()]
        files = tuple(one.file for one in merged if one.file is not None)
        account = _with_growth(changes.account, merged)
        return replace(changes, files=files, account=account, replaced=there)


def _merge_all(tasks: Sequence[MergeTask]) -> Iterator[pa.RecordBatch]:
    for task in tasks:
        with task.table.reached():
            merged = merge(task)
        yield pa.RecordBatch.from_pylist([{"report": merged.to_text()}])


def _with_growth(account: Sequence[Continuity], merged: Sequence[Merged]) -> tuple[Continuity, ...]:
    grown: dict[int, int] = defaultdict(int)
    for one in merged:
        for partition, rows in one.grown.items():
            grown[partition] += rows
    return tuple(replace(line, grown_rows=grown[line.partition]) for line in account)
