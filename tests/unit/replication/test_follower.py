"""Where a follower cuts its log, and what it takes over."""

import pytest

from tidelog.env.disk import FileSlice
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.log.log import Log
from tidelog.model import EpochEndOffset
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.replication.events.following import (
    BatchesSkipped,
    LogTruncatedBelowHighWatermark,
    TruncationReason,
)
from tidelog.replication.follower import (
    Cut,
    Progress,
    append_fetched,
    as_buffer,
    decide_truncation,
    truncate,
    where_to_agree,
)
from tidelog.sim.replicas.cluster import Cluster
from tidelog.sim.replicas.feed import topic_id_of
from tidelog.sim.replicas.reading import records_of
from tidelog.wire.fetch import FetchedPartition


@pytest.mark.parametrize(
    ("diverging", "own", "expected"),
    [
        # The leader knows no end at all: only what is committed is safe.
        ((5, -1), (5, 40), 10),
        # A leader without epochs: its end, within our log.
        ((-1, 30), (-1, -1), 30),
        ((-1, 90), (-1, -1), 50),
        # We know nothing at or below its epoch.
        ((3, 30), (-1, -1), 30),
        # Both know the epoch: the shorter of both ends.
        ((3, 30), (3, 40), 30),
        ((3, 45), (3, 40), 40),
        # We do not know its epoch: cut to the end of the largest one below, and ask again.
        ((4, 45), (3, 35), 35),
        ((4, 20), (3, 35), 35),
    ],
)
def test_decide_truncation(diverging: tuple[int, int], own: tuple[int, int], expected: int) -> None:
    """The table of KIP-279, for a log with high watermark 10 and end 50."""
    target = decide_truncation(
        EpochEndOffset(*diverging), EpochEndOffset(*own), high_watermark=10, log_end_offset=50
    )
    assert target == expected


def make_log(*epochs: int) -> tuple[Log, TraceList]:
    """A follower's log with one record per given epoch."""
    cluster = Cluster((1, 2))
    cluster.feed.create_topic("orders", (1, 2))
    cluster.run(0)
    log = cluster.brokers[2].log("orders")
    sink = TraceList()
    if epochs:
        append_fetched(log, answer(batches(0, *epochs)), max(epochs), Trace(sink))
    return log, sink


def batches(base: int, *epochs: int) -> bytes:
    """One batch of one record per epoch."""
    return b"".join(
        build_batch([Record(1, None, b"v%d" % offset)], base_offset=offset, leader_epoch=epoch)
        for offset, epoch in enumerate(epochs, start=base)
    )


def answer(records: bytes, high_watermark: int = 0, log_start: int = 0) -> FetchedPartition:
    """A leader's answer."""
    return FetchedPartition(
        "orders",
        topic_id_of(1),
        0,
        ErrorCode.NONE,
        high_watermark,
        high_watermark,
        log_start,
        [records] if records else [],
        len(records),
    )


def cut_to_agree(log: Log, diverging: EpochEndOffset, sink: TraceList) -> bool:
    """One round of it."""
    cut = Cut(where_to_agree(log, diverging), TruncationReason.DIVERGED)
    return truncate(log, cut, Trace(sink))


def test_two_rounds_find_the_common_prefix() -> None:
    """Own epochs 0 0 2 2; the leader has 0 0 0 1: first epoch 2 goes, then the logs agree."""
    log, sink = make_log(0, 0, 2, 2)
    # Asked for epoch 2, the leader answers with its largest one below, 1, which ends at 4.
    assert cut_to_agree(log, EpochEndOffset(1, 4), sink)
    assert (log.log_end_offset, log.latest_epoch) == (2, 0)
    # Asked for epoch 0 at 2, the leader's epoch 0 ends at 3: no divergence any more.
    assert decide_truncation(
        EpochEndOffset(0, 3), log.end_offset_for_epoch(0), high_watermark=0, log_end_offset=2
    ) == 2  # fmt: skip


def test_an_epoch_without_records_goes_too() -> None:
    """A deposed leader that wrote nothing has its epoch in the cache, at its log end."""
    log, sink = make_log(0, 0)
    log.assign_epoch(3, 2)
    assert cut_to_agree(log, EpochEndOffset(0, 2), sink)
    assert (log.log_end_offset, log.latest_epoch) == (2, 0)
    assert not cut_to_agree(log, EpochEndOffset(0, 2), sink)


def test_cutting_below_the_high_watermark_is_a_warning() -> None:
    """Allowed, and rare enough for a warning."""
    log, sink = make_log(0, 0, 0)
    log.update_high_watermark(3)
    sink.events.clear()
    assert cut_to_agree(log, EpochEndOffset(0, 1), sink)
    (event,) = sink.events
    assert isinstance(event, LogTruncatedBelowHighWatermark)
    assert log.high_watermark == 1


def test_high_watermark_is_clamped_and_may_go_back() -> None:
    """The leader's may be ahead of what we have, or behind that of a former leader."""
    log, sink = make_log()
    trace = Trace(sink)
    assert append_fetched(log, answer(batches(0, 0, 0), 9), 0, trace) is Progress.APPENDED
    assert log.high_watermark == 2
    assert append_fetched(log, answer(b"", 1), 0, trace) is Progress.BOUNDS
    assert log.high_watermark == 1
    assert append_fetched(log, answer(b"", 1), 0, trace) is Progress.NOTHING


def test_log_start_only_rises_and_not_above_the_high_watermark() -> None:
    """What is not known to be committed must not be taken away."""
    log, sink = make_log(0, 0, 0)
    trace = Trace(sink)
    append_fetched(log, answer(b"", 1, log_start=2), 0, trace)
    assert log.log_start_offset == 0
    assert append_fetched(log, answer(b"", 2, log_start=2), 0, trace) is Progress.BOUNDS
    assert log.log_start_offset == 2
    append_fetched(log, answer(b"", 2, log_start=1), 0, trace)
    assert log.log_start_offset == 2


def test_batches_of_a_later_epoch_are_left_out() -> None:
    """All from the first one on, with a word about it."""
    log, sink = make_log()
    append_fetched(log, answer(batches(0, 0, 1, 2)), 1, Trace(sink))
    assert [record.leader_epoch for record in records_of(log)] == [0, 1]
    assert isinstance(sink.events[-1], BatchesSkipped)


def test_damaged_records_are_refused_whole() -> None:
    """Not even the good ones before them are taken."""
    log, sink = make_log()
    data = bytearray(batches(0, 0, 0))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        append_fetched(log, answer(bytes(data)), 0, Trace(sink))
    assert log.log_end_offset == 0


def test_records_in_pieces_are_joined() -> None:
    """Memory and file pieces; a single one in memory is taken as it is."""
    disk = MemoryDisk("/d")
    file = disk.open("f", create=True)
    file.append((b"abcdef",))
    assert as_buffer([FileSlice(file, 1, 3), b"xy"]) == b"bcdxy"
    assert as_buffer([FileSlice(file, 0, 2)]) == b"ab"
    data = memoryview(b"whole")
    assert as_buffer([data]) is data
