"""What a coordinator of transactions said about a write, in the words that a client understands.

A leader that opens a transaction asks its coordinator (`replication/verification.py`). The answer
goes to the client of the write, whose version may know less. An error that older clients do not
retry becomes one that they do.

Source: KIP-890; Kafka's ReplicaManager, AddPartitionsToTxnManager and CoordinatorRuntime.
"""

from typing import Final

from tidelog.errors import ErrorCode

FIRST_PRODUCE_THAT_ABORTS: Final = 11
"""The first version of Produce that knows TRANSACTION_ABORTABLE."""
FIRST_PRODUCE_THAT_ADDS: Final = 12
"""The first version of Produce whose client leaves it to leaders to add partitions."""
FIRST_COMMIT_THAT_ABORTS: Final = 4
FIRST_COMMIT_THAT_ADDS: Final = 5
"""The same of TxnOffsetCommit."""

_UNDECIDED: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""The coordinator could not be asked."""


def of_produce(code: ErrorCode, version: int) -> ErrorCode:
    """The error of a batch that could not open a transaction. NOT_ENOUGH_REPLICAS stands for what a
    client shall try again without asking for metadata."""
    if code in _UNDECIDED:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_PRODUCE_THAT_ADDS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return _common(code, knows_abortable=version >= FIRST_PRODUCE_THAT_ABORTS)


def of_commit(code: ErrorCode, version: int) -> ErrorCode:
    """The error of offsets that could not be committed in a transaction."""
    if code is ErrorCode.NETWORK_EXCEPTION:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    elif code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_COMMIT_THAT_ADDS:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < 2:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _common(code, knows_abortable=version >= FIRST_COMMIT_THAT_ABORTS)


def _common(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
