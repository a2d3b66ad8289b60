"""The log directory: identity, creation, deletion, checkpoints, clean stop."""

from tests.fixtures import kafka_disk, kafka_files
from tests.unit.log.harness import (
    DIRECTORY_ID,
    PARTITION,
    TOPIC_ID,
    WALL_MS,
    LogBench,
    batch,
    open_directory,
)
from tidelog.env.effects import Replace
from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.limits import LOG_SAVING_WORK, SAVED_LOG_WORK, SYNC_ALL_FROM_LOGS
from tidelog.log.checkpoint import LEADER_EPOCH_FILE, CleanShutdown, decode_offsets
from tidelog.log.values import DirectoryClosed
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC_ID, ZERO_TOPIC_ID, TopicPartition


def test_kafkas_directory_opens() -> None:
    """Goal: golden; every partition of a real node with its offsets, ids and identity."""
    directory = open_directory(kafka_disk("node1"))
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


def test_a_new_log_keeps_its_topic_id() -> None:
    """Goal: the id survives a kill, and a lost id file can be written again."""
    bench = LogBench()
    assert bench.reopen_after_kill().topic_id == TOPIC_ID
    bench.disk.delete(f"{PARTITION}/partition.metadata")
    log = bench.reopen_after_kill()
    assert log.topic_id == ZERO_TOPIC_ID
    log.assign_topic_id(TOPIC_ID)
    assert bench.reopen_after_kill().topic_id == TOPIC_ID


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


def test_many_logs_are_made_durable_at_once() -> None:
    """Goal: a stop and a start of thousands of logs do not wait for thousands of fsyncs; what they
    promise is kept. Method: a third of the logs has records, and the power goes after each."""
    disk = _SyncingDisk()
    bench = LogBench(disk=disk)
    bench.append()
    others = [TopicPartition("many", number) for number in range(SYNC_ALL_FROM_LOGS)]
    for each in others:
        bench.directory.create(each, TOPIC_ID, bench.config)
    for each in others[::3]:
        bench.directory.logs[each].append_as_leader(batch(5), 2, WALL_MS)
    bench.settle()
    disk.take_synced()
    bench.stop()
    assert disk.take_synced() == [""]
    bench.reopen_after_power_cut()
    assert bench.directory.clean_shutdown is not None
    for round_ in range(2):
        for number, each in enumerate(others):
            log = bench.directory.logs[each]
            assert log.topic_id == TOPIC_ID
            assert log.log_end_offset == log.recovery_point == (0 if number % 3 else 5)
        disk.take_synced()
        if not round_:
            bench.reopen_after_kill()
            assert disk.take_synced() == [""]
            bench.disk.crash()
            bench.reopen()


def test_what_has_not_changed_is_not_saved_again() -> None:
    """Goal: a stop writes of a log what the disk lacks. Method: the first stop saves everything,
    the second nothing, the third what was appended, the fourth what was cut."""
    disk = _SyncingDisk()
    bench = LogBench(disk=disk)
    bench.append(count=3)
    bench.stop()
    assert [name.rpartition(".")[2] for name in disk.take_synced()] == [
        "index",
        "timeindex",
        "snapshot",
        f"{PARTITION}/{LEADER_EPOCH_FILE}",
        "metadata",
        "log",
    ]
    bench.reopen()
    bench.stop()
    assert disk.take_synced() == []
    bench.reopen()
    bench.append(epoch=1, timestamp=WALL_MS + 5)
    bench.stop()
    assert len(disk.take_synced()) == 4
    bench.reopen()
    bench.log.truncate_to(3)
    bench.stop()
    assert len(disk.take_synced()) == 4
    bench.reopen()
    assert bench.log.log_end_offset == 3
    assert bench.log.max_timestamp().offset == 2


def test_a_log_without_records_has_no_index_after_a_clean_stop() -> None:
    """Goal: a log is not taken for one that had records because another that was deleted before it
    was truncated. An index without its log is a stray file (seed 504148059)."""
    bench = LogBench()
    bench.append(count=3)
    bench.log.truncate_to(0)
    bench.directory.schedule_delete(PARTITION)
    bench.directory.create(PARTITION, TOPIC_ID, bench.config)
    bench.stop()
    assert not bench.disk.exists(f"{PARTITION}/00000000000000000000.log")
    assert not bench.disk.exists(f"{PARTITION}/00000000000000000000.index")


def test_a_stop_saves_some_logs_a_turn() -> None:
    """Goal: BoundedTurn. Method: the work of a turn is one log's; an end at any slice loses
    nothing, and counts as unclean before the last one."""
    for slices in range(1, 5):
        bench = LogBench()
        bench.append(count=3)
        for number in range(2):
            key = TopicPartition("many", number)
            bench.directory.create(key, TOPIC_ID, bench.config)
            bench.directory.logs[key].append_as_leader(batch(5), 2, WALL_MS)
        marker = CleanShutdown(77)
        ends = [bench.directory.close_cleanly(marker, LOG_SAVING_WORK) for _ in range(slices)]
        assert ends == [None, None, None, DirectoryClosed(DIRECTORY_ID)][:slices]
        bench.settle()
        bench.reopen_after_power_cut() if slices == 4 else bench.reopen_after_kill()
        assert (bench.directory.clean_shutdown == marker) == (slices == 4)
        ends_of_logs = [log.log_end_offset for log in bench.directory.logs.values()]
        assert sorted(ends_of_logs) == [3, 5, 5]


def test_a_stop_looks_at_some_logs_a_turn() -> None:
    """Goal: BoundedTurn, where ten thousand logs have nothing to save."""
    bench = LogBench()
    for number in range(20):
        bench.directory.create(TopicPartition("many", number), TOPIC_ID, bench.config)
    marker = CleanShutdown(77)
    slices = 1
    while bench.directory.close_cleanly(marker, SAVED_LOG_WORK * 5) is None:
        slices += 1
    assert slices > 21 // 5


class _SyncingDisk(MemoryDisk):
    """Notes what is synced; everything has no name."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def begin(self, operation: Operation, path: str) -> None:
        super().begin(operation, path)
        if operation is Operation.SYNC:
            self.synced.append(path)

    def take_synced(self) -> list[str]:
        synced, self.synced = self.synced, []
        return synced


def test_a_checkpoint_is_written_when_it_has_changed() -> None:
    """Goal: an idle node of ten thousand logs does not write their checkpoints all the time; but a
    caller who waits for one gets an answer."""
    bench = LogBench()
    bench.append()
    bench.settle()
    bench.log.update_high_watermark(1)
    for subject, count in ((None, 1), (None, 0), ("waits", 1), (None, 0)):
        bench.directory.checkpoint_high_watermarks(subject)
        assert len(bench.effects.take()) == count
    bench.directory.checkpoint_recovery_points()
    assert [effect.path for effect in bench.effects.take()] == ["recovery-point-offset-checkpoint"]
    bench.append()
    bench.log.update_high_watermark(2)
    bench.directory.checkpoint_high_watermarks()
    bench.directory.checkpoint_recovery_points()
    assert [effect.path for effect in bench.effects.take()] == ["replication-offset-checkpoint"]


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


def test_a_start_takes_back_a_high_watermark_above_the_end() -> None:
    """Goal: what is written where a power cut has taken committed records does not count as
    committed after a kill within seconds."""
    bench = LogBench()
    bench.append()
    bench.log.request_flush()
    bench.settle()
    bench.append(count=4)
    bench.log.update_high_watermark(5)
    bench.directory.checkpoint_high_watermarks()
    bench.settle()
    log = bench.reopen_after_power_cut()
    assert (log.high_watermark, log.log_end_offset) == (1, 1)
    bench.settle()
    bench.append(count=4)
    log = bench.reopen_after_kill()
    assert (log.high_watermark, log.log_end_offset) == (1, 5)
