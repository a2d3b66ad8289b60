"""A cluster's log directories as files: the same batches on every broker, then faults by hand."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelog.records.batch import build_batch, iter_headers
from tidelog.records.record import Record

BATCH_RECORDS = 10


def batch(base_offset: int, *, epoch: int = 3, value: bytes = b"a value") -> bytes:
    """Ten records; timestamps ascend with offsets."""
    records = [Record(1_000 + base_offset + i, b"k", value) for i in range(BATCH_RECORDS)]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


def changes(base_offset: int, *pairs: tuple[bytes | None, bytes | None]) -> bytes:
    """A record for each pair of a key and a value."""
    records = [Record(1_000 + base_offset + i, *pair) for i, pair in enumerate(pairs)]
    return build_batch(records, base_offset=base_offset, leader_epoch=3)


def batches(count: int = 10) -> list[bytes]:
    """Consecutive ones from offset 0."""
    return [batch(BATCH_RECORDS * index) for index in range(count)]


def write_broker(
    root: Path, broker: int, partitions: Mapping[str, Sequence[bytes]], high_watermark: int
) -> Path:
    """A log directory in which every partition (`topic-0`) is one segment."""
    log_dir = root / f"node-{broker}" / "data"
    for name, content in partitions.items():
        write_segment(log_dir / name, content)
    (log_dir / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
    lines = [f"{name.rpartition('-')[0]} {name[-1]} {high_watermark}" for name in partitions]
    checkpoint = "\n".join(["0", str(len(lines)), *lines])
    (log_dir / "replication-offset-checkpoint").write_text(checkpoint + "\n")
    return log_dir


def write_segment(
    directory: Path, content: Sequence[bytes], *, indexed: bool = False, base_offset: int = 0
) -> Path:
    """A segment of a partition; with an entry per batch but the first in both indexes."""
    directory.mkdir(parents=True, exist_ok=True)
    segment = directory / f"{base_offset:020d}.log"
    data = b"".join(content)
    segment.write_bytes(data)
    if indexed:
        found = list(iter_headers(data))[1:]
        by_offset = b"".join(struct.pack(">ii", h.last_offset, position) for position, h in found)
        by_time = b"".join(struct.pack(">qi", h.max_timestamp, h.last_offset) for _, h in found)
        segment.with_suffix(".index").write_bytes(by_offset + bytes(80))
        segment.with_suffix(".timeindex").write_bytes(by_time + bytes(120))
    return segment
