"""What a pass over a log knows of its transactions: which batches were aborted, which markers are
the last trace of theirs.

Batches are shown in the order of the log. A batch of data is *aborted* when its producer has an
aborted transaction open at that point; the transaction indexes name those by their first offsets.
A marker has outlived its transaction when the pass has seen no data of it: then all of it was
removed before, and once a delete horizon has passed the marker may go too. An abort marker whose
data is being removed now stays, and so does its entry in the index.

The index names an abort as soon as its marker is appended. In a segment that reaches beyond the
decided part that marker may not be committed: it decides nothing yet, and its entry stays. So does
that of an abort that is decided and began before: it has data there that stays.

A commit marker is judged the same way, but it takes data of any producer that is not aborted for
its transaction: without such data it ends nothing any more.

Source: Kafka's `CleanedTransactionMetadata`.
"""

from collections import deque
from collections.abc import Iterable
from itertools import chain

from tidelog.errors import CorruptBatch
from tidelog.log.txn_index import AbortedTxn
from tidelog.records.batch import BatchHeader
from tidelog.records.control import ControlType, read_control_records


class SeenTransactions:
    """The transactions of the part of a log that a pass has seen."""

    __slots__ = ("_aborted", "_committed", "_waiting", "kept")

    def __init__(self) -> None:
        # Aborted transactions that begin further on, by first offset.
        self._waiting: deque[AbortedTxn] = deque()
        # By producer: the aborted transaction that is open here, and whether data of it was seen.
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        # Producers with data that no marker has ended, and that is not aborted.
        self._committed: set[int] = set()
        # Aborted transactions whose marker stays, for the sake of data that was just removed or
        # because it is not decided.
        self.kept: list[AbortedTxn] = []

    def expect(self, aborted: Iterable[AbortedTxn]) -> None:
        """Adds aborted transactions of the next part of the log."""
        self._waiting = deque(
            sorted({*self._waiting, *aborted}, key=lambda transaction: transaction.first_offset)
        )

    def on_data(self, header: BatchHeader) -> bool:
        """Whether a batch of data was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = found[0], True
        return True

    def on_control(self, header: BatchHeader, batch: bytes) -> bool:
        """Whether nothing is left of what a control batch belongs to."""
        self._begin_up_to(header.last_offset)
        try:
            records = read_control_records(batch)
        except CorruptBatch:
            return False
        if not records:
            return True
        match records[0].control_type:
            case ControlType.ABORT:
                transaction, had_data = self._aborted.pop(header.producer_id, (None, False))
                if transaction is not None and had_data:
                    self.kept.append(transaction)
                return not had_data
            case ControlType.COMMIT:
                had_data = header.producer_id in self._committed
                self._committed.discard(header.producer_id)
                return not had_data
            case _:
                return False

    def on_undecided(self, header: BatchHeader) -> None:
        """A batch beyond the decided part stays; so does what the index has for it."""
        known = chain(self._waiting, (begun for begun, _ in self._aborted.values()))
        self.kept += [one for one in known if one.last_offset == header.last_offset]

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0].first_offset <= offset:
            transaction = self._waiting.popleft()
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
