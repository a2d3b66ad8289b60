"""A log directory on a memory disk, with the driver's part played by `settle`."""

from dataclasses import replace

from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.directory import LogDirectory, RenamesForgotten, format_directory
from tidelog.log.log import Log, LogFlush
from tidelog.model import TopicId, TopicPartition, Uuid
from tidelog.records.batch import build_batch
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
        if not self.disk.exists("meta.properties"):
            format_directory(self.disk, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
        self.directory = self._open()
        if PARTITION not in {**self.directory.logs, **self.directory.damaged}:
            self.directory.create(PARTITION, TOPIC_ID, self.config)

    @property
    def log(self) -> Log:
        return self.directory.logs[PARTITION]

    def _open(self) -> LogDirectory:
        return LogDirectory.open(
            self.disk,
            effects=self.effects,
            trace=Trace(self.trace),
            default_config=self.config,
            wall_ms=WALL_MS,
        )

    def settle(self) -> None:
        """Carries out all effects, in order, and answers them."""
        for effect in self.effects.take():
            if isinstance(effect, Flush):
                self.disk.sync(effect.file)
                subject = effect.subject
                assert isinstance(subject, LogFlush)
                if subject.topic_partition in self.directory.logs:
                    self.directory.logs[subject.topic_partition].on_flushed(subject)
            elif isinstance(effect, Replace):
                self.disk.replace(effect.path, effect.data)
                if isinstance(effect.subject, RenamesForgotten):
                    self.directory.on_renames_forgotten(effect.subject)

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
