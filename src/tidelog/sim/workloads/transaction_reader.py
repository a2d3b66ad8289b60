"""A reader of the transactors' topic, and what must be true of the transactions that it sees.

Checked at once, beside what its base checks (`committed_reader.py`):

- ReadsCommittedOnly: no value of a transaction that was aborted, or that no commit was asked for.
- ExactlyOnce: no value twice.

and in the end, when all is read:

- AtomicTransactions: of each transaction all values, or none; of a committed one all.
- OffsetsWithTheirTransaction: the group of a transactor is where the last transaction left it that
  was seen and had an offset.
- NoHangingTransaction: everything *can* be read; the last stable offset reaches the end of every
  partition. Otherwise the run does not come to rest.
"""

from collections.abc import Sequence

from tidelog.env.prng import Prng
from tidelog.model import NO_OFFSET
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.cluster_view import TRANSACTIONAL_TOPIC, ClusterView
from tidelog.sim.workloads.committed_reader import CommittedReader
from tidelog.sim.workloads.transactor import PARTITIONS, Fate, Transactor


class TransactionReader(CommittedReader):
    """One client that reads all transactions."""

    def __init__(self, view: ClusterView, prng: Prng, transactors: Sequence[Transactor]) -> None:
        super().__init__(view, prng, TRANSACTIONAL_TOPIC, PARTITIONS)
        self._transactors = {each.name: each for each in transactors}
        self._seen: set[str] = set()

    @property
    def unread(self) -> list[str]:
        """As for any reader; without a transaction there is nothing to read, nor maybe a topic."""
        found = super().unread
        has_any = any(each.transactions for each in self._transactors.values())
        return found if has_any or self._writes else []

    @property
    def _writes(self) -> str | None:
        is_over = all(each.is_settled for each in self._transactors.values())
        return None if is_over else "transactions are under way"

    def _see(self, number: int, offset: int, value: str) -> None:
        name, transaction_number, _ = value.split(":")
        transaction = self._transactors[name].transactions[int(transaction_number)]
        if transaction.fate is Fate.ABORTED or value not in transaction.values:
            text = f"{value} of a transaction that is {transaction.fate.value}"
            raise Violation("ReadsCommittedOnly", text)
        if value in self._seen:
            raise Violation("ExactlyOnce", f"{value} twice")
        self._seen.add(value)
        transaction.seen.add(value)

    def judge(self) -> None:
        """At the end, when all is read."""
        for transactor in self._transactors.values():
            offset = NO_OFFSET
            for number, transaction in transactor.transactions.items():
                all_of_it = set(transaction.values)
                is_whole = transaction.seen == all_of_it
                must = transaction.fate is Fate.COMMITTED
                if not is_whole and (transaction.seen or must):
                    text = f"{transactor.name}:{number} is {transaction.fate.value}, of "
                    text += f"{sorted(all_of_it)} were seen {sorted(transaction.seen)}"
                    raise Violation("AtomicTransactions", text)
                if transaction.seen and transaction.has_offsets:
                    offset = number
            if offset != transactor.final_offset:
                text = f"{transactor.name} has {transactor.final_offset}, {offset} was committed"
                raise Violation("OffsetsWithTheirTransaction", text)
