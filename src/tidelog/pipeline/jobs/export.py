"""Topics out of log directories into Parquet files, without a broker.

The job reads one replica of every partition: the one whose broker last checkpointed the highest
high watermark, from the log start up to that mark. Records above may never have been committed, so
they are left out; a killed broker may have checkpointed seconds before.

**Every offset is accounted for.** Each task checks that the batches of its files leave no offset
out, except below the cleaner's checkpoint. A gap, a deleted file, and a log that ends below its
high watermark fail the job, unless gaps are allowed.

**All or nothing.** Each task writes its own file into a directory beside the wanted one. When all
have ended, the job deletes files that no task reported (of attempts that were killed), and one
rename gives the directory its name. A job that fails deletes its directory; one that is killed
leaves it under a name with `.part-` in it. A power cut may damage the files: they are not forced to
the disk.

The directories must be reachable under the same names for driver and executors. Records of aborted
transactions are in the files, control records are not.
"""

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from tidelog.errors import CorruptBatch, UsageError
from tidelog.pipeline.jobs.task_list import rows_of_tasks
from tidelog.pipeline.logs.layout import Replica, SegmentPlace, find_replicas, tasks_for_cores
from tidelog.pipeline.logs.parquet_files import (
    WRITTEN_SCHEMA,
    Portion,
    Written,
    portions_of,
    require_new,
    write_file,
)
from tidelog.pipeline.places import Place, local_path

_Chosen = tuple[Replica, dict[SegmentPlace, Portion]]
"""A replica that is read, and what of each of its segments."""

_DAMAGED_HINT: Final = (
    "`tidelog spark audit` shows what is wrong with this broker's log; name the directories of "
    "others with `--data-dir`, or take what there is with `--allow-gaps` if offsets are missing"
)


@dataclass(frozen=True, slots=True)
class Export:
    """What was written of one partition."""

    topic: str
    partition: int
    broker: int
    start_offset: int
    end_offset: int
    """Exclusive."""
    records: int
    """Fewer than there are offsets where a topic is compacted or has control records."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A directory of Parquet files."""

    files: int
    bytes: int
    partitions: tuple[Export, ...]

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)


def export(
    spark: SparkSession,
    directories: Sequence[Place],
    topics: Sequence[str] | None,
    out: Place,
    *,
    allow_gaps: bool = False,
) -> Exported:
    """Writes the topics (all but the metadata log when `None`) to the new directory `out`. Raises
    `UsageError` for directories without logs and when `out` is there; fails as Spark does for
    damaged logs and, unless `allow_gaps`, for missing offsets. Then `out` is not there."""
    directory = local_path(out).absolute()
    require_new(directory)
    chosen = [
        (replica, portions_of(replica, allow_gaps=allow_gaps))
        for replica in choose_replicas(find_replicas(directories, topics))
    ]
    beside = directory.with_name(f"{directory.name}.part-{uuid4()}")
    try:
        beside.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"`{directory.parent}` cannot be written: {error.strerror}", "name another `--out`"
        ) from error
    try:
        written = _write(spark, chosen, beside)
        named = {one.file: one.size_bytes for one in written}
        publish(beside, directory, named)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return Exported(len(named), sum(named.values()), tuple(_accounts(chosen, written)))


def publish(beside: Path, directory: Path, named: Collection[str]) -> None:
    """Gives the directory its name, without the files that no task reported."""
    for path in beside.iterdir():
        if path.name not in named:
            path.unlink()
    beside.rename(directory)


def choose_replicas(replicas: Sequence[Replica]) -> list[Replica]:
    """One replica of each partition, by topic and partition: the highest high watermark, then the
    lowest broker id."""
    best: dict[tuple[str, int], Replica] = {}
    for one in sorted(replicas, key=lambda one: (-one.high_watermark, one.broker)):
        best.setdefault((one.topic, one.partition), one)
    return [best[key] for key in sorted(best)]


def _write(spark: SparkSession, chosen: Sequence[_Chosen], directory: Path) -> list[Written]:
    wanted = {place: portion for _, portions in chosen for place, portion in portions.items()}
    places = tasks_for_cores(
        [replica for replica, _ in chosen], spark.sparkContext.defaultParallelism
    )
    portions = [tuple(wanted[place] for place in task if place in wanted) for task in places]
    tasks = [task for task in portions if task]
    rows = rows_of_tasks(spark, tasks, partial(_write_task, str(directory)), WRITTEN_SCHEMA)
    return [Written(**row.asDict()) for row in rows.collect()]


def _write_task(directory: str, portions: Sequence[Portion]) -> Iterator[pa.RecordBatch]:
    try:
        written = write_file(Path(directory), portions)
    except CorruptBatch as error:
        raise CorruptBatch(f"{error.message}\nhint: {_DAMAGED_HINT}") from error
    yield pa.RecordBatch.from_pylist([asdict(one) for one in written], schema=WRITTEN_SCHEMA)


def _accounts(chosen: Sequence[_Chosen], written: Sequence[Written]) -> Iterator[Export]:
    for replica, portions in chosen:
        key = replica.topic, replica.partition
        records = sum(one.records for one in written if (one.topic, one.partition) == key)
        end = max(replica.log_start, replica.high_watermark)
        start = min((portion.start_offset for portion in portions.values()), default=end)
        yield Export(*key, replica.broker, start, end, records)
