"""`spark.read.format("tidelog.segments")`: brokers' log directories as Spark batches.

Reads the segment files themselves, Tidelog's or Apache Kafka's, of running or stopped brokers, on
a path that every Spark executor can see.

    spark.read.format("tidelog.segments")
        .option("path", "tidelog-data")       # or brokers' log directories, with commas
        .option("topics", "orders,flights")   # optional; all but the metadata log
        .option("mode", "records")            # or "batches", the default: a row per record batch
        .load()

Spark's Python sources have no column pruning: a job that gives its own schema, any of the columns
in any order, ships only these and computes only these (the CRC is most of the work). Comparisons
of `broker`, `topic`, `partition` and `base_offset` (of records: `offset`) leave out whole files
where `spark.sql.python.filterPushdown.enabled` is on, as it is in `tidelog.pipeline.session()`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.errors import UsageError
from tidelog.pipeline import spark_columns
from tidelog.pipeline.logs.layout import SegmentPlace, find_replicas, tasks_for_cores
from tidelog.pipeline.logs.segment_filters import SegmentFilters
from tidelog.pipeline.spark_columns import BATCH_TYPES, PLACE_TYPES, RECORD_TYPES

TYPES_OF_MODE: Final = {"batches": BATCH_TYPES, "records": PLACE_TYPES | RECORD_TYPES}
_OPTIONS: Final = ("path", "topics", "mode", "sample")


@dataclass(frozen=True)
class SegmentOptions:
    """What the user asked for."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] | None
    mode: str
    sample: int
    """One batch in so many gets its CRC recomputed."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SegmentOptions":
        """Raises `UsageError`."""
        lowered = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(lowered) - set(_OPTIONS))
        if unknown:
            raise UsageError(
                f"the tidelog.segments source has no option `{unknown[0]}`",
                f"the options are {', '.join(_OPTIONS)}",
            )
        paths = tuple(path.strip() for path in lowered.get("path", "").split(",") if path.strip())
        if not paths:
            raise UsageError("no `path` was given", "give log directories, separated by commas")
        mode = lowered.get("mode", "batches")
        if mode not in TYPES_OF_MODE:
            raise UsageError(f"`mode` is `{mode}`", "give `batches` or `records`")
        sample = lowered.get("sample", "1")
        if not sample.isdecimal() or int(sample) < 1:
            raise UsageError(f"`sample` is `{sample}`", "give k to check one batch in k")
        topics = tuple(name for name in lowered.get("topics", "").split(",") if name)
        return cls(paths, topics or None, mode, int(sample))


class DefaultSource(DataSource):  # type: ignore[misc]
    """The data source that Spark instantiates by the format name `tidelog.segments`."""

    @classmethod
    def name(cls) -> str:
        return "tidelog.segments"

    def schema(self) -> str:
        """All columns of the mode; wrong options are refused here."""
        with spark_columns.hint_in_message():
            types = TYPES_OF_MODE[SegmentOptions.parse(dict(self.options)).mode]
        return spark_columns.ddl(types)

    def reader(self, schema: StructType) -> DataSourceReader:
        with spark_columns.hint_in_message():
            options = SegmentOptions.parse(dict(self.options))
            columns = spark_columns.chosen_columns(schema, TYPES_OF_MODE[options.mode])
        kind = FilteringSegmentReader if spark_columns.filters_are_pushed() else SegmentReader
        return kind(options, columns)


@dataclass(frozen=True)
class SegmentPartition(InputPartition):  # type: ignore[misc]
    """One task's files, as Spark carries them to the executor."""

    places: tuple[SegmentPlace, ...]


class SegmentReader(DataSourceReader):  # type: ignore[misc]
    """Lists files on the driver, reads them on the executors; holds values only."""

    def __init__(self, options: SegmentOptions, columns: Sequence[str]) -> None:
        self._options = options
        # The columns to return, in this order.
        self._columns = tuple(columns)
        # The filters that Spark offered.
        self._filters = SegmentFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """Whole segments, small ones together. Spark turns an empty list into one `None` task.
        Spark does not pass the number of cores to this process, so it counts the cores of its own
        machine. On a cluster that may be a few tasks too many."""
        with spark_columns.hint_in_message():
            replicas = find_replicas([Path(p) for p in self._options.paths], self._options.topics)
        tasks = tasks_for_cores(self._filters.select(replicas), os.cpu_count() or 1)
        return [SegmentPartition(places) for places in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, SegmentPartition):
            return
        from tidelog.pipeline.logs.scan import scan_batches, scan_records

        for place in partition.places:
            if self._options.mode == "records":
                yield from scan_records(place, self._columns)
            else:
                yield from scan_batches(place, self._columns, self._options.sample)


class FilteringSegmentReader(SegmentReader):
    """The reader for processes in which Spark offers filters."""

    def pushFilters(self, filters: Sequence[Any]) -> Sequence[Any]:
        """Leaves out files that the filters do not want; Spark evaluates them all the same."""
        return self._filters.take(filters)
