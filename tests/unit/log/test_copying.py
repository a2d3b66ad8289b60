"""What a copy keeps of what it has, when its log has changed."""

from dataclasses import replace

import pytest

from tests.unit.log.harness import PARTITION, TOPIC_ID, WALL_MS, LogBench, batch
from tidelog.log import copying
from tidelog.log.log import Log
from tidelog.log.producer_snapshots import decode_snapshot
from tidelog.model import TopicPartition
from tidelog.records.batch import stamp

COPY = TopicPartition("copy", 0)


class Pair:
    """A log and its copy, of which so many records are equal."""

    def __init__(self, count: int) -> None:
        self.bench = LogBench()
        self.copy = self.bench.directory.create(COPY, TOPIC_ID, self.bench.config)
        self.write(count)
        self.copy_all()

    @property
    def log(self) -> Log:
        return self.bench.directory.logs[PARTITION]

    def write(self, count: int, epoch: int = 0) -> None:
        for _ in range(count):
            self.log.append_as_leader(batch(), epoch, WALL_MS)
        self.log.update_high_watermark(self.log.log_end_offset)

    def copy_all(self) -> None:
        while self.copy.log_end_offset < self.log.log_end_offset:
            copying.copy_some(copying.read_some(self.copy, self.log, 300), self.copy)
        copying.follow_bounds(self.copy, self.log)

    @property
    def copied(self) -> tuple[int, int]:
        while not copying.reconcile(self.copy, self.log):
            pass
        return self.copy.log_start_offset, self.copy.log_end_offset


def test_a_copy_of_the_same_history_stays() -> None:
    pair = Pair(10)
    assert copying.is_complete(pair.copy, pair.log)
    pair.write(5)
    assert pair.copied == (0, 10) and not copying.is_complete(pair.copy, pair.log)


@pytest.mark.parametrize("cut_to", [0, 4, 9])
def test_a_copy_is_cut_where_its_log_was(cut_to: int) -> None:
    """The same epoch goes on, or another has begun; of a log without records nothing is known."""
    pair = Pair(10)
    pair.log.truncate_to(cut_to)
    assert pair.copied == (0, cut_to)
    pair = Pair(10)
    pair.log.truncate_to(cut_to)
    pair.write(20, epoch=3)
    assert pair.copied == (0, cut_to)
    pair.copy_all()
    assert copying.is_complete(pair.copy, pair.log)
    assert pair.copy.epochs.entries == pair.log.epochs.entries


def test_below_the_start_of_the_log_nothing_counts() -> None:
    pair = Pair(10)
    pair.write(10)
    pair.log.maybe_raise_log_start_offset(12)
    assert pair.copied == (12, 12)
    pair.copy_all()
    assert copying.is_complete(pair.copy, pair.log)
    pair.log.truncate_fully_and_start_at(3)
    assert pair.copied == (3, 3)


@pytest.mark.parametrize("was_stopped", [False, True])
def test_what_is_in_memory_only_is_handed_over(was_stopped: bool) -> None:
    """A producer whose records were deleted is still known; what was not read yet is in memory.
    The next start knows the producer too, also where a stop in the middle of the move had saved
    what the copy knew by itself."""
    pair = Pair(0)
    records = batch(producer_id=7, producer_epoch=0, sequence=0)
    pair.log.append_as_leader(records, 0, WALL_MS)
    pair.write(5)
    pair.log.maybe_raise_log_start_offset(3)
    copying.reconcile(pair.copy, pair.log)
    pair.copy_all()
    assert 7 not in pair.copy.producers.by_id
    if was_stopped:
        pair.copy.prepare_close()
    copying.hand_over(pair.log, pair.copy)
    assert 7 in pair.copy.producers.by_id
    saved = decode_snapshot(pair.copy.snapshots.read(pair.copy.log_end_offset))
    assert [entry.producer_id for entry in saved] == [7]
    assert pair.copy.tail.read(5, 1000, 6, True) is not None


@pytest.mark.parametrize("count", [0, 5])
def test_an_epoch_that_has_no_record_yet_is_handed_over(count: int) -> None:
    """Seed 25141605: the leader of an empty partition moved, and its log knew of no epoch then. It
    refused the fetches of followers that had led before, for good."""
    pair = Pair(count)
    pair.log.assign_epoch(8, count)
    copying.hand_over(pair.log, pair.copy)
    assert pair.copy.epochs.entries == pair.log.epochs.entries
    assert pair.copy.end_offset_for_epoch(8).end_offset == count


@pytest.mark.parametrize("later", [0, 2])
def test_epochs_begin_where_they_began_though_their_first_records_are_gone(later: int) -> None:
    """Seed 64291893: the first records of an epoch were compacted away, and the copy's epoch began
    with the first one that was left. A replica that came back with a record of the epoch before, at
    an offset that had been overwritten since, was not asked to cut it."""
    pair = Pair(10)
    pair.log.note_gaps()
    pair.log.assign_epoch(3, 10)
    pair.log.assign_epoch(4, 12)
    pair.log.append_as_follower(stamp(batch(), 14, 4), 4)
    pair.write(later, epoch=6)
    pair.copy_all()
    assert copying.is_complete(pair.copy, pair.log)
    assert pair.copy.epochs.entries == pair.log.epochs.entries
    assert pair.copy.end_offset_for_epoch(0).end_offset == 10
    assert pair.copied == (0, 15 + later)
    copying.hand_over(pair.log, pair.copy)
    assert pair.copy.epochs.entries == pair.log.epochs.entries


def test_a_long_copy_goes_a_few_segments_at_a_time() -> None:
    """BoundedTurn: when retention has passed its end, and when its log was cut."""
    for cut in (False, True):
        pair = Pair(0)
        pair.copy.reconfigure(replace(pair.copy.config, segment_bytes=120))
        pair.bench.directory.logs[PARTITION].reconfigure(pair.copy.config)
        pair.write(20)
        pair.copy_all()
        pair.write(10)
        if cut:
            pair.log.truncate_to(1)
        else:
            pair.log.maybe_raise_log_start_offset(25)
        counts = [len(pair.copy.segments)]
        while not copying.reconcile(pair.copy, pair.log):
            counts.append(len(pair.copy.segments))
        assert counts == [10, 7, 4], counts
        assert pair.copied == ((0, 1) if cut else (25, 25))
