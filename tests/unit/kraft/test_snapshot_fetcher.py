"""A follower that is sent to a snapshot: download, check, install, and everything that ends it."""

from dataclasses import replace

import pytest

from tests.unit.kraft.saved import path_of, snapshot_bytes
from tests.unit.kraft.solo import Solo, fetched
from tidelog.config import LogConfig
from tidelog.env.effects import Flush
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LoadedSnapshot,
    QuorumFetchRequest,
    SnapshotId,
)
from tidelog.limits import MAX_SNAPSHOT_BYTES
from tidelog.log.values import AppendOrigin

EPOCH = 7
ID = SnapshotId(50, 6)
WHOLE = snapshot_bytes(ID)


def piece(at: int, size: int, **changes: object) -> FetchSnapshotResponse:
    data = WHOLE[at : at + size]
    response = FetchSnapshotResponse(ErrorCode.NONE, 2, EPOCH, ID, len(WHOLE), at, data)
    return replace(response, **changes)  # type: ignore[arg-type]


def sent_to_snapshot(log_epochs: tuple[int, ...] = (1, 1, 2), *, now: int = 0) -> Solo:
    """A follower whose leader has just named the snapshot."""
    solo = Solo(log_epochs=log_epochs)
    solo.start()
    solo.follow(EPOCH, now)
    solo.answer(fetched(leader_epoch=EPOCH, snapshot_id=ID, high_watermark=60), now)
    return solo


def test_the_whole_way() -> None:
    """Goal: pieces by position, then a flush, a durable name, an empty log at the snapshot's end,
    and the state. Nothing is asked for while the file waits for the disk."""
    solo = sent_to_snapshot()
    first = solo.answer(piece(0, 100), 1)
    second = solo.answer(piece(100, 1000), 2)
    assert isinstance(first, FetchSnapshotRequest)
    assert isinstance(second, FetchSnapshotRequest)
    assert (first.snapshot_id, first.position, first.epoch) == (ID, 0, EPOCH)
    assert second.position == 100
    assert solo.quorum.latest_snapshot is None
    assert solo.wake(3) == []
    assert solo.log.log_end_offset == 3
    outputs = solo.settle(3)
    assert solo.quorum.latest_snapshot == ID
    assert (solo.log.log_start_offset, solo.log.log_end_offset) == (50, 50)
    assert solo.quorum.high_watermark == 50
    (loaded,) = solo.quorum.take_committed()
    assert isinstance(loaded, LoadedSnapshot)
    assert loaded.records == [b"state of 50"]
    (request,) = [output.request for output in outputs if hasattr(output, "request")]
    assert isinstance(request, QuorumFetchRequest)
    assert (request.fetch_offset, request.last_fetched_epoch) == (50, ID.epoch)


def test_nothing_counts_before_its_name_is_durable() -> None:
    """Goal: the log is given up only when a restart would find the snapshot. Method: the two
    flushes one by one."""
    solo = sent_to_snapshot()
    solo.answer(piece(0, 1000), 1)
    for _ in range(2):
        assert solo.log.log_end_offset == 3
        effects = [e for e in solo.effects.take() if isinstance(e, Flush)]
        assert len(effects) == 1
        solo.disk.sync(effects[0].file)
        solo.quorum.on_flushed(effects[0].subject, Instant(2))
    assert solo.log.log_end_offset == 50


@pytest.mark.parametrize(
    "changes",
    [
        {"error_code": ErrorCode.SNAPSHOT_NOT_FOUND},
        {"error_code": ErrorCode.POSITION_OUT_OF_RANGE},
        {"error_code": ErrorCode.FENCED_LEADER_EPOCH},
        {"snapshot_id": SnapshotId(51, 6)},
        {"position": 3},
        {"data": b""},
        {"data": WHOLE + b"x"},
        {"size_bytes": MAX_SNAPSHOT_BYTES + 1},
        {"size_bytes": 3},
    ],
)
def test_anything_but_the_next_piece_ends_the_download(changes: dict[str, object]) -> None:
    """Goal: the follower fetches anew, after a pause; no part is left."""
    solo = sent_to_snapshot()
    solo.answer(piece(0, 50, **changes), 1)
    assert not solo.disk.exists(path_of(ID, ".part"))
    assert solo.sent(1) == []
    (again,) = solo.sent(1 + solo.core.config.retry_backoff_ms)
    assert isinstance(again.request, QuorumFetchRequest)
    assert again.request.fetch_offset == 3


def test_a_size_that_changes_ends_the_download() -> None:
    """Goal: pieces of one file only."""
    solo = sent_to_snapshot()
    solo.answer(piece(0, 50), 1)
    solo.answer(piece(50, 50, size_bytes=len(WHOLE) + 1), 2)
    assert not solo.core.snapshots.is_busy


def test_a_damaged_snapshot_is_not_installed() -> None:
    """SnapshotWhole. Goal: the log stays, the operator is shown which disk to look at, and it is
    asked for again."""
    solo = sent_to_snapshot()
    damaged = bytearray(WHOLE)
    damaged[100] ^= 1
    solo.answer(piece(0, 1000, data=bytes(damaged)), 1)
    assert solo.log.log_end_offset == 3
    assert any("node 2" in e.text() and "hint:" in e.text() for e in solo.sink.events)
    (again,) = solo.sent(100)
    assert isinstance(again.request, QuorumFetchRequest)


def test_another_epoch_gives_the_download_up() -> None:
    """Goal: another leader has other snapshots; a late piece is ignored."""
    solo = sent_to_snapshot()
    (asked,) = solo.sent(0)
    solo.follow(EPOCH + 1, 1)
    assert not solo.core.snapshots.is_busy
    assert not solo.disk.exists(path_of(ID, ".part"))
    solo.quorum.on_response(2, asked.request, piece(0, 50), Instant(2))
    assert not solo.core.snapshots.is_busy


def test_a_restart_begins_again() -> None:
    """Goal: a half download is worth nothing."""
    solo = sent_to_snapshot()
    solo.answer(piece(0, 50), 1)
    assert solo.disk.exists(path_of(ID, ".part"))
    solo.make_quorum()
    assert not solo.disk.exists(path_of(ID, ".part"))


def test_a_lost_piece_is_asked_for_again() -> None:
    """Goal: at the same position."""
    solo = sent_to_snapshot()
    solo.answer(piece(0, 50), 1)
    (asked,) = solo.sent(1)
    solo.quorum.on_response(2, asked.request, None, Instant(2))
    (again,) = solo.sent(500)
    assert isinstance(again.request, FetchSnapshotRequest)
    assert again.request.position == 50


def test_a_snapshot_that_is_there_is_not_downloaded() -> None:
    """Goal: equal states at equal offsets have equal names and bytes."""
    solo = Solo(log_epochs=(1, 1, 2))
    solo.start()
    solo.disk.replace(path_of(ID), WHOLE)
    solo.core.snapshots.ids.append(ID)
    solo.follow(EPOCH)
    solo.answer(fetched(leader_epoch=EPOCH, snapshot_id=ID))
    assert solo.log.log_end_offset == 50
    assert not solo.core.snapshots.is_busy


@pytest.mark.parametrize("snapshot_id", [SnapshotId(-1, 6), SnapshotId(50, -1), SnapshotId(0, 0)])
def test_a_useless_snapshot_is_not_asked_for(snapshot_id: SnapshotId) -> None:
    """Goal: no circle without a pause."""
    solo = Solo(log_epochs=(1, 1, 2))
    solo.start()
    solo.follow(EPOCH)
    solo.answer(fetched(leader_epoch=EPOCH, snapshot_id=snapshot_id))
    assert solo.sent(0) == []
    assert not solo.core.snapshots.is_busy


def test_a_snapshot_below_what_is_committed_is_a_bug_of_the_quorum() -> None:
    """NoCommittedTruncation (R20)."""
    solo = Solo(log_epochs=(1,) * 60)
    solo.start()
    solo.follow(EPOCH)
    solo.answer(fetched(leader_epoch=EPOCH, high_watermark=55))
    with pytest.raises(AssertionError, match="NoCommittedTruncation"):
        solo.answer(fetched(leader_epoch=EPOCH, snapshot_id=ID), 1)


def test_uncommitted_records_of_another_epoch_are_cut() -> None:
    """Goal: a log that is longer than the snapshot and went another way is given up whole."""
    solo = sent_to_snapshot((1,) * 60)
    solo.answer(piece(0, 1000), 1)
    solo.settle(1)
    assert (solo.log.log_start_offset, solo.log.log_end_offset) == (50, 50)
    assert solo.core.last_epoch == ID.epoch


def test_a_log_of_many_segments_goes_a_few_a_turn() -> None:
    """BoundedTurn (seed 1623206093: forty segments in one turn). Goal: the log's claims for votes
    stay, nothing is asked for or handed out, and a start in the middle finds the snapshot."""
    solo = Solo()
    solo.log.reconfigure(LogConfig(segment_bytes=1))
    for _ in range(20):
        solo.log.append_as_leader(solo.next_batch(1), 1, 0, origin=AppendOrigin.RAFT)
    solo.start()
    solo.follow(EPOCH)
    solo.answer(fetched(leader_epoch=EPOCH, snapshot_id=ID, high_watermark=60))
    solo.answer(piece(0, 1000), 1)
    solo.settle(1)
    counts = []
    for now in range(2, 5):
        counts.append(len(solo.log.segments))
        assert solo.quorum.latest_snapshot == ID
        assert (solo.log.log_start_offset, solo.log.log_end_offset) == (0, 20)
        assert solo.core.last_epoch == 1
        assert not solo.quorum.has_committed and solo.quorum.take_committed() == []
        assert solo.quorum.deadline() == now
        outputs = solo.settle(now)
    assert counts == [16, 12, 8]
    (request,) = [output.request for output in outputs if hasattr(output, "request")]
    assert isinstance(request, QuorumFetchRequest) and request.fetch_offset == 50
    (loaded,) = solo.quorum.take_committed()
    assert isinstance(loaded, LoadedSnapshot)
