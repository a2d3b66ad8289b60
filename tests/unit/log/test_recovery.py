"""Recovery: a torn tail is cut, what was durable is kept, indexes and epochs are made anew."""

from itertools import product

import pytest

from tests.unit.log.harness import PARTITION, WALL_MS, LogBench, batch, file_of, read_all
from tidelog.config import LogConfig
from tidelog.log.checkpoint import (
    CLEANER_FILE,
    RECOVERY_POINT_FILE,
    CleanShutdown,
    encode_epochs,
    encode_offsets,
)
from tidelog.log.events import IndexRebuilt, TailCut
from tidelog.log.file_names import GAPS_FILE, offset_name
from tidelog.log.rolling import roll
from tidelog.records.batch import stamp

HAS_GAPS = f"{PARTITION}/{GAPS_FILE}"
SMALL = LogConfig(segment_bytes=700, index_interval_bytes=200)


@pytest.mark.parametrize("cut_bytes", [1, 20, 60, 61, 90])
def test_a_torn_tail_is_cut(cut_bytes: int) -> None:
    """Goal: a last batch that is cut anywhere goes, everything before it stays."""
    bench = LogBench()
    for _ in range(5):
        bench.append()
    kept = read_all(bench.log, 4)
    file = bench.disk.open(file_of(0, ".log"))
    file.truncate(file.size_bytes - cut_bytes)
    log = bench.reopen_after_kill()
    assert log.log_end_offset == 4
    assert read_all(log) == kept
    (cut,) = (event for event in bench.trace.events if isinstance(event, TailCut))
    assert (cut.partition, cut.offset) == (PARTITION, 4)
    assert bench.append() == 4
    log.check()


def test_garbage_and_zeros_after_the_tail_are_cut() -> None:
    """Goal: what file systems leave behind the tail after a crash is not taken for a batch."""
    for garbage in (bytes(5_000), b"\xff" * 77, bytes(range(256))):
        bench = LogBench()
        bench.append(count=3)
        bench.disk.open(file_of(0, ".log")).append([garbage])
        assert bench.reopen_after_kill().log_end_offset == 3


def test_segments_after_a_bad_batch_are_dropped() -> None:
    """Goal: nothing after a hole is kept; the log ends right before the damage."""
    bench = LogBench(SMALL)
    for _ in range(30):
        bench.append()
    bases = [segment.base_offset for segment in bench.log.segments]
    assert len(bases) >= 4
    kept = read_all(bench.log, bases[1] + 1)
    bench.disk.flip_bit(file_of(bases[1], ".log"), 8 * (len(batch()) + 70))
    log = bench.reopen_after_kill()
    assert log.log_end_offset == bases[1] + 1
    assert [segment.base_offset for segment in log.segments] == bases[:2]
    assert read_all(log) == kept
    assert not bench.disk.exists(file_of(bases[2], ".log"))
    log.check()


def test_only_segments_from_the_recovery_point_are_walked() -> None:
    """Goal: what the checkpoint calls durable is not read again; damage there shows on reading,
    not as a loss at start."""
    bench = LogBench(SMALL)
    for _ in range(30):
        bench.append()
    bases = [segment.base_offset for segment in bench.log.segments]
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.disk.flip_bit(file_of(0, ".log"), 8 * 70)
    assert bench.reopen_after_kill().log_end_offset == 30
    assert [segment.base_offset for segment in bench.log.segments] == bases


def test_a_segment_whose_predecessor_lost_its_end_is_dropped() -> None:
    """Goal: a power cut may take the end of one segment, by chance at a batch, and leave the next
    one: its records must not stay behind a hole."""
    bench = LogBench(SMALL)
    for _ in range(30):
        bench.append()
    bases = [segment.base_offset for segment in bench.log.segments]
    kept = read_all(bench.log, bases[2] - 1)
    last = bench.disk.open(file_of(bases[1], ".log"))
    last.truncate(last.size_bytes - len(batch()))
    log = bench.reopen_after_kill()
    assert log.log_end_offset == bases[2] - 1
    assert [segment.base_offset for segment in log.segments] == bases[:2]
    assert read_all(log) == kept
    assert not bench.disk.exists(file_of(bases[2], ".log"))


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        *product((".index", ".timeindex"), ("missing", "odd length", "unsorted")),
        # An empty offset index is only slow: every lookup scans from the segment's head.
        (".timeindex", "empty"),
    ],
)
def test_a_bad_index_is_rebuilt(suffix: str, damage: str) -> None:
    """Goal: after a clean stop a missing or senseless index is rebuilt to the same bytes, and the
    operator gets a warning."""
    bench = LogBench(SMALL)
    for index in range(30):
        bench.append(timestamp=WALL_MS + index)
    base = bench.log.segments[1].base_offset
    before = read_all(bench.log)
    bench.settle()
    bench.directory.close_cleanly(CleanShutdown(1))
    bench.settle()
    path = file_of(base, suffix)
    good = bench.disk.read_file(path)
    assert good
    if damage == "missing":
        bench.disk.delete(path)
    elif damage == "odd length":
        bench.disk.replace(path, good[:-1])
    elif damage == "empty":
        bench.disk.replace(path, b"")
    else:
        entry = 8 if suffix == ".index" else 12
        bench.disk.replace(path, good[-entry:] + good)
    bench.trace.events.clear()
    log = bench.reopen()
    assert read_all(log) == before
    assert bench.disk.read_file(path) == good
    reason = {"missing": "missing", "empty": "the log has other batches"}
    why = reason.get(damage, "its entries make no sense")
    file = offset_name(base) + suffix
    rebuilt, _ = bench.trace.events
    assert rebuilt == IndexRebuilt(partition=PARTITION, reason=why, file=file)
    log.check()


@pytest.mark.parametrize("rolled", [False, True])
def test_what_a_stop_leaves_behind_is_not_a_bad_index(rolled: bool) -> None:
    """Goal: fresh logs, kills and power cuts do not cause a warning of an index."""
    bench = LogBench(SMALL)
    assert bench.reopen_cleanly().log_end_offset == 0
    for index in range(30 if rolled else 1):
        bench.append(timestamp=WALL_MS + index)
    bench.reopen_after_kill()
    bench.append()
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    bench.reopen_after_power_cut()
    bench.log.truncate_to(bench.log.log_end_offset // 2)
    bench.reopen_cleanly()
    assert (len(bench.log.segments) > 1) == rolled
    assert not any(isinstance(event, IndexRebuilt) for event in bench.trace.events)


def _saved_bench() -> LogBench:
    """A log of several segments, as a clean stop and a start have left it."""
    bench = LogBench(SMALL)
    for index in range(30):
        bench.append(timestamp=WALL_MS + index)
    bench.reopen_cleanly()
    assert len(bench.log.segments) > 1
    return bench


def _are_rebuilt(bench: LogBench) -> bool:
    """Whether a start after a kill made the indexes of the newest segment anew."""
    return not bench.reopen_after_kill().segments.active.indexes_are_saved


def test_a_log_that_was_not_written_to_is_not_recovered() -> None:
    """Goal: after a crash thousands of idle logs cost what they cost after a clean stop; a log that
    was appended to, or cut and appended to until it was as long as before, is recovered."""
    bench = _saved_bench()
    assert not _are_rebuilt(bench) and not _are_rebuilt(bench)
    end = bench.log.log_end_offset
    bench.append()
    assert _are_rebuilt(bench)
    assert bench.log.log_end_offset == end + 1
    bench = _saved_bench()
    bench.log.truncate_to(end - 2)
    for index in range(2):
        bench.append(epoch=1, timestamp=WALL_MS + 100 + index)
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    assert bench.log.recovery_point == bench.log.log_end_offset == end
    assert _are_rebuilt(bench)
    assert bench.log.max_timestamp().offset == end - 1


def test_a_log_that_is_not_what_was_saved_is_recovered() -> None:
    """Goal: without sound indexes, or with other batches, the log is walked as ever."""
    bench = _saved_bench()
    base = bench.log.segments.active.base_offset
    bench.disk.delete(file_of(base, ".timeindex"))
    assert _are_rebuilt(bench)
    bench = _saved_bench()
    file = bench.disk.open(file_of(base, ".log"))
    file.truncate(file.size_bytes - 1)
    assert PARTITION in LogBench(SMALL, bench.disk).directory.damaged


def test_lost_epochs_are_rebuilt_from_the_headers() -> None:
    """Goal: without a readable leader-epoch-checkpoint every batch is looked at."""
    bench = LogBench(SMALL)
    for index in range(30):
        bench.append(epoch=index // 7)
    bench.settle()
    bench.directory.close_cleanly(CleanShutdown(1))
    bench.settle()
    bench.disk.replace(f"{PARTITION}/leader-epoch-checkpoint", b"0\n5\nnonsense\n")
    assert bench.reopen().epochs.entries == [(0, 0), (1, 7), (2, 14), (3, 21), (4, 28)]


@pytest.mark.parametrize("stop", ["cleanly", "killed"])
def test_an_index_that_is_rebuilt_leaves_the_epochs_of_later_segments(stop: str) -> None:
    """Goal: walking one segment again leaves the epochs of later segments."""
    bench = LogBench(SMALL)
    for index in range(40):
        bench.append(epoch=index // 5)
    bases = [segment.base_offset for segment in bench.log.segments]
    assert len(bases) > 3
    before = bench.log.epochs.entries
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    if stop == "cleanly":
        bench.directory.close_cleanly(CleanShutdown(1))
    bench.settle()
    bench.disk.delete(file_of(bases[0], ".index"))
    log = bench.reopen() if stop == "cleanly" else bench.reopen_after_kill()
    assert log.epochs.entries == before == [(epoch, 5 * epoch) for epoch in range(8)]


@pytest.mark.parametrize("lost", [1, 4, 6])
def test_a_checkpoint_without_one_of_its_epochs_is_rebuilt(lost: int) -> None:
    """Goal: an epoch that is missing between two others is missed, wherever recovery begins."""
    bench = LogBench(SMALL)
    for index in range(40):
        bench.append(epoch=index // 5)
    before = bench.log.epochs.entries
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    kept = [entry for entry in before if entry[0] != lost]
    bench.disk.replace(f"{PARTITION}/leader-epoch-checkpoint", encode_epochs(kept))
    assert bench.reopen_after_kill().epochs.entries == before


@pytest.mark.parametrize(("cleaned_to", "end"), [(9, 11), (0, 4)])
def test_a_hole_that_a_cleaner_has_left_is_not_a_torn_tail(cleaned_to: int, end: int) -> None:
    """Apache Kafka's cleaner leaves holes between segments, and its recovery points may be older
    when it is killed."""
    bench = LogBench(LogConfig(cleanup_policy=("compact",)))
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    for base_offset in (0, 2, 9):
        bench.log.append_as_follower(stamp(batch(2), base_offset, 0), WALL_MS)
    bench.log.close()
    data = bench.disk.read_file(file_of(0, ".log")) or b""
    kept_bytes = 2 * len(batch(2))
    bench.disk.replace(file_of(0, ".log"), data[:kept_bytes])
    bench.disk.replace(file_of(9, ".log"), data[kept_bytes:])
    bench.disk.replace(CLEANER_FILE, encode_offsets({PARTITION: cleaned_to}))
    assert bench.reopen_after_kill().log_end_offset == end


@pytest.mark.parametrize("durable", [0, 3])
@pytest.mark.parametrize("power_cut", [False, True])
def test_gaps_that_were_fetched_are_no_torn_tail(durable: int, power_cut: bool) -> None:
    """A follower fetches what its leader's cleaner has left, and the node dies before the next
    checkpoint. A start does not know that the topic is compacted. It cut the log at the first gap,
    and what was cut was acknowledged."""
    bench = LogBench()
    for _ in range(durable):
        bench.append()
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    for base_offset in (0, 5, 6, 9):
        bench.log.append_as_follower(stamp(batch(), durable + base_offset, 0), 0)
    if power_cut:
        bench.log.request_flush()
        bench.settle()
        bench.reopen_after_power_cut()
    else:
        bench.reopen_after_kill()
    assert bench.log.log_end_offset == durable + 10 and bench.log.cleaned_to == 0
    # What that start keeps counts as durable.
    bench.reopen_after_power_cut()
    assert bench.log.log_end_offset == durable + 10 and bench.log.cleaned_to == 0


@pytest.mark.parametrize("compacted", [True, False])
@pytest.mark.parametrize("last", [True, False])
def test_an_offset_that_a_flip_has_raised_makes_no_gap(last: bool, compacted: bool) -> None:
    """No checksum covers offsets. In a log that never had gaps a sound batch with a higher offset
    is a bad batch, and its records are not served in another place."""
    bench = LogBench()
    if compacted:
        bench.compacted.add(PARTITION.topic)
    for _ in range(5):
        bench.append()
    bench.disk.flip_bit(file_of(0, ".log"), 8 * ((4 if last else 2) * len(batch()) + 6))
    assert bench.reopen_after_kill().log_end_offset == (4 if last else 2)
    assert not bench.disk.exists(HAS_GAPS)


def fetched_by_kafka(durable: int = 0, *, rolled_at: int = -1) -> LogBench:
    """The log of a follower of Apache Kafka, whose leader has cleaned, and whose own cleaner was
    never here: its end is at 10, `durable` records above. Kafka rolls where a batch begins."""
    bench = LogBench()
    for _ in range(durable):
        bench.append()
    bench.log.request_flush()
    bench.settle()
    bench.directory.checkpoint_recovery_points()
    bench.settle()
    for base_offset in (0, 5, 6, 9):
        if base_offset == rolled_at:
            roll(bench.log, durable + base_offset)
        bench.log.append_as_follower(stamp(batch(), durable + base_offset, 0), 0)
    bench.log.update_high_watermark(durable + 10)
    bench.disk.delete(HAS_GAPS)
    return bench


def leave_as_kafka(bench: LogBench) -> None:
    """A clean stop; Kafka's checkpoint of the cleaner does not have the log."""
    bench.stop()
    bench.disk.delete(CLEANER_FILE)
    bench.disk.delete(HAS_GAPS)


@pytest.mark.parametrize("durable", [0, 3])
def test_gaps_that_kafka_has_fetched_are_no_torn_tail(durable: int) -> None:
    """Kafka was killed. Its follower notes nowhere that the log has gaps, but the metadata has the
    topic as compacted. A start cut the log at the first gap, and what was cut was acknowledged."""
    bench = fetched_by_kafka(durable)
    bench.compacted.add(PARTITION.topic)
    before = read_all(bench.log)
    assert read_all(bench.reopen_after_kill()) == before
    assert bench.log.log_end_offset == durable + 10 and bench.log.cleaned_to == 0
    # It is noted, as durably as the records, and the metadata need not know of it any more.
    bench.compacted.clear()
    bench.asked.clear()
    assert read_all(bench.reopen_after_power_cut()) == before
    assert bench.asked == []


def test_a_gap_is_a_torn_tail_where_the_topic_was_never_compacted() -> None:
    bench = fetched_by_kafka(3)
    assert bench.reopen_after_kill().log_end_offset == 4
    assert bench.asked == [PARTITION.topic]
    assert not bench.disk.exists(HAS_GAPS)


@pytest.mark.parametrize("what", ["gap between segments", "gap in the last one"])
def test_gaps_that_kafka_has_fetched_are_no_damage(what: str) -> None:
    """Kafka has stopped cleanly, and the metadata has the topic as compacted."""
    bench = fetched_by_kafka(rolled_at=5 if what == "gap between segments" else -1)
    bench.compacted.add(PARTITION.topic)
    before = read_all(bench.log)
    leave_as_kafka(bench)
    assert read_all(bench.reopen()) == before
    assert bench.directory.damaged == {}
    bench.compacted.clear()
    bench.stop()
    bench.disk.delete(CLEANER_FILE)
    bench.disk.crash()
    assert read_all(bench.reopen()) == before


def test_a_gap_is_damage_where_the_topic_was_never_compacted() -> None:
    bench = fetched_by_kafka(rolled_at=5)
    leave_as_kafka(bench)
    bench.directory = bench._open()
    assert list(bench.directory.damaged) == [PARTITION]
    assert not bench.disk.exists(HAS_GAPS)


def test_no_segment_behind_a_gap_is_dropped_where_all_counts_as_durable() -> None:
    """The recovery points are lost, so nothing shows that a power cut took the end of a segment."""
    bench = fetched_by_kafka(rolled_at=5)
    bench.compacted.add(PARTITION.topic)
    before = read_all(bench.log)
    bench.disk.delete(RECOVERY_POINT_FILE)
    assert read_all(bench.reopen_after_kill()) == before


@pytest.mark.parametrize("fault", ["none", "torn tail", "flipped bit"])
def test_the_metadata_is_asked_at_a_gap_alone(fault: str) -> None:
    """To answer takes a read of all metadata, and a start of many logs has no time for it."""
    bench = LogBench()
    bench.compacted.add(PARTITION.topic)
    for _ in range(5):
        bench.append()
    if fault == "flipped bit":
        bench.disk.flip_bit(file_of(0, ".log"), 8 * (len(batch()) - 1))
    if fault == "torn tail":
        file = bench.disk.open(file_of(0, ".log"))
        file.truncate(file.size_bytes - 1)
    bench.reopen_after_kill()
    assert bench.asked == []
    bench.reopen_cleanly()
    assert bench.asked == []
