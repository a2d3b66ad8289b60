"""The kernel on the smallest machine there is: a tuple of integers that records append to."""

from collections.abc import Sequence

import pytest

from tests.unit.rsm.memory_log import MemoryLog
from tidelog.errors import UnwritableText
from tidelog.kraft.messages import CommittedBatch
from tidelog.rsm.kernel import Decision, Kernel

REFUSED = "refused"
UNWRITABLE = 13


class Numbers:
    """State: all numbers so far. Counts what it decoded."""

    def __init__(self) -> None:
        self.decoded = 0

    def encode(self, record: int) -> bytes:
        if record == UNWRITABLE:
            raise UnwritableText("a text that no record can have")
        return str(record).encode()

    def decode(self, value: bytes) -> int:
        self.decoded += 1
        return int(value)

    def replay(
        self, state: tuple[int, ...], records: Sequence[int], last_offset: int, epoch: int
    ) -> tuple[int, ...]:
        return (*state, *records)


class Coordinator:
    """A kernel, its log, and the loop between them."""

    def __init__(
        self, *, max_batch_records: int = 3, max_pending: int = 4, compacted: bool = False
    ) -> None:
        self.machine = Numbers()
        self.log = MemoryLog()
        self.kernel: Kernel[tuple[int, ...], int, bytes, str] = Kernel(
            self.machine,
            self.log,
            initial=(),
            max_batch_records=max_batch_records,
            max_pending=max_pending,
            compacted=compacted,
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
def coordinator() -> Coordinator:
    """An active coordinator in epoch 1."""
    coordinator = Coordinator()
    coordinator.lead()
    return coordinator


def test_a_reply_waits_for_its_commit(coordinator: Coordinator) -> None:
    """Goal: CommittedOnly, while the newest state shows the records at once."""
    coordinator.submit("a", 1, 2)
    assert (coordinator.kernel.latest, coordinator.kernel.committed) == ((1, 2), ())
    assert coordinator.replies() == []
    coordinator.commit()
    assert coordinator.kernel.committed == (1, 2)
    assert coordinator.replies() == ["a: did a"]
    assert coordinator.replies() == []


def test_decisions_see_what_is_not_committed(coordinator: Coordinator) -> None:
    """Goal: the second decision is made on top of the first."""
    coordinator.submit("a", 1)
    assert coordinator.submit("b", *(number + 1 for number in coordinator.kernel.latest)) == 2
    coordinator.commit(1)
    assert (coordinator.kernel.committed, coordinator.kernel.latest) == ((1,), (1, 2))
    assert coordinator.replies() == ["a: did a"]
    coordinator.commit(1)
    assert coordinator.kernel.committed == (1, 2)
    assert coordinator.replies() == ["b: did b"]


def test_an_answer_without_records_waits_for_what_it_read(coordinator: Coordinator) -> None:
    """Goal: no client receives uncommitted state through a read, and order is kept."""
    coordinator.submit("write", 1)
    coordinator.submit("read")
    assert coordinator.replies() == []
    coordinator.commit()
    assert coordinator.replies() == ["write: did write", "read: did read"]


def test_a_decision_without_records_is_answered_at_once_when_all_is_committed(
    coordinator: Coordinator,
) -> None:
    """Goal: reads of committed state need no round."""
    coordinator.submit("write", 1)
    coordinator.commit()
    coordinator.submit("read")
    assert coordinator.replies() == ["write: did write", "read: did read"]


def test_lost_leadership_rolls_back_and_refuses(coordinator: Coordinator) -> None:
    """Goal: back to the committed state; every waiting request receives the refusal, in order."""
    coordinator.submit("a", 1)
    coordinator.commit()
    coordinator.submit("b", 2)
    coordinator.submit("c")
    coordinator.log.lose()
    coordinator.kernel.resign(REFUSED)
    coordinator.kernel.check()
    assert not coordinator.kernel.active
    assert coordinator.kernel.latest == coordinator.kernel.committed == (1,)
    assert coordinator.replies() == ["a: did a", "b: refused", "c: refused"]


def test_records_that_survive_the_failover_come_back_as_foreign(coordinator: Coordinator) -> None:
    """Goal: a refused decision may still be committed by the next leader, and is replayed."""
    coordinator.submit("a", 1)
    coordinator.submit("b", 2)
    coordinator.log.lose(keep=1)
    coordinator.kernel.resign(REFUSED)
    coordinator.log.follow([b"7"], epoch=2)
    coordinator.commit()
    assert coordinator.kernel.committed == (1, 7)
    assert coordinator.replies() == ["a: refused", "b: refused"]


def test_active_again_in_a_later_epoch(coordinator: Coordinator) -> None:
    """Goal: a second leadership starts from what was committed in between."""
    coordinator.submit("a", 1)
    coordinator.log.lose()
    coordinator.kernel.resign(REFUSED)
    coordinator.log.follow([b"5"], epoch=2)
    coordinator.commit()
    coordinator.lead(epoch=3)
    coordinator.submit("b", 6)
    coordinator.commit()
    assert coordinator.kernel.committed == (5, 6)
    assert coordinator.replies() == ["a: refused", "b: did b"]


def test_own_batches_are_not_decoded_again(coordinator: Coordinator) -> None:
    """Goal: the states are kept, foreign batches only are decoded."""
    coordinator.submit("a", 1, 2)
    coordinator.commit()
    assert coordinator.machine.decoded == 0


def test_a_long_list_is_split_and_answered_after_its_last_batch(coordinator: Coordinator) -> None:
    """Goal: batches of the bound, one reply, prefixes visible as they are committed."""
    coordinator.submit("a", *range(7), atomic=False)
    assert coordinator.log.batch_sizes == [3, 3, 1]
    coordinator.commit(2)
    assert coordinator.kernel.committed == (0, 1, 2, 3, 4, 5)
    assert coordinator.replies() == []
    coordinator.commit(1)
    assert coordinator.replies() == ["a: did a"]


def test_an_atomic_list_above_the_bound_is_a_bug(coordinator: Coordinator) -> None:
    """Goal: atomicity is never given up silently."""
    with pytest.raises(AssertionError, match="cannot be atomic"):
        coordinator.submit("a", *range(4))


def test_the_log_may_join_decisions_in_one_batch(coordinator: Coordinator) -> None:
    """Goal: the quorum's linger joins appends; all of them are answered."""
    coordinator.submit("a", 1)
    coordinator.submit("b", 2)
    coordinator.commit(join=True)
    assert coordinator.kernel.committed == (1, 2)
    assert coordinator.replies() == ["a: did a", "b: did b"]


def test_control_batches_pass_while_active(coordinator: Coordinator) -> None:
    """Goal: a control batch moves the offset and nothing else."""
    coordinator.submit("a", 1)
    coordinator.log.add_control()
    coordinator.submit("b", 2)
    coordinator.commit()
    assert coordinator.kernel.committed == (1, 2)
    assert coordinator.kernel.committed_offset == 3
    assert coordinator.replies() == ["a: did a", "b: did b"]


def test_a_refused_append_changes_nothing(coordinator: Coordinator) -> None:
    """Goal: the log may know before the coordinator that leadership is gone."""
    coordinator.log.lose()
    assert coordinator.submit("a", 1) is None
    assert coordinator.kernel.latest == ()
    assert coordinator.replies() == []


def test_pending_answers_are_bounded(coordinator: Coordinator) -> None:
    """Goal: `has_room` says when to refuse, and recovers."""
    for number in range(4):
        assert coordinator.kernel.has_room
        coordinator.submit(str(number), number)
    assert not coordinator.kernel.has_room
    coordinator.commit(1)
    assert coordinator.kernel.has_room


def test_a_gap_in_the_committed_batches_is_a_bug(coordinator: Coordinator) -> None:
    """Goal: each committed batch arrives exactly once and in order."""
    with pytest.raises(AssertionError, match="expected offset 1, got 4"):
        coordinator.kernel.on_committed(CommittedBatch(4, 4, 1, 0, [b"1"], False))


def test_foreign_records_while_active_are_a_bug(coordinator: Coordinator) -> None:
    """Goal: two writers in one epoch do not go unnoticed."""
    coordinator.submit("a", 1, 2)
    with pytest.raises(AssertionError, match="foreign records"):
        coordinator.kernel.on_committed(CommittedBatch(1, 1, 1, 0, [b"9"], False))


def test_activation_needs_an_empty_tail(coordinator: Coordinator) -> None:
    """Goal: becoming active twice is refused."""
    with pytest.raises(AssertionError, match="already active"):
        coordinator.kernel.become_active(2)


# Snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_takes_the_place_of_the_committed_state() -> None:
    """Goal: the log goes on behind it. Method: a kernel that fell behind."""
    coordinator = Coordinator()
    coordinator.kernel.load((7, 8), 4)
    coordinator.kernel.check()
    assert (coordinator.kernel.committed, coordinator.kernel.committed_offset) == ((7, 8), 4)
    coordinator.kernel.on_committed(CommittedBatch(5, 5, 1, 0, [b"9"], is_control=False))
    assert coordinator.kernel.committed == (7, 8, 9)


def test_a_leader_is_never_given_a_snapshot() -> None:
    """Goal: what it decided rests on what it has."""
    coordinator = Coordinator()
    coordinator.lead()
    with pytest.raises(AssertionError, match="while active"):
        coordinator.kernel.load((7,), 9)


def test_a_snapshot_of_the_past_is_a_bug() -> None:
    """CommittedOnly: what clients received is never taken back."""
    coordinator = Coordinator()
    coordinator.kernel.load((7, 8), 4)
    with pytest.raises(AssertionError, match="committed through 4"):
        coordinator.kernel.load((7,), 3)


# A partition's log ---------------------------------------------------------------------------


def foreign(base_offset: int, *numbers: int) -> CommittedBatch:
    """A batch that another leader wrote."""
    records = [str(number).encode() for number in numbers]
    last_offset = base_offset + len(records) - 1
    return CommittedBatch(base_offset, last_offset, 1, 0, records, is_control=False)


def test_a_compacted_log_is_loaded_over_its_gaps() -> None:
    """Goal: what the cleaner removed is not waited for, neither first nor between."""
    coordinator = Coordinator(compacted=True)
    coordinator.kernel.on_committed(foreign(5, 1, 2))
    coordinator.kernel.on_committed(foreign(9, 3))
    coordinator.kernel.check()
    assert (coordinator.kernel.committed, coordinator.kernel.committed_offset) == ((1, 2, 3), 9)


def test_a_log_that_is_not_compacted_has_no_gaps() -> None:
    with pytest.raises(AssertionError, match="expected offset 0, got 5"):
        Coordinator().kernel.on_committed(foreign(5, 1))


def test_a_compacted_log_does_not_go_back() -> None:
    coordinator = Coordinator(compacted=True)
    coordinator.kernel.on_committed(foreign(5, 1))
    with pytest.raises(AssertionError, match="expected offset 6, got 4"):
        coordinator.kernel.on_committed(foreign(4, 1))


def test_the_high_watermark_commits_what_is_below_it(coordinator: Coordinator) -> None:
    """Goal: own batches only, in order, those that end at or above it still wait."""
    first = coordinator.submit("a", 1)
    second = coordinator.submit("b", 2, 3)
    assert (first, second) == (1, 3)
    coordinator.kernel.on_high_watermark(3)
    coordinator.kernel.check()
    assert (coordinator.kernel.committed, coordinator.kernel.latest) == ((1,), (1, 2, 3))
    assert coordinator.replies() == ["a: did a"]
    coordinator.kernel.on_high_watermark(4)
    assert coordinator.kernel.committed == (1, 2, 3)
    assert coordinator.replies() == ["b: did b"]
    assert coordinator.machine.decoded == 0


def test_what_the_high_watermark_did_not_reach_is_rolled_back(coordinator: Coordinator) -> None:
    coordinator.submit("a", 1)
    coordinator.submit("b", 2)
    coordinator.kernel.on_high_watermark(2)
    coordinator.kernel.resign(REFUSED)
    assert coordinator.kernel.latest == coordinator.kernel.committed == (1,)
    assert coordinator.replies() == ["a: did a", "b: refused"]


@pytest.mark.parametrize("records", [(1, UNWRITABLE), (1, 2, 3, 4, 5, UNWRITABLE)])
def test_of_a_decision_that_cannot_be_written_nothing_is(
    coordinator: Coordinator, records: Sequence[int]
) -> None:
    """Goal: also of one in several batches, whose last has the record; and the next one is."""
    with pytest.raises(UnwritableText):
        coordinator.submit("a", *records, atomic=False)
    assert (coordinator.log.records, coordinator.kernel.latest) == ([], ())
    coordinator.submit("b", 1)
    coordinator.commit()
    assert coordinator.replies() == ["b: did b"]
