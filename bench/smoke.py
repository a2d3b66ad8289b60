"""The figures of `docs/results`, measured on this machine in a few minutes: `make bench-smoke`.

Every figure comes with its goal; nothing is asserted. Figures of other systems are not in here:
machines differ, and only ratios within one run mean anything.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from tidelog.testing import LocalCluster

TIDELOG = Path(sys.executable).with_name("tidelog")
PARTITIONS = 6


def resident_mb(pid: int) -> float:
    """The process's resident memory in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmRSS")


def measure_start() -> dict[str, float]:
    """`tidelog up --detach` until it returns, which is when all nodes are unfenced; and the
    memory of an idle node ten seconds later."""
    with tempfile.TemporaryDirectory() as directory:
        data_dir = str(Path(directory) / "cluster")
        seconds = []
        for _ in range(3):
            started = time.monotonic()
            command = [str(TIDELOG), "up", "--detach", "--data-dir", data_dir, "--base-port", "0"]
            shown = subprocess.run(
                [*command, "--output", "json"], check=True, capture_output=True, text=True
            ).stdout
            seconds.append(time.monotonic() - started)
            nodes = json.loads(shown)["nodes"]
            if len(seconds) == 3:
                time.sleep(10)
            memory = max(resident_mb(node["pid"]) for node in nodes)
            subprocess.run([str(TIDELOG), "down", "--data-dir", data_dir], check=True)
    return {"up_s": sorted(seconds)[1], "up_first_s": seconds[0], "idle_rss_mb": memory}


@contextmanager
def default_cluster() -> Iterator[LocalCluster]:
    """Three nodes with default timers."""
    with LocalCluster(brokers=3, profile="default") as cluster:
        yield cluster


def producer(cluster: LocalCluster, **extra: object):
    """A confluent-kafka producer with acks=all."""
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "log_level": 2,
            **extra,
        }
    )


def produce_rate(cluster: LocalCluster, topic: str, count: int, size_bytes: int) -> float:
    """Acknowledged records a second."""
    client, value = producer(cluster), bytes(size_bytes)
    failed: list[object] = []

    def report(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    started = time.monotonic()
    for index in range(count):
        client.produce(topic, value, on_delivery=report)
        if index % 10_000 == 0:
            client.poll(0)
    client.flush(120)
    took = time.monotonic() - started
    if failed:
        raise RuntimeError(f"{len(failed)} records failed: {failed[0]}")
    return count / took


def measure_throughput(cluster: LocalCluster) -> dict[str, float]:
    """The median of three runs each, after one that warms up."""
    for name in ("small", "large"):
        cluster.create_topic(
            name, partitions=PARTITIONS, replication_factor=3, configs={"min.insync.replicas": "2"}
        )
    produce_rate(cluster, "small", 200_000, 100)
    small = sorted(produce_rate(cluster, "small", 500_000, 100) for _ in range(3))
    large = sorted(produce_rate(cluster, "large", 150_000, 1024) for _ in range(3))
    return {"records_100b_per_s": small[1], "mb_1kib_per_s": large[1] * 1024 / 1e6}


def measure_failover(cluster: LocalCluster, rounds: int = 5) -> dict[str, float]:
    """From the kill of a partition's leader to the partition's next acknowledged record."""
    gaps = []
    for number in range(rounds):
        topic = f"failover{number}"
        cluster.create_topic(
            topic, partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"}
        )
        gaps.append(failover_ms(cluster, topic))
    return {"failover_ms": sorted(gaps)[rounds // 2], "failover_worst_ms": max(gaps)}


def failover_ms(cluster: LocalCluster, topic: str) -> float:
    """One kill."""
    client = producer(cluster, **{"linger.ms": 0})
    acked_at: list[float] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            client.produce(
                topic,
                b"x",
                partition=0,
                on_delivery=lambda error, _: error or acked_at.append(time.monotonic()),
            )
            client.poll(0.002)
        client.flush(30)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1.5)
    leader = cluster.wait_for_leader(topic, 0)
    killed = time.monotonic()
    cluster.kill(leader)
    time.sleep(6)
    stop.set()
    thread.join()
    cluster.start_node(leader)
    cluster.wait_for_isr(topic, 0, {1, 2, 3}, timeout_s=60)
    # What the dead leader had acknowledged may still be reported for a moment after the kill.
    after = [at for at in acked_at if at > killed + 0.02]
    return (min(after) - killed) * 1000


def measure_spark(cluster: LocalCluster) -> dict[str, float]:
    """Records a second of the Spark source: count and sum of lengths, the best of the warm runs."""
    from pyspark.sql import functions as sql

    from tidelog.pipeline import session

    with cluster.admin() as admin:
        assert "small" in admin.list_topics()
    spark = session(app_name="bench")
    frame = (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", "small")
        .load()
    )
    rates = []
    for _ in range(4):
        started = time.monotonic()
        row = frame.agg(
            sql.count("*").alias("n"), sql.sum(sql.length("value")).alias("bytes")
        ).collect()[0]
        rates.append(row["n"] / (time.monotonic() - started))
    spark.stop()
    return {"spark_cold_records_per_s": rates[0], "spark_records_per_s": sorted(rates[1:])[1]}


GOALS = {
    "up_s": ("three nodes unfenced after `tidelog up` (s)", "<= 1.5"),
    "up_first_s": ("the same, with a new data directory (s)", "<= 1.5"),
    "idle_rss_mb": ("resident memory of an idle node (MB)", "<= 80"),
    "failover_ms": ("leader killed to next ack, default settings, median (ms)", "<= 1500"),
    "failover_worst_ms": ("the same, worst (ms)", "<= 1500"),
    "records_100b_per_s": ("acks=all, RF 3, 100-byte records (records/s)", ">= 150000"),
    "mb_1kib_per_s": ("acks=all, RF 3, 1 KiB records (MB/s)", ">= 50"),
    "spark_cold_records_per_s": ("Spark source, 100-byte values, first run (records/s)", ""),
    "spark_records_per_s": ("Spark source, 100-byte values, warm (records/s)", ">= 500000"),
}


def write_results(directory: Path, figures: dict[str, float]) -> None:
    """One file a campaign, as `docs/results` keeps them: date, commit, machine, figures."""
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    today = date.today().isoformat()
    machine = f"{os.cpu_count()} {platform.machine()} cores, Python {platform.python_version()}"
    rows = [f"| {GOALS[k][0]} | {GOALS[k][1]} | {value:,.1f} |" for k, value in figures.items()]
    lines = [
        f"# {today}: smoke figures",
        "",
        f"Command: `make bench-smoke`. Commit: {commit}. Machine: {machine}, load"
        f" {os.getloadavg()[2]:.1f}. Client and nodes share the cores.",
        "",
        "| what | goal | measured |",
        "| --- | --- | --- |",
        *rows,
    ]
    (directory / f"{today}-smoke-{commit}.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--results", type=Path, help="directory for a dated file of results")
    parser.add_argument("--only", choices=("start", "throughput", "failover", "spark"))
    arguments = parser.parse_args()
    figures: dict[str, float] = {}
    if arguments.only in (None, "start"):
        figures |= measure_start()
    parts: dict[str, Callable[[LocalCluster], dict[str, float]]] = {
        "throughput": measure_throughput,
        "spark": measure_spark,
        "failover": measure_failover,
    }
    with default_cluster() as cluster:
        for name, part in parts.items():
            if arguments.only in (None, name):
                figures |= part(cluster)
    if arguments.results:
        write_results(arguments.results, figures)
    if arguments.output == "json":
        print(json.dumps({name: round(value, 2) for name, value in figures.items()}))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}")
    for name, value in figures.items():
        what, goal = GOALS[name]
        print(f"{what:<62} {value:>12,.1f}   {goal}")


if __name__ == "__main__":
    main()
