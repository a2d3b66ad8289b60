"""What the parts of one transaction coordinator share, over that of all (`rsm/coordinator.py`).

An answer waits in the kernel until what it rests on is committed: the records of its own decision,
and for a decision without records those of its transactional id that came before. A refusal that
rests on committed state leaves at once, and so does every one that asks the client to come again.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.config import TransactionsConfig
from tidelog.errors import ErrorCode
from tidelog.rsm.coordinator import CoordinatorEnv, Refused, ReplyTo
from tidelog.rsm.kernel import Decision, Kernel
from tidelog.rsm.log_records import LogRecord
from tidelog.transactions.image import TransactionsImage
from tidelog.transactions.messages import PartitionsResult, ProducerGranted, Response
from tidelog.transactions.records import Transaction, TransactionRecord
from tidelog.transactions.transitions import check_legal

_AGAIN: Final = ErrorCode.CONCURRENT_TRANSACTIONS


class Prepared(NamedTuple):
    """In place of a request: the outcome of a transaction is committed."""

    transactional_id: str
    reply_to: ReplyTo | None
    """Who asked for it, if anyone did."""


TransactionsKernel = Kernel[TransactionsImage, TransactionRecord | None, LogRecord, Response]


@dataclass(eq=False, kw_only=True)
class Env(CoordinatorEnv[TransactionsImage, TransactionRecord | None, Response]):
    """The surroundings of the parts of one coordinator."""

    config: TransactionsConfig
    # The leader epoch in which the coordinator decides.
    epoch: int = -1
    # The level of `transaction.version` that the cluster has finalised.
    transaction_version: int = 0

    def is_pending(self, transactional_id: str) -> bool:
        """Whether a change of this id waits for its commit."""
        kernel = self.kernel
        return kernel.latest.get(transactional_id) is not kernel.committed.get(transactional_id)

    def answer_settled(
        self, transactional_id: str, response: ProducerGranted | PartitionsResult, reply_to: ReplyTo
    ) -> None:
        """Answers when what is known about the id is committed."""
        is_settled = self.is_deposed or not self.is_pending(transactional_id)
        if is_settled or response.error_code is _AGAIN:
            self.answer(reply_to, response)
        elif not self.kernel.has_room:
            self.answer(reply_to, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self.kernel.submit(Decision(response), reply_to)

    def change(
        self, transactional_id: str, after: Transaction, response: Response, reply_to: ReplyTo
    ) -> bool:
        """Writes a change that a client asked for, and answers once it is committed. Returns
        whether it is written; else the client is refused, and nothing has changed."""
        waits: Hashable = reply_to
        if after.state.is_prepared:
            waits = Prepared(transactional_id, reply_to)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.kernel.has_room:
            code = self.write([TransactionRecord(transactional_id, after)], response, waits)
        if code is not ErrorCode.NONE:
            self.answer(reply_to, Refused(code))
        return code is ErrorCode.NONE

    def write(
        self,
        records: Sequence[TransactionRecord],
        response: Response | None = None,
        reply_to: Hashable | None = None,
    ) -> ErrorCode:
        """As `append`, for changes that are legal."""
        if not self.is_deposed:
            for transactional_id, after in records:
                if after is not None:
                    check_legal(self.kernel.latest.get(transactional_id), after)
        return self.append(records, response, reply_to)
