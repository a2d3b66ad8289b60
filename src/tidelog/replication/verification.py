"""Transactions that a leader asks the transaction coordinator about before it lets them begin.

    hold ──> question (`VerifyTransaction`) ──> answer ──> the batches that waited, in their order
      │                                           │
      └── more batches of the producer wait too   └── guard gone: INVALID_TXN_STATE

A batch that would open a transaction in a partition waits here, and so do the batches of the same
producer and partition behind it; nothing else does. The broker asks the coordinator
(`broker/transaction_checks.py`) whether the partition is in the producer's transaction, or to add
it: producers of transaction version 2 do not add partitions themselves. The answer counts as long
as the log still has the guard of the question (`log/producer_verification.py`). A log that has got
a batch of the transaction in the meantime needs no answer.

Invariants
- VerifiedBeforeOpen: a client's batch opens a transaction only with an answer without an error to a
  question whose guard the log still has.
- Whatever waits is released once, in the order in which it came.

Left out: how the coordinator is found; what the errors are called in each version of Produce.

Source: KIP-890; Kafka's ReplicaManager and AddPartitionsToTxnManager.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.log.producer_verification import Guard
from tidelog.replication.messages import Token, TransactionalProducer, VerifyTransaction
from tidelog.replication.partition import Partition
from tidelog.replication.shared import Env


class Verdict(NamedTuple):
    """What became of a question, and when."""

    code: ErrorCode
    now: Instant
    wall_ms: int


Release = Callable[[Verdict], None]
"""What to do with a batch that waited; called once."""


@dataclass(slots=True, eq=False)
class _Question:
    """One question under way."""

    # Where the transaction is to begin.
    partition: Partition
    guard: Guard
    producer: TransactionalProducer
    # What waits for it, in order.
    waiting: list[Release] = field(default_factory=list)


class Verification:
    """The questions of one node under way."""

    __slots__ = ("_asked", "_env", "_tokens")

    def __init__(self, env: Env) -> None:
        self._env = env
        # Questions by their tokens.
        self._asked: dict[Token, _Question] = {}
        # The tokens of the questions, by what they are about.
        self._tokens: dict[tuple[Guard, TransactionalProducer], Token] = {}

    def judge(self, partition: Partition, producer: TransactionalProducer) -> ErrorCode | None:
        """What stands against a batch that would open a transaction here; `NONE` when it must be
        asked about, `None` when it opens none."""
        if partition.leadership is None:
            return None
        if not (producer.bumps_epoch or self._env.config.transaction_verification_enable):
            return None
        producers = partition.log.producers
        producer_id, epoch = producer.producer_id, producer.producer_epoch
        known = producers.by_id.get(producer_id)
        if known is not None and epoch < known.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return None if producers.has_open_transaction(producer_id, epoch) else ErrorCode.NONE

    def hold(
        self,
        partition: Partition,
        producer: TransactionalProducer,
        sequence: int,
        wall_ms: int,
        release: Release,
    ) -> None:
        """Asks about the producer's transaction, unless it is being asked about; `release` is
        called with the answer."""
        guard = partition.log.producers.guards.begin(
            producer.producer_id,
            producer.producer_epoch,
            sequence,
            bumps_epoch=producer.bumps_epoch,
            wall_ms=wall_ms,
        )
        token = self._tokens.get((guard, producer))
        if token is None:
            token = self._env.outbox.new_token()
            self._tokens[guard, producer] = token
            self._asked[token] = _Question(partition, guard, producer)
            self._env.outbox.emit(VerifyTransaction(token, partition.topic_partition, producer))
        self._asked[token].waiting.append(release)

    def on_answer(self, token: Token, code: ErrorCode, now: Instant, wall_ms: int) -> None:
        """What the coordinator said, or why it could not be asked."""
        question = self._asked.pop(token)
        del self._tokens[question.guard, question.producer]
        for release in question.waiting:
            release(Verdict(self._code_now(question, code), now, wall_ms))

    def _code_now(self, question: _Question, code: ErrorCode) -> ErrorCode:
        """What the answer is worth now."""
        if code is not ErrorCode.NONE:
            return code
        producers, producer = question.partition.log.producers, question.producer
        producer_id = producer.producer_id
        if producers.has_open_transaction(producer_id, producer.producer_epoch):
            return ErrorCode.NONE
        if producers.guards.is_current(producer_id, question.guard):
            return ErrorCode.NONE
        return ErrorCode.INVALID_TXN_STATE

    def check(self) -> None:
        """Asserts that questions and tokens agree."""
        assert set(self._tokens.values()) == set(self._asked), f"{self._tokens} of {self._asked}"
        for token, question in self._asked.items():
            assert question.waiting, f"VerifiedBeforeOpen: nothing waits for question {token}"
