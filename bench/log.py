"""What a long-running log costs: compaction, retention, moves between disks, size, start, memory.

    make bench-log                                       # some minutes, 20 GB of temporary files
    make bench-log BENCH_ARGS="--parts compaction retention --scale 0.1"
    python -m bench.log --parts replicas --kafka         # three nodes, and Apache Kafka's beside

The parts run production code on the real disk in this process, one step after the other as the
driver would, except for `cleaning` and `replicas`, which start nodes (`bench/log_nodes.py`). On a
machine with other work CPU time means more than time on the clock, so both are noted:
- compaction: input of both passes (the dirty part) by CPU of the steps, and the longest step.
- retention: from the new bound until the files are gone, and the longest turn; of that the deletion
  of files, and one log file of 1 GB.
- move: a replica from one disk to another, by what the turns took, and by turns and flushes.
- sizes, segments, partitions: CPU of an append of 16 KB and of a read of the same at the end of
  the log, in µs, the least and the median of several hundreds each; beside those of the smallest
  they are to be within 1.2.
- start: after a clean stop, of the log and the partitions that the parts before have left.
- memory: of a closed segment and of a partition with one record, in bytes.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.log_nodes import measure_cleaning, measure_replicas
from bench.smoke import resident_mb
from tests.unit.log.harness import LogBench
from tests.unit.replication.move_bench import MoveBench

from tidelog.config import LogConfig
from tidelog.env.effects import Flush
from tidelog.env.instant import Instant
from tidelog.limits import CLEANING_WORK_PER_TURN
from tidelog.log.cleaning.choosing import cleanable_part
from tidelog.log.cleaning.offset_map import OffsetMap
from tidelog.log.cleaning.round import CleaningRound
from tidelog.log.cleaning.swap import CleanedFlush
from tidelog.log.log import Log
from tidelog.log.rolling import roll
from tidelog.model import TopicId, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.messages import LogStartsSaved
from tidelog.replication.retention import Retention
from tidelog.runtime.os_disk import OsDisk

Figures = dict[str, Any]
MB = 10**6
KINDS = (
    # Bytes of a record, keys per 1,000 records, whether all have one size.
    ("100 bytes, few keys", 100, 20, True),
    ("100 bytes, a tenth are the last of their key", 100, 100, True),
    ("100 bytes of several sizes, few keys", 100, 20, False),
    ("1,000 bytes, few keys", 1000, 50, True),
    ("1,000 bytes, half are the last of their key", 1000, 600, True),
)
DEDUPE_BYTES = 128 << 20
ROUNDS = 400


def now_ms() -> int:
    """The time of records: retention may look at it."""
    return int(time.time() * 1000)


@contextmanager
def place() -> Iterator[Path]:
    """A directory for one part."""
    path = Path(tempfile.mkdtemp(prefix="bench-log-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def batch_of(size_bytes: int) -> bytes:
    """One record that fills a batch of about this size."""
    return build_batch([Record(now_ms(), b"k", os.urandom(size_bytes))])


class Stopwatch:
    """Time on the clock and of this thread's CPU, and the longest piece of it in ms."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = self.longest_ms = self.longest_cpu_ms = 0.0
        self.pieces = 0

    @contextmanager
    def piece(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        self.wall_s, self.cpu_s, self.pieces = self.wall_s + wall, self.cpu_s + cpu, self.pieces + 1
        self.longest_ms = max(self.longest_ms, wall * 1000)
        self.longest_cpu_ms = max(self.longest_cpu_ms, cpu * 1000)


# Compaction ----------------------------------------------------------------------------------


def measure_compaction(scale: float) -> Figures:
    """100 MB of each kind of records, in batches of 16 KB."""
    found: Figures = {}
    for name, record_bytes, per_mille, is_alike in KINDS:
        with place() as path:
            config = LogConfig(segment_bytes=32 << 20, cleanup_policy="compact")
            bench = LogBench(replace(config, min_cleanable_dirty_ratio=0.0), OsDisk(str(path)))
            bench.log.reconfigure(bench.config)
            fill_with_keys(bench, int(100 * MB * scale), record_bytes, per_mille, is_alike)
            found[f"compaction, {name}"] = clean(bench)
    return found


def fill_with_keys(
    bench: LogBench, size_bytes: int, record_bytes: int, per_mille: int, is_alike: bool
) -> None:
    """Records with keys at random, all durable and sealed."""
    prng, wall_ms, log = random.Random(1), now_ms(), bench.log
    keys = size_bytes // record_bytes * per_mille // 1000
    value = os.urandom(record_bytes - 20)
    while log.segments.size_bytes < size_bytes:
        records = [
            Record(
                wall_ms + number // 10,
                b"%010d" % prng.randrange(keys),
                value if is_alike else value[prng.randrange(8) :],
            )
            for number in range(16_000 // record_bytes)
        ]
        log.append_as_leader(build_batch(records), 0, wall_ms)
    bench.roll()
    log.update_high_watermark(log.log_end_offset)
    log.request_flush()
    bench.settle()


def clean(bench: LogBench) -> Figures:
    """One round, a slice after the other."""
    part, watch = cleanable_part(bench.log, now_ms()), Stopwatch()
    assert part is not None, "there is nothing to clean"
    newest = OffsetMap(DEDUPE_BYTES, 0.9)
    cleaning = CleaningRound(
        bench.log,
        part,
        newest,
        number=1,
        wall_ms=now_ms(),
        buffer_bytes=512 << 10,
        put_aside=lambda _: None,
    )
    while not cleaning.is_over:
        with watch.piece():
            cleaning.step(CLEANING_WORK_PER_TURN)
        for effect in bench.effects.take():
            if isinstance(effect, Flush):
                bench.disk.sync(effect.file)
                if isinstance(effect.subject, CleanedFlush):
                    cleaning.on_flushed(effect.subject)
    return {
        "MB/s of a core": round(part.dirty_bytes / MB / watch.cpu_s),
        "longest slice, CPU ms": round(watch.longest_cpu_ms, 1),
        "left MB": round(bench.log.segments.size_bytes / MB),
    }


# Retention, and moves ------------------------------------------------------------------------


class TimedMoves(MoveBench):
    """A node with three log directories on the real disk."""

    def __init__(self, path: Path, config: LogConfig) -> None:
        super().__init__(config, [OsDisk(str(path / f"disk{number}")) for number in range(3)])
        self.turn_times, self.flush_times = Stopwatch(), Stopwatch()

    def tick(self) -> None:
        with self.turn_times.piece():
            super().tick()

    def carry_out(self) -> None:
        with self.flush_times.piece():
            super().carry_out()


def measure_retention(scale: float) -> Figures:
    """1,000 segments of which all but the last are too much, and one of 1 GB."""
    count, large = int(1000 * scale), int(1000 * MB * scale)
    found: Figures = {}
    for name, segments, size_bytes in (("", count, 500), (" of 1 GB", 1, large)):
        with place() as path:
            bench = TimedMoves(path, LogConfig())
            for _ in range(segments):
                fill(bench.log, size_bytes)
                begin_segment(bench.log)
            fill(bench.log, 500)
            bench.log.update_high_watermark(bench.log.log_end_offset)
            bench.carry_out()
            bench.configure(retention_bytes=1)
            found[f"retention, {segments:,} segments{name}"] = retain(bench)
    return found


def retain(bench: TimedMoves) -> Figures:
    """As a node's turns do it."""
    retention, watch, directories = Retention(bench.env), Stopwatch(), bench.env.directories
    bench.env.changed.reconfigured[bench.partition] = None
    begun, now = time.perf_counter(), bench.now
    while len(bench.log.segments) > 1 or directories.deleted_files_at is not None:
        now = Instant(now + 1)
        with watch.piece():
            has_risen = retention.work(now, now_ms())
        if has_risen:
            starts = retention.log_starts_to_save([bench.partition])
            saved = LogStartsSaved(directories.online[1].directory_id, tuple(starts))
            directories.online[1].checkpoint_log_start_offsets(saved)
            bench.carry_out()
            retention.on_log_starts_saved(saved, now)
        if len(bench.log.segments) == 1 and directories.deleted_files_at is not None:
            now = max(now, directories.deleted_files_at)
    return {
        "s": round(time.perf_counter() - begun, 2),
        "CPU s": round(watch.cpu_s, 2),
        "longest turn ms": round(watch.longest_ms, 1),
        "of that CPU ms": round(watch.longest_cpu_ms, 1),
    }


def measure_move(scale: float) -> Figures:
    """1 GB in batches of 16 KB."""
    with place() as path:
        bench = TimedMoves(path, LogConfig(segment_bytes=64 << 20))
        fill(bench.log, int(1000 * MB * scale))
        bench.log.update_high_watermark(bench.log.log_end_offset)
        bench.carry_out()
        size = bench.log.segments.size_bytes / MB
        bench.turn_times, bench.flush_times = Stopwatch(), Stopwatch()
        assert bench.request(2) == 0
        while bench.place != 2:
            bench.turn()
        turns, flushes = bench.turn_times, bench.flush_times
    return {
        "move": {
            "MB": round(size),
            "MB/s of a core": round(size / turns.cpu_s),
            "MB/s by turns": round(size / turns.wall_s),
            "MB/s by turns and flushes": round(size / (turns.wall_s + flushes.wall_s)),
            "longest turn ms": round(turns.longest_ms, 1),
            "of that CPU ms": round(turns.longest_cpu_ms, 1),
        }
    }


# What grows ----------------------------------------------------------------------------------


def fill(log: Log, size_bytes: int) -> None:
    """Appends so much, in batches of 16 KB or of that size."""
    data = batch_of(min(size_bytes, 16_000))
    for _ in range(max(1, size_bytes // len(data))):
        log.append_as_leader(data, 0, now_ms())


def begin_segment(log: Log) -> None:
    """Seals the active segment, as a full one is sealed."""
    roll(log, log.log_end_offset)
    log.append_as_leader(batch_of(100), 0, now_ms())


def cost(logs: list[Log]) -> Figures:
    """The least CPU time of an append and of a read at the end, in µs."""
    data, appends, reads = batch_of(16_000), [], []
    for number in range(ROUNDS):
        log = logs[number % len(logs)]
        begun = time.thread_time_ns()
        log.append_as_leader(data, 0, now_ms())
        appends.append(time.thread_time_ns() - begun)
        end = log.log_end_offset
        begun = time.thread_time_ns()
        log.read(end - 1, 16_000, end, at_least_one=True)
        reads.append(time.thread_time_ns() - begun)
    middle = ROUNDS // 2
    return {
        "append µs": round(min(appends) / 1000, 1),
        "append median µs": round(sorted(appends)[middle] / 1000, 1),
        "read µs": round(min(reads) / 1000, 1),
        "read median µs": round(sorted(reads)[middle] / 1000, 1),
    }


def restart(bench: LogBench) -> Figures:
    """From the files of a clean stop to logs in service."""
    bench.stop()
    watch = Stopwatch()
    with watch.piece():
        bench.reopen()
    return {"s": round(watch.wall_s, 2), "CPU s": round(watch.cpu_s, 2)}


def forget_pages(path: Path) -> None:
    """The kernel holds nothing of the logs in memory any more."""
    for file in path.rglob("*.log"):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_sizes(scale: float) -> Figures:
    """One log of 1 MB, 1 GB and 20 GB; and whether what is left to explain is the log's size or
    that the memory is full of it: another log beside it, and the same log out of memory."""
    found: Figures = {}
    with place() as path:
        bench = LogBench(LogConfig(segment_bytes=256 << 20), OsDisk(str(path)))
        for size_mb in (1, 1000 * scale, 20_000 * scale):
            fill(bench.log, max(100, int(size_mb * MB) - bench.log.segments.size_bytes))
            bench.settle()
            # While the kernel has gigabytes to write, every write waits for it.
            os.sync()
            found[f"size {size_mb:,.0f} MB"] = cost([bench.log])
        beside = bench.directory.create(
            TopicPartition("beside", 0), TopicId(bytes(16)), bench.config
        )
        fill(beside, MB)
        found["size 1 MB beside it"] = cost([beside])
        forget_pages(path)
        found[f"size {size_mb:,.0f} MB, none in memory"] = cost([bench.log])
        found[f"start, {size_mb:,.0f} MB in one log"] = restart(bench)
    return found


def measure_segments(scale: float) -> Figures:
    """One log of 1 to 10,000 segments, and what each keeps in memory."""
    found: Figures = {}
    with place() as path:
        bench = LogBench(LogConfig(), OsDisk(str(path)))
        found["segments 1"] = cost([bench.log])
        # After that the tail cache is full.
        before = resident_mb(os.getpid())
        for count in (int(1000 * scale), int(10_000 * scale)):
            while len(bench.log.segments) < count:
                begin_segment(bench.log)
                if len(bench.log.segments) % 100 == 0:
                    bench.settle()
            bench.settle()
            found[f"segments {count:,}"] = cost([bench.log])
        per_segment = (resident_mb(os.getpid()) - before) * 2**20 / len(bench.log.segments)
        found["memory of a closed segment"] = {"bytes": round(per_segment)}
        found[f"start, {len(bench.log.segments):,} segments"] = restart(bench)
    return found


def measure_partitions(scale: float) -> Figures:
    """10 to 4,000 logs, written in turn."""
    found: Figures = {}
    with place() as path:
        bench, topic_id = LogBench(LogConfig(), OsDisk(str(path))), TopicId(bytes(16))
        logs: list[Log] = []
        before = resident_mb(os.getpid())
        for count in (10, int(1000 * scale), int(4000 * scale)):
            while len(logs) < count:
                key = TopicPartition("many", len(logs))
                logs.append(bench.directory.create(key, topic_id, bench.config))
                fill(logs[-1], 500)
            bench.effects.take()
            found[f"partitions {count:,}"] = cost(logs)
        each = (resident_mb(os.getpid()) - before) * 2**20 / len(logs)
        found["memory of a partition with a record"] = {"bytes": round(each)}
        found[f"start, {len(logs):,} partitions"] = restart(bench)
    return found


PARTS: dict[str, Callable[[float], Figures]] = {
    "compaction": measure_compaction,
    "retention": measure_retention,
    "move": measure_move,
    "sizes": measure_sizes,
    "segments": measure_segments,
    "partitions": measure_partitions,
    "cleaning": measure_cleaning,
    "replicas": measure_replicas,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.log", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--parts", nargs="*", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--kafka", action="store_true", help="replicas of Apache Kafka as well")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    found: Figures = {}
    parts = [PARTS[name] for name in options.parts]
    if options.kafka and "replicas" in options.parts:
        parts.append(partial(measure_replicas, kafka=True))
    # Each in a process of its own: memory that another has used and given back counts for nothing.
    workers = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    for part in parts:
        figures = workers.submit(part, options.scale).result()
        found |= figures
        for name, row in figures.items():
            shown = "  ".join(f"{what} {value:,}" for what, value in row.items())
            print(f"{name:<56}{shown}", flush=True)
    if options.json:
        git = ["git", "describe", "--always", "--dirty"]
        data = {
            "figures": found,
            "scale": options.scale,
            "commit": subprocess.run(git, capture_output=True, text=True).stdout.strip(),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "load": round(os.getloadavg()[0]),
        }
        options.json.write_text(json.dumps(data))


if __name__ == "__main__":
    main()
