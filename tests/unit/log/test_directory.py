"""The log directory: identity, creation, deletion, checkpoints, clean stop."""

import pytest

from tests.fixtures import KAFKA_WALL_MS, kafka_disk, kafka_files
from tests.unit.log.harness import DIRECTORY_ID, PARTITION, TOPIC_ID, WALL_MS, LogBench
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import LogDamaged, UsageError
from tidelog.log.checkpoint import CleanShutdown, decode_offsets
from tidelog.log.directory import (
    DirectoryClosed,
    LogDirectory,
    format_directory,
    is_formatted,
    parse_partition_name,
    read_identity,
)
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_TOPIC_ID, TopicPartition


def _open(disk: MemoryDisk) -> LogDirectory:
    return LogDirectory.open(
        disk,
        effects=EffectQueue(),
        trace=Trace(TraceList()),
        default_config=LogConfig(),
        wall_ms=KAFKA_WALL_MS,
    )


def test_kafkas_directory_opens() -> None:
    """Goal: golden; every partition of a real node with its offsets, ids and identity."""
    directory = _open(kafka_disk("node1"))
    assert (directory.cluster_id, directory.node_id) == ("MkU3OEVBNTcwNTJENDM2Qk", 1)
    assert directory.clean_shutdown.broker_epoch == 493
    assert len(directory.logs) == 28
    metadata = directory.logs[METADATA_PARTITION]
    assert (metadata.topic_id, metadata.log_end_offset) == (METADATA_TOPIC_ID, 623)
    deleted_from = directory.logs[TopicPartition("lz4", 0)]
    assert (deleted_from.log_start_offset, deleted_from.epochs.entries) == (20, [(0, 20)])
    checkpoint = decode_offsets(kafka_files("node1")["recovery-point-offset-checkpoint"])
    for partition, offset in checkpoint.items():
        log = directory.logs[partition]
        assert (log.log_end_offset, log.high_watermark) == (offset, offset)
        assert log.topic_id != ZERO_TOPIC_ID
    directory.check()


def test_an_unformatted_directory_is_refused() -> None:
    """Goal: the operator is told what to do."""
    disk = MemoryDisk()
    assert not is_formatted(disk)
    with pytest.raises(UsageError) as caught:
        _open(disk)
    assert "tidelog format" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"version=0\nbroker.id=1\ncluster.id=c\n",
        b"version=1\nnode.id=x\ncluster.id=c\ndirectory.id=jLiZOjnm4qITQ6be9YuhSg\n",
        b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=short\n",
        b"version=1\n",
        b"\xff",
    ],
)
def test_foreign_identities_are_refused(content: bytes) -> None:
    """Goal: old, incomplete and damaged meta.properties are the operator's matter."""
    disk = MemoryDisk()
    disk.replace("meta.properties", content)
    with pytest.raises(UsageError):
        read_identity(disk)


@pytest.mark.parametrize("name", ["version", "cluster.id", "node.id", "directory.id"])
def test_an_identity_without_one_of_its_parts_is_told_which(name: str) -> None:
    """Goal: the operator reads what is missing, not a bare name."""
    parts = {"version": "1", "cluster.id": "c", "node.id": "1", "directory.id": "A" * 22}
    lines = (f"{key}={value}\n" for key, value in parts.items() if key != name)
    disk = MemoryDisk()
    disk.replace("meta.properties", "".join(lines).encode())
    with pytest.raises(UsageError, match=f"meta.properties` cannot be used: it has no `{name}`$"):
        read_identity(disk)


def test_an_identity_that_is_lost_is_not_one_that_never_was() -> None:
    """Goal: nobody is sent to format a directory with logs."""
    disk = MemoryDisk()
    disk.make_dir("orders-3")
    with pytest.raises(UsageError, match=r"meta.properties` is missing from a directory with logs"):
        read_identity(disk)
    disk.delete("orders-3")
    with pytest.raises(UsageError, match="is not formatted"):
        read_identity(disk)


def test_formatting_happens_once() -> None:
    """Goal: a formatted directory is never overwritten."""
    disk = MemoryDisk()
    format_directory(disk, cluster_id="c", node_id=4, directory_id=DIRECTORY_ID)
    assert is_formatted(disk)
    assert read_identity(disk) == ("c", 4, DIRECTORY_ID)
    with pytest.raises(UsageError):
        format_directory(disk, cluster_id="d", node_id=4, directory_id=DIRECTORY_ID)


def test_a_new_log_keeps_its_topic_id() -> None:
    """Goal: the id survives a kill, and a lost id file can be written again."""
    bench = LogBench()
    assert bench.reopen_after_kill().topic_id == TOPIC_ID
    bench.disk.delete(f"{PARTITION}/partition.metadata")
    log = bench.reopen_after_kill()
    assert log.topic_id == ZERO_TOPIC_ID
    log.assign_topic_id(TOPIC_ID)
    assert bench.reopen_after_kill().topic_id == TOPIC_ID


def test_deletion_renames_first() -> None:
    """Goal: a topic can be created again at once; the old directory goes later, also after a
    restart, and queued effects of the old log do not touch the new one's durability."""
    bench = LogBench()
    bench.append(count=3)
    bench.log.request_flush()
    bench.directory.schedule_delete(PARTITION)
    assert PARTITION not in bench.directory.logs
    renamed = [name for name in bench.disk.list_dir() if name.endswith("-delete")]
    assert len(renamed) == 1 and renamed[0].startswith("orders-3.")
    bench.directory.create(PARTITION, type(TOPIC_ID)(bytes(15) + b"\x07"), bench.config)
    bench.append()
    bench.settle()
    assert bench.log.recovery_point == 0
    bench.log.request_flush()
    bench.settle()
    assert bench.log.recovery_point == 1
    bench.reopen_after_kill()
    assert bench.log.log_end_offset == 1
    bench.directory.forget_renamed()
    assert bench.directory.clear_renamed() == 0
    bench.settle()
    assert bench.directory.clear_renamed() == 1
    assert not bench.disk.exists(renamed[0])


def test_a_flush_of_a_former_log_says_nothing_of_its_successor() -> None:
    """Goal: a log that goes and comes back under the same topic id while its flush is under way
    has nothing on the device: its file was closed, and the flush skipped."""
    bench = LogBench()
    bench.append(count=3)
    bench.log.request_flush()
    under_way = bench.effects.take()
    bench.directory.schedule_delete(PARTITION)
    bench.directory.create(PARTITION, TOPIC_ID, bench.config)
    bench.append(count=3)
    for effect in under_way:
        bench.effects.emit(effect)
    bench.settle()
    assert bench.log.recovery_point == 0
    bench.log.request_flush()
    bench.settle()
    assert bench.log.recovery_point == 3


def test_a_renamed_directory_outlives_the_checkpoints_that_speak_of_it_on_the_device() -> None:
    """Goal: it is the only sign that they are stale; a kill before they are written finds it."""
    bench = deleted_and_made_anew()
    bench.append(count=2)
    bench.directory.forget_renamed()
    bench.directory.checkpoint_recovery_points()
    assert bench.directory.clear_renamed() == 0
    log = bench.reopen_after_kill()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 2)


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


def test_the_checkpoints_of_a_deleted_log_say_nothing_of_its_successor() -> None:
    """Goal: a topic that is made anew under the same name begins with no high watermark, no log
    start and no recovery point, also after a power cut."""
    bench = deleted_and_made_anew()
    bench.directory.forget_renamed()
    bench.append()
    bench.log.request_flush()
    bench.settle()
    log = bench.reopen_after_power_cut()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 1)


def test_checkpoints_older_than_a_deletion_say_nothing_of_the_successor() -> None:
    """Goal: the same when the process ends before the checkpoints that follow a deletion are
    written, as a slow disk makes likely (seed cluster all 779)."""
    bench = deleted_and_made_anew()
    bench.append(count=7)
    log = bench.reopen_after_kill()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 7)


def test_nothing_is_written_when_nothing_was_renamed() -> None:
    bench = LogBench()
    bench.settle()
    bench.directory.forget_renamed()
    assert bench.effects.take() == []
    bench.directory.schedule_delete(PARTITION)
    bench.directory.forget_renamed()
    assert len(bench.effects.take()) == 3
    bench.directory.forget_renamed()
    assert bench.effects.take() == []


def test_deleting_the_same_name_twice() -> None:
    """Goal: names of renamed directories never collide, across restarts either."""
    bench = LogBench()
    for _ in range(2):
        bench.directory.schedule_delete(PARTITION)
        bench.directory.create(PARTITION, TOPIC_ID, bench.config)
    bench.effects.take()
    bench.reopen()
    bench.directory.schedule_delete(PARTITION)
    assert bench.directory.clear_renamed() == 0
    bench.directory.forget_renamed()
    bench.settle()
    assert bench.directory.clear_renamed() == 3


def test_checkpoints_hold_every_log() -> None:
    """Goal: three files in Kafka's form; log starts only above the first segment's base."""
    bench = LogBench()
    other = bench.directory.create(TopicPartition("orders", 11), TOPIC_ID, bench.config)
    bench.append(count=5)
    bench.log.update_high_watermark(4)
    bench.log.maybe_raise_log_start_offset(2)
    bench.settle()
    bench.directory.checkpoint_high_watermarks()
    bench.directory.checkpoint_recovery_points()
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    read = bench.disk.read_file
    assert read("replication-offset-checkpoint") == b"0\n2\norders 3 4\norders 11 0\n"
    assert read("recovery-point-offset-checkpoint") == b"0\n2\norders 3 0\norders 11 0\n"
    assert read("log-start-offset-checkpoint") == b"0\n1\norders 3 2\n"
    assert other.log_end_offset == 0


def test_what_recovery_made_durable_is_checkpointed_at_once() -> None:
    """Goal: a second crash in the first minute finds a witness that the log was durable."""
    bench = LogBench()
    bench.append(count=3)
    bench.reopen_after_kill()
    bench.settle()
    read = bench.disk.read_file
    assert read("recovery-point-offset-checkpoint") == b"0\n1\norders 3 3\n"
    bench.reopen_after_kill()
    names = [effect.path for effect in bench.effects.take() if isinstance(effect, Replace)]
    assert "recovery-point-offset-checkpoint" not in names


def test_a_log_that_is_set_aside_is_kept_and_not_opened_again() -> None:
    """Goal: an operator finds its files under the name with `-stray`, also a second time."""
    bench = LogBench()
    bench.append()
    bench.settle()
    for count in (1, 2):
        bench.directory.set_aside(PARTITION)
        bench.directory.forget_renamed()
        bench.settle()
        assert bench.directory.clear_renamed() == 1
        strays = [name for name in bench.disk.list_dir() if name.endswith("-stray")]
        assert len(strays) == count
        assert all(bench.disk.exists(f"{name}/{0:020}.log") for name in strays)
        bench.directory.create(PARTITION, TOPIC_ID, LogConfig())


def test_a_clean_stop_ends_with_the_marker() -> None:
    """Goal: the marker is the last effect, carries the subject, and holds the broker epoch."""
    bench = LogBench()
    bench.append()
    subject = bench.directory.close_cleanly(CleanShutdown(77))
    effects = bench.effects.take()
    marker = Replace(".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":77}', subject)
    assert effects[-1] == marker
    assert subject == DirectoryClosed(DIRECTORY_ID)


def test_an_interrupted_clean_stop_is_unclean() -> None:
    """Goal: dying at any effect of a clean stop loses nothing; only the last makes it clean.
    Method: carry out every prefix of the effects, then kill."""
    for done in range(30):
        bench = LogBench()
        for epoch in range(3):
            bench.append(epoch=epoch)
        bench.settle()
        bench.directory.close_cleanly(CleanShutdown(77))
        effects = bench.effects.take()
        if done > len(effects):
            break
        for effect in effects[:done]:
            bench.effects.emit(effect)
        bench.settle()
        assert bench.reopen_after_kill().log_end_offset == 3
        is_clean = bench.directory.clean_shutdown == CleanShutdown(77)
        assert is_clean == (done == len(effects))


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-3", TopicPartition("orders", 3)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("__cluster_metadata-0", METADATA_PARTITION),
        ("orders-3.00000000000000000000000000000001-delete", None),
        ("orders-3-stray", None),
        ("orders", None),
        ("-1", None),
        ("or ders-1", None),
        ("orders-x", None),
        ("lost+found", None),
    ],
)
def test_partition_names(name: str, partition: TopicPartition | None) -> None:
    """Goal: only Kafka's directory names are partitions."""
    assert parse_partition_name(name) == partition


def test_a_damaged_checkpoint_means_full_recovery() -> None:
    """Goal: nonsense in a checkpoint never stops a node and never skips recovery."""
    bench = LogBench(LogConfig(segment_bytes=400))
    for _ in range(10):
        bench.append()
    bench.settle()
    for name in ("recovery-point", "replication", "log-start"):
        bench.disk.replace(f"{name}-offset-checkpoint", b"junk")
    log = bench.reopen_after_kill()
    assert (log.log_end_offset, log.high_watermark, log.log_start_offset) == (10, 0, 0)
    assert log.max_timestamp() is not None and log.max_timestamp()[0] == WALL_MS  # type: ignore[index]


def test_what_a_repair_keeps_is_durable_before_it_is_claimed() -> None:
    """Goal: the flushes that were under way are skipped when the damaged log is closed.
    Method: damage is met in the newest segment, it is cut, and the power goes."""
    bench = LogBench(LogConfig(segment_bytes=200))
    bench.append(count=2)
    bench.log.request_flush()
    bench.settle()
    for _ in range(5):
        bench.append(count=2)
    last = bench.log.segments[-1].base_offset
    bench.directory.quarantine(PARTITION, LogDamaged("a bad batch", last))
    bench.settle()
    log = bench.directory.repair(PARTITION, TOPIC_ID, bench.config)
    assert log.recovery_point == log.log_end_offset == last > 0
    bench.settle()
    assert bench.reopen_after_power_cut().log_end_offset == last
    assert not bench.directory.damaged
