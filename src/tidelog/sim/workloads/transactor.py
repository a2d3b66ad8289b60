"""Transactors: clients that write transactions, with the offsets of a group, one after the other.

A transactor is a script of requests (`_life`): it asks for its producer, and then begins, fills and
ends transactions (`transaction_script.py`). Where a real client would be in doubt it asks for its
producer again, which aborts what was open. Now and then that happens for no reason, as if another
process had taken its place; then the former one, a *zombie*, goes on: it writes and tries to commit
(`ZombieIsFenced`).

What became of each transaction is noted for the readers (`transaction_reader.py`): committed,
aborted, or in doubt when a commit was asked for and not answered. In the end every group must be
where the last of its committed transactions left it (`OffsetsWithTheirTransaction`).
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.model import NO_OFFSET, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.sim.report.violation import Violation
from tidelog.sim.workloads.admin import Admin
from tidelog.sim.workloads.cluster_view import TRANSACTIONAL_TOPIC, ClusterView, request
from tidelog.sim.workloads.script import (
    GROUP,
    PAUSE_MS,
    TRANSACTION,
    Ask,
    ScriptedClient,
    Steps,
    top_code,
)
from tidelog.sim.workloads.transaction_script import Committer, Identity, TransactionalProducer
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

PARTITIONS: Final = 3


class Fate(Enum):
    """What a transactor knows of a transaction."""

    ABORTED = "aborted"
    """Or open: no commit was asked for."""
    DOUBTFUL = "in doubt"
    COMMITTED = "committed"


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction."""

    number: int
    values: list[str] = field(default_factory=list)
    fate: Fate = Fate.ABORTED
    has_offsets: bool = False
    """Whether it has committed `number` as the offset of the group."""
    seen: set[str] = field(default_factory=set)
    """What readers have seen of it."""


class Transactor:
    """One transactional id."""

    def __init__(self, view: ClusterView, admin: Admin, prng: Prng, *, flushed: bool) -> None:
        # By number.
        self.transactions: dict[int, Transaction] = {}
        # What the group has in the end.
        self.final_offset = NO_OFFSET
        # Its transactional id, and its group.
        self.name = view.name
        self._admin = admin
        self._prng = prng
        # Whether internal topics are to survive power cuts of all replicas.
        self._flushed = flushed
        self._client = ScriptedClient(view, prng, dict.fromkeys((GROUP, TRANSACTION), view.name))
        self._producer = TransactionalProducer(self._client, TRANSACTIONAL_TOPIC, prng)
        self._stopped = False

    def start(self) -> None:
        """Begins to live."""
        self._client.run(self._life())

    @property
    def is_settled(self) -> bool:
        """Whether its script has come to its end."""
        return self._client.has_ended

    def stop(self) -> None:
        """Begins no more transactions."""
        self._stopped = True

    # The script ----------------------------------------------------------------------------

    def _life(self) -> Steps[None]:
        yield from self._create_topics()
        zombie: tuple[Identity, Transaction] | None = None
        while not self._stopped:
            identity = yield from self._producer.begin()
            if identity is None:
                continue
            if zombie is not None:
                yield from self._act_as_zombie(*zombie)
                zombie = None
            while identity is not None and not self._stopped:
                transaction = Transaction(len(self.transactions) + 1)
                self.transactions[transaction.number] = transaction
                before = identity
                identity = yield from self._transact(identity, transaction)
                if identity is None and transaction.fate is Fate.ABORTED:
                    zombie = before, transaction
                yield self._client.pause()
        yield from self._compare_offsets()

    def _create_topics(self) -> Steps[None]:
        flushed = {"flush.messages": "1"} if self._flushed else {}
        compacted = {"cleanup.policy": "compact"} | flushed
        topics = {
            TRANSACTIONS_TOPIC: compacted,
            OFFSETS_TOPIC: compacted,
            TRANSACTIONAL_TOPIC: flushed,
        }
        yield from self._client.create_topics(
            self._admin, PARTITIONS, topics, lambda: self._stopped
        )

    def _transact(self, identity: Identity, transaction: Transaction) -> Steps[Identity | None]:
        """One transaction; who writes the next one, `None` when that must be asked."""
        producer = self._producer
        partitions = sorted(
            {self._prng.below(PARTITIONS) for _ in range(self._prng.between(1, PARTITIONS))}
        )
        if not (yield from producer.add(identity, partitions)):
            return None
        for number in partitions:
            values = [
                f"{self.name}:{transaction.number}:{number}.{index}"
                for index in range(self._prng.between(1, 3))
            ]
            transaction.values += values
            if self._prng.chance(1, 20) or not (
                yield from producer.produce(identity, number, values)
            ):
                return None
        if self._prng.chance(2, 3):
            who, offsets = Committer(self.name), {0: transaction.number}
            code = yield from producer.commit_offsets(identity, who, TRANSACTIONAL_TOPIC, offsets)
            if code is not ErrorCode.NONE:
                return None
            transaction.has_offsets = True
        return (yield from self._end(identity, transaction, is_commit=self._prng.chance(3, 4)))

    def _end(
        self, identity: Identity, transaction: Transaction, *, is_commit: bool
    ) -> Steps[Identity | None]:
        if is_commit:
            transaction.fate = Fate.DOUBTFUL
        ended = yield from self._producer.end(identity, is_commit=is_commit)
        if ended.code is ErrorCode.NONE:
            transaction.fate = Fate.COMMITTED if is_commit else Fate.ABORTED
        elif not ended.in_doubt:
            transaction.fate = Fate.ABORTED
        return ended.successor

    def _act_as_zombie(self, identity: Identity, transaction: Transaction) -> Steps[None]:
        """The process whose place was taken goes on with its transaction."""
        number = self._prng.below(PARTITIONS)
        value = f"{self.name}:{transaction.number}:zombie"
        yield from self._producer.produce(identity, number, [value], is_zombie=True)
        wanted = self._producer.end_request(identity, is_commit=True)
        node_id = self._client.coordinators.get(TRANSACTION)
        response = None if node_id is None else (yield Ask(node_id, wanted))
        if response is not None and top_code(response) is ErrorCode.NONE:
            text = f"{self.name} committed {transaction.number} with epoch {identity.epoch}"
            raise Violation("ZombieIsFenced", text)

    def _compare_offsets(self) -> Steps[None]:
        """Waits until nothing can move the group's offset any more, and notes it."""
        topics = [{"name": TRANSACTIONAL_TOPIC, "partition_indexes": (0,)}]
        wanted = request(
            ApiKey.OFFSET_FETCH, 7, group_id=self.name, topics=topics, require_stable=True
        )
        while any(each.has_offsets for each in self.transactions.values()):
            code, response, _ = yield from self._client.insist(GROUP, wanted, top_code)
            if code is ErrorCode.NONE and response is not None:
                row = response.topics[0].partitions[0]
                if error_of(row.error_code) is ErrorCode.NONE:
                    self.final_offset = int(row.committed_offset)
                    return
            yield PAUSE_MS
