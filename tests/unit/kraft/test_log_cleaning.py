"""Retention of snapshots and of the metadata log: what goes, and what never does."""

import pytest

from tests.unit.kraft.saved import leader_with
from tests.unit.kraft.solo import WALL_ZERO_MS, Solo, fetch
from tidelog.config import LogConfig, QuorumConfig
from tidelog.env.instant import Instant
from tidelog.kraft.log_cleaning import CLEAN_INTERVAL_MS
from tidelog.kraft.messages import QuorumFetchResponse, SnapshotId
from tidelog.kraft.snapshots import SnapshotWriter
from tidelog.limits import METADATA_DELETION_PAUSE_MS
from tidelog.log.loading import open_log
from tidelog.log.values import Checkpoints, LogEnv
from tidelog.model import METADATA_PARTITION

TINY = QuorumConfig(max_retention_bytes=0)


def make(solo: Solo, end_offset: int, now: int) -> None:
    """The owner of the state makes a snapshot."""
    snapshot_id = SnapshotId(end_offset, solo.log.epoch_at(end_offset - 1))
    writer = solo.quorum.begin_snapshot(snapshot_id, WALL_ZERO_MS + now)
    assert isinstance(writer, SnapshotWriter)
    writer.append([b"state"])
    writer.finish()
    solo.settle(now)


def grown(config: QuorumConfig, records: int = 12) -> tuple[Solo, int]:
    """A leader of one with a segment for each record, everything committed."""
    solo = Solo(config=config, voter_count=1)
    solo.log.reconfigure(LogConfig(segment_bytes=1))
    solo.lead()
    for _ in range(records):
        solo.quorum.append([b"r"], Instant(0), WALL_ZERO_MS)
        solo.settle(0)
    assert solo.quorum.high_watermark == records + 1
    return solo, 0


def delete_all(solo: Solo, now: int) -> list[int]:
    """Waits until no segment is left below the log's start; returns how many there were each time
    that one was due."""
    counts = []
    while solo.log.segments.count_below(solo.log.log_start_offset):
        counts.append(len(solo.log.segments))
        now += METADATA_DELETION_PAUSE_MS
        solo.settle(now)
    return counts


def test_the_newest_snapshot_stays_whatever_the_bound() -> None:
    """Goal: one is always needed, and alone it moves nothing."""
    solo, now = grown(TINY)
    make(solo, 5, now)
    assert solo.core.snapshots.ids == [(5, 1)]
    assert solo.log.log_start_offset == 0


def test_the_log_begins_at_the_next_snapshot() -> None:
    """SnapshotAtLogStart. Goal: the older snapshot goes, and with it the segments that end at or
    below the next one's end; those behind stay."""
    solo, now = grown(TINY)
    make(solo, 5, now)
    make(solo, 9, now)
    assert solo.core.snapshots.ids == [(9, 1)]
    assert solo.log.log_start_offset == 9
    delete_all(solo, now)
    assert solo.log.segments[0].base_offset == 9
    assert solo.log.log_end_offset == 13
    names = solo.disk.list_dir("__cluster_metadata-0")
    assert min(name for name in names if name.endswith(".log")) == f"{9:020d}.log"


def test_segments_go_one_a_turn() -> None:
    """BoundedTurn (quorum seed 1966978021: both voters deleted seven at once, on disks a hundred
    times as slow as usual, and the leader missed its majority). Goal: the log begins at the
    snapshot at once, the next snapshot waits for the files of the last one, and none is left."""
    solo, now = grown(TINY)
    make(solo, 5, now)
    make(solo, 9, now)
    before = len(solo.log.segments)
    make(solo, 11, now)
    assert (len(solo.log.segments), solo.log.log_start_offset) == (before, 9)
    assert solo.quorum.deadline() is not None
    counts = delete_all(solo, now)
    assert len(counts) > 3 and counts == list(range(before, before - len(counts), -1))
    later = now + (len(counts) + 1) * METADATA_DELETION_PAUSE_MS
    solo.settle(later)
    delete_all(solo, later)
    assert (solo.log.segments[0].base_offset, solo.log.log_start_offset) == (11, 11)
    assert solo.core.snapshots.ids == [(11, 1)]


def test_segments_that_a_former_process_left_go() -> None:
    """Goal: an end between two of them leaves a log that begins at its snapshot."""
    solo, now = grown(TINY)
    make(solo, 5, now)
    make(solo, 9, now)
    solo.settle(now + METADATA_DELETION_PAUSE_MS)
    assert solo.log.segments.count_below(9) > 1
    solo.log = open_log(
        LogEnv(solo.disk, solo.effects, solo.log.env.trace),
        METADATA_PARTITION,
        LogConfig(segment_bytes=1),
        Checkpoints(),
        clean=False,
        wall_ms=WALL_ZERO_MS,
    )
    solo.make_quorum()
    solo.start(now)
    assert solo.log.log_start_offset == 9
    delete_all(solo, now)
    assert solo.log.segments[0].base_offset == 9


@pytest.mark.parametrize(("spare", "kept"), [(0, 2), (-1, 1)])
def test_the_bound_counts_log_and_snapshots(spare: int, kept: int) -> None:
    """Goal: at the bound nothing goes, one byte above it something does."""
    sizes = 0
    for bound in (1 << 30, None):
        solo, now = grown(
            QuorumConfig(max_retention_bytes=sizes + spare if bound is None else bound)
        )
        make(solo, 5, now)
        make(solo, 9, now)
        if bound is not None:
            ids = solo.core.snapshots.ids
            sizes = solo.log.size_bytes + sum(solo.core.snapshots.size_of(one) for one in ids)
    assert len(solo.core.snapshots.ids) == kept


def test_old_snapshots_go_by_time() -> None:
    """Goal: by the time of their last record, looked at every so often without any new snapshot."""
    age_ms = 500_000
    solo, now = grown(QuorumConfig(max_retention_ms=age_ms))
    solo.quorum.wall_offset_ms = WALL_ZERO_MS
    make(solo, 5, now)
    make(solo, 9, now + 10)
    for later, kept in ((age_ms - CLEAN_INTERVAL_MS, 2), (age_ms + 2 * CLEAN_INTERVAL_MS, 1)):
        solo.quorum.append([b"r"], Instant(later), WALL_ZERO_MS)
        solo.settle(later)
        assert len(solo.core.snapshots.ids) == kept
    assert solo.log.log_start_offset == 9


def test_without_bounds_everything_stays() -> None:
    """Goal: -1 stands for no bound, as in Kafka."""
    solo, now = grown(QuorumConfig(max_retention_bytes=-1, max_retention_ms=-1))
    make(solo, 5, now)
    make(solo, 9, now + 10**12)
    assert len(solo.core.snapshots.ids) == 2


def test_a_follower_that_needs_what_is_gone_is_sent_to_the_snapshot() -> None:
    """Goal: Kafka's rules: at 0, below the start, at the start with another epoch, and with an
    epoch before the oldest snapshot's; others get records."""
    solo, now = leader_with((3, 1), (6, 2), log_epochs=(1, 1, 1, 2, 2, 2, 3, 3, 3), log_start=6)
    cases = [
        (0, 0, SnapshotId(6, 2)),
        (4, 2, SnapshotId(6, 2)),
        (6, 1, SnapshotId(6, 2)),
        (7, 1, SnapshotId(6, 2)),
        (6, 2, None),
        (8, 3, None),
    ]
    for offset, epoch, expected in cases:
        response = solo.ask(
            fetch(fetch_offset=offset, last_fetched_epoch=epoch, epoch=solo.quorum.epoch), now
        )
        assert isinstance(response, QuorumFetchResponse)
        assert response.snapshot_id == expected, (offset, epoch)
        assert bool(response.records) == (expected is None), (offset, epoch)


def test_a_follower_that_has_nothing_is_sent_to_the_snapshot_though_the_log_would_do() -> None:
    """Goal: a snapshot is cheaper than a log from 0, and a bootstrap checkpoint is none."""
    for snapshots, expected in ((((6, 1),), SnapshotId(6, 1)), (((0, 0),), None)):
        solo, now = leader_with(*snapshots)
        response = solo.ask(fetch(epoch=solo.quorum.epoch), now)
        assert isinstance(response, QuorumFetchResponse)
        assert response.snapshot_id == expected
        assert bool(response.records) == (expected is None)
