"""Safeguards of compaction and retention, and what goes without them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tidelog.env.disk import File
from tidelog.log import retention
from tidelog.log.cleaning.rewriting import Rules
from tidelog.log.cleaning.round import CleaningRound
from tidelog.log.cleaning.swap import Stage, Swap
from tidelog.log.segment import Segment
from tidelog.log.state import LogState
from tidelog.replication import cleaning
from tidelog.sim.ablations.safeguard import Original, guard, guard_of_cluster


class _AllCommitted:
    """A log as if all of it were committed, and no transaction open."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        is_bound = name in ("last_stable_offset", "high_watermark")
        return getattr(self._state, "log_end_offset" if is_bound else name)


def _as_if_all_committed(original: Original, state: LogState, wall_ms: int) -> Any:
    return original(_AllCommitted(state), wall_ms)


def _no_retention_of_tombstones(rules: Callable[..., Rules], self: CleaningRound) -> Rules:
    return replace(rules(self), delete_retention_ms=0)


def _go_on_at_once(self: Swap, *_: File) -> None:
    """Each stage follows the one before, durable or not."""
    self._go_on()
    if self._stage is not Stage.DONE:
        self._flush(*self._open)


def _by_its_first_record(
    original: Original, segment: Segment, retention_ms: int, wall_ms: int
) -> bool:
    if retention_ms >= 0 and segment.first_timestamp >= 0:
        return wall_ms - segment.first_timestamp > retention_ms
    return bool(original(segment, retention_ms, wall_ms))


SAFEGUARDS: Final = (
    guard(
        "s19", "starts-of-epochs-stay", "a replica that keeps a record that was never committed"
    ).replaced(CleaningRound, "_reaches_start", lambda *_: False),
    guard_of_cluster(
        "keyed", "tombstones-have-their-time", "readers that never see that a key was deleted"
    ).wrapped(CleaningRound, "_rules", _no_retention_of_tombstones),
    guard_of_cluster(
        "keyed", "swap-in-steps", "a power cut that leaves neither the old segments nor the new"
    ).replaced(Swap, "_flush", _go_on_at_once),
    guard_of_cluster(
        "keyed", "cleans-decided", "a value that is replaced by one that is not committed"
    ).wrapped(cleaning, "cleanable_part", _as_if_all_committed),
    guard_of_cluster(
        "keyed", "retention-of-committed", "a log that begins above its high watermark"
    ).wrapped(retention, "decide_log_start", _as_if_all_committed),
    guard_of_cluster(
        "keyed", "newest-timestamp-counts", "deleting young records with an old one before them"
    ).wrapped(retention, "is_expired", _by_its_first_record),
)
"""Of compaction and retention."""
