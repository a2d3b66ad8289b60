"""Kafka's files, byte for byte: the same batches appended here leave the same files behind."""

import pytest

from tests.fixtures import kafka_disk, kafka_files
from tests.unit.log.harness import PARTITION
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import Trace, TraceList
from tidelog.log.checkpoint import CleanShutdown, decode_partition_metadata
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.log import Log
from tidelog.log.partition_directories import parse_partition_name
from tidelog.log.rolling import roll
from tidelog.model import Uuid
from tidelog.records.batch import iter_headers

EXACT = [
    "__consumer_offsets-1",
    "__transaction_state-1",
    "compact-0",
    "compact-1",
    "copy-0",
    "copy-1",
    "gzip-0",
    "gzip-1",
    "lz4-1",
    "plain-0",
    "plain-1",
    "plain-2",
    "rolled-0",
    "rolled-1",
    "snappy-1",
    "txn-0",
    "txn-1",
    "zstd-0",
]


class Replay:
    """Appends the batches of one of Kafka's partitions to a log of ours."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files = {
            path.partition("/")[2]: data
            for path, data in kafka_files("node1").items()
            if path.startswith(f"{name}/")
        }
        interval = 512 if name.startswith("rolled") else 4096
        self.config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=interval)
        self.disk = MemoryDisk()
        self.effects = EffectQueue()
        format_directory(self.disk, cluster_id="c", node_id=1, directory_id=Uuid(bytes(16)))
        self.directory = self._open()
        partition = parse_partition_name(name)
        assert partition is not None
        self.partition = partition
        topic_id = decode_partition_metadata(self.files["partition.metadata"])
        self.directory.create(partition, topic_id, self.config)

    @property
    def log(self) -> Log:
        return self.directory.logs[self.partition]

    def _open(self) -> LogDirectory:
        return LogDirectory.open(
            self.disk,
            effects=self.effects,
            trace=Trace(TraceList()),
            default_config=self.config,
            wall_ms=0,
        )

    def append_all(self, restart_before: frozenset[int] = frozenset()) -> None:
        """Every batch, rolling where Kafka did, restarting cleanly at the given offsets."""
        for index, path in enumerate(sorted(p for p in self.files if p.endswith(".log"))):
            if index:
                roll(self.log, self.log.log_end_offset)
            data = self.files[path]
            for position, header in iter_headers(data):
                if header.base_offset in restart_before:
                    self.restart()
                self.log.append_as_follower(data[position : position + header.size_bytes], 99)
                self.log.update_high_watermark(self.log.log_end_offset)
                self.log.check()

    def restart(self) -> None:
        self.close()
        self.directory = self._open()

    def close(self) -> None:
        self.directory.close_cleanly(CleanShutdown(1))
        for effect in self.effects.take():
            if isinstance(effect, Flush):
                self.disk.sync(effect.file)
            elif isinstance(effect, Replace):
                self.disk.replace(effect.path, effect.data)

    def differing(self) -> list[str]:
        """Files that differ, are missing here, or are here only."""
        ours = self.disk.list_dir(self.name)
        return [
            path
            for path in sorted({*self.files, *ours})
            if self.disk.read_file(f"{self.name}/{path}") != self.files.get(path)
        ]


@pytest.mark.parametrize("name", EXACT)
def test_partitions_equal_kafkas(name: str) -> None:
    """Goal: log, both indexes, transaction index, epochs, snapshots and id file are equal."""
    replay = Replay(name)
    replay.append_all()
    replay.close()
    assert replay.differing() == []


@pytest.mark.parametrize("name", ["epochs-0", "epochs-1"])
def test_restarts_leave_the_same_traces(name: str) -> None:
    """Goal: golden over clean restarts; each stop adds a time index entry and a snapshot, each
    start drops the snapshot before it. Method: node 1 was restarted at offsets 25 and 95."""
    replay = Replay(name)
    replay.append_all(frozenset({25, 95}))
    replay.close()
    assert replay.differing() == []


def test_the_metadata_log_equals_kafkas() -> None:
    """Goal: golden for the quorum's log; node 1 was restarted at offset 474."""
    replay = Replay("__cluster_metadata-0")
    replay.append_all(frozenset({474}))
    replay.close()
    assert replay.differing() == ["quorum-state"]


def test_kafkas_directory_survives_our_recovery() -> None:
    """Goal: without the clean marker and the recovery points every log is walked, and no log
    file, epoch or aborted transaction changes."""
    disk = kafka_disk("node1")
    disk.delete(".kafka_cleanshutdown")
    disk.delete("recovery-point-offset-checkpoint")
    effects = EffectQueue()
    directory = LogDirectory.open(
        disk, effects=effects, trace=Trace(TraceList()), default_config=LogConfig(), wall_ms=0
    )
    directory.check()
    for effect in effects.take():
        assert isinstance(effect, Replace)
        disk.replace(effect.path, effect.data)
    for path, data in kafka_files("node1").items():
        if path.endswith((".log", ".txnindex", "leader-epoch-checkpoint", ".metadata")):
            assert disk.read_file(path) == data, path
    assert PARTITION not in directory.logs
