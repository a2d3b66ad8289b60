"""A share coordinator keeps its log short: it looks at all share partitions from time to time.

`__share_group_state` is not compacted: a snapshot stands for all that a share partition had before,
so everything below the lowest of the last snapshots is not needed, and the owner deletes it
(`redundant_before`). One share partition without traffic would hold all of it back; so a look

- writes the snapshot of such a *cold* share partition again, at the end of the log, when it is
  older than `share.coordinator.cold.partition.snapshot.interval.ms`. When nothing was written since
  the last look, nothing is written in this one: it would only move the log's end;
- removes the share partitions of deleted topics. A topic that this coordinator's metadata does not
  have was deleted: the metadata that gave it the leadership is newer than that of any predecessor.

A look begins every `share.coordinator.state.topic.prune.interval.ms`, and at once when a topic was
deleted. It goes in slices of `limits.SHARE_STATES_PER_TURN`. It counts committed states only, so
what it writes itself counts in the next look.

Invariant
- NothingNeededIsPruned: no share partition has its last snapshot below `redundant_before`.

Source: KIP-932; Kafka's ShareCoordinatorOffsetsManager.
"""

from collections.abc import Iterator
from itertools import islice

from tidelog.env.instant import Instant
from tidelog.limits import SHARE_STATES_PER_TURN
from tidelog.shares.env import Env
from tidelog.shares.image import ShareState
from tidelog.shares.records import ShareRecord


class Upkeep:
    """The looks of one coordinator."""

    __slots__ = (
        "_env",
        "_is_quiet",
        "_left",
        "_looked_at",
        "_lowest",
        "due_at",
        "redundant_before",
    )

    def __init__(self, env: Env) -> None:
        self._env = env
        # When to look again, or to go on; `None` while the coordinator is not active.
        self.due_at: Instant | None = None
        # No record below is needed; exclusive.
        self.redundant_before = 0
        # What this look has not come to; `None` between two looks.
        self._left: Iterator[tuple[str, ShareState]] | None = None
        # The lowest offset that a share partition needs, of those that this look has come to.
        self._lowest = 0
        # The end of the log when the last look was over.
        self._looked_at = 0
        # Whether this look writes no snapshots.
        self._is_quiet = False

    def start(self, now: Instant) -> None:
        """The first look is one interval after the activation."""
        self.due_at = Instant(now + self._env.config.prune_interval_ms)

    def stop(self) -> None:
        """Another node leads."""
        self.due_at = self._left = None

    def hurry(self, now: Instant) -> None:
        """A topic was deleted."""
        if self.due_at is not None:
            self.due_at = now

    def wake(self, now: Instant) -> None:
        """Begins a look when it is time, or goes on with it."""
        if self.due_at is None or now < self.due_at:
            return
        kernel = self._env.kernel
        if self._left is None:
            self._left = kernel.committed.states.items()
            self._lowest = kernel.committed.end_offset
            # While replicas do not follow, one look's records are enough.
            is_behind = kernel.committed.end_offset < self._looked_at
            self._is_quiet = is_behind or kernel.latest.end_offset == self._looked_at
        slice_ = list(islice(self._left, SHARE_STATES_PER_TURN))
        for key, _ in slice_:
            # What is committed may have gone further since the look began.
            known, newest = kernel.committed.states.get(key), kernel.latest.states.get(key)
            if known is not None:
                self._lowest = min(self._lowest, known.snapshot_offset)
            if newest is not None:
                self._look(newest, now)
        if len(slice_) < SHARE_STATES_PER_TURN:
            self._left = None
            self.redundant_before = max(self.redundant_before, self._lowest)
            self._looked_at = kernel.latest.end_offset
            self.start(now)

    def _look(self, known: ShareState, now: Instant) -> None:
        env, wall_ms = self._env, self._env.wall_ms(now)
        whole = known.whole
        if not env.partition_count(known.partition.topic_id):
            record = ShareRecord(known.partition, None)
        elif not self._is_quiet and wall_ms - whole.write_ms >= env.config.cold_interval_ms:
            again = whole._replace(snapshot_epoch=whole.snapshot_epoch + 1, write_ms=wall_ms)
            record = ShareRecord(known.partition, again)
        else:
            return
        # Where it cannot be written, the next look tries again.
        env.append([record])
