"""Golden data of Apache Kafka for every test: directories that Kafka wrote, and Kafka's own dump.

    disk = kafka_disk("node1")                 # a MemoryDisk holding the whole log directory
    unpack_kafka_node("node1", tmp_path)       # the same on the file system
    data = kafka_files("node1")["plain-0/00000000000000000000.log"]
    kafka_dump("plain-0/00000000000000000000.log")   # list of DumpedBatch

Archives are read once per process; nothing here may be changed by a caller (bytes and tuples).
"""

import re
import tarfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tidelog.env.memory_disk import MemoryDisk

DATA = Path(__file__).parent / "data"
KAFKA_WALL_MS = 1_795_244_100_000
"""Wall time shortly after the recording: no producer of it has expired."""


class DumpedRecord(NamedTuple):
    """A record line of DumpLogSegments."""

    offset: int
    timestamp: int
    key_size: int
    value_size: int


class DumpedBatch(NamedTuple):
    """A batch line of DumpLogSegments with its records."""

    fields: dict[str, str]
    records: tuple[DumpedRecord, ...]


@cache
def kafka_archive() -> dict[str, bytes]:
    """Every file of the recording by its path, `node1/...`; directories end with `/`."""
    return _read_archive("kafka-4.3.1-nodes.tar.xz")


def kafka_files(node: str) -> dict[str, bytes]:
    """Every file of one node by its path below the log directory."""
    prefix = f"{node}/"
    return {
        path.removeprefix(prefix): data
        for path, data in kafka_archive().items()
        if path.startswith(prefix) and not path.endswith("/")
    }


def kafka_disk(node: str) -> MemoryDisk:
    """One node's log directory on a new memory disk, all durable."""
    disk = MemoryDisk(f"/{node}")
    for path, data in kafka_files(node).items():
        parent = path.rpartition("/")[0]
        if parent:
            disk.make_dir(parent)
        disk.replace(path, data)
    return disk


def unpack_kafka_node(node: str, target: Path) -> Path:
    """Writes one node's log directory to the existing directory `target`; returns it."""
    for path, data in kafka_files(node).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return target


def kafka_dump_text(path: str) -> str:
    """The same as DumpLogSegments printed it."""
    return _read_archive("kafka-4.3.1-dump.tar.xz")[f"node1/{path}.txt"].decode()


@cache
def kafka_dump(path: str) -> list[DumpedBatch]:
    """What DumpLogSegments prints of a segment of node 1, `plain-0/00000000000000000000.log`."""
    text = kafka_dump_text(path)
    batches: list[tuple[dict[str, str], list[DumpedRecord]]] = []
    for line in text.splitlines():
        if line.startswith("baseOffset:"):
            batches.append((dict(re.findall(r"(\w+): (\S+)", line)), []))
        elif line.startswith("| offset:"):
            batches[-1][1].append(_dumped_record(line))
    return [DumpedBatch(fields, tuple(records)) for fields, records in batches]


def _dumped_record(line: str) -> DumpedRecord:
    fields = dict(re.findall(r"(\w+): (-?\d+)", line))
    timestamp = fields.get("CreateTime", fields.get("LogAppendTime", "-1"))
    return DumpedRecord(
        int(fields["offset"]), int(timestamp), int(fields["keySize"]), int(fields["valueSize"])
    )


@cache
def _read_archive(name: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(DATA / name) as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            if member.isdir():
                files[f"{path}/"] = b""
            else:
                extracted = archive.extractfile(member)
                assert extracted is not None, f"`{path}` is not a regular file"
                files[path] = extracted.read()
    return files
