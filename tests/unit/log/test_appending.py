"""Appending: what leaders stamp, what followers copy, what is refused without a trace."""

import pytest

from tests.unit.log.harness import WALL_MS, LogBench, batch, read_all
from tidelog.config import LogConfig
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.errors import CorruptBatch, ErrorCode, ProtocolError, StorageError
from tidelog.log.appending import scan_fetched
from tidelog.log.values import AppendOrigin
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
    """Goal: with LogAppendTime every record carries the broker's time, and so does the reply."""
    bench = LogBench(LogConfig(message_timestamp_type="LogAppendTime"))
    result = bench.log.append_as_leader(batch(2, 5), 0, WALL_MS)
    assert result.log_append_time_ms == WALL_MS
    records = decode_batch(read_all(bench.log))
    assert [record.timestamp for record in records] == [WALL_MS, WALL_MS]


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
    failure (KAFKA-10778), though there is space again; after a restart it does."""
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
            bench.log.tail.clear()
        assert bench.log.read(4, 1 << 20, 12, at_least_one=True).first_offset == 10


def test_a_log_that_cannot_note_an_abort_takes_nothing_more() -> None:
    """Goal: a marker without its index entry would show aborted data, so the log fails for good
    and recovery makes the entry. Method: the disk is full right after the marker."""
    bench = LogBench()
    data = batch(2, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    bench.log.append_as_leader(data, 0, WALL_MS)
    marker = build_end_txn_marker(EndTxnMarker(False, 0), 7, 0, WALL_MS)
    bench.disk.capacity_bytes = bench.disk.used_bytes + len(marker) + 33
    with pytest.raises(StorageError):
        bench.log.append_as_leader(marker, 0, WALL_MS, origin=AppendOrigin.COORDINATOR)
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
            bench.log.append_as_leader(marker, 0, WALL_MS, origin=AppendOrigin.COORDINATOR)
            continue
        with pytest.raises(ProtocolError) as caught:
            bench.log.append_as_leader(marker, 0, WALL_MS, origin=AppendOrigin.COORDINATOR)
        assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_quorum_batches_are_only_stamped() -> None:
    """Goal: the metadata quorum's batches pass without client rules, larger than any limit."""
    bench = LogBench(LogConfig(max_message_bytes=10))
    big = build_batch([Record(0, None, bytes(500))])
    assert bench.log.append_as_leader(big, 3, 0, origin=AppendOrigin.RAFT).last_offset == 0


def test_a_lower_epoch_from_a_leader_is_a_bug() -> None:
    """Goal: appending under an epoch older than the log's own asserts."""
    bench = LogBench()
    bench.append(epoch=4)
    with pytest.raises(AssertionError):
        bench.append(epoch=3)


# What a follower takes of a fetch response ------------------------------------------------


def test_whole_batches_of_known_epochs() -> None:
    """Goal: every cut length gives exactly the whole batches before it."""
    parts = [stamp(batch(2), 2 * index, index) for index in range(4)]
    data = b"".join(parts)
    size_bytes = len(parts[0])
    for length in range(len(data) + 1):
        found = scan_fetched(memoryview(data)[:length], 9)
        assert found.end == length // size_bytes * size_bytes
        assert len(found.headers) == len(found.spans) == length // size_bytes
    assert scan_fetched(data, 1).end == 2 * size_bytes


def test_damage_is_refused() -> None:
    """Goal: no batch with a flipped bit behind its first 17 bytes is taken; method: 300 flips in
    the second of three batches."""
    parts = [stamp(batch(2), 2 * index, 0) for index in range(3)]
    prng = Prng(4)
    for _ in range(300):
        damaged = bytearray(parts[1])
        bit = prng.between(17 * 8, len(damaged) * 8 - 1)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            scan_fetched(parts[0] + damaged + parts[2], 9)


def test_offsets_must_rise() -> None:
    """Goal: a repeated or overlapping batch is refused, a hole is not."""
    first = stamp(batch(3), 10, 0)
    for offset in (0, 10, 12):
        with pytest.raises(CorruptBatch):
            scan_fetched(first + stamp(batch(3), offset, 0), 9)
    assert len(scan_fetched(first + stamp(batch(3), 99, 0), 9).spans) == 2


@pytest.mark.parametrize("length", [b"\x00" * 4, b"\xff" * 4, b"\x00\x00\x00\x05"])
def test_senseless_lengths_are_refused(length: bytes) -> None:
    """Goal: no endless loop and no skipping over garbage."""
    data = bytearray(stamp(batch(), 0, 0))
    data[8:12] = length
    with pytest.raises(CorruptBatch):
        scan_fetched(data, 9)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_repetition_is_answered_with_the_time_of_the_first_append(kind: str) -> None:
    """Goal: the client of a topic with append times gets the one that readers get."""
    bench = LogBench(LogConfig(message_timestamp_type=kind))
    sent = batch(producer_id=9, producer_epoch=0, sequence=0)
    first = bench.log.append_as_leader(sent, 0, WALL_MS + 5)
    again = bench.log.append_as_leader(sent, 0, WALL_MS + 50)
    assert again.duplicate and again.log_append_time_ms == first.log_append_time_ms
