"""A transaction coordinator: the transactional ids of one partition of `__transaction_state`.

A transactional id belongs to the partition that its hash names (`rsm/placement.py`), and to the
broker that leads this partition.

Theory. A transaction writes to many partitions and must end in all of them alike. The coordinator
remembers, before a partition gets the first record of a transaction, that it belongs to it. The end
is a two-phase commit whose first phase is a record: when `PrepareCommit` is committed in the log of
the coordinator, the transaction *is* committed, and every later coordinator only carries it out:
has a marker written to all partitions, and notes that it is complete. Who writes for an id is a
matter of epochs: a new producer gets a higher one, and a lower one is refused.

How a coordinator loads, decides and resigns is in `rsm/coordinator.py`.

| part | decides |
| --- | --- |
| `transitions` | what a request makes of a transaction |
| `endings` | which partitions need the marker of a transaction that ends |
| `survey` | what a predecessor left undone; which ids are forgotten |

An InitProducerId while a change of its id is not committed yet gets CONCURRENT_TRANSACTIONS: one
that is repeated below the min ISR would otherwise use up an epoch each time. Other requests are
decided against the newest state, and answered when that is committed.

Invariants: those of the kernel and the parts, and
- LegalTransitions: a state follows another one only as `transitions.LEGAL` says.
- EveryTransactionEnds: an ongoing transaction has a deadline, and a prepared one is being carried
  out; those of a predecessor from the end of the first look on.

Left out: which broker is asked and how markers travel (`broker/`); records in the partitions
(`log/producer_state.py`); two-phase commits of other systems (KIP-939).

Source: KIP-98, KIP-360, KIP-890; Kafka's transaction coordinator.
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import replace
from typing import Any, Final, get_args

from tidelog.config import TransactionsConfig
from tidelog.env.instant import Instant, earliest
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_TRANSACTION_RECORDS_PER_BATCH, TRANSACTIONS_PER_TURN
from tidelog.model import TopicPartition
from tidelog.rsm.coordinator import NOT_COORDINATOR, Coordinator, Refused, ReplyTo
from tidelog.rsm.kernel import Kernel, ReplicatedLog
from tidelog.rsm.log_records import LogRecord
from tidelog.rsm.shared_map import SharedMap
from tidelog.rsm.timers import Timers
from tidelog.transactions import messages, transitions
from tidelog.transactions.endings import Endings, WantedMarkers
from tidelog.transactions.env import Env, Prepared, TransactionsKernel
from tidelog.transactions.events import FenceReason, TransactionFenced
from tidelog.transactions.image import TransactionsImage, TransactionsMachine
from tidelog.transactions.messages import (
    Marker,
    PartitionsResult,
    ProducerGranted,
    ProducerIdNeeded,
    Request,
    Response,
)
from tidelog.transactions.records import Transaction, TransactionRecord, TransactionState
from tidelog.transactions.survey import Survey

_FIRST_VERSION_IN_FLEXIBLE_VALUES: Final = 1
_FENCE_RETRY_MS: Final = 1000


class TransactionCoordinator(Coordinator[Env, Request, Response]):
    """The transactional ids of one partition."""

    def __init__(
        self,
        log: ReplicatedLog[LogRecord],
        config: TransactionsConfig,
        trace: Trace,
        wanted: list[WantedMarkers],
    ) -> None:
        """`wanted` gets the markers to be written; `on_markers_written` takes what became of
        them."""
        self._machine = TransactionsMachine()
        kernel: TransactionsKernel = Kernel(
            self._machine,
            log,
            initial=TransactionsImage(),
            max_batch_records=MAX_TRANSACTION_RECORDS_PER_BATCH,
            compacted=True,
        )
        self._kernel = kernel
        env = Env(config=config, trace=trace, kernel=kernel)
        super().__init__(env)
        # When ongoing transactions time out, by transactional id.
        self._timers: Timers[str] = Timers()
        self._endings = Endings(env, wanted)
        self._survey = Survey(env, self._endings, self._timers)

    # Views --------------------------------------------------------------------------------

    @property
    def entries(self) -> SharedMap[Transaction]:
        """What no other leader can take back."""
        return self._kernel.committed.transactions

    @property
    def transaction_version(self) -> int:
        """The level of the feature that the cluster has finalised."""
        return self._env.transaction_version

    @transaction_version.setter
    def transaction_version(self, level: int) -> None:
        self._env.transaction_version = level
        self._machine.value_version = int(level >= _FIRST_VERSION_IN_FLEXIBLE_VALUES)

    # The log ------------------------------------------------------------------------------

    @property
    def only_last_counts(self) -> bool:
        """The last record of a transactional id says all of it."""
        return True

    def become_active(self, epoch: int, now: Instant) -> None:
        """Everything before this leadership is loaded: decides from now on."""
        self._env.epoch = epoch
        self._kernel.become_active(epoch)
        self._survey.start(now)

    def resign(self) -> None:
        """Another node leads: all that wait get NOT_COORDINATOR."""
        self._kernel.resign(NOT_COORDINATOR)
        self._endings.clear()
        for reply_to, response in self._kernel.take_replies():
            waiting = reply_to.reply_to if isinstance(reply_to, Prepared) else reply_to
            if waiting is not None:
                self._env.answer(waiting, response)

    # Requests -----------------------------------------------------------------------------

    def _decide(self, request: Request, reply_to: ReplyTo, now: Instant) -> None:
        _DECIDERS[type(request)](self, request, reply_to, now)

    def _init(self, request: messages.InitProducerId, reply_to: ReplyTo, now: Instant) -> None:
        env, transactional_id = self._env, request.transactional_id
        if not 0 < request.timeout_ms <= env.config.max_timeout_ms:
            env.answer(reply_to, ProducerGranted(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        if env.is_pending(transactional_id):
            env.answer(reply_to, ProducerGranted(ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        known = self._kernel.latest.get(transactional_id)
        after = transitions.init_producer(known, request, env.wall_ms(now))
        if not isinstance(after, Transaction):
            must_fence = after is ErrorCode.CONCURRENT_TRANSACTIONS
            if must_fence and known is not None and known.state is TransactionState.ONGOING:
                self._fence(transactional_id, known, FenceReason.NEW_PRODUCER, reply_to, now)
            else:
                self._refuse(transactional_id, after, reply_to)
        else:
            granted = ProducerGranted(ErrorCode.NONE, after.producer_id, after.producer_epoch)
            env.change(transactional_id, after, granted, reply_to)

    def _add(self, request: messages.AddPartitions, reply_to: ReplyTo, now: Instant) -> None:
        env, transactional_id = self._env, request.transactional_id
        known = self._kernel.latest.get(transactional_id)
        after = transitions.add_partitions(known, request, env.wall_ms(now))
        if not isinstance(after, Transaction):
            assert isinstance(after, ErrorCode), "an add needs no producer id"
            env.answer_settled(transactional_id, PartitionsResult(after), reply_to)
            return
        if known is None or known.state is not TransactionState.ONGOING:
            self._timers.set(transactional_id, Instant(now + after.timeout_ms))
        env.change(transactional_id, after, PartitionsResult(ErrorCode.NONE), reply_to)

    def _verify(self, request: messages.VerifyPartitions, reply_to: ReplyTo, now: Instant) -> None:
        transactional_id, producer_id, producer_epoch, partitions = request
        known = self._kernel.latest.get(transactional_id)
        found, code = transitions.check_producer(known, producer_id, producer_epoch)
        missing = frozenset() if found is None else partitions - found.partitions
        self._env.answer_settled(transactional_id, PartitionsResult(code, missing), reply_to)

    def _end(self, request: messages.EndTransaction, reply_to: ReplyTo, now: Instant) -> None:
        env, transactional_id = self._env, request.transactional_id
        known = self._kernel.latest.get(transactional_id)
        after = transitions.end(known, request, env.wall_ms(now))
        if isinstance(after, Transaction):
            # One that cannot be ended yet keeps its deadline: its client may not come again.
            if env.change(transactional_id, after, transitions.next_producer(after), reply_to):
                self._timers.clear(transactional_id)
        elif after is ErrorCode.NONE:
            assert known is not None, "nothing was repeated"
            granted = ProducerGranted(ErrorCode.NONE, known.producer_id, known.producer_epoch)
            env.answer_settled(transactional_id, granted, reply_to)
        else:
            self._refuse(transactional_id, after, reply_to)

    def _refuse(
        self, transactional_id: str, reason: ErrorCode | ProducerIdNeeded, reply_to: ReplyTo
    ) -> None:
        if isinstance(reason, ProducerIdNeeded):
            self._env.answer(reply_to, reason)
        else:
            self._env.answer_settled(transactional_id, ProducerGranted(reason), reply_to)

    def _describe(
        self, request: messages.DescribeTransaction, reply_to: ReplyTo, now: Instant
    ) -> None:
        """From committed state; of a prepared transaction the partitions that wait for a marker."""
        known = self._kernel.committed.get(request.transactional_id)
        missing = self._endings.missing(request.transactional_id)
        if known is not None and missing is not None:
            known = replace(known, partitions=frozenset(missing))
        self._env.answer(reply_to, messages.Description(known))

    def _fence(
        self,
        transactional_id: str,
        known: Transaction,
        reason: FenceReason,
        reply_to: ReplyTo | None,
        now: Instant,
    ) -> None:
        """Aborts an open transaction with the next epoch; a client that causes it comes again."""
        env = self._env
        version = max(known.client_version, env.transaction_version)
        after = transitions.fence(known, version, env.wall_ms(now))
        waiting = Prepared(transactional_id, reply_to)
        again = ProducerGranted(ErrorCode.CONCURRENT_TRANSACTIONS)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self._kernel.has_room:
            code = env.write([TransactionRecord(transactional_id, after)], again, waiting)
        if code is not ErrorCode.NONE:
            # The next try is the deadline's.
            self._timers.set(transactional_id, Instant(now + _FENCE_RETRY_MS))
            if reply_to is not None:
                env.answer(reply_to, Refused(code))
            return
        self._timers.clear(transactional_id)
        env.trace.event(
            TransactionFenced(
                transactional_id=transactional_id,
                reason=reason,
                producer_id=after.producer_id,
                producer_epoch=after.producer_epoch,
                partitions=len(after.partitions),
            )
        )

    # Markers ------------------------------------------------------------------------------

    def wants(self, marker: Marker) -> bool:
        """Whether the marker is still to be written: its transaction is not complete, and this
        coordinator carries it out."""
        return self.active and self._endings.wants(marker)

    def on_markers_written(
        self,
        marker: Marker,
        partitions: Collection[TopicPartition],
        now: Instant,
        *,
        refusal: ErrorCode | None = None,
    ) -> None:
        """These partitions have the marker, or with a refusal will never take it."""
        if self.active:
            self._endings.on_written(marker, partitions, now, refusal=refusal)
            self._collect(now)

    # Time ---------------------------------------------------------------------------------

    def _wake(self, now: Instant) -> None:
        """Aborts the transactions that have timed out, and looks at the next ids."""
        for _ in range(TRANSACTIONS_PER_TURN):
            transactional_id = self._timers.take_due(now)
            if transactional_id is None:
                break
            self._on_timeout(transactional_id, now)
        self._survey.wake(now)

    def _on_timeout(self, transactional_id: str, now: Instant) -> None:
        known = self._kernel.latest.get(transactional_id)
        if known is None or known.state is not TransactionState.ONGOING:
            return
        self._fence(transactional_id, known, FenceReason.TIMED_OUT, None, now)

    def deadline(self) -> Instant | None:
        """When a transaction may have timed out, or the look at all ids goes on."""
        return earliest(self._timers.next(), self._survey.due_at) if self.active else None

    def _on_committed(self, reply_to: Hashable, response: Response, now: Instant) -> None:
        waiting: Hashable | None = reply_to
        if isinstance(reply_to, Prepared):
            transactional_id, waiting = reply_to
            prepared = self._kernel.committed.get(transactional_id)
            assert prepared is not None, f"{transactional_id} is prepared and unknown"
            self._endings.begin(transactional_id, prepared, now)
        if waiting is not None:
            self._env.answer(waiting, response)

    # Invariants ---------------------------------------------------------------------------

    def check(self) -> None:
        """Asserts the invariants; those of the parts included."""
        self._kernel.check()
        self._timers.check()
        self._endings.check()
        if not self.active or not self._survey.is_complete or self.is_deposed:
            return
        for transactional_id, known in self.entries.items():
            if self._env.is_pending(transactional_id):
                continue
            is_watched = (
                known.state.is_idle
                or (known.state.is_prepared and self._endings.has(transactional_id))
                or (known.state is TransactionState.ONGOING and self._timers.has(transactional_id))
            )
            assert is_watched, f"EveryTransactionEnds: {transactional_id} is {known.state.name}"


_DECIDERS: Final[dict[type, Callable[[TransactionCoordinator, Any, Hashable, Instant], None]]] = {
    messages.InitProducerId: TransactionCoordinator._init,
    messages.AddPartitions: TransactionCoordinator._add,
    messages.VerifyPartitions: TransactionCoordinator._verify,
    messages.EndTransaction: TransactionCoordinator._end,
    messages.DescribeTransaction: TransactionCoordinator._describe,
}
assert set(_DECIDERS) == set(get_args(Request)), "a request has no decider"
