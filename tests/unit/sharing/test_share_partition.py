"""A share partition against a model that keeps each offset by itself, and its rules one by one."""

import pytest

from tests.unit.sharing.shares import LOCK_MS, NOW, fetch, refusal, say, share_of
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.sharing.share_partition import SharePartition
from tidelog.sharing.values import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    STATE_OF_TYPE,
    Acknowledgement,
    Acquired,
    RecordState,
    StateBatch,
)

# Acknowledgements -------------------------------------------------------------------------------


def test_acceptance_moves_the_start_when_it_is_written():
    share = share_of()
    fetch(share, most=20)
    change = share.acknowledge("a", [Acknowledgement(0, 9, (ACCEPT,))], NOW)
    assert change.batches == [StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1)]
    assert (share.start, share.done_in_flight) == (0, 10)
    share.finish(change, NOW, written=True)
    assert (share.start, share.done_in_flight) == (10, 0)


def test_one_acknowledgement_may_say_something_else_of_each_offset():
    share = share_of()
    fetch(share, most=10, upto=10)
    written = say(share, [ACCEPT, ACCEPT, REJECT, GAP, RELEASE, *[ACCEPT] * 5], 0, 9)
    assert written == [
        StateBatch(0, 1, RecordState.ACKNOWLEDGED, 1),
        StateBatch(2, 3, RecordState.ARCHIVED, 1),
        StateBatch(4, 4, RecordState.AVAILABLE, 1),
        StateBatch(5, 9, RecordState.ACKNOWLEDGED, 1),
    ]
    assert (share.start, share.next_offset()) == (4, 4)


def test_what_could_not_be_written_is_taken_back():
    share = share_of()
    fetch(share, most=20)
    say(share, ACCEPT, 0, 9, written=False)
    assert (share.start, share.next_offset()) == (0, 20)
    say(share, ACCEPT, 0, 19)
    assert share.start == 20


def test_a_lock_that_ended_under_a_failed_change_is_over():
    share = share_of()
    fetch(share, most=10, upto=10)
    change = share.acknowledge("a", [Acknowledgement(0, 9, (ACCEPT,))], NOW)
    later = Instant(NOW + LOCK_MS)
    assert share.wake(later) is None
    share.finish(change, later, written=False)
    assert fetch(share, "b", upto=10, now=later) == [Acquired(0, 9, 2)]


def test_records_under_a_change_are_nobodys():
    share = share_of()
    fetch(share, most=10, upto=10)
    change = share.acknowledge("a", [Acknowledgement(0, 9, (RELEASE,))], NOW)
    assert fetch(share, "b", upto=10) == []
    assert refusal(share, ACCEPT, 0, 9) is ErrorCode.INVALID_RECORD_STATE
    share.finish(change, NOW, written=True)
    assert fetch(share, "b", upto=10) == [Acquired(0, 9, 2)]


@pytest.mark.parametrize(
    ("first", "last", "member", "code"),
    [
        (5, 9, "b", ErrorCode.INVALID_RECORD_STATE),
        (20, 25, "a", ErrorCode.INVALID_REQUEST),
        (15, 25, "a", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_a_member_does_not_have_it_cannot_acknowledge(first, last, member, code):
    share = share_of()
    fetch(share, most=20)
    assert refusal(share, ACCEPT, first, last, member) is code
    say(share, ACCEPT, 0, 19)


def test_a_refusal_takes_back_what_was_said_before_it():
    share = share_of()
    fetch(share, most=10)
    fetch(share, "b", most=10)
    assert refusal(share, ACCEPT, 0, 19) is ErrorCode.INVALID_RECORD_STATE
    say(share, ACCEPT, 0, 9)


def test_a_record_before_the_start_is_done_with_already():
    share = share_of()
    fetch(share, most=10, upto=10)
    say(share, ACCEPT, 0, 9)
    assert say(share, RELEASE, 0, 9) == []


# Locks ------------------------------------------------------------------------------------------


def test_a_lock_ends():
    share = share_of()
    fetch(share, most=10, upto=10)
    assert share.deadline() == NOW + LOCK_MS
    assert share.wake(Instant(NOW + LOCK_MS - 1)) is None
    change = share.wake(Instant(NOW + LOCK_MS))
    assert change is not None
    assert change.batches == [StateBatch(0, 9, RecordState.AVAILABLE, 1)]
    assert share.deadline() is None
    assert refusal(share, ACCEPT, 0, 9) is ErrorCode.INVALID_RECORD_STATE


def test_a_renewed_lock_begins_anew():
    share = share_of()
    fetch(share, most=10, upto=10)
    later = Instant(NOW + 600)
    assert say(share, RENEW, 0, 4, now=later) == []
    change = share.wake(Instant(NOW + LOCK_MS))
    assert change is not None
    assert change.batches == [StateBatch(5, 9, RecordState.AVAILABLE, 1)]
    share.check()
    assert share.deadline() == later + LOCK_MS


def test_a_group_may_forbid_renewals():
    share = share_of(renewable=False)
    fetch(share, most=10, upto=10)
    assert refusal(share, RENEW, 0, 9) is ErrorCode.INVALID_RECORD_STATE


# Beginnings -------------------------------------------------------------------------------------


def test_holes_of_the_coordinators_state_are_delivered_anew():
    batches = [
        StateBatch(0, 4, RecordState.ACKNOWLEDGED, 1),
        StateBatch(10, 14, RecordState.AVAILABLE, 3),
        StateBatch(20, 29, RecordState.ACKNOWLEDGED, 1),
    ]
    share = share_of(0, batches, delivery_count_limit=10)
    share.check()
    assert (share.start, share.end, share.next_offset()) == (5, 30, 5)
    got = fetch(share, upto=40)
    assert got == [Acquired(5, 9, 1), Acquired(10, 14, 4), Acquired(15, 19, 1), Acquired(30, 39, 1)]


@pytest.mark.parametrize(
    "batch",
    [
        StateBatch(3, 9, 0, 1),
        StateBatch(9, 8, 0, 1),
        StateBatch(9, 9, 1, 1),
        StateBatch(9, 9, 0, -1),
        # What comes next could not be said any more.
        StateBatch(9, 9, 0, 2**15 - 1),
        StateBatch(5, 2**63 - 1, 2, 1),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(batch):
    with pytest.raises(ProtocolError):
        share_of(5, [batch])


def test_the_log_start_moves_over_records_in_flight():
    share = share_of()
    fetch(share, most=20)
    change = share.acknowledge("a", [Acknowledgement(0, 4, (RELEASE,))], NOW)
    share.on_log_start(13)
    share.check()
    share.finish(change, NOW, written=True)
    share.check()
    assert (share.start, share.end, share.in_flight) == (13, 20, 7)
    assert say(share, ACCEPT, 0, 19) == [StateBatch(13, 19, RecordState.ACKNOWLEDGED, 1)]
    share.on_log_start(50)
    assert (share.start, share.next_offset(), share.in_flight) == (50, 50, 0)


# The model --------------------------------------------------------------------------------------


class Model:
    """One entry for each offset in flight: state, deliveries, owner, end of the lock."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.offsets: dict[int, list] = {}
        self.changing: set[int] = set()

    def take(self, got: list[Acquired], member: str, now: int) -> None:
        for first, last, count in got:
            for offset in range(first, last + 1):
                state, before, *_ = self.offsets.get(offset, (RecordState.AVAILABLE, 0))
                assert state is RecordState.AVAILABLE, f"{offset} is delivered in state {state!r}"
                assert offset not in self.changing
                assert count == before + 1 <= self.limit
                self.offsets[offset] = [RecordState.ACQUIRED, count, member, now + LOCK_MS]

    def freed(self, offset: int) -> RecordState:
        spent = self.offsets[offset][1] >= self.limit
        return RecordState.ARCHIVED if spent else RecordState.AVAILABLE

    def expire(self, now: int) -> None:
        for offset, entry in self.offsets.items():
            if entry[0] is RecordState.ACQUIRED and entry[3] <= now and offset not in self.changing:
                entry[0] = self.freed(offset)

    def owns(self, member: str, first: int, last: int) -> bool:
        return all(
            offset in self.offsets
            and self.offsets[offset][0] is RecordState.ACQUIRED
            and self.offsets[offset][2] == member
            and offset not in self.changing
            for offset in range(first, last + 1)
        )

    def compare(self, share: SharePartition) -> None:
        for batch in share.batches:
            for part in batch.parts:
                for offset in range(part.first, part.last + 1):
                    entry = self.offsets.get(offset)
                    if part.change is not None:
                        assert offset in self.changing
                    elif entry is None:
                        assert (part.state, part.delivery_count) == (RecordState.AVAILABLE, 0)
                    else:
                        assert part.state is entry[0], offset
                        assert part.delivery_count == entry[1]
        for offset, entry in self.offsets.items():
            if offset < share.start:
                assert entry[0] in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED), offset


@pytest.mark.parametrize("seed", range(30))
def test_it_behaves_as_the_model(seed):
    prng = Prng(seed)
    limit = prng.between(2, 5)
    share = share_of(delivery_count_limit=limit, max_locks=prng.between(20, 120))
    model, now, under_way = Model(limit), NOW, []
    for _ in range(120):
        member = "abc"[prng.between(0, 2)]
        match prng.between(0, 6):
            case 0 | 1:
                strict, most = prng.chance(1, 3), prng.between(1, 40)
                got = fetch(share, member, most, size=prng.between(1, 40), strict=strict, now=now)
                assert not strict or sum(last - first + 1 for first, last, _ in got) <= most
                model.take(got, member, now)
            case 2 | 3:
                first = share.start + prng.between(0, 30)
                last = first + prng.between(0, 12)
                kinds = [prng.between(0, 3) for _ in range(first, last + 1)]
                kinds = kinds if prng.chance(1, 2) else kinds[:1]
                owns = model.owns(member, first, last)
                wanted = Acknowledgement(first, last, kinds)
                try:
                    change = share.acknowledge(member, [wanted], now)
                except ProtocolError:
                    assert not owns
                    continue
                assert owns
                fate = {
                    offset: STATE_OF_TYPE[kinds[offset - first] if len(kinds) > 1 else kinds[0]]
                    for offset in range(first, last + 1)
                }
                model.changing.update(fate)
                under_way.append((change, fate))
            case 4 if under_way:
                change, fate = under_way.pop(prng.between(0, len(under_way) - 1))
                written = prng.chance(2, 3)
                model.changing.difference_update(fate)
                for offset, state in fate.items():
                    if written:
                        freed = state is RecordState.AVAILABLE
                        model.offsets[offset][0] = model.freed(offset) if freed else state
                model.expire(now)
                share.finish(change, now, written=written)
            case 5:
                now = Instant(now + prng.between(0, LOCK_MS // 2))
                model.expire(now)
                change = share.wake(now)
                if change is not None:
                    share.finish(change, now, written=prng.chance(1, 2))
            case _:
                change = share.release(member)
                for part in change.parts:
                    for offset in range(part.first, part.last + 1):
                        assert model.owns(member, offset, offset)
                        model.offsets[offset][0] = model.freed(offset)
                share.finish(change, now, written=True)
        share.check()
        model.compare(share)
