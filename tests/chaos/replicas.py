"""Comparing the replicas' segments when all nodes have stopped.

Below the high watermark the logs of a partition's replicas are equal, byte for byte: a follower
writes what it fetched as it came. At the end of a round every replica is in sync and no client
writes, so the high watermark is the log's end, and the logs are compared as a whole. On the way
each batch is read as its reader would: checksum right, offsets without holes, and the sequences of
an idempotent producer's epoch one after the other, which is all that a broker promises it.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.records.batch import iter_headers, verify_crc

DISK: Final = "disk-"
"""Of a node with several log directories: how their names begin."""


class ReplicaLog(NamedTuple):
    """One replica's segments."""

    digest: str
    end: int
    """The next offset."""
    size_bytes: int
    flaws: tuple[str, ...]
    producers: tuple[tuple[int, int, int], ...]
    """The producer id and epoch from an offset on: (offset, id, epoch)."""

    def producer_at(self, offset: int) -> tuple[int, int]:
        """The id and epoch under which the record at this offset was appended."""
        _, producer_id, epoch = self.producers[bisect_right(self.producers, (offset, 1 << 62)) - 1]
        return producer_id, epoch


def directories_of(data_dir: Path, name: str) -> list[Path]:
    """Those of a partition on all disks of a node; a node that has one disk has no more."""
    return [path for path in (data_dir / name, *data_dir.glob(f"{DISK}*/{name}")) if path.is_dir()]


def segments(directory: Path) -> list[Path]:
    """The files of records of a partition, in the order of their offsets. If a stop came between
    two steps of a cleaning, the next start lets a `.swap` file take the place of those that it
    replaces: so here."""
    files = {int(path.stem): path for path in directory.glob("*.log")}
    for path in directory.glob("*.log.swap"):
        base = int(path.name.partition(".")[0])
        last = max((each.last_offset for _, each in iter_headers(path.read_bytes())), default=base)
        files = {at: file for at, file in files.items() if not base <= at <= last}
        files[base] = path
    return [files[base] for base in sorted(files)]


def read_replica(directory: Path, *others: Path) -> ReplicaLog:
    """All segments of a partition's directory; there must be no others."""
    digest, size, expected = hashlib.sha256(), 0, None
    flaws = [f"it lies in {directory} and in {other}" for other in others]
    producers: list[tuple[int, int, int]] = []
    next_sequences: dict[tuple[int, int], int] = {}
    for path in segments(directory):
        data = path.read_bytes()
        digest.update(data)
        size += len(data)
        try:
            for position, header in iter_headers(data):
                if expected is not None and header.base_offset != expected:
                    flaws.append(f"{path.name}: {header.base_offset} follows {expected - 1}")
                if not verify_crc(data, position):
                    flaws.append(f"{path.name}: bad checksum at offset {header.base_offset}")
                expected = header.last_offset + 1
                producer = (header.producer_id, header.producer_epoch)
                if not producers or producers[-1][1:] != producer:
                    producers.append((header.base_offset, *producer))
                if header.producer_id >= 0 and not header.is_control:
                    sequence = next_sequences.get(producer, header.base_sequence)
                    if header.base_sequence != sequence:
                        flaws.append(
                            f"{path.name}: offset {header.base_offset} has sequence "
                            f"{header.base_sequence} of producer {producer}, not {sequence}"
                        )
                    next_sequences[producer] = header.last_sequence + 1
        except CorruptBatch as error:
            flaws.append(f"{path.name}: {error}")
    return ReplicaLog(digest.hexdigest(), expected or 0, size, tuple(flaws), tuple(producers))


Replicas = Mapping[tuple[str, int], Mapping[int, ReplicaLog]]
"""The log of each replica, by topic and partition, then by node."""


def read_replicas(
    data_dirs: Mapping[int, Path], partitions: Mapping[tuple[str, int], Sequence[int]]
) -> Replicas:
    """The logs of these partitions, given the nodes that have them."""
    return {
        (topic, number): {
            node: read_replica(*directories_of(data_dirs[node], f"{topic}-{number}"))
            for node in nodes
        }
        for (topic, number), nodes in partitions.items()
    }


def compare_replicas(replicas: Replicas) -> list[str]:
    """What is wrong with these logs."""
    wrong = []
    for (topic, number), logs in replicas.items():
        for node, log in logs.items():
            wrong += [f"{topic}-{number} on node {node}: {flaw}" for flaw in log.flaws]
        if len({(log.digest, log.end) for log in logs.values()}) > 1:
            shown = {node: (log.end, log.size_bytes, log.digest[:8]) for node, log in logs.items()}
            wrong.append(f"{topic}-{number}: replicas differ (end, bytes, digest): {shown}")
    return wrong
