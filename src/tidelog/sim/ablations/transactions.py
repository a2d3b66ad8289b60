"""Safeguards of transactions in their partitions, and what readers get without them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from tidelog.broker import log_loader
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups import offsets
from tidelog.groups.image import GroupsMachine
from tidelog.log.producer_state import ProducerStates
from tidelog.log.state import LogState
from tidelog.model import TopicPartition
from tidelog.replication.verification import Verification
from tidelog.rsm.log_records import InTransaction, LogRecord
from tidelog.sim.ablations.safeguard import Original, guard, guard_of_cluster
from tidelog.transactions import transitions
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.endings import Endings
from tidelog.transactions.env import Env
from tidelog.transactions.messages import Marker
from tidelog.transactions.records import NO_PRODUCER_EPOCH, Transaction


def _without_transactions(read: Original, *args: Any) -> Sequence[LogRecord]:
    """A loader that passes over what is not decided where it stands."""
    return [each for each in read(*args) if not isinstance(each, InTransaction)]


def _count_at_once(
    replay: Original, self: GroupsMachine, state: Any, records: Any, *rest: Any
) -> Any:
    """Offsets of transactions count when they are written."""
    return replay(self, state, [getattr(each, "offset", each) for each in records], *rest)


def _for_no_client(fence: Original, *args: Any) -> Transaction:
    """The epoch behind a fence is given to no client."""
    fenced: Transaction = fence(*args)
    return replace(fenced, last_producer_epoch=NO_PRODUCER_EPOCH)


def _one_is_enough(
    written: Original,
    self: Endings,
    marker: Marker,
    partitions: Collection[TopicPartition],
    *args: Any,
    **options: Any,
) -> None:
    """The first marker that is written stands for those of all partitions."""
    missing = self.missing(marker.transactional_id) if self.wants(marker) else None
    written(self, marker, partitions if missing is None else tuple(missing), *args, **options)


def _when_appended(commit: Original, self: TransactionCoordinator, _: int, now: Instant) -> None:
    """An outcome counts as soon as the leader has it."""
    commit(self, self._env.kernel.next_offset, now)


SAFEGUARDS: Final = (
    guard("r29", "transactions-are-verified", "a transaction that no coordinator ends").replaced(
        Verification, "judge", lambda *_: None
    ),
    guard("r30", "fenced-producers-go-on", "a producer that is fenced by itself").wrapped(
        transitions, "fence", _for_no_client
    ),
    guard("r31", "one-epoch-at-a-time", "epochs that no producer gets").replaced(
        Env, "is_pending", lambda *_: False
    ),
    guard("r32", "open-transactions-are-loaded", "a commit without its first records").replaced(
        log_loader.LogLoader, "is_done", property(lambda _: True)
    ),
    guard(
        "r33", "offsets-wait-for-their-transaction", "beginning before offsets under way"
    ).replaced(offsets, "waits_for", lambda *_: False),
    guard(
        "r34", "what-waits-is-loaded", "offsets lost between their commit and its marker"
    ).wrapped(log_loader, "_records_at", _without_transactions),
    guard_of_cluster(
        "transactions", "offsets-with-their-transaction", "offsets of transactions that aborted"
    ).wrapped(GroupsMachine, "replay", _count_at_once),
    guard_of_cluster(
        "copies", "offsets-under-way-are-unstable", "a successor that copies once more"
    ).replaced(offsets, "waits_for", lambda *_: False),
    guard_of_cluster(
        "copies", "only-the-generation-copies", "a replaced member that commits what it copied"
    ).replaced(offsets, "fault_of", lambda *_: ErrorCode.NONE),
    guard_of_cluster(
        "transactions", "stable-offset-waits-for-the-end", "reading what is not decided"
    ).replaced(LogState, "last_stable_offset", property(lambda self: self.high_watermark)),
    guard_of_cluster(
        "transactions", "outcomes-are-committed-first", "one transaction with two outcomes"
    ).wrapped(TransactionCoordinator, "on_high_watermark", _when_appended),
    guard_of_cluster(
        "transactions", "all-partitions-are-marked", "a transaction that commits in a part of them"
    ).wrapped(Endings, "on_written", _one_is_enough),
    guard_of_cluster(
        "transactions", "aborts-are-listed", "records of transactions that aborted"
    ).wrapped(ProducerStates, "replay", lambda replay, *args: replay(*args) and None),
)
"""Of verification, offsets, markers and readers."""
