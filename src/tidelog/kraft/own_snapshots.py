"""Snapshots of this node's own state: when one may begin, and what follows when one counts.

The owner of the state decides when it wants one and writes it through a `SnapshotWriter`, a batch
at a time. A snapshot is of a committed offset, newer than the newest that counts, and there is at
most one on its way; one that comes from the leader goes first.
"""

from tidelog.env.instant import Instant
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SnapshotMade
from tidelog.kraft.log_cleaning import LogCleaner
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_fetcher import SnapshotFetcher
from tidelog.kraft.snapshots import SnapshotFlush, SnapshotWriter


class OwnSnapshots:
    """Begins and counts the snapshots that this node makes."""

    __slots__ = ("_cleaner", "_core", "_fetcher")

    def __init__(self, core: QuorumCore, fetcher: SnapshotFetcher, cleaner: LogCleaner) -> None:
        self._core = core
        # Owns the flushes of snapshots that come from the leader.
        self._fetcher = fetcher
        # Forgets what the new snapshot makes superfluous.
        self._cleaner = cleaner

    def begin(self, snapshot_id: SnapshotId, append_time_ms: int) -> SnapshotWriter | None:
        """The writer of a snapshot of the state below a committed offset; `None` when another
        snapshot is on its way or this one would be of no use.

        Raises `StorageError`.
        """
        core = self._core
        end_offset, epoch = snapshot_id
        if core.snapshots.is_busy or end_offset <= core.log.log_start_offset:
            return None
        if core.snapshots.latest is not None and snapshot_id <= core.snapshots.latest:
            return None
        assert end_offset <= core.high_watermark, (
            f"snapshot {snapshot_id} above {core.high_watermark}"
        )
        assert core.log.epoch_at(end_offset - 1) == epoch, (
            f"snapshot {snapshot_id}, the log has epoch {core.log.epoch_at(end_offset - 1)}"
        )
        entries = core.history.records_at(end_offset)
        return core.snapshots.begin(snapshot_id, append_time_ms, entries)

    def on_flushed(self, flush: SnapshotFlush, now: Instant) -> None:
        """A snapshot, this node's own or the leader's, is durable."""
        core = self._core
        snapshot_id = core.snapshots.on_flushed(flush)
        if snapshot_id is None or self._fetcher.on_published(flush):
            return
        core.env.trace.event(
            SnapshotMade(snapshot=str(snapshot_id), bytes=core.snapshots.size_of(snapshot_id))
        )
        self._cleaner.align()
        self._cleaner.clean(now)
