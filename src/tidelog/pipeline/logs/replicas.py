"""Are the replicas of a topic the same, batch by batch? A proof from the brokers' own files.

Below the high watermark all in-sync replicas must hold the same batches: same offsets, leader
epochs, sizes and bytes (followers append verbatim), each with a body that matches its CRC. Each
broker rolls its segments by itself, so batches are compared, never files. The CRC is recomputed: a
byte flipped on one disk leaves the stored CRC equal on all replicas. Where all headers agree the
bytes are compared as well, which covers what the CRC does not (base offset, epoch).

What the verdict covers: the partitions found, from the highest log start of the replicas up to the
high watermark given or, without one, the lowest that the replicas checkpointed. Compacted topics
are not covered: each replica cleans in its own time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

import numpy as np

from tidelog.model import TopicPartition
from tidelog.pipeline.logs import segments
from tidelog.pipeline.logs.segments import ReplicaBatches

_CHUNK_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the replicas of a partition first differ."""

    partition: TopicPartition
    offset: int
    """Base offset of the batch, or the first offset that a replica lacks."""
    what: str

    def __str__(self) -> str:
        return f"`{self.partition}` at offset {self.offset}: {self.what}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict over some partitions."""

    partitions: int
    batches: int
    """Compared per replica."""
    size_bytes: int
    """Compared per replica."""
    differences: tuple[Difference, ...]

    @property
    def is_identical(self) -> bool:
        """No difference anywhere, and something was compared."""
        return not self.differences and self.partitions > 0


def compare_topic(
    log_dirs: Mapping[int, Path],
    topic: str,
    *,
    high_watermarks: Mapping[TopicPartition, int] | None = None,
    assignment: Mapping[TopicPartition, Iterable[int]] | None = None,
) -> Comparison:
    """Compares every partition of `topic` over the log directories by node id. Without
    `high_watermarks` each partition is judged up to the lowest checkpointed one; without
    `assignment` its replicas are the nodes that have a directory for it. Raises `UsageError` for a
    directory that is not a log directory."""
    found = {
        node_id: {
            tp: path
            for tp, path in segments.partition_directories(log_dir).items()
            if tp.topic == topic
        }
        for node_id, log_dir in log_dirs.items()
    }
    marks = dict(high_watermarks) if high_watermarks is not None else _lowest_marks(log_dirs)
    partitions = sorted({tp for directories in found.values() for tp in directories})
    batches = size_bytes = 0
    differences = []
    for tp in partitions:
        holders = sorted(node_id for node_id in found if tp in found[node_id])
        absent = sorted(set(assignment[tp] if assignment is not None else ()) - set(holders))
        if absent:
            differences.append(Difference(tp, 0, f"node {absent[0]} has no directory for it"))
            continue
        replicas = {node_id: segments.read_replica(found[node_id][tp]) for node_id in holders}
        compared, difference = compare_replicas(tp, replicas, marks.get(tp, 0))
        batches += len(compared)
        size_bytes += int(compared.columns[segments.SIZE].sum())
        if difference is not None:
            differences.append(difference)
    return Comparison(len(partitions), batches, size_bytes, tuple(differences))


def _lowest_marks(log_dirs: Mapping[int, Path]) -> dict[TopicPartition, int]:
    lowest: dict[TopicPartition, int] = {}
    for log_dir in log_dirs.values():
        marks = segments.read_offset_checkpoint(log_dir / segments.HIGH_WATERMARK_FILE)
        for tp, mark in marks.items():
            lowest[tp] = min(mark, lowest.get(tp, mark))
    return lowest


def compare_replicas(
    tp: TopicPartition, replicas: Mapping[int, ReplicaBatches], high_watermark: int
) -> tuple[ReplicaBatches, Difference | None]:
    """What was compared, as the first replica has it, and the first difference. `replicas` are by
    node id and at least one."""
    for node_id, replica in replicas.items():
        if replica.end_offset < high_watermark:
            what = f"node {node_id} ends there, below the high watermark {high_watermark}"
            return replica.rows(0, 0), Difference(tp, replica.end_offset, what)
    bases = [replica.columns[segments.BASE_OFFSET] for replica in replicas.values()]
    log_start = max((int(column[0]) for column in bases if len(column)), default=0)
    bounded = {
        node_id: _between(replica, log_start, high_watermark)
        for node_id, replica in replicas.items()
    }
    (first_id, first), *others = bounded.items()
    candidates = [_bad_checksum(tp, node_id, replica) for node_id, replica in bounded.items()]
    candidates += [_first_difference(tp, first_id, first, *other) for other in others]
    differences = [difference for difference in candidates if difference is not None]
    return first, min(differences, key=lambda difference: difference.offset, default=None)


def _between(replica: ReplicaBatches, log_start: int, high_watermark: int) -> ReplicaBatches:
    """The batches that end at or above the log start and below the high watermark."""
    edges = np.searchsorted(replica.columns[segments.LAST_OFFSET], [log_start, high_watermark])
    return replica.rows(int(edges[0]), int(edges.max()))


def _bad_checksum(tp: TopicPartition, node_id: int, replica: ReplicaBatches) -> Difference | None:
    stored = replica.columns[segments.STORED_CRC]
    computed = replica.columns[segments.COMPUTED_CRC]
    wrong = np.flatnonzero(stored != computed)
    if not wrong.size:
        return None
    row = int(wrong[0])
    what = f"node {node_id} stores CRC {stored[row]:08x} but its bytes have {computed[row]:08x}"
    return Difference(tp, int(replica.columns[segments.BASE_OFFSET][row]), what)


def _first_difference(
    tp: TopicPartition, one_id: int, one: ReplicaBatches, other_id: int, other: ReplicaBatches
) -> Difference | None:
    """The first batch in which two replicas differ, headers first and then bytes."""
    common = min(len(one), len(other))
    found: list[tuple[int, str]] = []
    for label in one.columns:
        mine, yours = one.columns[label][:common], other.columns[label][:common]
        rows = np.flatnonzero(mine != yours)
        if rows.size:
            row = int(rows[0])
            what = f"{label} is {mine[row]} on node {one_id} and {yours[row]} on node {other_id}"
            found.append((row, what))
    if not found and len(one) != len(other):
        longer, shorter = (one_id, other_id) if len(one) > len(other) else (other_id, one_id)
        found.append((common, f"node {longer} has a batch there and node {shorter} has none"))
    if not found:
        row_of_byte = _first_byte_difference(one, other)
        if row_of_byte is not None:
            found.append((row_of_byte, f"bytes differ between nodes {one_id} and {other_id}"))
    if not found:
        return None
    row, what = min(found, key=lambda each: each[0])
    longest = one if len(one) >= len(other) else other
    return Difference(tp, int(longest.columns[segments.BASE_OFFSET][row]), what)


def _first_byte_difference(one: ReplicaBatches, other: ReplicaBatches) -> int | None:
    """The row of the first batch whose bytes differ; all sizes are equal."""
    position = 0
    both = (segments.read_bytes(each.spans, _CHUNK_BYTES) for each in (one, other))
    for mine, yours in zip_longest(*both, fillvalue=b""):
        if mine != yours:
            common = min(len(mine), len(yours))
            pair = [np.frombuffer(side[:common], dtype=np.uint8) for side in (mine, yours)]
            unequal = np.flatnonzero(pair[0] != pair[1])
            position += int(unequal[0]) if unequal.size else common
            ends = np.cumsum(one.columns[segments.SIZE])
            return int(np.searchsorted(ends, position, side="right"))
        position += len(mine)
    return None
