"""Comparing the replicas' segments when all nodes have stopped.

Below the high watermark the logs of a partition's replicas are equal, byte for byte: a follower
writes what it fetched as it came. At the end of a round every replica is in sync and no client
writes, so the high watermark is the log's end, and the logs are compared as a whole. On the way
each batch is read as its reader would: checksum right, offsets without holes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.records.batch import iter_headers, verify_crc


class ReplicaLog(NamedTuple):
    """One replica's segments."""

    digest: str
    end: int
    """The next offset."""
    size_bytes: int
    flaws: tuple[str, ...]


def read_replica(directory: Path) -> ReplicaLog:
    """All segments of a partition's directory."""
    digest, size, expected = hashlib.sha256(), 0, None
    flaws: list[str] = []
    for path in sorted(directory.glob("*.log")):
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
        except CorruptBatch as error:
            flaws.append(f"{path.name}: {error}")
    return ReplicaLog(digest.hexdigest(), expected or 0, size, tuple(flaws))


def compare_replicas(
    data_dirs: Mapping[int, Path], partitions: Mapping[tuple[str, int], Sequence[int]]
) -> list[str]:
    """What is wrong with the logs of these partitions, given the nodes that have them."""
    wrong = []
    for (topic, number), nodes in partitions.items():
        logs = {node: read_replica(data_dirs[node] / f"{topic}-{number}") for node in nodes}
        for node, log in logs.items():
            wrong += [f"{topic}-{number} on node {node}: {flaw}" for flaw in log.flaws]
        if len({(log.digest, log.end) for log in logs.values()}) > 1:
            shown = {node: (log.end, log.size_bytes, log.digest[:8]) for node, log in logs.items()}
            wrong.append(f"{topic}-{number}: replicas differ (end, bytes, digest): {shown}")
    return wrong
