"""The ingest: a topic into a Delta table, every record once, with its lineage and an account.

Plan → read, write and report → one commit per batch. A row of the stream is a range of offsets, not
a record: the task that gets it (`ingest_task.py`) reads the range from the brokers, writes its
records (`table_files.py`) and reports what it wrote and saw. So no record passes through the JVM or
the driver. The driver compares the reports with the range that Spark planned (`continuity.py`) and
commits (`table.py`).
`ingest_plan.py` checks before Spark starts what can be known then.

A run ends when the topic is read (`availableNow`), or when the user stops it. Violations that are
written (gaps, epochs that go back) end a continuous run at once, and are reported at the end of the
others. A query that Spark ends for a reason that may pass (a worker was killed, no broker answered)
is started again on the same checkpoint, four times in a row without a batch in between; one that
would end again (lost or corrupt records, a wrong option, a conflict in the table) is not.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidelog.errors import UsageError
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import JobFailed, StoreUnavailable, TableConflict, TableDamaged
from tidelog.pipeline.jobs.ingest_plan import Prepared
from tidelog.pipeline.jobs.ingest_task import IngestTask
from tidelog.pipeline.jobs.ingest_topics import MAX_TOPICS
from tidelog.pipeline.jobs.ingest_upsert import Merging
from tidelog.pipeline.spark_columns import PLAN_TYPES, ddl
from tidelog.pipeline.tables import checkpoint
from tidelog.pipeline.tables.addresses import disk_full, is_full
from tidelog.pipeline.tables.continuity import GAP, Continuity, judge
from tidelog.pipeline.tables.table import TableBatch
from tidelog.pipeline.tables.table_files import REPORT_SCHEMA, TableTask, TaskReport
from tidelog.pipeline.topics.progress import source_lag

_POLL_S: Final = 0.5
_LOOK_S: Final = 10.0
MAX_UNREPORTED_BATCHES: Final = 1000
"""More than end between two looks; of more, the oldest are not reported."""
_STARTS_WITHOUT_A_BATCH: Final = 5
_PERMANENT: Final = ("DataLoss: ", "CorruptBatch: ", "hint: ")
"""Signs in Spark's text that a query would end again."""
_INTERRUPTED: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling Spark: "
    "java.lang.InterruptedException"
)
"""What Spark looks for in the text of a batch's exception, to see that the query's end ended the
batch. In the text of a whole failure its pattern overflows Java's stack: a thousand lines."""
_SYNC_S: Final = 10.0
"""How long accounts may be in the commits alone before they are in `_continuity` as well."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the ingest of a topic is."""

    topic: str
    batches: int
    rows: int
    lag: int | None = None
    """Offsets that the topic has beyond the newest batch; `None` before the first."""
    batch: int | None = None
    """The newest batch, as Spark counts them over all runs; `None` before the first."""
    batch_rows: int = 0
    rows_per_s: float = 0.0
    """Those of the newest batch, by the time since the one before."""
    newest_age_s: float | None = None
    """How old the newest record of the newest batch was when it was in the table."""
    quarantined_rows: int = 0
    """Records of all batches that did not parse."""
    lags: Mapping[int, int] = field(default_factory=dict)
    """`lag` by partition."""
    stages_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the batch which Spark reported last took, by stage, as Spark names them."""


OnProgress = Callable[[Progress], None]
IsOver = Callable[[], bool]
Joining = Callable[[], Sequence[Prepared]]
"""Topics that are to be read from now on as well."""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What a run did."""

    batches: int
    repeated_batches: int
    """Batches that Spark repeated although the table had them."""
    rows: int
    control_rows: int
    gap_rows: int
    """Missing offsets, those of compacted topics included."""
    seconds: float
    positions: Mapping[str, int]
    """How far the table has the topic: `{"topic:partition": next offset}`."""
    violations: tuple[str, ...]
    quarantined_rows: int = 0
    """Records that did not parse; they are in the quarantine."""

    @property
    def is_clean(self) -> bool:
        return not self.violations


def plan_stream(spark: SparkSession, prepared: Prepared) -> DataFrame:
    """The topic as a stream of the ranges that tasks are to read."""
    options = prepared.plan.source_options(prepared.starting)
    return spark.readStream.format("tidelog").schema(ddl(PLAN_TYPES)).options(**options).load()


class BatchWriter:
    """`foreachBatch` of the ingest: runs in the driver, one batch at a time."""

    def __init__(self, prepared: Prepared, parallelism: int) -> None:
        # What is written where.
        self.prepared = prepared
        # At most so many tasks, and so files, a batch.
        self._parallelism = parallelism
        # When `_continuity` was last brought up to the commits.
        self._synced_at = time.monotonic()
        # The accounts of the batches of this run that are in the table.
        self.batches = self.repeated_batches = self.rows = self.control_rows = self.gap_rows = 0
        self.quarantined_rows = 0
        # What was wrong with them.
        self.violations: list[Continuity] = []
        # Held while a batch is written: a query that is stopped does not wait for this side of it.
        self.busy = threading.Lock()
        # Why the last batch failed, if it did: Spark only carries the text.
        self.failure: BaseException | None = None
        # Whether the query is being stopped: a batch that is under way fails by that.
        self.is_ending = False
        # What is to be reported: each batch since the last report, without the lag, and how far
        # the table had the topic behind it.
        self.finished: deque[tuple[Progress, Mapping[str, int]]] = deque(
            maxlen=MAX_UNREPORTED_BATCHES
        )
        # When the run began, and later when the last batch was in the table; monotonic, in seconds.
        self._last_batch_at = time.monotonic()

    def __call__(self, plan: DataFrame, batch: int) -> None:
        try:
            with self.busy:
                self._write(plan, batch)
        except BaseException as error:
            self.failure = error
            if self.is_ending:
                raise JobFailed(f"batch {batch} was not written: {_INTERRUPTED}") from None
            raise

    def _write(self, plan: DataFrame, batch: int) -> None:
        table, identity = self.prepared.table, self.prepared.identity
        if table.has(identity.app, batch):
            self.repeated_batches += 1
            return
        merging = None
        if self.prepared.upsert is not None:
            merging = Merging(plan.sparkSession, self.prepared, self._parallelism)
            merging.remove_changes()
        reports = self._run_tasks(plan, batch)
        account = self._judge(reports, batch)
        if not account:
            return
        files = tuple(file for report in reports for file in report.files)
        bad = tuple(file for report in reports for file in report.quarantine)
        new = TableBatch(identity.app, batch, files, tuple(account), bad)
        if merging is None:
            table.commit(new)
        else:
            account = merging.commit(new)
        self._count(account)
        self._note(batch, account, max(report.newest_ms for report in reports))
        if time.monotonic() - self._synced_at > _SYNC_S:
            table.sync_continuity()
            self._synced_at = time.monotonic()

    def _run_tasks(self, plan: DataFrame, batch: int) -> list[TaskReport]:
        prepared = self.prepared
        table = TableTask(
            prepared.table.address,
            batch,
            key=prepared.key,
            value=prepared.value,
            upsert=prepared.upsert,
            transform=prepared.transform,
            partition_by=prepared.plan.partition_by,
        )
        task = IngestTask(table, prepared.options.rules)
        written = plan.coalesce(self._parallelism).mapInArrow(task, REPORT_SCHEMA)
        return [TaskReport.from_text(row["report"]) for row in written.collect()]

    def _judge(self, reports: list[TaskReport], batch: int) -> list[Continuity]:
        """The account of a batch; asks the cluster about compaction only if there is a gap."""
        # The checkpoint may have been in its directory.
        self.prepared.table.check_there()
        planned = checkpoint.planned_ranges(
            self.prepared.plan.checkpoint_directory, self.prepared.identity.birth, batch
        )
        pieces = [piece for report in reports for piece in report.pieces]
        before = self.prepared.table.positions
        account = judge(planned, pieces, before, compacted=False, batch=batch)
        if any(line.status == GAP for line in account) and self._is_compacted():
            return judge(planned, pieces, before, compacted=True, batch=batch)
        return account

    def _is_compacted(self) -> bool:
        topic = self.prepared.plan.topic
        with Client.of(self.prepared.options.rules) as client:
            client.metadata([topic])
            return topic in client.compacted_topics([topic])

    def _note(self, batch: int, account: list[Continuity], newest_ms: int) -> None:
        rows = sum(line.rows for line in account)
        before, self._last_batch_at = self._last_batch_at, time.monotonic()
        per_s = rows / max(self._last_batch_at - before, 0.001)
        age_s = None if newest_ms < 0 else round(max(time.time() - newest_ms / 1000, 0.0), 3)
        far = Progress(
            self.prepared.plan.topic,
            self.batches,
            self.rows,
            None,
            batch,
            rows,
            round(per_s, 1),
            age_s,
            self.quarantined_rows,
        )
        self.finished.append((far, self.prepared.table.ends))

    def _count(self, account: list[Continuity]) -> None:
        self.batches += 1
        self.rows += sum(line.rows for line in account)
        self.control_rows += sum(line.control_rows for line in account)
        self.gap_rows += sum(line.gap_rows for line in account)
        self.quarantined_rows += sum(line.quarantined_rows for line in account)
        self.violations += [line for line in account if line.is_violation]


def ingest(
    spark: SparkSession,
    prepared: Prepared,
    on_progress: OnProgress = lambda _: None,
    is_over: IsOver = lambda: False,
) -> IngestResult:
    """Runs the ingest until the topic is read, or until `is_over()`. It calls `on_progress` once
    for each batch, soon after it is in the table, and `is_over` about twice a second. Raises
    `TableConflict`, `JobFailed`, and `KeyboardInterrupt` if `is_over()` before the topic is
    read."""
    begun = time.monotonic()
    writer = BatchWriter(prepared, max(spark.sparkContext.defaultParallelism, 1))
    try:
        _run_queries(spark, writer, on_progress, is_over)
    finally:
        with writer.busy:
            prepared.table.sync_continuity()
    counts = (
        *("batches", "repeated_batches", "rows", "control_rows", "gap_rows"),
        "quarantined_rows",
    )
    return IngestResult(
        **{name: getattr(writer, name) for name in counts},
        seconds=round(time.monotonic() - begun, 3),
        positions=prepared.table.ends,
        violations=tuple(map(str, writer.violations)),
    )


def ingest_all(
    spark: SparkSession,
    prepared: Sequence[Prepared],
    on_progress: OnProgress = lambda _: None,
    is_over: IsOver = lambda: False,
    joining: Joining | None = None,
) -> dict[str, IngestResult]:
    """Runs an ingest of each topic, side by side, and returns the results by topic. A run without
    an end asks `joining`, if there is one, every ten seconds. When one topic fails or has a
    violation, those without an end are ended too. Raises as `ingest` does, for the first that
    failed."""
    is_ending = threading.Event()

    def run(one: Prepared) -> IngestResult:
        endless = one.plan.interval_s is not None
        try:
            result = ingest(
                spark, one, on_progress, lambda: is_over() or (endless and is_ending.is_set())
            )
        except BaseException:
            is_ending.set()
            raise
        if result.violations:
            is_ending.set()
        return result

    if len(prepared) == 1 and joining is None:
        return {prepared[0].plan.topic: run(prepared[0])}
    is_endless = any(one.plan.interval_s is not None for one in prepared)
    with ThreadPoolExecutor(MAX_TOPICS, thread_name_prefix="ingest") as threads:
        running = {one.plan.topic: threads.submit(run, one) for one in prepared}
        looked_at = time.monotonic()
        while joining and is_endless and not is_over() and not is_ending.wait(_POLL_S):
            if time.monotonic() - looked_at > _LOOK_S:
                running |= {one.plan.topic: threads.submit(run, one) for one in joining()}
                looked_at = time.monotonic()
    return {topic: future.result() for topic, future in running.items()}


def _run_queries(
    spark: SparkSession, writer: BatchWriter, on_progress: OnProgress, is_over: IsOver
) -> None:
    """One query, or several one after the other where the reason for its end may pass."""
    starts_left = _STARTS_WITHOUT_A_BATCH
    while True:
        batches_before = writer.batches
        query: StreamingQuery | None = None
        try:
            with writer.busy:
                writer.prepared.table.reload()
            query = _start(spark, writer)
            _wait(query, writer, on_progress, is_over)
            return
        except (StreamingQueryException, StoreUnavailable) as error:
            failure = writer.failure
            if isinstance(failure, UsageError | TableConflict | TableDamaged | OSError):
                raise failure from None
            text = f"{error}\n{failure}"
            if failure is None and is_full(error):
                place = writer.prepared.plan.checkpoint_directory
                full = disk_full(f"the checkpoint `{place}`, or Spark's scratch space,", error)
                text = f"DiskFull: {full}"
            if writer.batches > batches_before:
                starts_left = _STARTS_WITHOUT_A_BATCH
            starts_left -= 1
            if not starts_left or any(sign in text for sign in _PERMANENT):
                raise JobFailed(failure_text(text)) from error
        finally:
            if query is not None:
                writer.is_ending = True
                query.stop()


def _start(spark: SparkSession, writer: BatchWriter) -> StreamingQuery:
    writer.failure, writer.is_ending, prepared = None, False, writer.prepared
    stream = plan_stream(spark, prepared).writeStream.foreachBatch(writer)
    stream = stream.option("checkpointLocation", str(prepared.plan.checkpoint_directory))
    # Spark's pages and reports show it; the description of a Python source cannot be set.
    stream = stream.queryName(f"ingest of {prepared.plan.topic} into {prepared.table.address}")
    interval_s = prepared.plan.interval_s
    if interval_s is None:
        return stream.trigger(availableNow=True).start()
    return stream.trigger(processingTime=f"{round(interval_s * 1000)} milliseconds").start()


def failure_text(text: str) -> str:
    """The message of a query that failed: the last exception of ours in Spark's text, with its
    hint if it has one, or the first line."""
    found = re.findall(
        r"^(?:\w+\.)*((?:DataLoss|CorruptBatch|ClusterUnavailable|RegistryUnavailable|"
        r"StoreUnavailable|DiskFull|TableDamaged|KeyMoved|UsageError|OSError): "
        r".*(?:\nhint: .*)?|ValueError: .*\nhint: .*)$",
        text,
        re.MULTILINE,
    )
    return str(found[-1]) if found else text.strip().partition("\n")[0]


def _wait(
    query: StreamingQuery, writer: BatchWriter, on_progress: OnProgress, is_over: IsOver
) -> None:
    """Waits until the query ends. A continuous one ends by `is_over()` or by a violation."""
    endless = writer.prepared.plan.interval_s is not None
    while not query.awaitTermination(_POLL_S):
        _report(query, writer, on_progress)
        if is_over() and not endless:
            raise KeyboardInterrupt
        if is_over() or (endless and writer.violations):
            break
    _report(query, writer, on_progress)


def _report(query: StreamingQuery, writer: BatchWriter, on_progress: OnProgress) -> None:
    while writer.finished:
        far, ends = writer.finished.popleft()
        on_progress(_with_report(far, query.lastProgress, ends))


def _with_report(far: Progress, reported: Any, ends: Mapping[str, int]) -> Progress:
    """The progress with what Spark last reported: offsets that the cluster had then beyond the
    table's, and the stages of a batch."""
    if not reported or not reported["sources"]:
        return far
    lag = source_lag(ends, reported["sources"][0]["latestOffset"])
    lags = {tp.partition: offsets for tp, offsets in lag.partitions.items()}
    stages_s = {name: ms / 1000 for name, ms in reported["durationMs"].items()}
    return replace(far, lag=lag.total, lags=lags, stages_s=stages_s)
