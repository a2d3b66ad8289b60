"""`tidelog demo`: the product's main job on real input.

Three nodes, a replicated topic, an unmodified client producing real records; in mid-stream the
leader of partition 0 is killed and later comes back; then Spark reads the topic and proves against
the ledger of acknowledgements that nothing was lost, and the replicas' files are compared.

What runs beside what, because it must not last long on two cores: the restart beside the stream,
Spark's start beside the rest of the stream (but not before the failover was measured), everything
else in turn.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from tidelog.cli import terminal
from tidelog.cli.arguments import command, option
from tidelog.cli.demo_faults import LeaderFault
from tidelog.cli.demo_input import DemoInput, find_input
from tidelog.cli.demo_report import DemoReport, print_report
from tidelog.cli.demo_stream import Stream
from tidelog.cli.demo_view import DemoView
from tidelog.cli.terminal import TABLE, BadAnswer, Output, OutputFormat
from tidelog.client.core.values import LATEST
from tidelog.errors import UsageError
from tidelog.model import TopicPartition
from tidelog.pipeline.acknowledgements import AcknowledgementLog
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.jobs.delays import write_delays
from tidelog.pipeline.jobs.verify import Verification, read_sightings, verify
from tidelog.pipeline.logs.replicas import Comparison, compare_topic
from tidelog.pipeline.spark.class_archive import SWITCH, USE
from tidelog.pipeline.spark.spark_session import SHORT_RUN, end_started, session
from tidelog.pipeline.topics.options import parse_bootstrap
from tidelog.testing.local_cluster import LocalCluster

TOPIC: Final = "flights"
PARTITIONS: Final = 6
REPLICATION_FACTOR: Final = 3
MIN_ISR: Final = 2
_DEFAULT_DIR: Final = Path("tidelog-demo")

app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)


@command(app, "demo", "demo --input orders.csv --key-field customer")
def demo(
    input_file: Annotated[
        Path | None, option("--input", "CSV or JSON lines. [default: 336,776 real flights]", "FILE")
    ] = None,
    key_field: Annotated[
        str | None, option("--key-field", "The field that is the record's key.", "NAME")
    ] = None,
    data_dir: Annotated[Path, option("--data-dir", "Where the results go.", "DIR")] = _DEFAULT_DIR,
    keep: Annotated[bool, option("--keep", "Keep the nodes' data as well.")] = False,
    brokers: Annotated[int, option("--brokers", "Number of nodes.", min=3)] = 3,
    base_port: Annotated[
        int,
        option("--base-port", "Port of the first node; the others follow. 0: any free ports.", "P"),
    ] = 0,
    output: Output = TABLE,
) -> None:
    """Produce real data, kill a leader, and prove with Spark that nothing was lost."""
    begun = time.monotonic()
    found = find_input(input_file, key_field)
    places = _prepare(data_dir)
    with (
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="demo") as workers,
        _cluster(brokers, base_port, places, keep) as cluster,
    ):
        run = DemoRun(cluster, found, places, workers)
        try:
            report = run.report(begun, kept=places.cluster if keep else None)
        except KeyboardInterrupt:
            # A thread may be starting Spark, which takes seconds.
            end_started()
            raise
    if output is OutputFormat.JSON:
        terminal.print_json(report.as_json())
    else:
        width = None if sys.stdout.isatty() else terminal.PIPED_WIDTH
        print_report(report, Console(file=sys.stdout, width=width, highlight=False))
    if not report.is_clean:
        raise BadAnswer


@dataclass(frozen=True, slots=True)
class DemoPlaces:
    """Where the demo leaves things."""

    ledger: Path
    delays: Path
    spark_log: Path
    """Spark's own log lines."""
    cluster: Path
    """The nodes' directories, if they are kept."""


def _prepare(data_dir: Path) -> DemoPlaces:
    """Makes the directory and removes an earlier run's results from it."""
    places = DemoPlaces(
        data_dir / "ledger.parquet",
        data_dir / "delays.parquet",
        data_dir / "spark.log",
        data_dir / "cluster",
    )
    if places.cluster.exists():
        raise UsageError(
            f"`{places.cluster}` holds the nodes of an earlier run",
            "remove it, or give another `--data-dir`",
        )
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"`{data_dir}` cannot be made: {error.strerror}", "give another `--data-dir`"
        ) from error
    shutil.rmtree(places.delays, ignore_errors=True)
    places.spark_log.unlink(missing_ok=True)
    return places


@contextmanager
def _cluster(
    brokers: int, base_port: int, places: DemoPlaces, keep: bool
) -> Iterator[LocalCluster]:
    """Running nodes with production's timers. Kept nodes live in the demo's directory; others in
    a temporary one, and they end with this process however it ends."""
    directory = places.cluster if keep else None
    cluster = LocalCluster(brokers, data_dir=directory, base_port=base_port, profile="default")
    with cluster:
        yield cluster


class DemoRun:
    """The demo's acts on one cluster."""

    def __init__(
        self,
        cluster: LocalCluster,
        found: DemoInput,
        places: DemoPlaces,
        workers: ThreadPoolExecutor,
    ) -> None:
        self._cluster = cluster
        # What is produced.
        self._input = found
        self._places = places
        # For what runs beside the stream: the restart and Spark's start.
        self._workers = workers
        # Spark, once asked for.
        self._spark: Future[SparkSession] | None = None
        # The current activity, for the status line of the view.
        self._doing = "starting"

    def report(self, begun: float, kept: Path | None) -> DemoReport:
        """Runs all steps and returns the findings."""
        cluster, topic = self._cluster, TOPIC
        cluster.create_topic(
            topic,
            partitions=PARTITIONS,
            replication_factor=REPLICATION_FACTOR,
            configs={"min.insync.replicas": str(MIN_ISR)},
        )
        with AcknowledgementLog(self._places.ledger, topic) as ledger:
            stream = Stream(cluster.bootstrap_servers, topic, ledger)
            with DemoView(cluster, topic, lambda: self._status(stream)) as view:
                fault = LeaderFault(
                    cluster, topic, stream, report=view.report, workers=self._workers
                )
                self._produce(stream, fault, view)
                isr_restored_ms = fault.finish()
        ends = self._end_offsets()
        replicas = self._compare(ends)
        verification, delays = self._ask_spark(ends)
        assert fault.victim is not None, "the fault was injected"
        return DemoReport(
            records=stream.produced,
            verification=verification,
            replicas=replicas,
            victim=fault.victim,
            failover_ms=stream.failover_ms,
            isr_restored_ms=isr_restored_ms,
            truncated=fault.truncated_partitions(),
            unreadable=stream.unreadable,
            errors=stream.errors,
            delays=delays,
            kept=kept,
            seconds=time.monotonic() - begun,
        )

    # Acts -------------------------------------------------------------------------------------

    def _produce(self, stream: Stream, fault: LeaderFault, view: DemoView) -> None:
        """The stream with the fault in it; Spark starts once the failover was measured."""

        def on_progress(fraction: float) -> None:
            fault.on_progress(fraction)
            if self._spark is None and fault.failed_over:
                self._spark = self._workers.submit(
                    start_spark, self._cluster.bootstrap_servers, self._places.spark_log
                )

        view.report(f"producing {self._input.name} to `{TOPIC}`, acks=all")
        self._doing = "producing"
        stream.run(self._input.records(), self._input.expected, on_progress)
        self._doing = "waiting for the last acknowledgements"
        stream.flush()
        view.report(f"all {stream.acknowledged:,} acknowledgements are in the ledger")
        self._doing = "waiting for complete ISRs"

    def _end_offsets(self) -> dict[TopicPartition, int]:
        """The high watermarks now: everything acknowledged lies below."""
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        with Client(parse_bootstrap(self._cluster.bootstrap_servers)) as client:
            return client.list_offsets(partitions, LATEST)

    def _compare(self, ends: dict[TopicPartition, int]) -> Comparison:
        described = self._cluster.describe_topic(TOPIC)
        assignment = {
            TopicPartition(TOPIC, partition.partition): partition.replicas
            for partition in described.partitions
        }
        with terminal.progress("comparing the replicas' segment files"):
            return compare_topic(
                {node.node_id: node.data_dir for node in self._cluster.nodes},
                TOPIC,
                high_watermarks=ends,
                assignment=assignment,
            )

    def _ask_spark(
        self, ends: dict[TopicPartition, int]
    ) -> tuple[Verification, tuple[Path, int] | None]:
        servers = self._cluster.bootstrap_servers
        ending = json.dumps({TOPIC: {str(tp.partition): end for tp, end in ends.items()}})
        with terminal.progress("starting Spark"):
            starting = self._spark or self._workers.submit(
                start_spark, servers, self._places.spark_log
            )
            spark = starting.result()
        with terminal.progress("Spark reads the topic and compares it with the ledger"):
            ledger = spark.read.parquet(str(self._places.ledger))
            verification = verify(ledger, read_sightings(spark, servers, TOPIC, ending))
        if self._input.airlines_csv is None:
            return verification, None
        with terminal.progress("Spark works out the delays"):
            rows = write_delays(
                spark,
                bootstrap_servers=servers,
                topic=TOPIC,
                airlines_csv=str(self._input.airlines_csv),
                target=str(self._places.delays),
                ending_offsets=ending,
            )
        return verification, (self._places.delays, rows)

    def _status(self, stream: Stream) -> str:
        return (
            f"{self._doing}: {stream.produced:,} produced, {stream.acknowledged:,} acknowledged, "
            f"{stream.failed:,} failed, {stream.unreadable_lines:,} unreadable lines"
        )


def start_spark(bootstrap_servers: str, log_file: Path) -> SparkSession:
    """A session for a minute's work. It has already read nothing from the topic, so that the JVM's
    classes are loaded and Spark's Python processes run when the real jobs come."""
    os.environ.setdefault(SWITCH, USE)  # Making an archive of classes would slow the demo down.
    spark = session("tidelog demo", conf=SHORT_RUN, log_file=log_file)
    nothing = json.dumps({TOPIC: {str(number): 0 for number in range(PARTITIONS)}})
    read_sightings(spark, bootstrap_servers, TOPIC, nothing).groupBy("key").count().collect()
    return spark
