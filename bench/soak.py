"""One hour under a steady load: whether a node's memory, descriptors and latency stay as they are.

    make bench-soak

Three nodes with Kafka's default timers, but a check of retention each 30 s, replicate one topic of
six partitions. A producer writes records of 1 KiB at a fixed rate, and the topic keeps a fixed
size, so after the first minutes each new segment costs an old one. A second client writes small
records one after the other to a topic of its own with acks=all: its latency is what other clients
notice.

Left out: reading consumers, and damage. `tests.chaos` has both.
"""

import argparse
import json
import os
import platform
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.log_nodes import watched
from bench.smoke import resident_mb
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.testing import LocalCluster

RECORD_BYTES: Final = 1024
PARTITIONS: Final = 6
TURN_S: Final = 0.05
# Kafka's default is five minutes, in which 6 GB come.
SETTINGS: Final = {"log.retention.check.interval.ms": "30000"}
FIGURES: Final = {
    "memory_mb": "memory of the largest node (MB)",
    "descriptors": "open descriptors of that which has most",
    "log_mb": "log of one node (MB)",
    "p50_ms": "median acknowledgement of a small record (ms)",
    "p99_ms": "99th percentile (ms)",
    "written_mb_s": "written (MB/s)",
}
WIDTH: Final = 360
HEIGHT: Final = 130
MARGIN: Final = 34


class Load:
    """A producer in a thread that keeps a rate, in bytes a second."""

    def __init__(self, bootstrap: str, rate: float) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0}
        self._producer = Producer({**settings, "batch.size": 131072})
        self._rate = rate
        self.acknowledged = 0
        self.failed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        value, begun, sent = os.urandom(RECORD_BYTES), time.monotonic(), 0
        while not self._stop.is_set():
            due = int((time.monotonic() - begun) * self._rate / RECORD_BYTES)
            for _ in range(due - sent):
                while True:
                    try:
                        self._producer.produce("load", value, on_delivery=self._on_delivery)
                        break
                    except BufferError:
                        self._producer.poll(TURN_S)
            sent = max(sent, due)
            self._producer.poll(TURN_S)
        self._producer.flush()

    def _on_delivery(self, error: object, _: object) -> None:
        self.acknowledged += error is None
        self.failed += error is not None

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def descriptors(pid: int) -> int:
    """How many the process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def log_mb(directory: Path) -> float:
    """What lies in the segments of the load, those whose deletion is under way included."""
    found = 0
    for path in directory.glob("load-*/*.log*"):
        try:
            found += path.stat().st_size
        except FileNotFoundError:
            continue
    return found / 1e6


def measure(minutes: float, rate: float, retention: int, sample_s: float) -> dict[str, Any]:
    """All samples, and how many records of the load failed."""
    samples: list[dict[str, float]] = []
    with (
        LocalCluster(brokers=3, profile="default", config=SETTINGS) as cluster,
        watched(cluster.bootstrap_servers) as (acks, admin),
    ):
        create(admin, retention)
        load, begun = Load(cluster.bootstrap_servers, rate), time.monotonic()
        for number in range(1, int(minutes * 60 / sample_s) + 1):
            before = load.acknowledged
            time.sleep(max(0, begun + number * sample_s - time.monotonic()))
            pids = [node.process.pid for node in cluster.nodes if node.process is not None]
            p50_ms, p99_ms = acks.take_quantiles(50, 99)
            sample = {
                "minute": round((time.monotonic() - begun) / 60, 2),
                "memory_mb": round(max(resident_mb(pid) for pid in pids)),
                "descriptors": max(descriptors(pid) for pid in pids),
                "log_mb": round(log_mb(cluster.nodes[0].data_dir)),
                "p50_ms": p50_ms,
                "p99_ms": p99_ms,
                "written_mb_s": round(
                    (load.acknowledged - before) * RECORD_BYTES / 1e6 / sample_s, 1
                ),
                "load": round(os.getloadavg()[0], 1),
            }
            samples.append(sample)
            print("  ".join(f"{name} {value:,}" for name, value in sample.items()), flush=True)
        load.close()
        return {
            "samples": samples,
            "acknowledged": load.acknowledged,
            "failed": load.failed,
            "partitions": PARTITIONS,
        }


def create(admin: AdminClient, retention: int) -> None:
    """The topic of the load: each partition keeps its share, in eight segments or so."""
    share = retention // PARTITIONS
    config = {"retention.bytes": str(share), "segment.bytes": str(share // 8)}
    admin.create_topics([NewTopic("load", PARTITIONS, 3, config=config)])["load"].result()


def picture(samples: Sequence[dict[str, float]]) -> str:
    """A panel for each figure, from zero, minutes to the right, as SVG."""
    rows = (len(FIGURES) + 1) // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11"'
        f' viewBox="0 0 {2 * WIDTH} {rows * HEIGHT}">',
        f'<rect width="{2 * WIDTH}" height="{rows * HEIGHT}" fill="white"/>',
    ]
    last, at_left = samples[-1]["minute"], 'text-anchor="end" fill="#555"'
    for number, (name, title) in enumerate(FIGURES.items()):
        most = max(sample[name] for sample in samples) or 1
        place = f"translate({number % 2 * WIDTH} {number // 2 * HEIGHT})"
        across, up = WIDTH - MARGIN - 16, HEIGHT - 2 * MARGIN
        points = " ".join(
            f"{MARGIN + across * sample['minute'] / last:.1f}"
            f",{HEIGHT - MARGIN - up * sample[name] / most:.1f}"
            for sample in samples
        )
        floor = f'x1="{MARGIN}" x2="{WIDTH - 16}" y1="{HEIGHT - MARGIN}" y2="{HEIGHT - MARGIN}"'
        parts += [
            f'<g transform="{place}">',
            f'<text x="{MARGIN}" y="16" font-weight="bold">{title}</text>',
            f'<line {floor} stroke="#999"/>',
            f'<text x="{MARGIN - 4}" y="{MARGIN + 4}" {at_left}>{most:g}</text>',
            f'<text x="{MARGIN - 4}" y="{HEIGHT - MARGIN}" {at_left}>0</text>',
            f'<text x="{WIDTH - 16}" y="{HEIGHT - MARGIN + 14}" text-anchor="end" fill="#555">'
            f"{last:g} min</text>",
            f'<polyline points="{points}" fill="none" stroke="#0b6e99" stroke-width="2"/>',
            "</g>",
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=20e6, help="bytes a second")
    parser.add_argument("--retention", type=int, default=10**9, help="bytes of the topic")
    parser.add_argument("--sample", type=float, default=60.0, help="seconds")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--svg", type=Path, help="a file for the plot")
    options = parser.parse_args()
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    found = measure(options.minutes, options.rate, options.retention, options.sample)
    found |= {"commit": commit, "machine": f"{os.cpu_count()} cores, {platform.machine()}"}
    if options.json:
        options.json.write_text(json.dumps(found))
    if options.svg:
        options.svg.write_text(picture(found["samples"]))
    print(f"{found['acknowledged']:,} records acknowledged, {found['failed']:,} failed")


if __name__ == "__main__":
    main()
