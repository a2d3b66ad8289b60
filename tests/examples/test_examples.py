"""Goal: what `examples/` shows works as it stands. Method: each is run as a reader would run it."""

import json
import os
import runpy
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.pipeline.ingest_rig import (
    PATIENCE_S,
    Feeder,
    kill_a_leader,
    log_end_offsets,
    spark_process,
)
from tests.tidy.source import ROOT
from tidelog.env.prng import Prng
from tidelog.pipeline.tables.checkpoint import batches_in, read_planned
from tidelog.testing.waiting import wait_until

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.rglob("*.ipynb"))


def run(*command: object, cwd=EXAMPLES) -> str:
    """What a command prints."""
    # Tests leave nothing in the user's cache.
    environment = {**os.environ, "TIDELOG_CLASS_ARCHIVE": "use"}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
def test_the_service_passes_its_own_tests():
    assert "3 passed" in run("-m", "pytest", "-p", "no:cacheprovider", "service")


@pytest.mark.process
@pytest.mark.spark
def test_what_is_produced_is_consumed_and_streamed_once(
    spark, tidelog_cluster, tmp_path, monkeypatch, capsys
):
    """The stream runs twice, on the session of all tests; the second run finds nothing new."""
    servers = tidelog_cluster.bootstrap_servers
    tidelog_cluster.create_topic("copied", partitions=3, replication_factor=3)
    assert run("clients/produce.py", servers, "copied", 500) == "500 records acknowledged\n"
    assert run("clients/consume.py", servers, "copied") == "500 records read\n"
    table = tmp_path / "copied"
    program = str(EXAMPLES / "stream_to_delta/stream.py")
    monkeypatch.setattr(sys, "argv", [program, servers, "copied", str(table)])
    versions = []
    for _ in range(2):
        runpy.run_path(program, run_name="__main__")
        versions.append(DeltaTable(table).version())
    assert capsys.readouterr().out == "500 rows in the table\n" * 2
    assert versions[0] == versions[1]


@pytest.mark.process
@pytest.mark.spark
def test_a_copy_is_exact_though_worker_java_broker_and_driver_are_killed(
    spark, tidelog_cluster, tmp_path
):
    """SIGKILL to each while records come and go; then this process takes the checkpoint over. The
    program ends with its Java, and is started again."""
    cluster, servers, prng = tidelog_cluster, tidelog_cluster.bootstrap_servers, Prng(1)
    for topic in ("from", "to"):
        cluster.create_topic(topic, partitions=2, replication_factor=3)
    program, checkpoint = str(EXAMPLES / "topic_to_topic/copy_topic.py"), str(tmp_path / "noted")
    feeder = Feeder(servers, "from", 300)
    with spark_process(
        [sys.executable, program, servers, "from", "to", checkpoint], tmp_path
    ) as copying:
        for kind in ("worker", "jvm", "broker", "driver"):
            more = log_end_offsets(cluster, "to") + 100

            def is_copied(more: int = more) -> bool:
                copying.keep_running()
                return log_end_offsets(cluster, "to") > more

            wait_until(is_copied, PATIENCE_S, "copy")
            if kind == "broker":
                dead = kill_a_leader(cluster, "to", prng)
            else:
                wait_until(lambda kind=kind: copying.kill(kind, prng), PATIENCE_S, kind)
            if kind == "jvm":
                # The program ends with it. Workers that outlive both write for a moment.
                copying.wait_for_end()
        assert copying.starts == 2
    feeder.close()
    copy = runpy.run_path(program)["copy"]
    copy(spark, servers, "from", "to", checkpoint, {"availableNow": True}).awaitTermination()
    cluster.start_node(dead)
    copies = example_records(spark, servers, "to").collect()
    found = sorted(tuple(map(int, row.value.split()[:2])) for row in copies)
    assert found == sorted(feeder.acked.values())
    _check_progress(servers, Path(checkpoint))


def _check_progress(servers: str, checkpoint: Path) -> None:
    """Our brokers have how far the copy is, and our command shows it. Spark is done with a batch
    when it has planned the next one, so the newest is missing."""
    batches = batches_in(checkpoint, "offsets")
    planned = [read_planned(checkpoint, batch) for batch in batches[-2:]]
    group = "groups", "describe", "copy-of-from", "--bootstrap-server", servers, "--output", "json"
    shown = json.loads(run("-m", "tidelog.cli.main", *group))["progress"]
    committed = {(row["topic"], row["partition"]): row["committed_offset"] for row in shown}
    assert committed in [dict(one.ends) for one in planned if one is not None]
    assert all(row["lag"] == row["log_end_offset"] - row["committed_offset"] for row in shown)


def example_records(spark, servers: str, topic: str) -> DataFrame:
    """The values of a topic's committed records, as texts."""
    read = spark.read.format("tidelog").option("kafka.bootstrap.servers", servers)
    found = read.option("subscribe", topic).option("isolation.level", "read_committed").load()
    return found.select(F.col("value").cast("string"))


@pytest.mark.process
@pytest.mark.spark
def test_streams_find_what_a_batch_over_the_same_topic_finds(spark, tidelog_cluster, tmp_path):
    """In two runs, the second from the checkpoints of the first: state outlives a query."""
    servers = tidelog_cluster.bootstrap_servers
    example = runpy.run_path(str(EXAMPLES / "streams/queries.py"))
    for name, value in example["STATE_IN_ROCKSDB"].items():
        spark.conf.set(name, value)
    for topic in ("orders", "payments", "customers"):
        tidelog_cluster.create_topic(topic, partitions=2, replication_factor=3)
    begin = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=2)
    found: dict[str, list[tuple[object, ...]]] = {}
    for first in (0, 30):
        produce(servers, begin, range(first, first + 30))
        queries = []
        for name, (frame, mode) in example["streams"](spark, servers).items():
            write = partial(keep, found.setdefault(name, []))
            written = frame.writeStream.foreachBatch(write).outputMode(mode)
            written = written.option("checkpointLocation", str(tmp_path / name))
            queries.append(written.trigger(availableNow=True).start())
        for query in queries:
            query.awaitTermination()
    orders, payments, customers = (
        example["records"](spark.read, servers, f"{name}s", example[name.upper()])
        for name in ("order", "payment", "customer")
    )
    final = orders.agg(F.max("at")).first()[0] - timedelta(minutes=3)
    whole = {
        "by_minute": example["by_minute"](orders).where(F.col("start") < final),
        "paid_in_time": example["paid_in_time"](orders, payments),
        "with_region": example["with_region"](orders, customers),
        "once": example["once"](orders),
    }
    newest = dict(sorted(found["totals"]))  # Amounts only grow.
    assert newest == dict(map(tuple, orders.groupBy("customer").agg(F.sum("amount")).collect()))
    for name, frame in whole.items():
        expected = sorted(map(tuple, frame.collect()), key=str)
        assert sorted(found[name], key=str) == expected and expected, name
    assert len(found["once"]) == 60 < len(found["with_region"])


def keep(rows: list[tuple[object, ...]], batch: DataFrame, number: int) -> None:
    rows.extend(map(tuple, batch.collect()))


def produce(servers: str, begin: datetime, numbers: range) -> None:
    """Orders, one each twenty seconds and each tenth twice, payments of three of four, some too
    late, and customers of whom one moves."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})

    def send(topic: str, key: str, **value: object) -> None:
        producer.produce(topic, json.dumps(value, default=datetime.isoformat), key)

    for number in numbers:
        at = begin + timedelta(seconds=20 * number)
        customer = ("ada", "bob", "cyd")[number % 3]
        for _ in range(2 if number % 10 == 0 else 1):
            send("orders", customer, id=f"o{number}", customer=customer, amount=number + 1, at=at)
        if number % 4:
            late = timedelta(minutes=9 if number % 5 == 0 else 1)
            send("payments", customer, order_id=f"o{number}", paid_at=at + late)
    if numbers.start == 0:
        for name, region in (("ada", "south"), ("bob", "east"), ("ada", "north")):
            send("customers", name, name=name, region=region)
    assert producer.flush(60) == 0


@pytest.mark.process
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(notebook):
    """Their cells hold assertions; a kernel would add nothing but its weight."""
    cells = json.loads(notebook.read_text())["cells"]
    assert cells
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "a notebook is kept without its outputs"
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)


def test_every_example_is_in_the_table():
    folders = {
        path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    text = (EXAMPLES / "README.md").read_text()
    assert [name for name in sorted(folders) if f"`{name}/`" not in text] == []
