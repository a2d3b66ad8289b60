"""Opening logs after crashes: torn tails, bad indexes, lost files, unfinished compactions."""

from collections.abc import Iterator

import pytest

from tests.unit.log.harness import (
    PARTITION,
    TOPIC_ID,
    WALL_MS,
    LogBench,
    batch,
    file_of,
    open_directory,
    read_all,
)
from tidelog.config import LogConfig
from tidelog.env.disk import File
from tidelog.env.effects import EffectQueue
from tidelog.env.memory_disk import MemoryDisk, Operation
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import LogDamaged, ProtocolError, StorageError
from tidelog.log.checkpoint import (
    LEADER_EPOCH_FILE,
    LOG_START_FILE,
    PARTITION_METADATA_FILE,
    CleanShutdown,
    decode_epochs,
    decode_offsets,
    encode_epochs,
    encode_offsets,
)
from tidelog.log.events import EpochsRebuilt, TailCut
from tidelog.log.file_names import offset_name
from tidelog.log.loading import make_log, open_log
from tidelog.log.pieces import finish
from tidelog.log.producer_snapshots import decode_snapshot
from tidelog.log.rolling import roll
from tidelog.log.state import UNCUT
from tidelog.log.values import AppendOrigin, Checkpoints, LogEnv
from tidelog.model import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
)
from tidelog.records.batch import iter_headers
from tidelog.records.control import EndTxnMarker, build_end_txn_marker

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=200)


class _CountingDisk(MemoryDisk):
    """Counts the syncs, which block their caller."""

    def __init__(self) -> None:
        super().__init__()
        self.sync_count = 0

    def sync(self, file: File) -> None:
        self.sync_count += 1
        super().sync(file)


class _TracingDisk(MemoryDisk):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Operation, str]] = []

    def begin(self, operation: Operation, path: str) -> None:
        self.asked.append((operation, path))
        super().begin(operation, path)

    def take_asked(self) -> list[tuple[Operation, str]]:
        asked, self.asked = self.asked, []
        return asked


def test_making_a_log_waits_for_no_disk() -> None:
    """Goal: five hundred new partitions do not keep a node from its quorum for seconds."""
    disk = _CountingDisk()
    bench = LogBench(disk=disk)
    assert disk.sync_count == 0
    bench.append()
    bench.log.request_flush()
    bench.settle()
    disk.crash()
    log = bench.reopen_after_kill()
    assert (log.log_end_offset, log.topic_id) == (1, TOPIC_ID)


def test_what_a_new_log_and_an_idle_one_ask_of_the_disk() -> None:
    """Goal: a topic of thousands of partitions costs each of them a directory and a topic id, on
    either side of the loop; a leadership nothing; a start a listing and a read. The record that
    comes first finds all in order."""
    disk = _TracingDisk()
    bench = LogBench(disk=disk)
    bench.settle()
    disk.take_asked()
    other, topic_id = TopicPartition("payments", 0), TopicId(bytes(range(16, 32)))
    log = bench.directory.create(other, topic_id, bench.config)
    identity = f"{other}/{PARTITION_METADATA_FILE}"
    assert disk.take_asked() == [
        (Operation.MAKE_DIR, str(other)),
        (Operation.CREATE, identity + ".tmp"),
        (Operation.APPEND, identity + ".tmp"),
        (Operation.RENAME, identity + ".tmp"),
    ]
    log.assign_epoch(5, 0)
    log.read(0, 1 << 20, 0, at_least_one=True)
    log.request_flush()
    assert disk.take_asked() == [] and len(bench.effects) == 0
    for kill in (False, True, True):
        bench.reopen_after_kill() if kill else bench.reopen_cleanly()
        asked = [each for each in disk.take_asked() if each[1].startswith(str(other))]
        assert asked[-2:] == [(Operation.LOOK, str(other)), (Operation.READ, identity)]
        assert len(asked) == 2 or not kill
        assert bench.effects.take() == []
    log = bench.directory.logs[other]
    log.append_as_leader(batch(2), 6, WALL_MS)
    log.request_flush()
    assert [type(effect).__name__ for effect in bench.effects.take()] == [
        "Replace",
        "Flush",
        "Flush",
    ]
    assert disk.list_dir(str(other)) == [f"{0:020}.log", PARTITION_METADATA_FILE]


def test_logs_of_a_topic_share_the_file_of_their_topic_id() -> None:
    """Goal: the second new log of a topic costs a directory and a name. No log depends on another:
    the first one may go, or be given another topic id; what is flushed outlives a power cut."""
    disk = _TracingDisk()
    bench = LogBench(disk=disk)
    bench.settle()
    a, b, c = (TopicPartition("orders", number) for number in (4, 5, 6))
    other_id = TopicId(bytes(range(16, 32)))
    bench.directory.create(a, TOPIC_ID, bench.config)
    disk.take_asked()
    log = bench.directory.create(b, TOPIC_ID, bench.config)
    assert disk.take_asked() == [
        (Operation.MAKE_DIR, str(b)),
        (Operation.LINK, f"{b}/{PARTITION_METADATA_FILE}"),
    ]
    bench.directory.logs[a].assign_topic_id(other_id)
    bench.directory.schedule_delete(b)
    bench.directory.create(b, other_id, bench.config)
    log = bench.directory.create(c, other_id, bench.config)
    log.append_as_leader(batch(1), 0, WALL_MS)
    log.request_flush()
    bench.settle()
    bench.directory.schedule_delete(b)
    disk.crash()
    bench.reopen_after_kill()
    assert bench.directory.logs[c].topic_id == other_id
    assert bench.directory.logs[c].log_end_offset == 1
    assert not disk.exists(str(a)) or bench.directory.logs[a].topic_id != TOPIC_ID


@pytest.mark.parametrize("ending", ["clean stop", "kill", "flush", "flush and power cut"])
def test_epochs_before_claim(ending: str) -> None:
    """Goal: the first records of a new log write no file of epochs, and each end of the process
    leaves what a start needs: the batches, or the file with the flush that makes them durable."""
    bench = LogBench()
    bench.settle()
    path = f"{PARTITION}/{LEADER_EPOCH_FILE}"
    for epoch in (2, 5):
        bench.append(epoch=epoch)
    bench.log.check()
    assert len(bench.effects) == 0 and not bench.disk.exists(path)
    if ending.startswith("flush"):
        bench.log.request_flush()
        bench.settle()
        assert bench.disk.exists(path)
    if ending == "clean stop":
        log = bench.reopen_cleanly()
    elif ending.endswith("power cut"):
        log = bench.reopen_after_power_cut()
    else:
        log = bench.reopen_after_kill()
    assert log.epochs.entries == [(2, 0), (5, 1)]
    assert decode_epochs(bench.disk.read_file(path) or b"") == log.epochs.entries
    bench.settle()
    bench.append(epoch=7)
    bench.settle()
    assert decode_epochs(bench.disk.read_file(path) or b"") == [(2, 0), (5, 1), (7, 2)]
    assert not any(isinstance(event, EpochsRebuilt) for event in bench.trace.events)


@pytest.mark.parametrize(("topic_id", "steps"), [(TopicId(bytes(range(16, 32))), 4), (TOPIC_ID, 2)])
def test_a_log_that_was_half_made_is_made(topic_id: TopicId, steps: int) -> None:
    """Goal: a full disk in the middle of making a log leaves nothing that a second attempt, or a
    start, stumbles over; for the first log of a topic and for one more."""
    for place in range(steps + 1):
        disk = MemoryDisk()
        bench = LogBench(disk=disk)
        other = TopicPartition("orders", 4)
        failing = iter(range(place))

        def begin(operation: Operation, path: str, left: Iterator[int] = failing) -> None:
            if next(left, None) is None:
                raise StorageError(path, "no space left on device")

        disk.begin = begin  # type: ignore[method-assign]
        if place < steps:
            with pytest.raises(StorageError):
                bench.directory.create(other, topic_id, bench.config)
        else:
            bench.directory.create(other, topic_id, bench.config)
        del disk.begin
        if place < steps:
            assert other not in bench.directory.logs
            bench.directory.create(other, topic_id, bench.config)
        bench.reopen_after_kill()
        assert bench.directory.logs[other].topic_id == topic_id


class _FatalDisk(MemoryDisk):
    """The process ends before the n-th operation that changes anything."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def begin(self, operation: Operation, path: str) -> None:
        super().begin(operation, path)
        if self.left is None or operation in (Operation.LOOK, Operation.READ):
            return
        if self.left == 0:
            self.left = None
            raise KeyboardInterrupt
        self.left -= 1


def test_a_crash_while_a_log_is_made_loses_nothing() -> None:
    """Goal: whatever is left of a new log is a log, or nothing, and never damaged; what was flushed
    is there. Method: kills and power cuts before each operation, from the directory to the first
    records that are durable, and again while the rest is made at the next start."""
    other = TopicPartition("orders", 4)

    def life(bench: LogBench) -> None:
        log = bench.directory.logs.get(other)
        if log is None:
            log = bench.directory.create(other, TOPIC_ID, bench.config)
        elif log.topic_id == ZERO_TOPIC_ID:
            log.assign_topic_id(TOPIC_ID)
        log.assign_epoch(log.latest_epoch + 1, log.log_end_offset)
        log.append_as_leader(batch(2), log.latest_epoch, WALL_MS)
        log.request_flush()
        bench.settle()
        log.append_as_leader(batch(2), log.latest_epoch, WALL_MS)

    def restart(bench: LogBench, prng: Prng | None) -> None:
        disk = bench.disk
        assert isinstance(disk, _FatalDisk)
        log = bench.directory.logs.get(other)
        durable = 0 if log is None else log.recovery_point
        bench.effects.take()
        if prng is not None:
            disk.crash(prng)
        bench.reopen_after_kill()
        assert bench.directory.damaged == {}
        log = bench.directory.logs.get(other)
        assert (0 if log is None else log.log_end_offset) >= durable
        if log is not None:
            assert log.topic_id == TOPIC_ID or (log.topic_id, durable) == (ZERO_TOPIC_ID, 0)
            log.check()

    deaths = 0
    for seed in range(400):
        prng = Prng(seed)
        bench = LogBench(disk=_FatalDisk())
        bench.append()
        bench.log.request_flush()
        bench.settle()
        for _ in range(3):
            assert isinstance(bench.disk, _FatalDisk)
            bench.disk.left = prng.below(14)
            try:
                life(bench)
            except KeyboardInterrupt:
                deaths += 1
            bench.disk.left = None
            restart(bench, prng if prng.chance(1, 2) else None)
        life(bench)
        assert bench.directory.logs[other].topic_id == TOPIC_ID
    assert deaths > 300


def test_a_clean_stop_loses_nothing_and_recovers_nothing() -> None:
    """Goal: offsets, watermark, epochs, producers and bytes are the same after a restart."""
    bench = LogBench(SMALL)
    for index in range(12):
        each = batch(producer_id=9, producer_epoch=0, sequence=index)
        bench.log.append_as_leader(each, index // 4, WALL_MS)
    bench.log.update_high_watermark(11)
    bench.log.maybe_raise_log_start_offset(2)
    before = read_all(bench.log)
    log = bench.reopen_cleanly()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 11, 12)
    assert log.recovery_point == 12
    assert log.epochs.entries == [(0, 2), (1, 4), (2, 8)]
    assert read_all(log) == before
    assert bench.directory.clean_shutdown.broker_epoch == 41
    assert not any(isinstance(event, TailCut) for event in bench.trace.events)
    assert log.append_as_leader(
        batch(producer_id=9, producer_epoch=0, sequence=11), 2, WALL_MS
    ).duplicate
    log.check()


def test_the_clean_marker_counts_once() -> None:
    """Goal: a process that dies after a clean start does not look clean (trap 13)."""
    bench = LogBench()
    bench.append()
    bench.reopen_cleanly()
    assert bench.directory.clean_shutdown.broker_epoch == 41
    bench.reopen_after_kill()
    assert bench.directory.clean_shutdown is None


def test_a_killed_process_loses_no_written_batch() -> None:
    """Goal: P1 for one log; bytes written but not flushed, effects lost, all is found again."""
    bench = LogBench(SMALL)
    for index in range(30):
        each = batch(producer_id=9, producer_epoch=0, sequence=index)
        bench.log.append_as_leader(each, index // 10, WALL_MS)
    before = read_all(bench.log)
    log = bench.reopen_after_kill()
    assert read_all(log) == before
    assert log.epochs.entries == [(0, 0), (1, 10), (2, 20)]
    assert log.append_as_leader(
        batch(producer_id=9, producer_epoch=0, sequence=29), 2, WALL_MS
    ).duplicate
    log.check()


def test_a_power_cut_keeps_what_was_flushed() -> None:
    """Goal: P2 for one log; every offset below the recovery point survives, whatever tears.
    Method: random appends, flushes and power cuts with partial, torn writes, 40 seeds."""
    for seed in range(40):
        prng = Prng(seed)
        bench = LogBench(SMALL)
        bench.append()
        bench.log.request_flush()
        bench.settle()
        for _ in range(prng.between(1, 25)):
            bench.append(count=prng.between(1, 3), epoch=bench.log.log_end_offset // 20)
            if prng.chance(1, 4):
                bench.log.request_flush()
                bench.settle()
        durable = bench.log.recovery_point
        before = read_all(bench.log)
        safe = read_all(bench.log, durable)
        log = bench.reopen_after_power_cut(prng)
        assert log.log_end_offset >= durable, f"seed {seed}"
        after = read_all(log)
        assert after.startswith(safe) and before.startswith(after), f"seed {seed}"
        log.check()
        assert log.recovery_point == log.log_end_offset
        bench.disk.crash()
        assert read_all(bench.reopen()) == after, f"seed {seed}: recovery was not durable"


def test_what_recovery_keeps_is_durable() -> None:
    """Goal: after a kill and a start all counts as durable, so a power cut right after it must
    lose nothing, although the dead process had flushed nothing."""
    bench = LogBench(SMALL)
    for _ in range(12):
        bench.append()
    before = read_all(bench.log)
    assert bench.reopen_after_kill().recovery_point == 12
    assert read_all(bench.reopen_after_power_cut()) == before


def cut_durable_records(bench: LogBench, count: int, offset: int) -> None:
    """Appends records, makes them durable, and cuts them as a follower does (ClaimBeforeCut)."""
    for _ in range(count):
        bench.append()
    bench.log.request_flush()
    bench.settle()
    bench.log.announced_end = offset
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.log.truncate_to(offset)
    bench.log.announced_end = UNCUT


def test_a_cut_at_the_end_of_a_segment_is_durable_after_a_start() -> None:
    """Goal: the process that cut a log rolled it at the cut and died before anything was flushed.
    Its successor flushes the new segment; a power cut must not bring back what was cut."""
    bench = LogBench(LogConfig(segment_bytes=1000))
    cut_durable_records(bench, 9, 8)
    bench.roll()
    for _ in range(4):
        bench.append(epoch=1)
    before = read_all(bench.log)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 8]
    bench.reopen_after_kill()
    assert read_all(bench.reopen_after_power_cut()) == before


@pytest.mark.parametrize(
    ("before_the_next_record", "after_it", "end", "epochs", "high_watermark"),
    [
        ("nothing", "nothing", 3, [(0, 0)], 1),
        ("nothing", "flush", 2, [(0, 0), (1, 1)], 2),
        ("kill", "nothing", 1, [(0, 0)], 1),
        ("kill", "flush", 2, [(0, 0), (1, 1)], 2),
    ],
)
def test_no_high_watermark_is_saved_above_a_cut_that_is_not_durable(
    before_the_next_record: str,
    after_it: str,
    end: int,
    epochs: list[tuple[int, int]],
    high_watermark: int,
) -> None:
    """CutBeforeMark: a power cut brings the cut records back, and they were never committed.
    Method: cut durable records, commit another in their place and save the high watermark."""
    bench = LogBench()
    cut_durable_records(bench, 3, 1)
    if before_the_next_record == "kill":
        bench.reopen_after_kill()
    bench.append(epoch=1)
    bench.log.update_high_watermark(2)
    if after_it == "flush":
        bench.log.request_flush()
    bench.directory.checkpoint_high_watermarks()
    bench.settle()
    log = bench.reopen_after_power_cut()
    assert log.log_end_offset == end
    assert (log.epochs.entries, log.high_watermark) == (epochs, high_watermark)


def test_after_a_kill_a_log_that_was_never_durable_may_hold_cut_records() -> None:
    """CutBeforeMark. Method: all records are cut, the process dies, and the next one commits
    another; of the first write, the disk has kept what nothing had flushed."""
    bench = LogBench()
    bench.append()
    bench.log.truncate_to(0)
    bench.reopen_after_kill()
    bench.append(epoch=1)
    bench.log.update_high_watermark(1)
    assert saved_high_watermark(bench) == 0
    bench.log.request_flush()
    assert saved_high_watermark(bench) == 1


def saved_high_watermark(bench: LogBench) -> int:
    bench.directory.checkpoint_high_watermarks()
    bench.settle()
    data = bench.disk.read_file("replication-offset-checkpoint")
    assert data is not None
    return decode_offsets(data)[PARTITION]


def test_records_without_a_topic_id_are_dropped_after_an_unclean_stop() -> None:
    """Goal: a topic was deleted and created again while a node without power had forgotten which
    of the two its records belong to; the new topic must not get the old one's records."""
    bench = LogBench(SMALL)
    for _ in range(12):
        bench.append()
    bench.disk.delete(f"{PARTITION}/{PARTITION_METADATA_FILE}")
    log = bench.reopen_after_kill()
    assert log.topic_id == ZERO_TOPIC_ID
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.epochs.entries == []
    assert [segment.base_offset for segment in log.segments] == [0]


def test_a_log_without_its_beginning_is_empty_if_it_was_never_durable() -> None:
    """Goal: a crash took the first segment and left its index; nothing durable is missing."""
    bench = LogBench(SMALL)
    for _ in range(12):
        bench.append()
    first, second, *_ = bench.log.segments
    assert bench.disk.exists(f"{PARTITION}/{first.base_offset:020}.index")
    bench.disk.delete(f"{PARTITION}/{first.base_offset:020}.log")
    log = bench.reopen_after_kill()
    assert second.base_offset > 0
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.topic_id != ZERO_TOPIC_ID


def test_records_without_a_topic_id_stay_after_a_clean_stop() -> None:
    """Goal: a lost file alone costs nothing when everything else is known to be whole."""
    bench = LogBench(SMALL)
    for _ in range(12):
        bench.append()
    bench.settle()
    before = read_all(bench.log)
    bench.disk.delete(f"{PARTITION}/{PARTITION_METADATA_FILE}")
    log = bench.reopen_cleanly()
    assert log.topic_id == ZERO_TOPIC_ID
    assert read_all(log) == before


@pytest.mark.parametrize("way", ["clean stop", "kill", "truncation"])
def test_every_batch_in_flight_is_still_known_as_a_duplicate(way: str) -> None:
    """Goal: a snapshot has one batch of a producer, its client has five in flight; a retry of any
    of them gets its first offsets, also from a replica that was restarted or cut."""
    bench = LogBench(SMALL)
    sent = [batch(producer_id=9, producer_epoch=0, sequence=index) for index in range(12)]
    for each in sent:
        bench.log.append_as_leader(each, 0, WALL_MS)
    log = bench.log
    if way == "clean stop":
        log = bench.reopen_cleanly()
    elif way == "kill":
        log = bench.reopen_after_kill()
    else:
        log.append_as_leader(batch(), 1, WALL_MS)
        log.truncate_to(12)
    for offset in range(7, 12):
        again = log.append_as_leader(sent[offset], 2, WALL_MS)
        assert (again.duplicate, again.first_offset) == (True, offset)
    with pytest.raises(ProtocolError, match="expected `12`"):
        log.append_as_leader(sent[6], 2, WALL_MS)


def test_an_epoch_without_records_is_trimmed_after_a_clean_stop_too() -> None:
    """Goal: the epoch of a leader that wrote nothing does not outlive it."""
    bench = LogBench()
    bench.append(epoch=3)
    bench.log.assign_epoch(9, 1)
    assert bench.reopen_cleanly().epochs.entries == [(3, 0)]


def test_epochs_beyond_the_log_are_trimmed() -> None:
    """Goal: entries that a crash left above the log end, or that contradict the headers, go."""
    bench = LogBench()
    for epoch in (1, 1, 3):
        bench.append(epoch=epoch)
    bench.settle()
    stale = encode_epochs([(1, 0), (2, 1), (5, 9)])
    bench.disk.replace(f"{PARTITION}/leader-epoch-checkpoint", stale)
    assert bench.reopen_after_kill().epochs.entries == [(1, 0), (3, 2)]


def test_a_log_below_its_start_begins_there_anew() -> None:
    """Goal: when deleted records are all that a crash left, the log restarts at its log start."""
    bench = LogBench()
    bench.append(count=3)
    bench.settle()
    bench.disk.replace("log-start-offset-checkpoint", encode_offsets({PARTITION: 10}))
    log = bench.reopen_after_kill()
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert bench.append() == 10
    log.check()
    assert bench.reopen_after_kill().log_end_offset == 11


@pytest.mark.parametrize("witness", ["checkpoint", "name"])
@pytest.mark.parametrize("lost", ["flushed segment", "unflushed segment", "records below"])
def test_where_a_start_begins_a_log_anew_outlives_a_power_cut(lost: str, witness: str) -> None:
    """Goal: no offset is used again. Either witness is enough. Steps: the log starts at 10, by its
    checkpoint; a start finds it without records; the checkpoints are written; the power goes."""
    bench = LogBench()
    _write_checkpoints(bench)
    # The topic id is durable.
    bench.disk.sync_tree()
    if lost == "records below":
        bench.append(count=3)
        bench.log.request_flush()
        bench.settle()
        bench.disk.replace(LOG_START_FILE, encode_offsets({PARTITION: 10}))
        log = bench.reopen_after_kill()
    else:
        bench.append(count=10)
        if lost == "flushed segment":
            bench.log.request_flush()
            bench.settle()
        bench.log.update_high_watermark(10)
        bench.log.maybe_raise_log_start_offset(10)
        _write_checkpoints(bench)
        bench.disk.delete(file_of(0, ".log"))
        log = bench.reopen_after_power_cut()
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    bench.append()
    _write_checkpoints(bench)
    if witness == "name":
        bench.disk.replace(LOG_START_FILE, b"")
    else:
        bench.disk.delete(file_of(10, ".log"))
    log = bench.reopen_after_power_cut()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (10, 10, 10)


def test_the_start_of_an_empty_log_is_checkpointed() -> None:
    """Goal: its only segment is gone, which no recovery point claims, and it begins where it
    began. Once a record is durable the name of its segment is."""
    bench = LogBench()
    bench.log.truncate_fully_and_start_at(10)
    bench.log.request_flush()
    bench.settle()
    _write_checkpoints(bench)
    bench.disk.delete(file_of(10, ".log"))
    log = bench.reopen_after_kill()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (10, 10, 10)
    bench.append()
    bench.log.request_flush()
    bench.settle()
    _write_checkpoints(bench)
    assert decode_offsets(bench.disk.read_file(LOG_START_FILE) or b"") == {}


def _write_checkpoints(bench: LogBench) -> None:
    """What a node does every minute."""
    bench.directory.checkpoint_recovery_points()
    bench.directory.checkpoint_log_start_offsets()
    bench.directory.checkpoint_high_watermarks()
    bench.settle()


def test_a_bad_snapshot_is_replaced_by_replay() -> None:
    """Goal: producers are known although the newest snapshot is damaged."""
    bench = LogBench(SMALL)
    for index in range(20):
        each = batch(producer_id=9, producer_epoch=0, sequence=index)
        bench.log.append_as_leader(each, 0, WALL_MS)
    bench.settle()
    bench.directory.close_cleanly(CleanShutdown(1))
    bench.settle()
    bench.disk.flip_bit(file_of(20, ".snapshot"), 8 * 12)
    log = bench.reopen()
    again = log.append_as_leader(batch(producer_id=9, producer_epoch=0, sequence=19), 0, WALL_MS)
    assert again.duplicate and again.first_offset == 19


def test_recovery_takes_a_snapshot_where_starts_would_replay_sealed_segments() -> None:
    """Goal: after an unclean start the producer state as of the log end is on disk, if the one that
    the last roll wrote is lost; else there is nothing to write."""
    bench = LogBench()
    bench.log.append_as_leader(batch(producer_id=9, producer_epoch=2, sequence=0), 0, WALL_MS)
    bench.reopen_after_kill()
    assert bench.log.snapshots.offsets == []
    bench.roll()
    bench.reopen_after_kill()
    assert bench.log.snapshots.offsets == [1]
    bench.disk.delete(file_of(1, ".snapshot"))
    bench.reopen_after_kill()
    entries = decode_snapshot(bench.disk.read_file(file_of(1, ".snapshot")) or b"")
    assert [(entry.producer_id, entry.producer_epoch) for entry in entries] == [(9, 2)]


def test_recovery_rebuilds_aborted_transactions() -> None:
    """Goal: the transaction index of a recovered segment is made again from markers."""
    bench = LogBench(SMALL)
    for index in range(12):
        data = batch(producer_id=7, producer_epoch=0, sequence=index, transactional=True)
        bench.log.append_as_leader(data, 0, WALL_MS)
        if index % 3 == 2:
            marker = build_end_txn_marker(EndTxnMarker(index % 2 == 0, 0), 7, 0, WALL_MS)
            bench.log.append_as_leader(marker, 0, WALL_MS, origin=AppendOrigin.COORDINATOR)
    aborted = bench.log.aborted_in(0, 99)
    assert len(aborted) == 2
    log = bench.reopen_after_kill()
    assert log.aborted_in(0, 99) == aborted
    assert log.last_stable_offset == 0
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset
    log.check()


def test_an_open_transaction_survives_a_clean_stop() -> None:
    """Goal: the stable offset stays before it after loading the snapshot."""
    bench = LogBench()
    bench.append()
    data = batch(producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    bench.log.append_as_leader(data, 0, WALL_MS)
    bench.log.update_high_watermark(2)
    assert bench.reopen_cleanly().last_stable_offset == 1


def test_orphan_index_files_are_removed() -> None:
    """Goal: an index without its log is deleted, so that it cannot meet a later segment."""
    bench = LogBench()
    bench.append()
    bench.settle()
    bench.disk.replace(file_of(77, ".index"), bytes(8))
    bench.reopen_after_kill()
    assert not bench.disk.exists(file_of(77, ".index"))


def test_an_index_whose_log_was_never_durable_goes_at_the_next_start() -> None:
    """NoFalseDamage. Goal: neither the next clean stop nor a power cut behind it lets it appear
    as what is left of a log. Steps: a clean stop has written the indexes of the first segment; the
    power goes before their flush; a start, a clean stop, and another start."""
    found = 0
    for seed in range(60):
        bench = LogBench()
        bench.directory.checkpoint_recovery_points()
        bench.settle()
        bench.disk.sync_tree()
        bench.append()
        bench.directory.close_cleanly(CleanShutdown(41))
        bench.effects.take()
        bench.disk.crash(Prng(seed))
        has_index = any(bench.disk.exists(file_of(0, each)) for each in (".index", ".timeindex"))
        if not has_index or bench.disk.exists(file_of(0, ".log")):
            continue
        found += 1
        bench.reopen()
        end = bench.log.log_end_offset
        assert bench.reopen_cleanly().log_end_offset == end, seed
        bench.stop()
        assert bench.reopen_after_power_cut(Prng(seed)).log_end_offset == end, seed
    assert found > 5


@pytest.mark.parametrize("stop", ["clean", "unclean", "recovery point lost"])
def test_random_damage_never_breaks_opening(stop: str) -> None:
    """Goal: P4; whatever file of a partition is damaged, the log that opens is a prefix of what was
    written, and all of it where the loss would be no torn tail: else the log is out of service.
    Method: 100 seeds, each flips a bit in or cuts one random file before a start."""
    bench = LogBench(SMALL)
    for index in range(25):
        each = batch(producer_id=9, producer_epoch=0, sequence=index)
        bench.log.append_as_leader(each, index // 6, WALL_MS)
    written = read_all(bench.log)
    bench.stop()
    if stop != "clean":
        bench.disk.delete(".kafka_cleanshutdown")
        empty = encode_offsets({})
        bench.disk.replace("recovery-point-offset-checkpoint", empty if stop == "unclean" else b"")
    image = {path: bytes(content.data) for path, content in bench.disk.contents()}
    paths = sorted(path for path in image if path.startswith(f"{PARTITION}/") and image[path])
    damaged_count = 0
    for seed in range(100):
        prng = Prng(seed)
        disk = MemoryDisk()
        disk.make_dir(str(PARTITION))
        for path, data in image.items():
            disk.replace(path, data)
        path = prng.choice(paths)
        if prng.chance(1, 3):
            disk.replace(path, image[path][: prng.below(len(image[path]))])
        else:
            disk.flip_bit(path, 8 * prng.below(len(image[path])))
        opened = LogBench(SMALL, disk)
        if PARTITION in opened.directory.damaged:
            damaged_count += 1
            assert path.endswith(".log") and stop != "unclean", f"seed {seed}: {path}"
            continue
        log = opened.log
        log.check()
        if stop == "unclean" and _in_epoch(image[path], disk.read_file(path) or b""):
            # After a crash the epoch file may be old, so that batches are believed.
            continue
        try:
            found = read_all(log)
        except LogDamaged:
            assert path.endswith(".log"), f"seed {seed}: {path}"
            continue
        complete = stop != "unclean" or not path.endswith((".log", ".metadata"))
        assert found == written if complete else written.startswith(found), f"seed {seed}: {path}"
    assert damaged_count > 5 or stop == "unclean"


def _in_epoch(before: bytes, after: bytes) -> bool:
    """Whether the files differ in the leader epoch of a batch."""
    if len(before) != len(after) or not before.startswith(bytes(8)):
        return False
    return any(
        before[position + 12 : position + 16] != after[position + 12 : position + 16]
        for position, _ in iter_headers(before)
    )


class CountingDisk(MemoryDisk):
    """A disk that knows what was made durable."""

    def __init__(self) -> None:
        super().__init__()
        self.durable: list[str] = []

    def begin(self, operation: Operation, path: str) -> None:
        super().begin(operation, path)
        if operation in (Operation.SYNC, Operation.REPLACE):
            self.durable.append(path)

    def take_durable(self) -> list[str]:
        """What was made durable of the log since the last call."""
        durable, self.durable = self.durable, []
        return [path for path in durable if path.startswith(f"{PARTITION}/")]


def test_logs_without_records_are_started_and_stopped_without_a_sync() -> None:
    """Goal: ten thousand idle replicas do not cost fifty thousand fsyncs. Such a log can lose
    nothing; the stop makes durable what a crash may have left of a truncation."""
    disk = CountingDisk()
    bench = LogBench(disk=disk)
    bench.reopen_after_kill()
    assert disk.take_durable() == []
    bench.stop()
    assert disk.take_durable() == [f"{PARTITION}/{PARTITION_METADATA_FILE}"]
    bench.reopen()
    bench.stop()
    assert disk.take_durable() == []
    bench.reopen()
    assert bench.log.topic_id == TOPIC_ID
    bench.append()
    bench.stop()
    assert len(disk.take_durable()) > 3
    assert bench.reopen().log_end_offset == 1


def test_a_new_log_is_whose_it_is_after_a_clean_stop_and_a_power_cut() -> None:
    """Goal: what a clean stop leaves is durable, the identity of an empty log included, also where
    a process was killed before; and so is what the first flush covers."""
    for killed in (False, True):
        bench = LogBench()
        if killed:
            bench.reopen_after_kill()
        bench.stop()
        assert bench.reopen_after_power_cut().topic_id == TOPIC_ID
        assert bench.directory.clean_shutdown.broker_epoch == 41
    bench = LogBench()
    bench.reopen_after_kill()
    bench.append()
    bench.log.request_flush()
    bench.settle()
    log = bench.reopen_after_power_cut()
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 1)


def test_a_cut_before_a_crash_is_durable_after_the_next_clean_stop() -> None:
    """Goal: records that were cut away do not come back under the marker of a clean stop.
    Method: the device has them, the cut is in memory only, the process dies, the next one finds an
    empty log and stops cleanly, and then the power goes."""
    bench = LogBench()
    bench.append()
    bench.disk.sync(bench.log.segments[0].file)
    bench.log.truncate_to(0)
    bench.reopen_after_kill()
    bench.stop()
    log = bench.reopen_after_power_cut()
    assert (log.log_end_offset, log.segments[0].size_bytes) == (0, 0)
    assert bench.directory.clean_shutdown.broker_epoch == 41


class _DyingDisk(MemoryDisk):
    """Ends the process instead of carrying out some deletion."""

    deletions_left = 1 << 30

    def begin(self, operation: Operation, path: str) -> None:
        if operation is Operation.DELETE:
            if not self.deletions_left:
                raise KeyboardInterrupt(path)
            self.deletions_left -= 1
        super().begin(operation, path)


@pytest.mark.parametrize("power_is_cut", [False, True])
@pytest.mark.parametrize("deletions", range(12))
def test_segments_that_were_being_deleted_are_no_damage(deletions: int, power_is_cut: bool) -> None:
    """Goal: whichever of their files are left, the log starts at its checkpointed start."""
    disk = _DyingDisk()
    bench = LogBench(SMALL, disk=disk)
    for index in range(30):
        bench.append(epoch=index // 4)
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.log.update_high_watermark(30)
    bench.log.maybe_raise_log_start_offset(25)
    bench.directory.checkpoint_log_start_offsets()
    bench.settle()
    before = read_all(bench.log)
    assert len(bench.log.segments) > 4
    disk.deletions_left = deletions
    with pytest.raises(KeyboardInterrupt):
        bench.log.delete_segments_below(25, 1 << 30)
    disk.deletions_left = 1 << 30
    log = bench.reopen_after_power_cut() if power_is_cut else bench.reopen_after_kill()
    assert bench.directory.damaged == {}
    assert (log.log_start_offset, log.log_end_offset) == (25, 30)
    assert read_all(log) == before
    assert len(log.segments) == 1 or log.segments[1].base_offset > 25
    assert log.epochs.entries[0][1] == 25
    assert not [name for name in disk.list_dir(str(PARTITION)) if name < offset_name(20)]
    log.check()


def test_a_lost_head_is_damage_unless_it_was_deleted() -> None:
    """Goal: only a log start above the hole excuses it."""
    bench = LogBench(SMALL)
    for _ in range(30):
        bench.append()
    bench.log.update_high_watermark(30)
    bench.log.maybe_raise_log_start_offset(3)
    bases = [segment.base_offset for segment in bench.log.segments]
    assert bases[1] > 3
    bench.stop()
    bench.disk.delete(file_of(bases[0], ".log"))
    with pytest.raises(KeyError):
        bench.reopen()
    assert list(bench.directory.damaged) == [PARTITION]


@pytest.mark.parametrize("witness", [".index", ".snapshot"])
def test_a_log_whose_only_segment_is_gone_is_damaged(witness: str) -> None:
    """Goal: P4; one file beside it is enough, where neither a recovery point nor the epochs say
    that there were records (seed 462135431)."""
    bench = LogBench()
    for index in range(3):
        each = batch(producer_id=9, producer_epoch=0, sequence=index)
        bench.log.append_as_leader(each, 0, WALL_MS)
    bench.stop()
    kept = [name for name in bench.disk.list_dir(str(PARTITION)) if name.endswith(witness)]
    assert kept
    for name in bench.disk.list_dir(str(PARTITION)):
        if name not in (*kept, "partition.metadata"):
            bench.disk.delete(f"{PARTITION}/{name}")
    bench.disk.replace("recovery-point-offset-checkpoint", b"")
    with pytest.raises(KeyError):
        bench.reopen()
    assert list(bench.directory.damaged) == [PARTITION]


@pytest.mark.parametrize(
    ("checkpoints", "beside", "start"),
    [
        (Checkpoints(), None, 0),
        (Checkpoints(), f"{0:020}-{0:010}.checkpoint", 0),
        (Checkpoints(recovery_point=2), None, 3),
        (Checkpoints(complete=False), None, 3),
        (Checkpoints(), f"{3:020}-{1:010}.checkpoint", 3),
        (Checkpoints(), f"{3:020}-{1:010}.checkpoint.corrupt", 3),
    ],
)
def test_a_metadata_log_whose_head_was_never_durable_is_empty(
    checkpoints: Checkpoints, beside: str | None, start: int
) -> None:
    """Quorum seed 25141948: the power went before the first flush, and of two segments only the
    name of the second was there. The only voter refused to start for ever. What shows that records
    were durable, or that a snapshot took their place, keeps the log as it is."""
    env = LogEnv(MemoryDisk(), EffectQueue(), Trace(TraceList()))
    path, disk = str(METADATA_PARTITION), env.disk
    log = make_log(env, METADATA_PARTITION, METADATA_TOPIC_ID, SMALL)
    for _ in range(3):
        log.append_as_leader(batch(), 1, WALL_MS)
    roll(log, 3)
    log.append_as_leader(batch(), 1, WALL_MS)
    log.close()
    for name in disk.list_dir(path):
        if name.startswith(offset_name(0)):
            disk.delete(f"{path}/{name}")
    if beside is not None:
        disk.replace(f"{path}/{beside}", b"whatever")
    log = open_log(env, METADATA_PARTITION, SMALL, checkpoints, clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (start, 4 if start else 0)
    log.check()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshot_end", [None, 2, 9])
def test_a_start_beyond_the_end_of_the_metadata_log_needs_a_snapshot(
    clean: bool, snapshot_end: int | None
) -> None:
    """Goal: no checksum covers the checkpoint. After a kill one changed digit deleted the metadata
    of an only voter; with the snapshot a crash has interrupted its installation."""
    env = LogEnv(MemoryDisk(), EffectQueue(), Trace(TraceList()))
    path, disk = str(METADATA_PARTITION), env.disk
    log = make_log(env, METADATA_PARTITION, METADATA_TOPIC_ID, SMALL)
    for _ in range(3):
        log.append_as_leader(batch(), 1, WALL_MS)
    log.close()
    if snapshot_end is not None:
        disk.replace(f"{path}/{offset_name(snapshot_end)}-0000000001.checkpoint", b"whatever")
    before = disk.read_file(f"{path}/{offset_name(0)}.log")
    checkpoints = Checkpoints(recovery_point=3, log_start_offset=9)
    if not clean and snapshot_end == 9:
        log = open_log(env, METADATA_PARTITION, SMALL, checkpoints, clean=False)
        assert (log.log_start_offset, log.log_end_offset) == (9, 9)
        return
    with pytest.raises(LogDamaged, match="ends at 3, its checkpoint begins at 9") as error:
        open_log(env, METADATA_PARTITION, SMALL, checkpoints, clean=clean)
    assert error.value.base_offset == 0
    assert disk.read_file(f"{path}/{offset_name(0)}.log") == before


def test_of_a_log_that_ends_below_its_start_a_repair_keeps_nothing() -> None:
    """Goal: the replica gets all of it again, and does not begin where the damaged one ended."""
    bench = LogBench()
    bench.append(count=4)
    bench.log.update_high_watermark(4)
    bench.stop()
    starts = encode_offsets({PARTITION: 9})
    bench.disk.replace(LOG_START_FILE, starts)
    bench.directory = open_directory(bench.disk)
    damage = bench.directory.damaged[PARTITION]
    assert damage.base_offset == 0 and "its checkpoint begins at 9" in damage.cause
    log = finish(bench.directory.repaired(PARTITION, TOPIC_ID, bench.config, remember=True))
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert bench.disk.exists(file_of(0, ".log.corrupt"))
