"""Truncation: everything that was derived from the cut records goes with them."""

from itertools import product

import pytest

from tests.unit.log.cleaning.bench import CleaningBench, full
from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, batch, read_all
from tidelog.config import LogConfig
from tidelog.env.prng import Prng
from tidelog.log.rolling import request_flush
from tidelog.log.values import AppendOrigin
from tidelog.model import EpochEndOffset
from tidelog.records.batch import iter_headers, stamp
from tidelog.records.control import EndTxnMarker, build_end_txn_marker


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
    bench.log.tail.clear()
    assert read_all(bench.log) == kept
    bench.log.check()
    assert bench.append(epoch=7) == 8
    assert bench.reopen_after_kill().log_end_offset == 9
    assert bench.log.epochs.entries == [(0, 0), (1, 5), (7, 8)]


def test_truncation_deletes_the_snapshots_of_what_was_cut() -> None:
    """Goal: a snapshot must never hold records that were replaced. Method: cut below a roll,
    write others up to the same offset, kill, and ask for the old and new producers."""
    bench = LogBench()
    old = batch(4, producer_id=1, producer_epoch=0, sequence=0)
    bench.log.append_as_leader(old, 0, WALL_MS)
    bench.roll()
    assert bench.disk.exists(f"{PARTITION}/00000000000000000004.snapshot")
    bench.log.truncate_to(0)
    assert not bench.disk.exists(f"{PARTITION}/00000000000000000004.snapshot")
    bench.log.append_as_leader(batch(4, producer_id=2, producer_epoch=0, sequence=0), 1, WALL_MS)
    log = bench.reopen_after_kill()
    assert list(log.producers.by_id) == [2]


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


def test_a_cut_into_a_gap_of_a_compacted_log() -> None:
    """The log ends with the last batch before the cut and goes on from there; whatever stop comes
    before that, the next start does not take the missing offsets for damage."""
    for has_record, restart in product((False, True), ("clean", "kill", "power")):
        bench = CleaningBench(segment_bytes=10_000)
        bench.put((b"a", b"kept"))
        for number in range(6):
            bench.put((b"b", b"%d" % number))
        full(bench, 1)
        assert bench.clean()
        data = bench.log.segments.covering(0)[0].file.read(0, 10_000)
        assert [header.base_offset for _, header in iter_headers(data)][:2] == [0, 6]
        log = bench.log
        assert log.end_below(4) == 1 and log.end_below(7) == 7
        log.truncate_to(4)
        log.check()
        assert log.log_end_offset == 1
        if has_record:
            assert bench.put((b"c", b"v")) == 1
        bench.commit_all()
        match restart:
            case "clean":
                log = bench.reopen_cleanly()
            case "kill":
                log = bench.reopen_after_kill()
            case _:
                log = bench.reopen_after_power_cut()
        log.check()
        log.verify()
        assert bench.directory.damaged == {}
        assert log.log_end_offset == (2 if has_record else 1), (has_record, restart)


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_log_that_begins_anew_claims_nothing_before_a_record_is_durable(is_flushed: bool) -> None:
    """NoFalseDamage (seed 13: a log ended at 0 after a power cut, 28 was said to be durable). Goal:
    the first segment's name may be lost with its records, until they are durable."""
    bench = LogBench()
    bench.append(count=3)
    bench.log.truncate_fully_and_start_at(28)
    bench.append(count=2)
    if is_flushed:
        request_flush(bench.log)
        bench.settle()
    assert bench.log.claimed_end == (30 if is_flushed else 0)
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.log.announced_end = 29
    assert bench.log.claimed_end == (29 if is_flushed else 0)
    bench.log.close()
    bench.disk.delete(f"{PARTITION}/{28:020}.log")
    bench.directory = bench._open()
    assert set(bench.directory.damaged) == ({PARTITION} if is_flushed else set())


@pytest.mark.parametrize("is_flushed", [False, True])
def test_where_a_log_begins_anew_is_claimed_when_that_is_durable(is_flushed: bool) -> None:
    """Seed 109159278: a follower of a leader without records was in sync by the end of its empty
    log, lost its new segment's name in a power cut, and was elected with a log that ended at 0.
    Goal: what the recovery point covers is still covered after a power cut."""
    bench = LogBench()
    bench.append()
    request_flush(bench.log)
    bench.settle()
    bench.log.truncate_fully_and_start_at(28)
    assert bench.log.recovery_point == 0
    if is_flushed:
        request_flush(bench.log)
        bench.settle()
        assert bench.log.recovery_point == 28
    log = bench.reopen_after_power_cut()
    assert bench.directory.damaged == {}
    assert (log.log_start_offset, log.log_end_offset) == ((28, 28) if is_flushed else (0, 0))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cut_finds_the_transaction_of_a_forgotten_producer(*, restarts: bool) -> None:
    """Goal: a cut takes the marker of an abort and leaves its records. The producer had expired,
    before a clean stop or not, and readers of committed data must not get what is undecided again.
    """
    bench = LogBench()
    for sequence in range(2):
        records = batch(producer_id=9, producer_epoch=0, sequence=sequence, transactional=True)
        bench.log.append_as_leader(records, 0, WALL_MS)
    marker = build_end_txn_marker(EndTxnMarker(False, 0), 9, 0, WALL_MS)
    bench.log.append_as_leader(marker, 0, WALL_MS, origin=AppendOrigin.COORDINATOR)
    bench.log.update_high_watermark(3)
    producers = bench.log.producers
    assert [producers.expire(WALL_MS + 1_000, 1_000) for _ in range(2)] == [0, 1]
    if restarts:
        bench.reopen_cleanly()
    bench.log.truncate_to(2)
    assert (bench.log.high_watermark, bench.log.last_stable_offset) == (2, 0)
    bench.log.check()


def test_a_log_that_begins_anew_may_have_gaps_if_it_had() -> None:
    """Goal: what a leader sends that was compacted once is not taken for damage where the log began
    anew when it knew of gaps, and its policy is another one by now."""
    bench = LogBench()
    for base_offset in (0, 5, 6):
        bench.log.append_as_follower(stamp(batch(), base_offset, 0), 0)
    bench.log.truncate_fully_and_start_at(20)
    for base_offset in (20, 25, 26):
        bench.log.append_as_follower(stamp(batch(), base_offset, 0), 0)
    bench.log.verify()
    assert len(read_all(bench.log)) == 3 * len(batch())


def test_a_cut_that_a_power_cut_undoes_has_no_newer_records_behind_it() -> None:
    """A follower cut the record of a former leader, fetched others, and rolled. Power went before a
    flush: the cut was undone, and the next segment was there. The old record lay below records of
    the new epoch, and by that epoch the log agreed with its leader's. Method: any part of what is
    not durable survives; the old record and the one in its place have one size."""
    undone = 0
    for seed in range(60):
        bench = LogBench(LogConfig(segment_bytes=300))
        bench.log.append_as_leader(batch(value=b"a" * 40), 1, WALL_MS)
        bench.log.append_as_leader(batch(value=b"b" * 40), 1, WALL_MS)
        bench.log.request_flush()
        bench.settle()
        bench.directory.checkpoint_recovery_points()
        bench.log.announced_end = 1
        bench.directory.checkpoint_recovery_points()
        bench.settle()
        bench.log.truncate_to(1)
        for _ in range(4):
            bench.log.append_as_leader(batch(value=b"c" * 40), 2, WALL_MS)
        log = bench.reopen_after_power_cut(Prng(seed))
        epochs = [header.leader_epoch for _, header in iter_headers(read_all(log))]
        undone += epochs == [1, 1]
        assert epochs == [1, 1] or epochs[:2] == [1, 2][: len(epochs)]
    assert undone


def test_a_log_that_waits_for_its_cut_rolls_when_that_is_durable() -> None:
    """It asks for the flush itself."""
    bench = LogBench(LogConfig(segment_bytes=300))
    bench.append()
    bench.append()
    bench.log.truncate_to(1)
    for _ in range(4):
        bench.append()
    assert len(bench.log.segments) == 1
    bench.settle()
    bench.append()
    assert len(bench.log.segments) == 2
