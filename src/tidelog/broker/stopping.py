"""The end of a node: a clean stop, or an end at once because its storage failed.

A clean stop takes three steps. The broker leaves by its own rules (`lifecycle.py`), and logs that
wait to be deleted are taken away: the next start would keep them as strays. A quorum leader
resigns, and waits up to `RESIGNATION_LIMIT_MS` until a voter has received it. Meanwhile a snapshot
of the metadata is made if much is new (`metadata_snapshots.py`). Then the directories are closed,
some logs a turn: the marker of the clean shutdown is the last disk effect in each, and until all
markers are durable no other input counts. A directory that is offline gets none.

A storage error that reaches the node hit the metadata log or the directory as a whole, in the
middle of a step. (Components handle the failures of their own files.) Only an end is safe then: it
leaves no marker, so the next start recovers the logs.
"""

from dataclasses import dataclass, field
from typing import Final

from tidelog.broker.events import DirectoryFailed, MetadataFlushFailed, NodeStopped
from tidelog.broker.lifecycle import BrokerLifecycle, BrokerState
from tidelog.broker.metadata_snapshots import MetadataSnapshots
from tidelog.broker.quorum_link import QuorumLink
from tidelog.env.effects import EffectQueue, Exit, Flushed, FlushFailed, Input
from tidelog.env.instant import Instant
from tidelog.env.trace import Trace
from tidelog.errors import LogDamaged, StorageError
from tidelog.kraft.quorum import Quorum
from tidelog.limits import REPLICA_WORK_PER_TURN
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.directories import LogDirectories
from tidelog.model import NO_EPOCH
from tidelog.replication.replicas import Replicas

RESIGNATION_LIMIT_MS: Final = 1000
"""How long a quorum leader that stops waits for a voter to follow it."""


@dataclass(slots=True, eq=False, kw_only=True)
class Stopping:
    """How far the end of a node has come."""

    effects: EffectQueue
    directories: LogDirectories
    replicas: Replicas
    quorum: Quorum
    quorum_link: QuorumLink
    snapshots: MetadataSnapshots
    # None on a node that is only a controller.
    lifecycle: BrokerLifecycle | None
    trace: Trace
    # Whether a clean stop was asked for.
    _is_requested: bool = field(default=False, init=False)
    # Until when a resigned leader waits for voters; None before the resignation.
    _resigned_by: Instant | None = field(default=None, init=False)
    # What the directories are being closed with, once they are.
    _marker: CleanShutdown | None = field(default=None, init=False)
    # Whether all disk effects of a clean stop are under way.
    _is_saved: bool = field(default=False, init=False)
    # Set by the last step: nothing is done any more.
    is_over: bool = field(default=False, init=False)

    @property
    def is_closing(self) -> bool:
        """Whether nothing counts any more but the end of the disk effects."""
        return self._marker is not None and not self.is_over

    def begin(self, now: Instant) -> None:
        """The operator asked for a clean stop."""
        self._is_requested = True
        if self.lifecycle is not None:
            self.lifecycle.begin_shutdown(now)

    @property
    def _is_due(self) -> bool:
        """Whether the broker is gone. It may also go by itself; a controller has no such step. What
        is loaded in part cannot be closed cleanly."""
        is_gone = self._is_requested
        if self.lifecycle is not None:
            is_gone = self.lifecycle.state is BrokerState.GONE
        return is_gone and not self.replicas.has_deletions and self.directories.is_loaded

    def may_close(self, now: Instant) -> bool:
        """Whether the directories can be closed at the end of this tick; resigns first."""
        if self.is_over or not self._is_due:
            return False
        if self._resigned_by is None:
            self._resigned_by = Instant(now + RESIGNATION_LIMIT_MS)
            self.quorum.resign(now)
            self.quorum_link.flow(now)
            self.snapshots.begin_last(now)
        may_leave = now >= self._resigned_by or not self.quorum.is_resigning
        return may_leave and self.snapshots.has_ended

    def close(self) -> None:
        """Begins to close the directories; all that was to be sent must have been flushed."""
        self._marker = CleanShutdown()
        if self.lifecycle is not None:
            self._marker = self.lifecycle.shutdown_marker(self.directories.clean_shutdown)
        self.save_logs()

    def save_logs(self) -> None:
        """A slice of what is to be done to close the directories."""
        if self._marker is not None and not self._is_saved:
            self.trace.steps.begin("stop saves logs")
            self._is_saved = self.directories.close_cleanly(self._marker, REPLICA_WORK_PER_TURN)

    def on_input(self, event: Input) -> None:
        """Takes an input while the directories are being closed."""
        match event:
            case Flushed(subject) if self.directories.on_closed(subject):
                self._on_closed()
            case FlushFailed(_, error, disk) if self.directories.on_flush_failed(disk, error):
                # It was offline, or has gone offline: it gets no marker.
                if self._is_saved and self.directories.on_closed(None):
                    self._on_closed()
            case FlushFailed(_, error):
                self.fail(f"the stop is not clean, the next start recovers: {error}")
            case _:
                pass

    def _on_closed(self) -> None:
        life = self.lifecycle
        self.trace.event(NodeStopped(broker_epoch=NO_EPOCH if life is None else life.broker_epoch))
        failure = "" if life is None else life.failure
        self._exit(1 if failure else 0, failure)

    def on_flush_failed(self, subject: object, error: str) -> None:
        """Metadata, or the directory's own files, could not be made durable."""
        self.trace.event(MetadataFlushFailed(reason=error, what=str(subject)))
        self.fail(
            f"metadata could not be made durable: {error}; hint: free space or repair the disk, "
            "then start the node again"
        )

    def on_storage_error(self, error: StorageError | LogDamaged) -> None:
        """A step of the node was cut short."""
        self.trace.event(DirectoryFailed(reason=str(error)))
        self.fail(
            f"the log directory failed: {error}; hint: free space or repair the disk, then start "
            "the node again"
        )

    def fail(self, message: str) -> None:
        """Ends the node at once, for a reason that the operator reads."""
        self._exit(1, message)

    def _exit(self, code: int, message: str) -> None:
        self.effects.emit(Exit(code, message))
        self.is_over = True

    def deadline(self) -> Instant | None:
        """At once when the broker is gone, then when the wait after a resignation ends (a snapshot
        has a deadline of its own), then at once while logs are to be saved."""
        if not self._is_due or self._is_saved:
            return None
        if self._marker is not None:
            return Instant(0)
        if self._resigned_by is None:
            return Instant(0)
        return self._resigned_by if self.snapshots.has_ended else None
