"""A log directory on a memory disk; `settle` does what a driver does."""

import sys
from dataclasses import replace

from tests.fixtures import KAFKA_WALL_MS
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log.batch_file import ReadWindow
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.directory import LogDirectory
from tidelog.log.epoch_cache import LeaderEpochCache
from tidelog.log.file_names import offset_name
from tidelog.log.identity import format_directory
from tidelog.log.log import Log
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.producer_state import ProducerStates
from tidelog.log.rolling import roll
from tidelog.log.segment import BatchSpan, Segment
from tidelog.log.txn_index import AbortedTxn
from tidelog.log.values import AppendOrigin, LogFlush
from tidelog.model import TopicId, TopicPartition, Uuid
from tidelog.records.batch import BatchHeader, build_batch, read_header, stamp
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record

PARTITION = TopicPartition("orders", 3)
TOPIC_ID = TopicId(bytes(range(16)))
DIRECTORY_ID = Uuid(bytes(range(16, 32)))
WALL_MS = 1_700_000_000_000


class LogBench:
    """One log in one directory, and what happens around them."""

    def __init__(self, config: LogConfig | None = None, disk: MemoryDisk | None = None) -> None:
        self.config = config or LogConfig()
        self.disk = disk or MemoryDisk()
        self.effects = EffectQueue()
        self.trace = TraceList()
        # The topics that the metadata has as compacted, and those that a start has asked for.
        self.compacted: set[str] = set()
        self.asked: list[str] = []
        if not self.disk.exists("meta.properties"):
            format_directory(self.disk, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
        self.directory = self._open()
        if PARTITION not in {**self.directory.logs, **self.directory.damaged}:
            self.directory.create(PARTITION, TOPIC_ID, self.config)

    @property
    def log(self) -> Log:
        return self.directory.logs[PARTITION]

    def _open(self, most_work: int = sys.maxsize) -> LogDirectory:
        return LogDirectory.open(
            self.disk,
            effects=self.effects,
            trace=Trace(self.trace),
            default_config=self.config,
            wall_ms=WALL_MS,
            most_work=most_work,
            was_compacted=self._was_compacted,
        )

    def _was_compacted(self, topic: str) -> bool:
        self.asked.append(topic)
        return topic in self.compacted

    def settle(self) -> None:
        """Carries out all effects, in order, and answers them."""
        for effect in self.effects.take():
            if isinstance(effect, Flush):
                self.disk.sync(effect.file)
                subject = effect.subject
                if subject is None:
                    continue
                assert isinstance(subject, LogFlush)
                if subject.topic_partition in self.directory.logs:
                    self.directory.logs[subject.topic_partition].on_flushed(subject)
            elif isinstance(effect, Replace):
                self.disk.replace(effect.path, effect.data)
                if isinstance(effect.subject, RenamesForgotten):
                    self.directory.renamed.on_renames_forgotten(effect.subject)

    def reopen_cleanly(self) -> Log:
        """A clean stop and a start."""
        self.stop()
        self.directory = self._open()
        return self.log

    def stop(self) -> None:
        """A clean stop."""
        self.settle()
        self.directory.close_cleanly(CleanShutdown(41))
        self.settle()
        self.directory.close()

    def reopen(self) -> Log:
        """A start, whatever is on the disk."""
        self.directory = self._open()
        return self.log

    def reopen_after_kill(self) -> Log:
        """The process dies: written bytes stay, effects not yet carried out are lost."""
        self.effects.take()
        self.directory = self._open()
        return self.log

    def reopen_after_power_cut(self, prng: Prng | None = None) -> Log:
        """The machine dies: unsynced bytes are lost."""
        self.effects.take()
        self.disk.crash(prng)
        self.directory = self._open()
        return self.log

    def append(self, *, count: int = 1, epoch: int = 0, timestamp: int = WALL_MS) -> int:
        """Appends one batch; returns its first offset."""
        return self.log.append_as_leader(batch(count, timestamp), epoch, WALL_MS).first_offset

    def roll(self) -> None:
        """Seals the active segment."""
        roll(self.log, self.log.log_end_offset)

    def configure(self, **changes: object) -> None:
        """Replaces settings of the log's configuration."""
        self.log.config = self.config = replace(self.config, **changes)  # type: ignore[arg-type]


def batch(
    count: int = 1,
    timestamp: int = WALL_MS,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    value: bytes = b"v" * 40,
) -> bytes:
    """A client's batch; record i has timestamp `timestamp + i`."""
    return build_batch(
        [Record(timestamp + index, b"k%d" % index, value) for index in range(count)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def read_all(log: Log, upper: int | None = None) -> bytes:
    """Every byte from the log start, read in small steps."""
    data = b""
    offset = log.log_start_offset
    end = log.log_end_offset if upper is None else upper
    while True:
        found = log.read(offset, 300, end, at_least_one=True)
        if not found.size_bytes:
            return data
        data += b"".join(bytes(chunk) for chunk in found.chunks)  # type: ignore[arg-type]
        offset = found.next_offset


def file_of(base: int, suffix: str) -> str:
    """Where a file of the segment at `base` lies."""
    return f"{PARTITION}/{offset_name(base)}{suffix}"


def make_segment(count: int, *, base: int = 100, interval: int = 200) -> Segment:
    disk = MemoryDisk()
    disk.make_dir("t-0")
    segment = Segment(disk, "t-0", base, LogConfig())
    for index in range(count):
        append_to(segment, base + 2 * index, WALL_MS + index, interval)
    return segment


def append_to(segment: Segment, offset: int, timestamp: int, interval: int = 200) -> None:
    data = stamp(batch(2, timestamp), offset, 0)
    header = read_header(data)
    span = BatchSpan(offset, header.last_offset, header.max_timestamp, len(data))
    segment.append(data, [span], interval)


def read_window(upper: int) -> ReadWindow:
    return ReadWindow(upper, upper, LeaderEpochCache("epochs", EffectQueue(), [(0, 0)]))


class Producer:
    """Feeds batches of one producer into a state, as a leader does."""

    def __init__(self, states: ProducerStates, producer_id: int = 9) -> None:
        self.states = states
        self.producer_id = producer_id

    def header(
        self, epoch: int, sequence: int, *, count: int = 1, transactional: bool = False
    ) -> BatchHeader:
        return read_header(
            batch(
                count,
                producer_id=self.producer_id,
                producer_epoch=epoch,
                sequence=sequence,
                transactional=transactional,
            )
        )

    def send(
        self,
        epoch: int,
        sequence: int,
        *,
        count: int = 1,
        transactional: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> ErrorCode | int:
        """The error, the first offset of the earlier batch, or that of this one."""
        header = self.header(epoch, sequence, count=count, transactional=transactional)
        try:
            earlier = self.states.admit(header, origin)
        except ProtocolError as error:
            return error.code
        if earlier is not None:
            return earlier.first_offset
        offset = self.states.map_end_offset
        self.states.replay(header, offset, WALL_MS, None)
        return offset

    def end(self, epoch: int, *, commit: bool, coordinator_epoch: int = 0) -> AbortedTxn | None:
        marker = EndTxnMarker(commit, coordinator_epoch)
        header = read_header(build_end_txn_marker(marker, self.producer_id, epoch, WALL_MS))
        return self.states.replay(header, self.states.map_end_offset, WALL_MS, marker)


def open_directory(disk: MemoryDisk) -> LogDirectory:
    return LogDirectory.open(
        disk,
        effects=EffectQueue(),
        trace=Trace(TraceList()),
        default_config=LogConfig(),
        wall_ms=KAFKA_WALL_MS,
    )


def deleted_and_made_anew() -> LogBench:
    """A log with all its checkpoints was deleted, and one of another topic has its name; no
    checkpoint has been written since."""
    bench = LogBench()
    bench.append(count=9)
    bench.log.request_flush()
    bench.settle()
    bench.log.update_high_watermark(9)
    bench.log.maybe_raise_log_start_offset(5)
    for checkpoint in (
        bench.directory.checkpoint_high_watermarks,
        bench.directory.checkpoint_recovery_points,
        bench.directory.checkpoint_log_start_offsets,
    ):
        checkpoint()
    bench.settle()
    bench.directory.schedule_delete(PARTITION)
    bench.directory.create(PARTITION, type(TOPIC_ID)(bytes(15) + b"\x07"), bench.config)
    return bench
