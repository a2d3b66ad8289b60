"""How a transaction ends whose outcome is decided: every partition gets a marker, then it is over.

    prepare is committed ──> markers wanted ──> written, partition by partition ──> complete

Which partitions have their marker is in memory only. A coordinator that takes over finds a prepared
transaction in the log and has all markers written again: a second marker ends nothing, because
nothing is open any more.

Invariants
- DecidedBeforeMarked: a marker is wanted only when the outcome is committed. Otherwise another
  coordinator could decide differently, and one transaction would commit here and abort there.
- MarkedBeforeComplete: a transaction is complete when all of its partitions have its marker, or
  cannot have it any more (deleted, or fenced by something newer).

Left out: how a marker gets to a leader (`broker/transaction_markers.py`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.transactions.env import Env
from tidelog.transactions.events import MarkerRefused
from tidelog.transactions.messages import Marker
from tidelog.transactions.records import Transaction, TransactionRecord, TransactionState
from tidelog.transactions.transitions import complete


class WantedMarkers(NamedTuple):
    """A marker, and the partitions that need it."""

    marker: Marker
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True, eq=False)
class _Ending:
    """A transaction that is ending."""

    marker: Marker
    # Partitions that have not confirmed the marker.
    missing: set[TopicPartition]


class Endings:
    """The prepared transactions of one coordinator."""

    __slots__ = ("_by_id", "_env", "_wanted")

    def __init__(self, env: Env, wanted: list[WantedMarkers]) -> None:
        self._env = env
        # By transactional id.
        self._by_id: dict[str, _Ending] = {}
        # Where the markers go that must be written; each comes back through `on_written`.
        self._wanted = wanted

    def has(self, transactional_id: str) -> bool:
        """Whether its markers are being written."""
        return transactional_id in self._by_id

    def missing(self, transactional_id: str) -> Collection[TopicPartition] | None:
        """The partitions that have not confirmed; `None` if the transaction is not ending."""
        ending = self._by_id.get(transactional_id)
        return None if ending is None else ending.missing

    def begin(self, transactional_id: str, prepared: Transaction, now: Instant) -> None:
        """The outcome is committed."""
        committed = self._env.kernel.committed.get(transactional_id)
        assert committed is prepared, f"DecidedBeforeMarked: {transactional_id}, {prepared}"
        marker = Marker(
            transactional_id,
            prepared.producer_id,
            prepared.producer_epoch,
            prepared.state is TransactionState.PREPARE_COMMIT,
            prepared.client_version,
            self._env.epoch,
        )
        assert transactional_id not in self._by_id, f"{transactional_id} ends already"
        self._by_id[transactional_id] = _Ending(marker, set(prepared.partitions))
        if prepared.partitions:
            self._wanted.append(WantedMarkers(marker, tuple(sorted(prepared.partitions))))
        else:
            self._complete(transactional_id, now)

    def wants(self, marker: Marker) -> bool:
        """Whether the marker belongs to a transaction that is ending here."""
        ending = self._by_id.get(marker.transactional_id)
        return ending is not None and ending.marker == marker

    def on_written(
        self,
        marker: Marker,
        partitions: Collection[TopicPartition],
        now: Instant,
        *,
        refusal: ErrorCode | None = None,
    ) -> None:
        """These partitions have the marker, or with a refusal will never take it."""
        if not self.wants(marker):
            return
        ending = self._by_id[marker.transactional_id]
        if refusal is not None:
            for each in partitions:
                self._env.trace.event(
                    MarkerRefused(
                        transactional_id=marker.transactional_id,
                        partition=str(each),
                        reason=refusal.name,
                    )
                )
        ending.missing.difference_update(partitions)
        if not ending.missing:
            self._complete(marker.transactional_id, now)

    def _complete(self, transactional_id: str, now: Instant) -> None:
        env = self._env
        ending = self._by_id[transactional_id]
        prepared = env.kernel.latest.get(transactional_id)
        assert prepared is not None and prepared.state.is_prepared, f"{prepared} completes"
        assert not ending.missing, f"MarkedBeforeComplete: {transactional_id}, {ending.missing}"
        after = complete(prepared, env.wall_ms(now))
        # What cannot be written is left to the next coordinator.
        if env.write([TransactionRecord(transactional_id, after)]) is ErrorCode.NONE:
            del self._by_id[transactional_id]

    def clear(self) -> None:
        """Another coordinator has the markers written."""
        self._by_id.clear()

    def check(self) -> None:
        """Asserts the invariants of the module's docstring."""
        for transactional_id, ending in self._by_id.items():
            committed = self._env.kernel.committed.get(transactional_id)
            assert committed is not None and committed.state.is_prepared, (
                f"DecidedBeforeMarked: {transactional_id} is {committed}"
            )
            assert ending.missing <= committed.partitions, f"{ending.missing} of {committed}"
