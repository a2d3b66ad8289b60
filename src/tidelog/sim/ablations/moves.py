"""Safeguards of moves between log directories, and what a move leaves without them."""

from typing import Any, Final

from tidelog.log import copying, directories
from tidelog.log.log import Log
from tidelog.replication.moves import ReplicaMoves
from tidelog.sim.ablations.safeguard import Original, guard_of_cluster


def _end_at_once(swap: Original, self: ReplicaMoves, partition: Any, move: Any, now: Any) -> None:
    """The former log goes, durable or not what took its place."""
    swap(self, partition, move, now)
    if move.source is not None:
        self._end(partition.topic_partition, move, move.source, now)


def _forget_epochs(hand_over: Original, current: Log, future: Log) -> None:
    """The copy takes the log's place without its leader epochs."""
    hand_over(current, future)
    future.epochs.clear()


SAFEGUARDS: Final = (
    guard_of_cluster(
        "several-disks", "copies-follow-cuts", "a copy with records that its log has given up"
    ).replaced(copying, "reconcile", lambda *_, **__: True),
    guard_of_cluster(
        "aimed-swaps", "former-logs-stay", "a power cut after which neither log is complete"
    ).wrapped(ReplicaMoves, "_swap", _end_at_once),
    guard_of_cluster(
        "several-disks",
        "copies-keep-epochs",
        "a log that cannot say which leader wrote its records",
    ).wrapped(directories, "hand_over", _forget_epochs),
)
"""Of moves between log directories."""
