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
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyspark
import pytest
from deltalake import DeltaTable

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batch, batches, write_broker
from tidelog.model import TopicPartition
from tidelog.pipeline.campaign.runs import RUN_SCHEMA
from tidelog.pipeline.spark.java import find_java, make_java_home
from tidelog.pipeline.spark.package import DIRECTORY

pytestmark = pytest.mark.spark

_ROOT = Path(__file__).parents[2]
_HOME = Path(pyspark.__file__).parent
_SEEDS = "1:9"
_NOTHING: Mapping[str, str] = MappingProxyType({})


def _tidelog(*arguments: object, code: int = 0, environ: Mapping[str, str] = _NOTHING) -> dict:
    """Runs a command in a process of its own; the JSON that it prints."""
    command = [sys.executable, "-m", "tidelog.cli.main", *map(str, arguments), "--output", "json"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **environ},
        check=False,
    )
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


@dataclass(frozen=True)
class Bare:
    """An environment without any package, and an archive of Tidelog."""

    environ: dict[str, str]
    """Of a driver: Spark's Java, the bare Python, and the archive unpacked."""
    conf: list[str]
    """What gives the archive to workers."""
    site: Path


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Bare:
    place = tmp_path_factory.mktemp("bare")
    found = _tidelog("spark", "package", "--out", place / "tidelog-spark.tar.gz")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "python"], check=True)
    site = place / "site"
    with tarfile.open(found["archive"]) as archive:
        archive.extractall(site, filter="data")
    make_java_home(find_java(os.environ), place / "java")
    environ = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "JAVA_HOME": str(place / "java"),
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(place / "python" / "bin" / "python"),
        "PYTHONPATH": str(site),
    }
    conf = [item for pair in found["conf"].items() for item in ("--conf", "=".join(pair))]
    return Bare(environ, conf, site)


@pytest.mark.parametrize("kind", ["local-cluster[2,1,1024]", "standalone"])
def test_an_archive_serves_workers_and_a_driver_without_tidelog(kind, bare, request, tmp_path):
    """Method: a bare environment for the driver and for the workers; the driver gets the archive
    unpacked, the workers get it from Spark."""
    master = request.getfixturevalue("standalone") if kind == "standalone" else kind
    (tmp_path / "job.py").write_text(_JOB)
    partitions = {TopicPartition("t", 0): ScriptedPartition(batches(2))}
    with ScriptedCluster(partitions) as brokers:
        done = subprocess.run(
            [
                *(_HOME / "bin" / "spark-submit", "--master", master, *bare.conf),
                *(tmp_path / "job.py", brokers.bootstrap_servers),
            ],
            env=bare.environ,
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
    assert not any(str(bare.site) in place for place in places)


def test_an_ingest_on_workers_that_have_an_archive_alone(standalone, bare, tmp_path):
    """The command runs where Tidelog is installed; the workers' Python is the bare one."""
    partitions = {TopicPartition("t", 0): ScriptedPartition(batches(2))}
    python = {"PYSPARK_PYTHON": bare.environ["PYSPARK_PYTHON"], "PYTHONPATH": str(bare.site)}
    table = tmp_path / "table"
    with ScriptedCluster(partitions) as brokers:
        place = "--topic", "t", "--table", table, "--bootstrap-server", brokers.bootstrap_servers
        asked = *place, "--master", standalone, "--verify", *bare.conf
        done = _tidelog("spark", "ingest", *asked, environ=python)
    assert (done["rows"], done["clean"], done["faults"]) == (20, True, [])
    rows = DeltaTable(table).to_pyarrow_table(columns=["offset"])
    assert sorted(rows.column("offset").to_pylist()) == list(range(20))


@pytest.fixture
def standalone(tmp_path_factory) -> Iterator[str]:
    """A master and two workers of one core each."""
    place = tmp_path_factory.mktemp("standalone")
    make_java_home(find_java(os.environ), place / "java")
    environ = {
        **os.environ,
        "JAVA_HOME": str(place / "java"),
        "SPARK_HOME": str(_HOME),
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
                [_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
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
