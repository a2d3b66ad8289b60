"""Goal: only the newest leader of the newest state changes what is known."""

import pytest

from tests.unit.shares.rig import P0, P1, TOPIC, Rig, write
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.shares.batches import StateBatch, combined
from tidelog.shares.messages import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateResult,
)
from tidelog.shares.records import SharePartition, decode

SEED = 4711


def values_of(rig, partition=P0):
    """The values that were written about a share partition."""
    records = [decode(raw) for batch in rig.partition.batches for raw in batch.records]
    return [each.value for each in records if each.partition == partition]


def test_a_former_leader_is_fenced():
    rig = Rig()
    rig.initialize(P0)
    rig.ask(ReadState(P0, 5))
    refused = rig.ask(write(P0, (0, 0, 2, 1), leader_epoch=4))
    assert refused.error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert rig.ask(ReadState(P0, 4)).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert rig.ask(ReadState(P0, -1)).error_code is ErrorCode.NONE
    assert rig.known().whole.batches == ()


def test_a_leader_that_knows_the_former_state_is_fenced():
    rig = Rig()
    rig.initialize(P0, state_epoch=1)
    rig.initialize(P0, state_epoch=2, start=100)
    assert rig.ask(write(P0, state_epoch=1)).error_code is ErrorCode.FENCED_STATE_EPOCH
    assert rig.ask(InitializeState(P0, 1)).error_code is ErrorCode.FENCED_STATE_EPOCH
    known = rig.known().whole
    assert (known.snapshot_epoch, known.start_offset, known.complete) == (1, 100, 0)


def test_a_late_repetition_does_not_begin_a_state_anew():
    """The former coordinator of the group asks once more, when members have read already."""
    rig = Rig()
    asked = InitializeState(P0, 3)
    assert rig.ask(asked) == StateResult()
    rig.ask(ReadState(P0, 5))
    rig.ask(write(P0, (7, 7, 2, 1), start_offset=5, state_epoch=3, leader_epoch=5))
    before = rig.known()
    assert rig.ask(asked) == StateResult()
    assert rig.known() == before
    # An administrator moves the group.
    assert rig.ask(InitializeState(P0, 3, 0)) == StateResult()
    assert (rig.known().whole.start_offset, rig.known().whole.batches) == (0, ())


def test_a_state_that_begins_anew_does_not_forget_the_leader():
    rig = Rig()
    rig.initialize(P0)
    rig.ask(ReadState(P0, 5))
    rig.initialize(P0, state_epoch=2)
    assert rig.ask(ReadState(P0, 4)).error_code is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (SharePartition("g", TOPIC, -1), ErrorCode.INVALID_REQUEST),
        (SharePartition("g", TOPIC, 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_only_partitions_that_exist_are_kept(partition, code):
    rig = Rig()
    requests = (InitializeState(partition, 1), DeleteState(partition), ReadSummary(partition))
    assert {rig.ask(each).error_code for each in requests} == {code}
    assert not rig.partition.batches


def test_a_deleted_share_partition_is_not_known_any_more():
    rig = Rig()
    rig.initialize(P0)
    assert rig.ask(DeleteState(P0)) == StateResult()
    assert rig.ask(DeleteState(P0)) == StateResult()
    assert values_of(rig)[-1] is None and len(values_of(rig)) == 2
    assert len(Rig(rig.partition).coordinator.entries) == 0


def test_random_requests_are_as_in_a_simple_model():
    """ShareStateIsFenced: after each request, whatever came before."""
    prng, rig = Prng(SEED), Rig(updates_per_snapshot=3)
    # Of each share partition: leader epoch, state epoch, start offset and what was reported.
    model: dict[SharePartition, tuple[int, int, int, tuple[StateBatch, ...]]] = {}
    for _ in range(600):
        partition = (P0, P1)[prng.below(2)]
        leader_epoch, state_epoch = prng.below(6) - 1, prng.below(4)
        known = model.get(partition)
        match prng.below(8):
            case 0:
                start = prng.below(5) - 1
                code = rig.ask(InitializeState(partition, state_epoch, start)).error_code
                if known is None:
                    model[partition] = (0, state_epoch, start, ())
                elif state_epoch > known[1] or (state_epoch == known[1] and start >= 0):
                    model[partition] = (known[0], state_epoch, start, ())
                else:
                    is_old = state_epoch < known[1]
                    assert code is (ErrorCode.FENCED_STATE_EPOCH if is_old else ErrorCode.NONE)
            case 1 if known is not None and prng.below(4) == 0:
                rig.ask(DeleteState(partition))
                del model[partition]
            case 2 | 3:
                found = rig.ask(ReadState(partition, leader_epoch))
                if known is None:
                    assert found.error_code is ErrorCode.INVALID_REQUEST
                elif -1 < leader_epoch < known[0]:
                    assert found.error_code is ErrorCode.FENCED_LEADER_EPOCH
                else:
                    assert (found.state.start_offset, found.state.batches) == known[2:]
                    model[partition] = (max(known[0], leader_epoch), *known[1:])
            case 4:
                rig = Rig(rig.partition, updates_per_snapshot=3)
            case _:
                start, first = prng.below(12) - 1, prng.below(20)
                run = StateBatch(first, first + prng.below(5), 2 * prng.below(3), prng.below(3))
                epochs = {"state_epoch": state_epoch, "leader_epoch": leader_epoch}
                code = rig.ask(write(partition, run, start_offset=start, **epochs)).error_code
                if known is None:
                    assert code is ErrorCode.INVALID_REQUEST
                elif -1 < leader_epoch < known[0]:
                    assert code is ErrorCode.FENCED_LEADER_EPOCH
                elif state_epoch < known[1]:
                    assert code is ErrorCode.FENCED_STATE_EPOCH
                else:
                    reached = known[2] if start == -1 else start
                    runs = combined((*known[3], run), reached)
                    model[partition] = (*known[:2], reached, runs)
    assert len(rig.partition.batches) > 100
