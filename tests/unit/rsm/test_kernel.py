"""The kernel on the smallest machine there is: a tuple of integers that records append to."""

from collections.abc import Sequence

import pytest

from tests.unit.rsm.memory_log import MemoryLog
from tidelog.kraft.messages import CommittedBatch
from tidelog.rsm.kernel import Decision, Kernel

REFUSED = "refused"


class Numbers:
    """State: all numbers so far. Counts what it decoded."""

    def __init__(self) -> None:
        self.decoded = 0

    def encode(self, record: int) -> bytes:
        return str(record).encode()

    def decode(self, value: bytes) -> int:
        self.decoded += 1
        return int(value)

    def replay(
        self, state: tuple[int, ...], records: Sequence[int], last_offset: int, epoch: int
    ) -> tuple[int, ...]:
        return (*state, *records)


class Room:
    """A kernel, its log, and the loop between them."""

    def __init__(self, *, max_batch_records: int = 3, max_pending: int = 4) -> None:
        self.machine = Numbers()
        self.log = MemoryLog()
        self.kernel: Kernel[tuple[int, ...], int, str] = Kernel(
            self.machine,
            self.log,
            initial=(),
            max_batch_records=max_batch_records,
            max_pending=max_pending,
        )

    def lead(self, epoch: int = 1) -> None:
        self.log.lead(epoch)
        self.commit()
        self.kernel.become_active(epoch)

    def submit(self, name: str, *records: int, atomic: bool = True) -> int | None:
        offset = self.kernel.submit(Decision(f"did {name}", records, atomic), name)
        self.kernel.check()
        return offset

    def commit(self, batches: int | None = None, *, join: bool = False) -> None:
        for batch in self.log.commit(batches, join=join):
            self.kernel.on_committed(batch)
            self.kernel.check()

    def replies(self) -> list[str]:
        return [f"{reply_to}: {response}" for reply_to, response in self.kernel.take_replies()]


@pytest.fixture
def room() -> Room:
    """An active room in epoch 1."""
    room = Room()
    room.lead()
    return room


def test_a_reply_waits_for_its_commit(room: Room) -> None:
    """Goal: CommittedOnly, while the newest state shows the records at once."""
    room.submit("a", 1, 2)
    assert (room.kernel.latest, room.kernel.committed) == ((1, 2), ())
    assert room.replies() == []
    room.commit()
    assert room.kernel.committed == (1, 2)
    assert room.replies() == ["a: did a"]
    assert room.replies() == []


def test_decisions_see_what_is_not_committed(room: Room) -> None:
    """Goal: the second decision is made on top of the first."""
    room.submit("a", 1)
    assert room.submit("b", *(number + 1 for number in room.kernel.latest)) == 2
    room.commit(1)
    assert (room.kernel.committed, room.kernel.latest) == ((1,), (1, 2))
    assert room.replies() == ["a: did a"]
    room.commit(1)
    assert room.kernel.committed == (1, 2)
    assert room.replies() == ["b: did b"]


def test_an_answer_without_records_waits_for_what_it_read(room: Room) -> None:
    """Goal: nobody hears of uncommitted state through a read, and order is kept."""
    room.submit("write", 1)
    room.submit("read")
    assert room.replies() == []
    room.commit()
    assert room.replies() == ["write: did write", "read: did read"]


def test_an_answer_without_records_leaves_at_once_when_all_is_committed(room: Room) -> None:
    """Goal: reads of committed state need no round."""
    room.submit("write", 1)
    room.commit()
    room.submit("read")
    assert room.replies() == ["write: did write", "read: did read"]


def test_lost_leadership_rolls_back_and_refuses(room: Room) -> None:
    """Goal: back to the committed state; everyone who waits hears the refusal, in order."""
    room.submit("a", 1)
    room.commit()
    room.submit("b", 2)
    room.submit("c")
    room.log.lose()
    room.kernel.resign(REFUSED)
    room.kernel.check()
    assert not room.kernel.active
    assert room.kernel.latest == room.kernel.committed == (1,)
    assert room.replies() == ["a: did a", "b: refused", "c: refused"]


def test_records_that_survive_the_failover_come_back_as_foreign(room: Room) -> None:
    """Goal: a refused decision may still be committed by the next leader, and is replayed."""
    room.submit("a", 1)
    room.submit("b", 2)
    room.log.lose(keep=1)
    room.kernel.resign(REFUSED)
    room.log.follow([b"7"], epoch=2)
    room.commit()
    assert room.kernel.committed == (1, 7)
    assert room.replies() == ["a: refused", "b: refused"]


def test_active_again_in_a_later_epoch(room: Room) -> None:
    """Goal: a second leadership starts from what was committed in between."""
    room.submit("a", 1)
    room.log.lose()
    room.kernel.resign(REFUSED)
    room.log.follow([b"5"], epoch=2)
    room.commit()
    room.lead(epoch=3)
    room.submit("b", 6)
    room.commit()
    assert room.kernel.committed == (5, 6)
    assert room.replies() == ["a: refused", "b: did b"]


def test_own_batches_are_not_decoded_again(room: Room) -> None:
    """Goal: the states are kept, foreign batches only are decoded."""
    room.submit("a", 1, 2)
    room.commit()
    assert room.machine.decoded == 0


def test_a_long_list_is_split_and_answered_after_its_last_batch(room: Room) -> None:
    """Goal: batches of the bound, one reply, prefixes visible as they are committed."""
    room.submit("a", *range(7), atomic=False)
    assert room.log.batch_sizes == [3, 3, 1]
    room.commit(2)
    assert room.kernel.committed == (0, 1, 2, 3, 4, 5)
    assert room.replies() == []
    room.commit(1)
    assert room.replies() == ["a: did a"]


def test_an_atomic_list_above_the_bound_is_a_bug(room: Room) -> None:
    """Goal: atomicity is never given up silently."""
    with pytest.raises(AssertionError, match="cannot be atomic"):
        room.submit("a", *range(4))


def test_the_log_may_join_decisions_in_one_batch(room: Room) -> None:
    """Goal: the quorum's linger joins appends; all of them are answered."""
    room.submit("a", 1)
    room.submit("b", 2)
    room.commit(join=True)
    assert room.kernel.committed == (1, 2)
    assert room.replies() == ["a: did a", "b: did b"]


def test_control_batches_pass_while_active(room: Room) -> None:
    """Goal: a control batch moves the offset and nothing else."""
    room.submit("a", 1)
    room.log.add_control()
    room.submit("b", 2)
    room.commit()
    assert room.kernel.committed == (1, 2)
    assert room.kernel.committed_offset == 3
    assert room.replies() == ["a: did a", "b: did b"]


def test_a_refused_append_changes_nothing(room: Room) -> None:
    """Goal: the log may know before the room that leadership is gone."""
    room.log.lose()
    assert room.submit("a", 1) is None
    assert room.kernel.latest == ()
    assert room.replies() == []


def test_pending_answers_are_bounded(room: Room) -> None:
    """Goal: `has_room` says when to refuse, and recovers."""
    for number in range(4):
        assert room.kernel.has_room
        room.submit(str(number), number)
    assert not room.kernel.has_room
    room.commit(1)
    assert room.kernel.has_room


def test_a_gap_in_the_committed_batches_is_a_bug(room: Room) -> None:
    """Goal: each committed batch arrives exactly once and in order."""
    with pytest.raises(AssertionError, match="expected offset 1, got 4"):
        room.kernel.on_committed(CommittedBatch(4, 4, 1, 0, [b"1"], False))


def test_foreign_records_while_active_are_a_bug(room: Room) -> None:
    """Goal: two writers in one epoch do not go unnoticed."""
    room.submit("a", 1, 2)
    with pytest.raises(AssertionError, match="foreign records"):
        room.kernel.on_committed(CommittedBatch(1, 1, 1, 0, [b"9"], False))


def test_activation_needs_a_clean_room(room: Room) -> None:
    """Goal: becoming active twice is refused."""
    with pytest.raises(AssertionError, match="already active"):
        room.kernel.become_active(2)


# Snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_takes_the_place_of_the_committed_state() -> None:
    """Goal: the log goes on behind it. Method: a kernel that fell behind."""
    room = Room()
    room.kernel.load((7, 8), 4)
    room.kernel.check()
    assert (room.kernel.committed, room.kernel.committed_offset) == ((7, 8), 4)
    room.kernel.on_committed(CommittedBatch(5, 5, 1, 0, [b"9"], is_control=False))
    assert room.kernel.committed == (7, 8, 9)


def test_a_leader_is_never_given_a_snapshot() -> None:
    """Goal: what it decided rests on what it has."""
    room = Room()
    room.lead()
    with pytest.raises(AssertionError, match="while active"):
        room.kernel.load((7,), 9)


def test_a_snapshot_of_the_past_is_a_bug() -> None:
    """CommittedOnly: what was told to clients is never taken back."""
    room = Room()
    room.kernel.load((7, 8), 4)
    with pytest.raises(AssertionError, match="committed through 4"):
        room.kernel.load((7,), 3)
