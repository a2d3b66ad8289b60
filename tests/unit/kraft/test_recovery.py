"""Starting from snapshots and a log, whatever a crash or a bad disk has left of them."""

from dataclasses import dataclass, field

import pytest

from tests.unit.kraft.solo import Solo, fetched, vote, voters_of
from tidelog.errors import UsageError
from tidelog.kraft.fetcher import NO_REPLICA
from tidelog.kraft.messages import Committed, CommittedBatch, LoadedSnapshot, SnapshotId
from tidelog.kraft.quorum_state import RoleName
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, encode_snapshot, snapshot_name
from tidelog.model import METADATA_PARTITION, EpochEndOffset


@dataclass
class Left:
    """What is on the disk when the process starts."""

    epochs: tuple[int, ...] = ()
    """Of the records of the log, from offset 0 on."""
    log_start: int = 0
    """Of a log without records as well, as after a download."""
    snapshots: tuple[tuple[int, int], ...] = ()
    damaged: tuple[tuple[int, int], ...] = field(default=())
    voter_count: int = 3
    bootstrap: tuple[int, ...] = ()
    """The numbers of the nodes at the bootstrap servers."""

    def start(self) -> Solo:
        addresses = {number: voter.endpoints[0] for number, voter in voters_of(3).items()}
        solo = Solo(
            log_epochs=self.epochs,
            voter_count=self.voter_count,
            endpoints=(addresses[1],) if self.bootstrap else (),
            bootstrap=tuple(addresses[number] for number in self.bootstrap),
        )
        if self.epochs:
            solo.log.update_high_watermark(self.log_start)
            solo.log.maybe_raise_log_start_offset(self.log_start)
        else:
            solo.log.truncate_fully_and_start_at(self.log_start)
        for one in (*self.snapshots, *self.damaged):
            snapshot_id = SnapshotId(*one)
            path = f"{METADATA_PARTITION}/{snapshot_name(snapshot_id)}"
            data = encode_snapshot(snapshot_id, 5, [b"state"])
            if one in self.damaged:
                data = data[: len(data) // 2]
            solo.disk.replace(path, data)
        solo.make_quorum()
        solo.start()
        return solo


def loaded(solo: Solo) -> list[tuple[int, int]]:
    return [tuple(c.snapshot_id) for c in committed(solo) if isinstance(c, LoadedSnapshot)]


def committed(solo: Solo) -> list[Committed]:
    return solo.quorum.take_committed()


def test_a_log_from_zero_needs_no_snapshot() -> None:
    """Goal: the usual start; nothing is committed before a leader reports it."""
    solo = Left((1, 1, 1)).start()
    assert committed(solo) == []
    assert (solo.log.log_start_offset, solo.log.log_end_offset) == (0, 3)


def test_the_newest_snapshot_is_where_the_state_begins() -> None:
    """Goal: snapshot first, the log behind it as it is; everything below is committed."""
    solo = Left((1, 1, 1, 2, 2), snapshots=((2, 1), (4, 2))).start()
    assert loaded(solo) == [(4, 2)]
    assert solo.quorum.high_watermark == 4
    assert (solo.log.log_start_offset, solo.log.log_end_offset) == (0, 5)


def test_a_log_that_starts_above_zero_starts_at_a_snapshot() -> None:
    """SnapshotAtLogStart. Goal: after a crash in the middle of cleaning the start moves up to the
    oldest snapshot, and snapshots below it go."""
    solo = Left((1,) * 9, log_start=3, snapshots=((2, 1), (5, 1), (7, 1))).start()
    assert loaded(solo) == [(7, 1)]
    assert solo.log.log_start_offset == 5
    assert solo.core.snapshots.ids == [(5, 1), (7, 1)]


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (Left((1, 1), snapshots=((5, 1),)), "the process ended after a download"),
        (Left((), snapshots=((5, 1),)), "nothing but the snapshot is left"),
        (Left((1,) * 9, snapshots=((5, 3),)), "the log went another way"),
        (Left((1,) * 5, log_start=5, snapshots=((5, 3),)), "an empty log of a stale epoch"),
    ],
)
def test_a_log_without_the_snapshots_last_record_is_given_up(left: Left, why: str) -> None:
    """Goal: the log begins behind the snapshot, in its epoch: no replica is sent another one."""
    solo = left.start()
    end_offset, epoch = left.snapshots[-1]
    assert loaded(solo) == [(end_offset, epoch)], why
    assert (solo.log.log_start_offset, solo.log.log_end_offset) == (end_offset, end_offset), why
    assert solo.core.last_epoch == epoch, why
    assert solo.quorum.high_watermark == end_offset, why


def test_the_next_older_snapshot_stands_in_for_a_damaged_one() -> None:
    """SnapshotWhole. Goal: the log goes on from the older one."""
    solo = Left((1,) * 9, log_start=3, snapshots=((3, 1),), damaged=((6, 1),)).start()
    assert loaded(solo) == [(3, 1)]
    assert any("put aside" in event.text() for event in solo.sink.events)
    assert solo.log.log_end_offset == 9


def test_without_a_snapshot_a_log_from_zero_is_enough() -> None:
    """Goal: damage costs nothing but time."""
    solo = Left((1,) * 9, damaged=((6, 1),)).start()
    assert loaded(solo) == []
    assert not solo.core.lacks_base
    assert solo.log.log_start_offset == 0


def test_without_any_base_the_log_stays_and_no_vote_is_asked_for() -> None:
    """BaseBeforeLeading. Goal: the replica still answers for what it has acknowledged, reports the
    loss with a hint, and never asks for votes. Method: two minutes without other replicas."""
    solo = Left((1,) * 9, log_start=4, damaged=((4, 1),)).start()
    assert solo.core.lacks_base
    assert solo.log.log_end_offset == 9
    assert any("hint:" in event.text() for event in solo.sink.events)
    for now in range(0, 120_000, 500):
        solo.settle(now)
        assert solo.quorum.role.name in (RoleName.UNATTACHED, RoleName.FOLLOWER)
    assert committed(solo) == []


def test_an_empty_log_keeps_the_epoch_of_its_damaged_snapshot() -> None:
    """Goal: the replica votes for none that is behind what it acknowledged, and no leader takes its
    log for one that never agreed; also after the next start, when the file has another name."""
    solo = Left((), log_start=4, damaged=((4, 3),)).start()
    for _ in range(2):
        assert solo.core.lacks_base
        assert solo.log.log_start_offset == solo.log.log_end_offset == 4
        assert solo.core.last_epoch == 3
        solo.make_quorum()
        solo.start()


def test_an_empty_log_whose_snapshot_is_gone_does_not_vote() -> None:
    """MemoryComesBackFirst. Goal: a candidate that lacks what the log ended with does not win by
    this vote, and a leader that asks to cut is not obeyed: the end had been acknowledged."""
    solo = Left((), log_start=4).start()
    assert solo.core.may_only_follow and solo.core.last_epoch == 0
    assert not solo.ask(vote(epoch=7, last_epoch=1, last_offset=2)).granted
    solo.follow(7)
    base = solo.answer(fetched(leader_epoch=7, diverging_epoch=EpochEndOffset(0, 0)))
    assert (base.replica_id, base.fetch_offset) == (NO_REPLICA, 0)
    fetch = solo.answer(fetched(leader_epoch=7, diverging_epoch=EpochEndOffset(0, 0)), now=1000)
    assert (fetch.fetch_offset, solo.log.log_end_offset) == (4, 4)
    assert not solo.ask(vote(epoch=8, last_epoch=1, last_offset=2), now=2000).granted


def test_a_quorum_of_one_without_its_state_refuses_to_start() -> None:
    """Goal: no other node has the metadata; going on would lose it silently."""
    with pytest.raises(UsageError, match="begins at offset `4`"):
        Left((1,) * 9, log_start=4, damaged=((4, 1),), voter_count=1).start()


@pytest.mark.parametrize("lacks_records", [False, True])
def test_a_voter_that_has_lost_the_record_of_the_voters_asks_the_bootstrap_servers(
    lacks_records: bool,
) -> None:
    """Goal: where the set is in the log, damage may take the record that names it. A quorum of one
    is one only if no bootstrap server is another node (seed 1686078749 on damaged disks: a voter of
    three refused to start)."""
    left = Left((1,) * 9, log_start=4, damaged=((4, 1),), voter_count=0, bootstrap=(1, 2, 3))
    if lacks_records:
        left = Left((1,) * 9, voter_count=0, bootstrap=(1, 2, 3))

    def start() -> Solo:
        solo = left.start()
        if lacks_records:
            solo.make_quorum()
            solo.quorum.distrust_log()
            solo.start()
        return solo

    solo = start()
    assert not solo.core.voters and solo.core.may_only_follow
    asked = [solo.core.draw_probe_peer() for _ in range(20)]
    assert {solo.core.addresses.of(peer).host for peer in asked if peer is not None} > {"n2"}
    left.bootstrap = (1,)
    with pytest.raises(UsageError):
        start()


def test_what_formatting_left_is_not_handed_out() -> None:
    """Goal: a bootstrap checkpoint stands for no record; the log is read from 0."""
    solo = Left((1, 1), snapshots=(tuple(BOOTSTRAP_SNAPSHOT),)).start()
    assert loaded(solo) == []
    assert solo.quorum.high_watermark == 0
    assert solo.core.snapshots.latest is None


def test_records_behind_a_snapshot_are_handed_out_after_it() -> None:
    """CommittedOnce. Goal: the snapshot, then the log from its end, nothing twice."""
    solo = Left((1, 1, 1, 1), snapshots=((2, 1),)).start()
    solo.follow(2)
    solo.answer(fetched(leader_epoch=2, high_watermark=4))
    handed = committed(solo)
    assert isinstance(handed[0], LoadedSnapshot)
    assert [b.base_offset for b in handed[1:] if isinstance(b, CommittedBatch)] == [2, 3]
