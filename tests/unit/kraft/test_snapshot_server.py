"""FetchSnapshot on the leader: pieces, refusals, and a damaged file that never leaves."""

from dataclasses import replace

import pytest

from tests.unit.kraft.saved import leader_with, path_of, snapshot_bytes
from tests.unit.kraft.solo import CLUSTER_ID, Solo
from tidelog.config import QuorumConfig
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId
from tidelog.model import Uuid

ID = SnapshotId(6, 1)


def ask(solo: Solo, now: int, **changes: object) -> FetchSnapshotResponse:
    request = FetchSnapshotRequest(
        cluster_id=CLUSTER_ID,
        replica_id=2,
        replica_directory_id=Uuid((2).to_bytes(16, "big")),
        epoch=solo.quorum.epoch,
        snapshot_id=ID,
        position=0,
        max_bytes=1 << 20,
    )
    response = solo.ask(replace(request, **changes), now)  # type: ignore[arg-type]
    assert isinstance(response, FetchSnapshotResponse)
    return response


def test_pieces_make_the_whole() -> None:
    """Goal: any cut, by the smaller of both bounds, each with size, position and leader."""
    solo, now = leader_with(ID, config=QuorumConfig(fetch_snapshot_max_bytes=40))
    whole = snapshot_bytes(ID)
    data = b""
    while len(data) < len(whole):
        response = ask(solo, now, position=len(data), max_bytes=64 if len(data) else 7)
        assert response.error_code is ErrorCode.NONE
        assert (response.snapshot_id, response.position) == (ID, len(data))
        assert response.size_bytes == len(whole)
        assert (response.leader_id, response.leader_epoch) == (1, solo.quorum.epoch)
        assert len(response.data) <= (40 if data else 7)
        data += response.data
    assert data == whole


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"snapshot_id": SnapshotId(5, 1)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"snapshot_id": SnapshotId(6, 2)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"snapshot_id": SnapshotId(0, 0)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": len(snapshot_bytes(ID))}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"snapshot_id": SnapshotId(5, 1), "position": -1}, ErrorCode.SNAPSHOT_NOT_FOUND),
    ],
)
def test_what_is_refused(changes: dict[str, object], error: ErrorCode) -> None:
    """Goal: Kafka's codes, in Kafka's order; nothing is given away with them."""
    solo, now = leader_with((0, 0), ID)
    response = ask(solo, now, **changes)
    assert response.error_code is error
    assert not response.data


def test_only_the_leader_serves() -> None:
    """Goal: a follower names the leader instead."""
    solo = Solo(log_epochs=(1,) * 9)
    solo.disk.replace(path_of(ID), snapshot_bytes(ID))
    solo.make_quorum()
    solo.start()
    solo.follow(3)
    response = ask(solo, 0)
    assert response.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.leader_id == 2


def test_a_voter_that_downloads_is_there() -> None:
    """Goal: pieces count for check quorum, or a large snapshot would depose its leader."""
    solo, now = leader_with(ID)
    for _ in range(20):
        now += 1_000
        ask(solo, now)
        solo.settle(now)
        assert solo.quorum.is_leader


def test_a_damaged_snapshot_is_not_served() -> None:
    """SnapshotWhole. Goal: it is found before its first byte leaves, named, and a new one is
    wanted, because the log begins where it ended."""
    solo, now = leader_with(ID, log_start=6)
    solo.disk.flip_bit(path_of(ID), 700)
    assert ask(solo, now).error_code is ErrorCode.SNAPSHOT_NOT_FOUND
    assert any("put aside" in event.text() for event in solo.sink.events)
    assert solo.quorum.latest_snapshot is None
    assert solo.quorum.wants_snapshot


def test_a_lost_snapshot_is_made_again_before_there_are_more_records() -> None:
    """Quorum seed 181: a follower waited for the snapshot at the log's start, which its leader had
    found damaged, and the leader waited for the next record. Goal: only that one, and only then."""
    solo, now = leader_with(ID, log_start=6)
    assert solo.quorum.begin_snapshot(ID, now) is None
    solo.disk.flip_bit(path_of(ID), 700)
    ask(solo, now)
    assert solo.quorum.begin_snapshot(SnapshotId(5, 1), now) is None
    writer = solo.quorum.begin_snapshot(ID, now)
    assert writer is not None
    writer.finish()
    solo.settle(now)
    assert ask(solo, now).error_code is ErrorCode.NONE
    solo.quorum.check()


def test_without_its_snapshot_the_log_begins_at_the_next() -> None:
    """SnapshotAtLogStart. Goal: the invariant holds again at once."""
    later = SnapshotId(8, 1)
    solo, now = leader_with(ID, later, log_start=6)
    solo.disk.flip_bit(path_of(ID), 700)
    assert ask(solo, now).error_code is ErrorCode.SNAPSHOT_NOT_FOUND
    assert solo.log.log_start_offset == later.end_offset
    solo.quorum.check()
