"""What is true, seen from outside: the committed log of every partition, and who led when.

A record that was ever below the high watermark of some leader is committed for ever: consumers may
have read it, producers received that. After each event of a node the oracle looks at the partitions
the node leads. Where a high watermark moved past everything known so far, the batches between are
read from that leader's log and noted by (base offset, last offset, epoch, checksum). That is the
*true log*; it only grows.

The oracle itself judges nothing; the checkers compare nodes with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.env.disk import FileSlice
from tidelog.errors import CorruptBatch, ProtocolError, StorageError
from tidelog.log.log import Log
from tidelog.model import TopicId
from tidelog.records.batch import iter_headers
from tidelog.replication.partition import Partition
from tidelog.sim.engine.host import Host
from tidelog.sim.evidence.cleaned import CleanedBatch, complaint, read_batches

READ_BYTES = 1 << 20
RETENTION_MS = 3_600_000
"""A retention below this is one of a run; no run lasts so long, but a clock may jump."""


class PartitionId(NamedTuple):
    """A partition that no other will ever be taken for."""

    topic_id: TopicId
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}.{self.topic_id[:3].hex()}-{self.partition}"


class BatchMark(NamedTuple):
    """What identifies a committed batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


@dataclass(slots=True)
class TrueLog:
    """One partition as it is committed."""

    batches: list[BatchMark] = field(default_factory=list)
    """In order, without gaps."""
    end_offset: int = 0
    """The true high watermark: exclusive end of all that is committed."""
    highest: int = 0
    """The highest high watermark of any leader, also where its log could not be read."""

    contents: list[CleanedBatch] = field(default_factory=list)
    """The same with their records, of a topic whose records do not stay, from the beginning."""

    def from_offset(self, offset: int) -> list[BatchMark]:
        """The batches that hold `offset` or lie above it."""
        return [mark for mark in self.batches if mark.last_offset >= offset]


def committed_chunks(log: Log, start: int, end: int) -> Iterator[bytes]:
    """The whole batches of a log from the one with `start` up to `end`, piece by piece.

    Raises what the log raises.
    """
    offset = start
    while offset < end:
        read = log.read(offset, READ_BYTES, end, at_least_one=True)
        if not read.size_bytes:
            break
        yield b"".join(
            chunk.file.read(chunk.position, chunk.length) if isinstance(chunk, FileSlice) else chunk
            for chunk in read.chunks
        )
        offset = read.next_offset


def marks_of(log: Log, start: int, end: int) -> list[BatchMark]:
    """The batches of a log between two offsets; those that begin at or above `start`.

    Raises what the log raises.
    """
    return [
        BatchMark(header.base_offset, header.last_offset, header.leader_epoch, header.crc)
        for data in committed_chunks(log, start, end)
        for _, header in iter_headers(data)
        if header.base_offset >= start
    ]


def contents_of(log: Log, start: int, end: int) -> list[CleanedBatch]:
    """As `marks_of`, with the records."""
    return [
        batch
        for data in committed_chunks(log, start, end)
        for batch in read_batches(data)
        if batch.base_offset >= start
    ]


def may_lose_its_beginning(config: LogConfig) -> bool:
    """Whether retention may take records of a log away within a run."""
    is_short = config.retention_bytes >= 0 or 0 <= config.retention_ms < RETENTION_MS
    return "delete" in config.cleanup_policy and is_short


def may_be_cleaned(log: Log) -> bool:
    """Whether batches of a log may differ from those that were committed: its own cleaner was in
    it, or it was fetched from a leader whose cleaner had been there. The latter leaves no trace
    where whole batches stayed."""
    return log.cleaned_to >= 0 or "compact" in log.config.cleanup_policy


def cleaned_complaint(log: Log, true_log: TrueLog, end: int, wall_ms: int) -> str | None:
    """What is wrong with a log that may be cleaned, below a committed offset that it reaches.
    Raises what the log raises."""
    if len(true_log.contents) != len(true_log.batches):
        return None
    start = log.log_start_offset
    held = [one for one in contents_of(log, start, end) if one.last_offset < end]
    true = [one for one in true_log.contents if one.base_offset >= start]
    return complaint(log, held, true, end, wall_ms)


def partition_id(partition: Partition) -> PartitionId:
    """The name of a hosted replica's partition."""
    return PartitionId(partition.topic_id, *partition.topic_partition)


class Oracle:
    """The true logs."""

    def __init__(self) -> None:
        self.logs: dict[PartitionId, TrueLog] = {}

    def on_leader(self, host: Host, pid: PartitionId, log: Log) -> None:
        """Learns from a leader that is new, or whose high watermark moved."""
        true_log = self.logs.get(pid)
        if true_log is None:
            true_log = self.logs[pid] = TrueLog()
        true_log.highest = max(true_log.highest, log.high_watermark)
        if log.high_watermark > true_log.end_offset:
            self._learn(host, log, true_log)

    def highest(self, pid: PartitionId) -> int:
        """The highest high watermark that any leader of a partition had before this event."""
        true_log = self.logs.get(pid)
        return 0 if true_log is None else true_log.highest

    def _learn(self, host: Host, log: Log, true_log: TrueLog) -> None:
        start = true_log.end_offset
        try:
            fresh = marks_of(log, start, log.high_watermark)
            if "compact" in log.config.cleanup_policy or may_lose_its_beginning(log.config):
                true_log.contents += contents_of(log, start, log.high_watermark)
        except (StorageError, ProtocolError, CorruptBatch):
            # A disk that fails now is looked at when it works again.
            assert not host.all_sound, f"{host.name}: {log.topic_partition} cannot be read"
            return
        true_log.batches += fresh
        true_log.end_offset = log.high_watermark
