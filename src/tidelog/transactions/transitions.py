"""What a request makes of a transaction: pure decisions, and the table of legal changes.

    Empty ──add──> Ongoing ──end──> PrepareCommit ──all markers──> CompleteCommit
      ^               │  └──end, time-out, fence──> PrepareAbort ──> CompleteAbort
      └─────────────── a new producer ──────────────────── from Empty and Complete* ┘

A transaction of version 2 (KIP-890) ends with an epoch of its own: the markers have the next epoch,
with which the producer then goes on. So nothing late of one transaction, neither a record nor the
request to end it, can touch the next one. Of its producer, an epoch one below the known one is the
repetition of an EndTxn; an older producer keeps its epoch, and the state shows a repetition.

A producer may begin its next transaction, and abort it, before all markers of the last one are
written. While they are, a client that asks to begin, to add or to end comes again: Kafka judges the
producer's epoch only after that. (EndTxn of the older protocol is judged first.)

The transaction of a producer that is fenced, by a new producer or by the time-out, is aborted with
the next epoch in all versions. In version 2 the producer that had it goes on with that epoch if it
is the first to ask for one (InitProducerId with the epoch that it knows); a new producer, and each
producer before, gets the epoch behind it.

Epochs end at `LAST_EPOCH`; behind it the producer gets a new producer id. Its last epoch but one is
the last that a client sees: the one behind it is for the markers. A client that has the last epoch
all the same is fenced: there is none for the markers of its transaction. So is one whose
transaction was aborted with the last epoch, unless it asks for a producer id.

Source: KIP-98, KIP-360, KIP-588, KIP-890; Kafka's TransactionCoordinator and TransactionMetadata.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tidelog.errors import ErrorCode
from tidelog.model import NO_PRODUCER_ID, NO_TIMESTAMP
from tidelog.transactions.messages import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    ProducerGranted,
    ProducerIdNeeded,
)
from tidelog.transactions.records import NO_PRODUCER_EPOCH, Transaction, TransactionState

LAST_EPOCH: Final = 2**15 - 1
EXHAUSTED_EPOCH: Final = LAST_EPOCH - 1
"""A producer with this epoch gets a new producer id instead of the next epoch."""
EPOCH_PER_TRANSACTION: Final = 2
"""The first version of transactions in which each has an epoch of its own."""

_IDLE: Final = frozenset(state for state in TransactionState if state.is_idle)
LEGAL: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    # Without a transaction only at the request of a producer of version 2.
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
}
"""From which states each state is reached."""

Change = Transaction | ErrorCode | ProducerIdNeeded
"""The transaction after a request, or why there is none."""


def check_legal(before: Transaction | None, after: Transaction) -> None:
    """LegalTransitions: asserts that one may follow the other."""
    if before is None:
        assert after.state is TransactionState.EMPTY, f"begins as {after.state.name}"
        return
    assert before.state in LEGAL[after.state], f"{before.state.name} -> {after.state.name}"
    if before.producer_id == after.producer_id:
        assert before.producer_epoch <= after.producer_epoch, (
            f"epoch {before.producer_epoch} -> {after.producer_epoch}"
        )
    if before.state is TransactionState.ONGOING:
        assert before.partitions <= after.partitions, f"{before.partitions} -> {after.partitions}"


def _changed(before: Transaction, wall_ms: int, **values: Any) -> Transaction:
    return replace(
        before, previous_producer_id=before.producer_id, last_update_ms=wall_ms, **values
    )


# A producer begins -------------------------------------------------------------------------


def init_producer(known: Transaction | None, request: InitProducerId, wall_ms: int) -> Change:
    """A new producer, or the same one after an error. An ongoing transaction must be fenced first,
    and the client must come again."""
    if known is None:
        if request.fresh_producer_id == NO_PRODUCER_ID:
            return ProducerIdNeeded()
        return Transaction(
            producer_id=request.fresh_producer_id,
            producer_epoch=0,
            timeout_ms=request.timeout_ms,
            last_update_ms=wall_ms,
            previous_producer_id=request.fresh_producer_id,
        )
    has_been = request.producer_id != NO_PRODUCER_ID
    if known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if has_been and not _may_go_on(known, request):
        return ErrorCode.PRODUCER_FENCED
    if not known.state.is_idle:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_other = has_been and request.producer_epoch != known.producer_epoch
    if is_other and request.producer_epoch != known.last_producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if is_other and known.producer_epoch < LAST_EPOCH:
        # A repetition: the answer to the first request was lost, or its transaction was fenced.
        epochs = (known.producer_id, known.producer_epoch, known.last_producer_epoch)
    elif known.producer_epoch < EXHAUSTED_EPOCH:
        last = known.producer_epoch if has_been else NO_PRODUCER_EPOCH
        epochs = (known.producer_id, known.producer_epoch + 1, last)
    elif request.fresh_producer_id == NO_PRODUCER_ID:
        return ProducerIdNeeded()
    else:
        last = request.producer_epoch if has_been else NO_PRODUCER_EPOCH
        epochs = (request.fresh_producer_id, 0, last)
    producer_id, producer_epoch, last_producer_epoch = epochs
    return _changed(
        known,
        wall_ms,
        state=TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=request.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
    )


def _may_go_on(known: Transaction, request: InitProducerId) -> bool:
    """Whether the request comes from the present producer, or from the one that it was before its
    epochs were used up."""
    if request.producer_id == known.producer_id:
        return True
    is_exhausted = request.producer_epoch >= EXHAUSTED_EPOCH
    return is_exhausted and request.producer_id == known.previous_producer_id


def fence(known: Transaction, client_version: int, wall_ms: int) -> Transaction:
    """The open transaction is aborted with the next epoch, which its producer does not have. No
    client is given the last epoch; a transaction of one that claims it is aborted with it."""
    may_return = client_version >= EPOCH_PER_TRANSACTION
    return _changed(
        known,
        wall_ms,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=min(known.producer_epoch + 1, LAST_EPOCH),
        last_producer_epoch=known.producer_epoch if may_return else NO_PRODUCER_EPOCH,
        client_version=client_version,
    )


# A transaction grows -----------------------------------------------------------------------


def check_producer(
    known: Transaction | None, producer_id: int, producer_epoch: int
) -> tuple[Transaction | None, ErrorCode]:
    """The transaction that this producer may add to, or why it may not."""
    if known is None or known.producer_id != producer_id:
        return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != producer_epoch or producer_epoch == LAST_EPOCH:
        return None, ErrorCode.PRODUCER_FENCED
    if known.state.is_prepared:
        return None, ErrorCode.CONCURRENT_TRANSACTIONS
    return known, ErrorCode.NONE


def add_partitions(known: Transaction | None, request: AddPartitions, wall_ms: int) -> Change:
    """The transaction with more partitions; `NONE` when it has them all."""
    if known is not None and known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    found, code = check_producer(known, request.producer_id, request.producer_epoch)
    if found is None:
        return code
    is_ongoing = found.state is TransactionState.ONGOING
    if is_ongoing and request.partitions <= found.partitions:
        return ErrorCode.NONE
    return _changed(
        found,
        wall_ms,
        state=TransactionState.ONGOING,
        partitions=found.partitions | request.partitions,
        start_ms=found.start_ms if is_ongoing else wall_ms,
        client_version=request.client_version,
        next_producer_id=NO_PRODUCER_ID,
    )


# A transaction ends ------------------------------------------------------------------------


def end(known: Transaction | None, request: EndTransaction, wall_ms: int) -> Change:
    """The prepared transaction; `NONE` when the request is a repetition, and all is done."""
    if known is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.client_version >= EPOCH_PER_TRANSACTION:
        return _end_with_next_epoch(known, request, wall_ms)
    if known.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if known.state is TransactionState.ONGOING:
        return _changed(
            known,
            wall_ms,
            state=_prepared(is_commit=request.is_commit),
            client_version=request.client_version,
        )
    return _repeated(known.state, is_commit=request.is_commit)


def _end_with_next_epoch(known: Transaction, request: EndTransaction, wall_ms: int) -> Change:
    """Version 2. The known epoch is that of the request, or of its first try one more; with it the
    producer id may have changed."""
    epoch = request.producer_epoch
    has_overflown = (
        known.previous_producer_id == request.producer_id
        and epoch == EXHAUSTED_EPOCH
        and known.producer_epoch == 0
    )
    if known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_repeated = known.producer_epoch == epoch + 1 < LAST_EPOCH
    is_present = known.producer_epoch == epoch < LAST_EPOCH
    is_complete = known.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if known.producer_id != request.producer_id and not has_overflown:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not is_present and not (is_complete and (is_repeated or has_overflown)):
        return ErrorCode.PRODUCER_FENCED
    if not is_present:
        return _repeated(known.state, is_commit=request.is_commit)
    is_ongoing = known.state is TransactionState.ONGOING
    if request.is_commit and not is_ongoing:
        return ErrorCode.INVALID_TXN_STATE
    next_producer_id = NO_PRODUCER_ID
    if epoch >= EXHAUSTED_EPOCH:
        next_producer_id = request.fresh_producer_id
        if next_producer_id == NO_PRODUCER_ID:
            return ProducerIdNeeded()
    return _changed(
        known,
        wall_ms,
        state=_prepared(is_commit=request.is_commit),
        producer_epoch=epoch + 1,
        last_producer_epoch=epoch,
        next_producer_id=next_producer_id,
        start_ms=known.start_ms if is_ongoing else wall_ms,
        client_version=request.client_version,
    )


def _prepared(*, is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _repeated(state: TransactionState, *, is_commit: bool) -> ErrorCode:
    """What a request gets whose transaction is already ending, or has ended."""
    if state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    complete = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    return ErrorCode.NONE if state is complete else ErrorCode.INVALID_TXN_STATE


def complete(known: Transaction, wall_ms: int) -> Transaction:
    """All partitions know the outcome."""
    is_commit = known.state is TransactionState.PREPARE_COMMIT
    granted = next_producer(known)
    return _changed(
        known,
        wall_ms,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        producer_id=granted.producer_id,
        producer_epoch=granted.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def next_producer(known: Transaction) -> ProducerGranted:
    """With what the producer goes on once its transaction has ended."""
    if known.next_producer_id != NO_PRODUCER_ID:
        return ProducerGranted(ErrorCode.NONE, known.next_producer_id, 0)
    return ProducerGranted(ErrorCode.NONE, known.producer_id, known.producer_epoch)
