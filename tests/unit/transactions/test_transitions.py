"""Goal: from each state a request leads where Kafka's coordinator leads it, and nowhere else."""

from dataclasses import replace
from itertools import product

import pytest

from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.transactions.messages import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    ProducerGranted,
    ProducerIdNeeded,
)
from tidelog.transactions.records import Transaction, TransactionState
from tidelog.transactions.transitions import (
    EXHAUSTED_EPOCH,
    LAST_EPOCH,
    add_partitions,
    check_legal,
    complete,
    end,
    fence,
    init_producer,
    next_producer,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState
IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
NOW = 1000
AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
UNMAPPED = ErrorCode.INVALID_PRODUCER_ID_MAPPING
INVALID = ErrorCode.INVALID_TXN_STATE


def known(state=EMPTY, epoch=5, **values):
    open_ = state in (ONGOING, *PREPARED)
    base = Transaction(
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=100,
        state=state,
        partitions=frozenset((T0,)) if open_ else frozenset(),
        last_update_ms=10,
        start_ms=10 if state is not EMPTY else -1,
        previous_producer_id=7,
    )
    return replace(base, **values)


def init(producer_id=-1, epoch=-1, fresh=-1):
    return InitProducerId("x", 200, producer_id, epoch, fresh)


def ended(state, epoch=5, *, commit=True, version=2, producer_id=7, fresh=-1, **values):
    request = EndTransaction("x", producer_id, epoch, commit, version, fresh)
    return end(known(state, **values), request, NOW)


# InitProducerId ----------------------------------------------------------------------------


def test_a_new_id_needs_a_producer_id_and_begins_with_epoch_0():
    assert init_producer(None, init(), NOW) == ProducerIdNeeded()
    made = init_producer(None, init(fresh=9), NOW)
    assert isinstance(made, Transaction)
    assert (made.producer_id, made.producer_epoch, made.state, made.timeout_ms) == (
        9,
        0,
        EMPTY,
        200,
    )
    # One that was something before its id expired begins anew as well.
    again = init_producer(None, init(3, 4, fresh=9), NOW)
    assert isinstance(again, Transaction) and (again.producer_id, again.producer_epoch) == (9, 0)


@pytest.mark.parametrize("state", TransactionState)
def test_a_new_producer(state):
    after = init_producer(known(state), init(), NOW)
    if state not in IDLE:
        assert after is AGAIN
    else:
        assert isinstance(after, Transaction)
        assert (after.state, after.producer_id, after.producer_epoch) == (EMPTY, 7, 6)
        assert (after.last_producer_epoch, after.partitions, after.start_ms) == (
            -1,
            frozenset(),
            -1,
        )


@pytest.mark.parametrize("state", IDLE)
def test_the_same_producer_goes_on_and_may_repeat_its_request(state):
    once = init_producer(known(state), init(7, 5), NOW)
    assert isinstance(once, Transaction) and (once.producer_epoch, once.last_producer_epoch) == (
        6,
        5,
    )
    twice = init_producer(once, init(7, 5), NOW)
    assert isinstance(twice, Transaction) and twice.producer_epoch == 6
    # Not once there is another producer.
    other = init_producer(twice, init(), NOW)
    assert isinstance(other, Transaction)
    assert init_producer(other, init(7, 5), NOW) is FENCED


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(("producer_id", "epoch"), [(7, 4), (7, 6), (8, 5), (6, EXHAUSTED_EPOCH)])
def test_another_producer_is_fenced(state, producer_id, epoch):
    assert init_producer(known(state), init(producer_id, epoch), NOW) is FENCED


@pytest.mark.parametrize(("state", "epoch"), [*product(IDLE, (EXHAUSTED_EPOCH, LAST_EPOCH))])
def test_behind_the_last_epoch_is_another_producer_id(state, epoch):
    assert init_producer(known(state, epoch), init(), NOW) == ProducerIdNeeded()
    after = init_producer(known(state, epoch), init(fresh=9), NOW)
    assert isinstance(after, Transaction)
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (9, 0, 7)
    # The repetition of a producer that had the last epoch.
    of_producer = init_producer(known(state, epoch), init(7, epoch, fresh=9), NOW)
    assert isinstance(of_producer, Transaction)
    repeated = init_producer(of_producer, init(7, epoch), NOW)
    assert isinstance(repeated, Transaction)
    assert (repeated.producer_id, repeated.producer_epoch) == (9, 0)


# AddPartitionsToTxn ------------------------------------------------------------------------


def add(before, *partitions, producer_id=7, epoch=5, version=2):
    request = AddPartitions("x", producer_id, epoch, frozenset(partitions), version)
    return add_partitions(before, request, NOW)


@pytest.mark.parametrize("state", TransactionState)
def test_partitions_are_added(state):
    after = add(known(state), T1)
    if state in PREPARED:
        assert after is AGAIN
        return
    assert isinstance(after, Transaction) and after.state is ONGOING
    assert after.partitions == known(state).partitions | {T1}
    assert after.start_ms == (10 if state is ONGOING else NOW)
    assert add(after, T1) is ErrorCode.NONE


@pytest.mark.parametrize("state", TransactionState)
def test_only_the_producer_adds(state):
    is_prepared = state in PREPARED
    assert add(known(state), T1, producer_id=8) is (AGAIN if is_prepared else UNMAPPED)
    assert add(known(state), T1, epoch=4) is (AGAIN if is_prepared else FENCED)
    assert add(known(state), T1, epoch=6) is (AGAIN if is_prepared else FENCED)
    assert add(None, T1) is UNMAPPED


# EndTxn ------------------------------------------------------------------------------------

OUTCOMES = {
    # Version 0: (state, commit) -> what an end with the known epoch gets.
    (EMPTY, True): INVALID,
    (EMPTY, False): INVALID,
    (ONGOING, True): PREPARE_COMMIT,
    (ONGOING, False): PREPARE_ABORT,
    (PREPARE_COMMIT, True): AGAIN,
    (PREPARE_COMMIT, False): AGAIN,
    (PREPARE_ABORT, True): AGAIN,
    (PREPARE_ABORT, False): AGAIN,
    (COMPLETE_COMMIT, True): ErrorCode.NONE,
    (COMPLETE_COMMIT, False): INVALID,
    (COMPLETE_ABORT, True): INVALID,
    (COMPLETE_ABORT, False): ErrorCode.NONE,
}


@pytest.mark.parametrize(("case", "expected"), OUTCOMES.items())
def test_an_end_of_the_older_protocol(case, expected):
    state, commit = case
    after = ended(state, commit=commit, version=0)
    if isinstance(after, Transaction):
        assert (after.state, after.producer_epoch) == (expected, 5)
        assert after.partitions == {T0}
    else:
        assert after is expected
    for epoch in (4, 6):
        assert ended(state, epoch, commit=commit, version=0) is FENCED
    assert ended(state, commit=commit, version=0, producer_id=8) is UNMAPPED


PRESENT = {
    # Version 2, with the known epoch: a first try.
    **{(state, True): INVALID for state in IDLE},
    **{(state, False): PREPARE_ABORT for state in IDLE},
    (ONGOING, True): PREPARE_COMMIT,
    (ONGOING, False): PREPARE_ABORT,
    **dict.fromkeys(product(PREPARED, (True, False)), AGAIN),
}
REPEATED = {
    # Version 2, with the epoch before: a repetition.
    **dict.fromkeys(product((EMPTY, ONGOING), (True, False)), FENCED),
    **{case: code for case, code in OUTCOMES.items() if case[0] not in (EMPTY, ONGOING)},
}


@pytest.mark.parametrize(("case", "expected"), PRESENT.items())
def test_an_end_with_an_epoch_of_its_own(case, expected):
    state, commit = case
    after = ended(state, commit=commit)
    if isinstance(after, Transaction):
        assert (after.state, after.producer_epoch, after.last_producer_epoch) == (expected, 6, 5)
        assert next_producer(after) == ProducerGranted(ErrorCode.NONE, 7, 6)
    else:
        assert after is expected
    is_prepared = state in PREPARED
    assert ended(state, 6, commit=commit) is (AGAIN if is_prepared else FENCED)
    assert ended(state, commit=commit, producer_id=8) is (AGAIN if is_prepared else UNMAPPED)


@pytest.mark.parametrize(("case", "expected"), REPEATED.items())
def test_a_repeated_end_with_an_epoch_of_its_own(case, expected):
    state, commit = case
    assert ended(state, 4, commit=commit) is expected
    assert ended(state, 3, commit=commit) is (AGAIN if state in PREPARED else FENCED)


def test_an_end_of_an_unknown_id():
    for version in (0, 2):
        assert end(None, EndTransaction("x", 7, 5, True, version), NOW) is UNMAPPED


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_with_the_last_epoch_changes_the_producer_id(commit):
    epoch = EXHAUSTED_EPOCH
    needed = ended(ONGOING, epoch, commit=commit, producer_epoch=epoch)
    assert needed == ProducerIdNeeded()
    after = ended(ONGOING, epoch, commit=commit, fresh=9, producer_epoch=epoch)
    assert isinstance(after, Transaction)
    # The markers have the last epoch of the former producer id.
    assert (after.producer_id, after.producer_epoch) == (7, LAST_EPOCH)
    assert next_producer(after) == ProducerGranted(ErrorCode.NONE, 9, 0)
    done = complete(after, NOW)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (9, 0, 7)
    # Its client may not have got the answer.
    for before, expected in ((after, AGAIN), (done, ErrorCode.NONE)):
        assert end(before, EndTransaction("x", 7, epoch, commit, 2), NOW) is expected


# Fences and completions --------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_that_comes_again_after_its_fence(version):
    """R31: with transactions of version 2 it goes on, unless a new producer came first."""
    done = complete(fence(known(ONGOING), version, NOW), NOW)
    if version == 0:
        assert init_producer(done, init(7, 5), NOW) is FENCED
        return
    again = init_producer(done, init(7, 5), NOW)
    assert isinstance(again, Transaction)
    assert (again.producer_id, again.producer_epoch) == (7, 6)
    new = init_producer(done, init(), NOW)
    assert isinstance(new, Transaction)
    assert (new.producer_epoch, init_producer(new, init(7, 5), NOW)) == (7, FENCED)


def test_the_last_epoch_is_given_to_no_client():
    """R30: it is for markers only, and a transaction of one who claims it ends all the same."""
    done = complete(fence(known(ONGOING, EXHAUSTED_EPOCH), 2, NOW), NOW)
    assert done.producer_epoch == LAST_EPOCH
    after = init_producer(done, init(7, EXHAUSTED_EPOCH, fresh=9), NOW)
    assert isinstance(after, Transaction)
    assert (after.producer_id, after.producer_epoch) == (9, 0)
    repeated = init_producer(after, init(7, EXHAUSTED_EPOCH), NOW)
    assert isinstance(repeated, Transaction)
    assert (repeated.producer_id, repeated.producer_epoch) == (9, 0)
    assert fence(known(ONGOING, LAST_EPOCH), 2, NOW).producer_epoch == LAST_EPOCH
    # Nor to one that repeats its abort, and had a transaction that ends with an epoch behind it.
    assert end(done, EndTransaction("x", 7, EXHAUSTED_EPOCH, False, 2, 9), NOW) is FENCED


@pytest.mark.parametrize("state", [*IDLE, ONGOING])
def test_who_claims_the_last_epoch_is_fenced(state):
    """No epoch would be left for the markers."""
    assert add(known(state, LAST_EPOCH), T0, epoch=LAST_EPOCH) is FENCED
    for commit in (True, False):
        request = EndTransaction("x", 7, LAST_EPOCH, commit, 2, 9)
        assert end(known(state, LAST_EPOCH), request, NOW) is FENCED


@pytest.mark.parametrize("epoch", [5, EXHAUSTED_EPOCH])
def test_a_fence_takes_one_epoch(epoch):
    after = fence(known(ONGOING, epoch), 2, NOW)
    assert (after.state, after.producer_epoch) == (PREPARE_ABORT, epoch + 1)
    done = complete(after, NOW)
    assert (done.state, done.producer_epoch, done.partitions) == (
        COMPLETE_ABORT,
        epoch + 1,
        frozenset(),
    )
    # R31: the producer that was fenced has lost its transaction, and learns so.
    repeated = INVALID if epoch < EXHAUSTED_EPOCH else FENCED
    for before, of_version_2, of_add in ((after, AGAIN, AGAIN), (done, repeated, FENCED)):
        assert end(before, EndTransaction("x", 7, epoch, True, 0), NOW) is FENCED
        assert end(before, EndTransaction("x", 7, epoch, True, 2), NOW) is of_version_2
        assert add(before, T1, epoch=epoch) is of_add


def test_complete_follows_prepare():
    assert complete(known(PREPARE_COMMIT), NOW).state is COMPLETE_COMMIT
    assert complete(known(PREPARE_ABORT), NOW).state is COMPLETE_ABORT


@pytest.mark.parametrize(("before", "after"), [*product(TransactionState, repeat=2)])
def test_every_illegal_change_is_found(before, after):
    """LegalTransitions: what is not in the table, in Kafka's words (`TransactionState`)."""
    legal = {
        EMPTY: IDLE,
        ONGOING: (ONGOING, *IDLE),
        PREPARE_COMMIT: (ONGOING,),
        PREPARE_ABORT: (ONGOING, *IDLE),
        COMPLETE_COMMIT: (PREPARE_COMMIT,),
        COMPLETE_ABORT: (PREPARE_ABORT,),
    }
    if before in legal[after]:
        check_legal(known(before), known(after, partitions=frozenset((T0,))))
    else:
        with pytest.raises(AssertionError):
            check_legal(known(before), known(after))


def test_epochs_never_fall_and_partitions_are_not_lost():
    for after in (known(EMPTY, 4), known(ONGOING, partitions=frozenset((T1,)))):
        with pytest.raises(AssertionError):
            check_legal(known(ONGOING) if after.state is ONGOING else known(EMPTY), after)
    with pytest.raises(AssertionError):
        check_legal(None, known(ONGOING))
