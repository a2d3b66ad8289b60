"""Which replicas are in directories of this machine, and what their brokers checkpointed.

A directory is one broker's log directory (it has a `meta.properties`), or a cluster's directory
as `tidelog up` lays it out (`node-1/data`, `node-2/data`, …), or any directory of log directories.

The order of reading matters on a live cluster: all checkpoints are read before any segment is
listed. So the segments must hold what a broker had checkpointed before. Records that it appends
meanwhile are above its checkpointed high watermark and are not judged.
Left out: the metadata log, whose high watermark is in no checkpoint, unless it is asked for by
name; and which replicas are in the ISR, which only the metadata knows.
Source: Kafka's log directory layout and its checkpoint files.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.errors import UsageError
from tidelog.model import METADATA_TOPIC, TopicPartition
from tidelog.pipeline.logs.segments import (
    HIGH_WATERMARK_FILE,
    partition_directories,
    read_offset_checkpoint,
)
from tidelog.pipeline.places import Place, local_path

META_PROPERTIES: Final = "meta.properties"
_CHECKPOINTS: Final = (
    "log-start-offset-checkpoint", HIGH_WATERMARK_FILE, "cleaner-offset-checkpoint"
)  # fmt: skip
"""In the order of the offsets in `Replica`."""
_MAX_DEPTH: Final = 2
TASK_BYTES: Final = 128 << 20
"""The most bytes of files that share a task, because a task should not take minutes."""
_MIN_TASK_BYTES: Final = 8 << 20
"""A Spark task costs some 70 ms by itself, so its work should take longer than that."""
_TASKS_PER_CORE: Final = 4
"""So that no core waits long for the one that has the last task."""


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """One `.log` file, with its broker and partition."""

    broker: int
    topic: str
    partition: int
    path: str
    size_bytes: int
    """When it was listed."""

    @property
    def base_offset(self) -> int:
        """The first offset that may be in it, by its name."""
        return int(Path(self.path).stem)

    def __str__(self) -> str:
        return f"`{self.path}` (broker {self.broker}, `{self.topic}-{self.partition}`)"


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a partition, as its broker's files describe it."""

    broker: int
    topic: str
    partition: int
    log_start: int
    """The checkpointed log start offset; 0 when it never moved."""
    high_watermark: int
    """The checkpointed high watermark, exclusive; 0 when there is none yet."""
    cleaned_to: int
    """Below this offset the log was compacted, so that offsets may be missing."""
    segments: tuple[SegmentPlace, ...]
    """Ascending."""


def find_replicas(
    directories: Sequence[Place], topics: Collection[str] | None = None
) -> list[Replica]:
    """All replicas in the directories, or those of `topics`, by topic, partition and broker. Raises
    `UsageError` for a directory that holds no log directory, for one broker found twice, for a
    topic that is nowhere, and for what cannot be read."""
    try:
        return _find_replicas([local_path(one) for one in directories], topics)
    except OSError as error:
        raise UsageError(
            f"`{error.filename}` cannot be read: {error.strerror}",
            "run this as a user with permission to read the brokers' files",
        ) from error


def _find_replicas(directories: Sequence[Path], topics: Collection[str] | None) -> list[Replica]:
    brokers: dict[int, Path] = {}
    for directory in directories:
        for log_dir in _log_dirs(directory):
            broker = _node_id(log_dir)
            if broker in brokers:
                raise UsageError(
                    f"broker {broker} is found in `{brokers[broker]}` and in `{log_dir}`",
                    "give each broker's log directory once, all of one cluster",
                )
            brokers[broker] = log_dir
    checkpoints = {
        broker: [read_offset_checkpoint(log_dir / name) for name in _CHECKPOINTS]
        for broker, log_dir in brokers.items()
    }
    replicas = [
        replica
        for broker, log_dir in brokers.items()
        for replica in _replicas(broker, log_dir, checkpoints[broker], topics)
    ]
    missing = sorted(set(topics or ()) - {replica.topic for replica in replicas})
    if missing:
        raise UsageError(
            f"no broker's directory has a partition of `{missing[0]}`",
            "check the topic's name; the directories are those with a `meta.properties`",
        )
    return sorted(replicas, key=lambda one: (one.topic, one.partition, one.broker))


def _log_dirs(directory: Path) -> list[Path]:
    """The log directories at or below `directory`."""
    found = list(_search(directory, _MAX_DEPTH)) if directory.is_dir() else []
    if not found:
        raise UsageError(
            f"`{directory}` holds no log directory",
            "give the `--data-dir` of `tidelog up`, or brokers' `log.dirs`",
        )
    return found


def _search(directory: Path, depth: int) -> Iterator[Path]:
    if (directory / META_PROPERTIES).is_file():
        yield directory
    elif depth:
        for child in sorted(directory.iterdir()):
            if child.is_dir():
                yield from _search(child, depth - 1)


def _node_id(log_dir: Path) -> int:
    path = log_dir / META_PROPERTIES
    for line in path.read_text().splitlines():
        name, _, value = line.partition("=")
        if name.strip() in ("node.id", "broker.id") and value.strip().isdecimal():
            return int(value)
    raise UsageError(f"`{path}` names no `node.id`", "give a formatted log directory")


def _replicas(
    broker: int,
    log_dir: Path,
    checkpoints: Sequence[Mapping[TopicPartition, int]],
    topics: Collection[str] | None,
) -> Iterator[Replica]:
    for tp, directory in partition_directories(log_dir).items():
        if tp.topic not in topics if topics is not None else tp.topic == METADATA_TOPIC:
            continue
        start, mark, cleaned = (checkpoint.get(tp, 0) for checkpoint in checkpoints)
        segments = tuple(_segments(broker, tp, directory))
        yield Replica(broker, *tp, start, mark, cleaned, segments)


def _segments(broker: int, tp: TopicPartition, directory: Path) -> Iterator[SegmentPlace]:
    for path in sorted(directory.glob("*.log")):
        if not path.stem.isdecimal():
            continue
        try:
            size_bytes = path.stat().st_size
        except FileNotFoundError:
            continue  # Deleted by retention since it was listed.
        yield SegmentPlace(broker, *tp, str(path), size_bytes)


def tasks_for_cores(
    replicas: Sequence[Replica],
    cores: int,
    *,
    per_core: int = _TASKS_PER_CORE,
    most_bytes: int = TASK_BYTES,
) -> list[tuple[SegmentPlace, ...]]:
    """As `plan_tasks`, with a few tasks for each core if there are enough bytes."""
    total_bytes = sum(place.size_bytes for one in replicas for place in one.segments)
    share = total_bytes // (per_core * max(cores, 1))
    return plan_tasks(replicas, min(max(share, _MIN_TASK_BYTES), most_bytes))


def plan_tasks(
    replicas: Sequence[Replica], target_bytes: int = TASK_BYTES
) -> list[tuple[SegmentPlace, ...]]:
    """Whole segments, put together to tasks of about `target_bytes`, larger ones alone."""
    tasks: list[tuple[SegmentPlace, ...]] = []
    gathered: list[SegmentPlace] = []
    size_bytes = 0
    for place in (place for replica in replicas for place in replica.segments):
        if gathered and size_bytes + place.size_bytes > target_bytes:
            tasks.append(tuple(gathered))
            gathered, size_bytes = [], 0
        gathered.append(place)
        size_bytes += place.size_bytes
    return [*tasks, tuple(gathered)] if gathered else tasks
