"""The look at all transactional ids: what a predecessor left, and what has expired.

A coordinator looks at all of them when it begins, and then every
`transaction.remove.expired.transaction.cleanup.interval.ms`, in slices of
`limits.TRANSACTIONS_PER_TURN`:

| the transaction | what is done |
| --- | --- |
| Ongoing | it gets its deadline, if it has none |
| Prepare* | its markers are written, if they are not being written |
| Empty, Complete*, unused for `transactional.id.expiration.ms` | the id is forgotten |

A deadline is at most the timeout of its transaction away. A predecessor whose clock was ahead noted
a beginning that is yet to come, and readers of committed data would wait for as long as it was
ahead, as they do in Kafka.

The ids are those of the image at the beginning of the look, which never changes; each is looked at
as it is at the time.
"""

from collections.abc import Iterator
from itertools import islice

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import TRANSACTIONS_PER_TURN
from tidelog.rsm.timers import Timers
from tidelog.transactions.endings import Endings
from tidelog.transactions.env import Env
from tidelog.transactions.events import TransactionalIdExpired
from tidelog.transactions.records import Transaction, TransactionRecord, TransactionState


class Survey:
    """The looks of one coordinator."""

    __slots__ = ("_endings", "_env", "_left", "_timers", "due_at", "is_complete")

    def __init__(self, env: Env, endings: Endings, timers: Timers[str]) -> None:
        self._env = env
        self._endings = endings
        self._timers = timers
        # When to look again, or to go on; `None` before the coordinator is active.
        self.due_at: Instant | None = None
        # What this look has not come to; `None` between two looks.
        self._left: Iterator[tuple[str, Transaction]] | None = None
        # Whether the first look is over.
        self.is_complete = False

    def start(self, now: Instant) -> None:
        """The first look begins at once."""
        self.due_at = now

    def wake(self, now: Instant) -> None:
        """Begins to look at all ids when it is due, or looks at the next ones."""
        if self.due_at is None or now < self.due_at:
            return
        env = self._env
        if self._left is None:
            self._left = env.kernel.latest.transactions.items()
        slice_ = list(islice(self._left, TRANSACTIONS_PER_TURN))
        expired = []
        for transactional_id, _ in slice_:
            known = env.kernel.latest.get(transactional_id)
            if known is not None and self._look(transactional_id, known, now):
                expired.append(transactional_id)
        if expired:
            self._forget(expired)
        if len(slice_) < TRANSACTIONS_PER_TURN:
            self._left = None
            self.is_complete = True
            self.due_at = Instant(now + env.config.expiration_check_interval_ms)

    def _look(self, transactional_id: str, known: Transaction, now: Instant) -> bool:
        """Returns whether the id has expired."""
        env = self._env
        if known.state is TransactionState.ONGOING:
            if not self._timers.has(transactional_id):
                left_ms = known.start_ms + known.timeout_ms - env.wall_ms(now)
                wait_ms = min(max(0, left_ms), known.timeout_ms)
                self._timers.set(transactional_id, Instant(now + wait_ms))
            return False
        if env.is_pending(transactional_id):
            return False
        if known.state.is_prepared:
            if not self._endings.has(transactional_id):
                self._endings.begin(transactional_id, known, now)
            return False
        return env.wall_ms(now) - known.last_update_ms >= env.config.id_expiration_ms

    def _forget(self, expired: list[str]) -> None:
        env = self._env
        code = env.write([TransactionRecord(each, None) for each in expired])
        if code is ErrorCode.NONE:
            for each in expired:
                env.trace.event(TransactionalIdExpired(transactional_id=each))
