"""The jobs where executors are other processes: what they are sent must pickle, and what they need
must be installed there.

`local-cluster[2,1,1024]` is Spark's own small cluster inside one command; the other one is a
standalone master with two workers, as people run them.
"""

import json
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyspark
import pytest

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batch, batches, write_broker
from tidelog.model import TopicPartition
from tidelog.pipeline.campaign.runs import RUN_SCHEMA
from tidelog.pipeline.spark.java import find_java, make_java_home
from tidelog.pipeline.spark.package import DIRECTORY

pytestmark = pytest.mark.spark

_ROOT = Path(__file__).parents[2]
_SEEDS = "1:9"


def _tidelog(*arguments: object, code: int = 0) -> dict:
    """Runs a command in a process of its own; the JSON that it prints."""
    command = [sys.executable, "-m", "tidelog.cli.main", *map(str, arguments), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture
def directory(tmp_path) -> Path:
    """Three brokers; the second one has another record than the others."""
    same = batches()
    for broker in (1, 2, 3):
        other = [*same[:4], batch(40, value=b"A value"), *same[5:]]
        write_broker(tmp_path, broker, {"t-0": other if broker == 2 else same}, 100)
    return tmp_path


def _audit_and_campaign(master: str, directory: Path) -> None:
    audit = _tidelog("spark", "audit", "--data-dir", directory, "--master", master, code=1)
    assert [(one["kind"], one["base_offset"]) for one in audit["findings"]] == [("DIVERGENT", 40)]
    assert audit["replicas"] == 3
    command = ["spark", "campaign", "--tier", "quorum", "--seeds", _SEEDS, "--seeds-per-task", "2"]
    first = _tidelog(*command, "--out", directory / "out", "--master", master)
    assert (first["seeds"], first["newly_run"], first["failed"]) == (8, 8, [])
    again = _tidelog(*command, "--out", directory / "out", "--master", master)
    assert (again["seeds"], again["newly_run"]) == (8, 0)
    alone = _tidelog("sim", "run", "--tier", "quorum", "--seeds", _SEEDS)
    for name in ("seeds", "events", "virtual_seconds", "acknowledged", "faults", "fired", "marks"):
        assert first[name] == alone[name], name


def test_a_cluster_within_the_command(directory):
    assert RUN_SCHEMA.names[0] == "tier"
    _audit_and_campaign("local-cluster[2,1,1024]", directory)


_JOB = """
import sys
from pyspark.sql import SparkSession

(bootstrap,) = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
rows = (
    spark.read.format("tidelog")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", "t")
    .load()
)


def place(batches):
    import pyarrow as pa
    import tidelog

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"place": [tidelog.__file__] * len(batch)})


places = {row.place for row in rows.mapInArrow(place, "place string").collect()}
print("ROWS", rows.count(), *places)
spark.stop()
"""


def test_an_archive_serves_workers_and_a_driver_without_tidelog(tmp_path):
    """Method: an environment without any package, for the driver and for the workers; the driver
    gets the archive unpacked, the workers get it from Spark."""
    found = _tidelog("spark", "package", "--out", tmp_path / "tidelog-spark.tar.gz")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    site = tmp_path / "site"
    with tarfile.open(found["archive"]) as archive:
        archive.extractall(site, filter="data")
    (tmp_path / "job.py").write_text(_JOB)
    home = Path(pyspark.__file__).parent
    make_java_home(find_java(os.environ), tmp_path / "java")
    environ = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "JAVA_HOME": str(tmp_path / "java"),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(bare / "bin" / "python"),
        "PYTHONPATH": str(site),
    }
    conf = [item for pair in found["conf"].items() for item in ("--conf", "=".join(pair))]
    partitions = {TopicPartition("t", 0): ScriptedPartition(batches(2))}
    with ScriptedCluster(partitions) as brokers:
        done = subprocess.run(
            [
                *(home / "bin" / "spark-submit", "--master", "local-cluster[2,1,1024]", *conf),
                *(tmp_path / "job.py", brokers.bootstrap_servers),
            ],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("ROWS")]
    _, count, *places = line.split()
    assert count == "20"
    assert all(f"/{DIRECTORY}/tidelog/" in place for place in places)
    assert not any(str(site) in place for place in places)


@pytest.fixture
def standalone(tmp_path_factory) -> Iterator[str]:
    """A master and two workers of one core each."""
    place = tmp_path_factory.mktemp("standalone")
    make_java_home(find_java(os.environ), place / "java")
    home = Path(pyspark.__file__).parent
    environ = {
        **os.environ,
        "JAVA_HOME": str(place / "java"),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(place / "work"),
        "PYSPARK_PYTHON": sys.executable,
    }
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    address = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [["master.Master", *address, "--port", str(port)]]
    commands += [["worker.Worker", *address, "--cores", "1", "--memory", "1g", url]] * 2
    running = []
    try:
        for name, *arguments in commands:
            started = subprocess.Popen(
                [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.append(started)
            _wait_for_line(started, "New state: ALIVE" if "Master" in name else "registered with")
        yield url
    finally:
        for process in running:
            process.kill()
            process.wait()


def _free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _wait_for_line(process: subprocess.Popen, text: str) -> None:
    """Waits for the line; then its stderr is read on, so that it never blocks."""
    import threading

    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return
    raise AssertionError(f"{process.args} ended without `{text}`")


def test_a_standalone_master_with_two_workers(standalone, directory):
    _audit_and_campaign(standalone, directory)
