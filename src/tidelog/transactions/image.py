"""What a coordinator's log says: of each transactional id its producer and last transaction.

This is the state that the kernel replays (`rsm/kernel.py`): everything that a new coordinator takes
over. It is immutable; an id that did not change is the same object in two images, so that an id
with changes that are not committed yet is found by comparing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidelog.rsm.log_records import InTransaction, LogRecord, TransactionEnd
from tidelog.rsm.shared_map import SharedMap
from tidelog.transactions.records import Transaction, TransactionRecord, decode, encode


@dataclass(frozen=True, slots=True)
class TransactionsImage:
    """All transactional ids of one partition of `__transaction_state`."""

    transactions: SharedMap[Transaction] = field(default_factory=SharedMap)

    def get(self, transactional_id: str) -> Transaction | None:
        """One transactional id, if it is known."""
        return self.transactions.get(transactional_id)


class TransactionsMachine:
    """The log of a coordinator as the kernel's state machine."""

    def __init__(self) -> None:
        # In which version values are written: 1 from level 1 of `transaction.version` on.
        self.value_version = 0

    def encode(self, record: TransactionRecord | None) -> LogRecord:
        """Key and value."""
        assert record is not None, "an unknown record is not written"
        return encode(record, self.value_version)

    def decode(self, raw: LogRecord) -> TransactionRecord | None:
        """The inverse of `encode`; `None` for what no coordinator writes here."""
        return None if isinstance(raw, InTransaction | TransactionEnd) else decode(raw)

    def replay(
        self,
        state: TransactionsImage,
        records: Sequence[TransactionRecord | None],
        last_offset: int,
        epoch: int,
    ) -> TransactionsImage:
        """The image after a batch."""
        changes = {record.transactional_id: record.value for record in records if record}
        return TransactionsImage(state.transactions.changed(changes)) if changes else state
