"""The log as a whole: append, read, truncate, and what may never happen to its offsets."""

import pytest

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, batch, read_all
from tidelog.config import LogConfig
from tidelog.env.effects import Flush
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch, ErrorCode, ProtocolError, StorageError
from tidelog.log.log import AppendOrigin, LogFlush
from tidelog.model import EpochEndOffset
from tidelog.records.batch import build_batch, decode_batch, read_header, stamp, verify_crc
from tidelog.records.control import EndTxnMarker, build_end_txn_marker
from tidelog.records.record import Record


def test_a_leader_stamps_offset_and_epoch() -> None:
    """Goal: batches get the next offsets and the epoch, with the checksum still right."""
    bench = LogBench()
    assert bench.append(count=3, epoch=5) == 0
    result = bench.log.append_as_leader(memoryview(batch(2)), 6, WALL_MS)
    assert (result.first_offset, result.last_offset, result.duplicate) == (3, 4, False)
    assert bench.log.log_end_offset == 5
    chunks = bench.log.read(3, 1 << 20, 5, at_least_one=True).chunks
    stored = chunks[0]
    assert isinstance(stored, bytes)
    assert read_header(stored).leader_epoch == 6 and verify_crc(stored)
    assert bench.log.epochs.entries == [(5, 0), (6, 3)]
    bench.log.check()


def test_log_append_time_is_stamped() -> None:
    """Goal: with LogAppendTime every record carries the broker's time, and the reply tells it."""
    bench = LogBench(LogConfig(message_timestamp_type="LogAppendTime"))
    result = bench.log.append_as_leader(batch(2, 5), 0, WALL_MS)
    assert result.log_append_time_ms == WALL_MS
    records = decode_batch(read_all(bench.log))
    assert [record.timestamp for record in records] == [WALL_MS, WALL_MS]


def test_reads_return_whole_batches_below_the_upper_offset() -> None:
    """Goal: bounds by bytes and by offset hold in the tail cache and on disk alike."""
    bench = LogBench()
    for _ in range(10):
        bench.append(count=2)
    size_bytes = len(batch(2))
    for cached in (True, False):
        if not cached:
            bench.log._tail.clear()
        read = bench.log.read(7, size_bytes * 2, 20, at_least_one=True)
        assert (read.first_offset, read.next_offset, read.size_bytes) == (6, 10, size_bytes * 2)
        assert bench.log.read(6, 1 << 20, 11, at_least_one=True).next_offset == 10
        assert bench.log.read(6, 5, 20, at_least_one=False).size_bytes == 0
        assert bench.log.read(6, 5, 20, at_least_one=True).size_bytes == size_bytes
        assert bench.log.read(20, 1 << 20, 20, at_least_one=True).chunks == []
        assert bench.log.read(7, 1 << 20, 7, at_least_one=True).chunks == []


def test_reads_outside_the_log_are_refused() -> None:
    """Goal: OFFSET_OUT_OF_RANGE below the log start and above the log end, not at it."""
    bench = LogBench()
    for _ in range(4):
        bench.append()
    bench.log.update_high_watermark(4)
    bench.log.maybe_raise_log_start_offset(2)
    for offset in (1, 5):
        with pytest.raises(ProtocolError) as caught:
            bench.log.read(offset, 100, 4, at_least_one=True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.log.read(2, 100, 4, at_least_one=True).next_offset == 3


def test_disk_and_cache_give_the_same_bytes_across_segments() -> None:
    """Goal: a property; random batches over many segments read back equal from both sources."""
    bench = LogBench(LogConfig(segment_bytes=2_000, index_interval_bytes=300))
    prng = Prng(42)
    written = b""
    for _ in range(150):
        count = prng.between(1, 9)
        first = bench.log.log_end_offset
        bench.append(count=count, epoch=first // 100)
        written += stamp(batch(count), first, first // 100)
    assert len(bench.log.segments) > 5
    assert read_all(bench.log) == written
    bench.log._tail.clear()
    assert read_all(bench.log) == written
    bench.log.check()


def test_a_duplicate_returns_the_first_offsets() -> None:
    """Goal: each of the last five batches is recognised, and nothing is written."""
    bench = LogBench()
    sent = [batch(2, producer_id=9, producer_epoch=0, sequence=2 * i) for i in range(5)]
    for each in sent:
        bench.log.append_as_leader(each, 0, WALL_MS)
    for index, each in enumerate(sent):
        again = bench.log.append_as_leader(each, 0, WALL_MS)
        assert (again.first_offset, again.last_offset) == (2 * index, 2 * index + 1)
        assert again.duplicate and again.size_bytes == 0
    assert bench.log.log_end_offset == 10


def test_a_refused_batch_leaves_no_trace() -> None:
    """Goal: after a wrong sequence offsets, files and producers are as before."""
    bench = LogBench()
    bench.log.append_as_leader(batch(producer_id=9, producer_epoch=0, sequence=0), 0, WALL_MS)
    before = read_all(bench.log)
    with pytest.raises(ProtocolError) as caught:
        bench.log.append_as_leader(batch(producer_id=9, producer_epoch=0, sequence=2), 0, WALL_MS)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.log.log_end_offset == 1
    assert read_all(bench.log) == before
    bench.log.append_as_leader(batch(producer_id=9, producer_epoch=0, sequence=1), 0, WALL_MS)


def test_a_full_disk_leaves_the_log_consistent() -> None:
    """Goal: ENOSPC raises StorageError; what was there reads on, and no append slips in after the
    failure (KAFKA-10778), though there is room again; a restart goes on."""
    disk = MemoryDisk()
    bench = LogBench(disk=disk)
    bench.append(count=3)
    before = read_all(bench.log)
    disk.capacity_bytes = disk.used_bytes + 10
    with pytest.raises(StorageError):
        bench.append(epoch=1)
    assert bench.log.log_end_offset == 3
    assert bench.log.epochs.entries == [(0, 0)]
    bench.log.check()
    disk.capacity_bytes = None
    with pytest.raises(StorageError):
        bench.append(epoch=1)
    assert read_all(bench.log) == before
    bench.reopen_after_kill()
    assert bench.append(epoch=1) == 3
    assert read_all(bench.log).startswith(before)


def test_a_failed_roll_leaves_the_log_usable() -> None:
    """Goal: when sealing fails half way the old segment stays active and nothing is lost; after a
    restart the log is sealed there."""
    disk = MemoryDisk()
    bench = LogBench(LogConfig(segment_bytes=400), disk)
    while bench.log.segments[-1].size_bytes < 300:
        bench.append()
    end = bench.log.log_end_offset
    disk.capacity_bytes = disk.used_bytes + 5
    with pytest.raises(StorageError):
        bench.append()
    bench.log.check()
    assert bench.log.log_end_offset == end
    disk.capacity_bytes = None
    bench.reopen_after_kill()
    assert bench.append() == end
    assert len(bench.log.segments) == 2
    bench.log.check()


def test_followers_copy_the_leader_bit_for_bit() -> None:
    """Goal: fetched bytes land unchanged, epochs follow the headers; a cut tail is ignored."""
    leader, follower = LogBench(), LogBench()
    for index in range(6):
        leader.append(count=3, epoch=index // 2)
    data = read_all(leader.log)
    appended = follower.log.append_as_follower(memoryview(data)[:-7], 9)
    assert (appended.first_offset, appended.last_offset) == (0, 14)
    follower.log.append_as_follower(data[appended.size_bytes :], 9)
    assert read_all(follower.log) == data
    assert follower.log.epochs.entries == leader.log.epochs.entries
    follower.log.check()


def test_followers_skip_batches_of_a_later_epoch() -> None:
    """Goal: KAFKA-18723; nothing from the first batch above the fetch's epoch on is taken."""
    leader, follower = LogBench(), LogBench()
    for epoch in (1, 1, 2, 2):
        leader.append(epoch=epoch)
    data = read_all(leader.log)
    appended = follower.log.append_as_follower(data, 1)
    assert follower.log.log_end_offset == 2
    assert appended.skipped_bytes == len(data) // 2
    assert follower.log.append_as_follower(data[len(data) // 2 :], 1).last_offset == -1


def test_followers_refuse_damage_and_overlap() -> None:
    """Goal: a wrong checksum or an offset below the log end raises and appends nothing."""
    leader, follower = LogBench(), LogBench()
    for _ in range(3):
        leader.append(count=2)
    data = read_all(leader.log)
    damaged = bytearray(data)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        follower.log.append_as_follower(damaged, 0)
    assert follower.log.log_end_offset == 0
    follower.log.append_as_follower(data, 0)
    with pytest.raises(CorruptBatch):
        follower.log.append_as_follower(data, 0)
    assert follower.log.log_end_offset == 6


def test_an_empty_follower_starts_inside_a_batch() -> None:
    """Goal: when the leader's log start lies inside a batch the whole batch is taken, from its
    base on, and the log start stays."""
    leader, follower = LogBench(), LogBench()
    leader.append(count=4)
    follower.log.truncate_fully_and_start_at(2)
    follower.log.append_as_follower(read_all(leader.log), 0)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (2, 4)
    follower.log.check()


def test_holes_that_compaction_left_are_kept() -> None:
    """Goal: a follower accepts offsets above its log end; reads step over the hole."""
    bench = LogBench(LogConfig(cleanup_policy="compact"))
    first = stamp(batch(2), 0, 0)
    third = stamp(batch(2), 10, 0)
    bench.log.append_as_follower(first + third, 0)
    for cached in (True, False):
        if not cached:
            bench.log._tail.clear()
        assert bench.log.read(4, 1 << 20, 12, at_least_one=True).first_offset == 10


def test_truncation_forgets_what_was_cut() -> None:
    """Goal: offsets, epochs, watermark, cache and files agree after a cut across segments."""
    bench = LogBench(LogConfig(segment_bytes=500, index_interval_bytes=200))
    for index in range(20):
        bench.append(epoch=index // 5)
    bench.log.update_high_watermark(15)
    kept = read_all(bench.log, 8)
    assert bench.log.truncate_to(8)
    assert (bench.log.log_end_offset, bench.log.high_watermark) == (8, 8)
    bench.log.check()
    assert bench.log.epochs.entries == [(0, 0), (1, 5)]
    assert read_all(bench.log) == kept
    bench.log._tail.clear()
    assert read_all(bench.log) == kept
    bench.log.check()
    assert bench.append(epoch=7) == 8
    assert bench.reopen_after_kill().log_end_offset == 9
    assert bench.log.epochs.entries == [(0, 0), (1, 5), (7, 8)]


def test_truncation_deletes_the_snapshots_of_what_was_cut() -> None:
    """Goal: a snapshot must never speak of records that were replaced. Method: cut below a roll,
    write others up to the same offset, kill, and ask for the old and new producers."""
    bench = LogBench()
    old = batch(4, producer_id=1, producer_epoch=0, sequence=0)
    bench.log.append_as_leader(old, 0, WALL_MS)
    bench.log.roll()
    assert bench.disk.exists(f"{PARTITION}/00000000000000000004.snapshot")
    bench.log.truncate_to(0)
    assert not bench.disk.exists(f"{PARTITION}/00000000000000000004.snapshot")
    bench.log.append_as_leader(batch(4, producer_id=2, producer_epoch=0, sequence=0), 1, WALL_MS)
    log = bench.reopen_after_kill()
    assert log.producers.get(1) is None and log.producers.get(2) is not None


def test_truncating_at_or_above_the_end_drops_an_empty_epoch() -> None:
    """Goal: the epoch of a leader that wrote nothing goes, the records stay."""
    bench = LogBench()
    bench.append(epoch=1)
    bench.log.assign_epoch(4, 1)
    assert not bench.log.truncate_to(1)
    assert bench.log.epochs.entries == [(1, 0)]
    assert bench.log.end_offset_for_epoch(1) == EpochEndOffset(1, 1)


def test_truncation_rebuilds_producers() -> None:
    """Goal: sequences that were cut may be sent again; those below the cut are remembered."""
    bench = LogBench(LogConfig(segment_bytes=600))
    for index in range(12):
        each = batch(producer_id=9, producer_epoch=0, sequence=index)
        bench.log.append_as_leader(each, 0, WALL_MS)
    assert len(bench.log.segments) > 2
    bench.log.truncate_to(7)
    again = batch(producer_id=9, producer_epoch=0, sequence=7)
    assert bench.log.append_as_leader(again, 0, WALL_MS).first_offset == 7
    earlier = batch(producer_id=9, producer_epoch=0, sequence=5)
    assert bench.log.append_as_leader(earlier, 0, WALL_MS).duplicate
    bench.log.check()


def test_truncating_below_the_first_segment_starts_anew() -> None:
    """Goal: a log whose first offset lies above the target becomes empty at the target."""
    bench = LogBench()
    bench.log.truncate_fully_and_start_at(100)
    bench.append()
    assert bench.log.truncate_to(40)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (40, 40)
    bench.log.check()
    assert bench.append() == 40


def test_the_watermark_is_clamped() -> None:
    """Goal: it stays within [log start, log end] and says whether it moved."""
    bench = LogBench()
    bench.append(count=3)
    assert bench.log.update_high_watermark(99)
    assert bench.log.high_watermark == 3
    assert not bench.log.update_high_watermark(3)
    assert bench.log.update_high_watermark(1)


def test_the_log_start_never_passes_the_watermark() -> None:
    """Goal: uncommitted records cannot be deleted; epochs begin at the new start."""
    bench = LogBench()
    for epoch in range(4):
        bench.append(epoch=epoch)
    bench.log.update_high_watermark(3)
    with pytest.raises(ProtocolError):
        bench.log.maybe_raise_log_start_offset(4)
    assert bench.log.maybe_raise_log_start_offset(2)
    assert not bench.log.maybe_raise_log_start_offset(1)
    assert bench.log.epochs.entries == [(2, 2), (3, 3)]
    bench.log.check()


def test_segments_below_the_log_start_go() -> None:
    """Goal: whole ones only, the active one never, producer snapshots with them."""
    bench = LogBench()
    for _ in range(4):
        bench.append(count=2)
        bench.log.roll()
    bench.log.update_high_watermark(8)
    assert bench.log.delete_segments_below_start() == 0
    bench.log.maybe_raise_log_start_offset(5)
    assert bench.log.delete_segments_below_start() == 2
    assert [segment.base_offset for segment in bench.log.segments] == [4, 6, 8]
    bench.log.maybe_raise_log_start_offset(8)
    assert bench.log.delete_segments_below_start() == 2
    assert [segment.base_offset for segment in bench.log.segments] == [8]
    assert bench.log.delete_segments_below_start() == 0
    bench.log.check()


def test_the_recovery_point_follows_completed_flushes() -> None:
    """Goal: only the last answer of a group moves it, to what was asked for."""
    bench = LogBench()
    bench.append(count=2)
    assert bench.log.recovery_point == 0
    assert bench.log.request_flush() == 2
    bench.append()
    flushes = [effect for effect in bench.effects.take() if isinstance(effect, Flush)]
    assert len(flushes) == 2  # partition.metadata of the new log comes first
    for flush in flushes:
        assert bench.log.recovery_point == 0
        assert isinstance(flush.subject, LogFlush)
        bench.log.on_flushed(flush.subject)
    assert bench.log.recovery_point == 2
    bench.log.check()


def test_a_flush_requested_before_a_cut_proves_nothing() -> None:
    """Goal: records rewritten after a truncation are not durable by an older flush."""
    bench = LogBench()
    bench.settle()
    bench.append(count=4)
    bench.log.request_flush()
    bench.log.truncate_to(0)
    bench.append(count=4, epoch=1)
    bench.settle()
    assert bench.log.recovery_point == 0
    bench.log.request_flush()
    bench.settle()
    assert bench.log.recovery_point == 4


def test_sealing_flushes_by_itself() -> None:
    """Goal: a roll makes the sealed segment durable and writes a snapshot at the new base."""
    bench = LogBench()
    bench.append(count=3)
    assert bench.log.roll()
    assert not bench.log.roll()
    bench.settle()
    assert bench.log.recovery_point == 3
    assert bench.disk.exists(f"{PARTITION}/00000000000000000003.snapshot")
    assert bench.disk.exists(f"{PARTITION}/00000000000000000000.timeindex")


def test_time_rolls_a_segment() -> None:
    """Goal: segment.ms counts from the first batch's timestamp to the incoming one's."""
    bench = LogBench(LogConfig(segment_ms=1_000))
    bench.append(timestamp=WALL_MS)
    bench.append(timestamp=WALL_MS + 1_000)
    assert len(bench.log.segments) == 1
    bench.append(timestamp=WALL_MS + 1_001)
    assert len(bench.log.segments) == 2


def test_transactions_hold_the_stable_offset_until_the_marker_is_replicated() -> None:
    """Goal: trap 15; the marker's append does not move it, the watermark passing it does."""
    bench = LogBench()
    bench.append()
    data = batch(2, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    bench.log.append_as_leader(data, 0, WALL_MS)
    bench.append()
    bench.log.update_high_watermark(4)
    assert bench.log.last_stable_offset == 1
    marker = build_end_txn_marker(EndTxnMarker(False, 0), 7, 0, WALL_MS)
    bench.log.append_records(marker, 0, WALL_MS)
    assert bench.log.last_stable_offset == 1
    bench.log.update_high_watermark(5)
    assert bench.log.last_stable_offset == 5
    assert [(txn.producer_id, txn.first_offset) for txn in bench.log.aborted_in(0, 5)] == [(7, 1)]
    assert bench.log.aborted_in(0, 1) == [] and bench.log.aborted_in(5, 9) == []
    bench.log.check()


def test_a_log_that_cannot_note_an_abort_takes_nothing_more() -> None:
    """Goal: a marker without its index entry would show aborted data, so the log fails for good
    and recovery makes the entry. Method: the disk is full right after the marker."""
    bench = LogBench()
    data = batch(2, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    bench.log.append_as_leader(data, 0, WALL_MS)
    marker = build_end_txn_marker(EndTxnMarker(False, 0), 7, 0, WALL_MS)
    bench.disk.capacity_bytes = bench.disk.used_bytes + len(marker) + 33
    with pytest.raises(StorageError):
        bench.log.append_records(marker, 0, WALL_MS)
    bench.disk.capacity_bytes = None
    with pytest.raises(StorageError):
        bench.append()
    log = bench.reopen_after_kill()
    assert [txn.first_offset for txn in log.aborted_in(0, 9)] == [0]
    assert log.log_end_offset == 3
    assert bench.append() == 3


def test_a_deposed_coordinators_marker_is_refused() -> None:
    """Goal: coordinator epochs only grow."""
    bench = LogBench()
    for coordinator_epoch, refused in ((5, False), (4, True)):
        marker = build_end_txn_marker(EndTxnMarker(True, coordinator_epoch), 7, 0, WALL_MS)
        if not refused:
            bench.log.append_records(marker, 0, WALL_MS)
            continue
        with pytest.raises(ProtocolError) as caught:
            bench.log.append_records(marker, 0, WALL_MS)
        assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_quorum_batches_are_only_stamped() -> None:
    """Goal: the metadata quorum's batches pass without client rules, larger than any limit."""
    bench = LogBench(LogConfig(max_message_bytes=10))
    big = build_batch([Record(0, None, bytes(500))])
    assert bench.log.append_records(big, 3, 0, origin=AppendOrigin.RAFT).last_offset == 0


def test_a_damaged_medium_is_noticed_and_not_served() -> None:
    """Goal: P4; a flipped bit on disk raises on read, for the batch that it is in."""
    bench = LogBench()
    for _ in range(3):
        bench.append()
    size_bytes = len(batch())
    bench.log._tail.clear()
    bench.disk.flip_bit(f"{PARTITION}/00000000000000000000.log", (size_bytes + 70) * 8)
    assert bench.log.read(0, size_bytes, 3, at_least_one=True).next_offset == 1
    with pytest.raises(CorruptBatch):
        bench.log.read(1, 1 << 20, 3, at_least_one=True)


def test_a_lower_epoch_from_a_leader_is_a_bug() -> None:
    """Goal: appending under an epoch older than the log's own asserts."""
    bench = LogBench()
    bench.append(epoch=4)
    with pytest.raises(AssertionError):
        bench.append(epoch=3)
