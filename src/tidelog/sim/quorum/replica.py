"""One replica of the simulated quorum: its process, its disk, its address, its state machine.

The state machine remembers every record, so a snapshot of it can be compared with the log that it
stands for. A snapshot is due after so many records; it is written a few records at a time, with
other events between, and any of the writes may be the process's last.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.env.effects import Effect, EffectQueue
from tidelog.kraft.messages import (
    Committed,
    CommittedBatch,
    LoadedSnapshot,
    Output,
    ReplicaKey,
    Request,
    SnapshotId,
    Voter,
)
from tidelog.kraft.quorum import Quorum
from tidelog.kraft.snapshots import SnapshotWriter
from tidelog.log.log import Log
from tidelog.sim.engine.disk import SimDisk
from tidelog.sim.engine.work import EventLoop
from tidelog.sim.quorum.membership import FIRST_PORT, directory_of, endpoint_of

RECORDS_PER_STEP = 3


class RecordList:
    """What one process knows of the committed log."""

    def __init__(self, snapshot_every: int) -> None:
        # Records between two snapshots; 0 for no snapshots.
        self._snapshot_every = snapshot_every
        # Every record below `snapshot_id.end_offset`.
        self.records: list[bytes] = []
        # The batches that this process was given, in order.
        self.batches: list[CommittedBatch] = []
        # What a snapshot of this state is called.
        self.snapshot_id = SnapshotId(0, 0)
        self._append_time_ms = 0
        # Offset at which the last snapshot was begun or loaded.
        self._saved_offset = 0
        # The snapshot being written and the records that it lacks.
        self._writing: tuple[SnapshotWriter, list[bytes]] | None = None

    def take(self, committed: Committed) -> None:
        """Follows the log."""
        self._append_time_ms = committed.append_time_ms
        if isinstance(committed, LoadedSnapshot):
            self.records = list(committed.records)
            self.snapshot_id = committed.snapshot_id
            self._saved_offset = committed.snapshot_id.end_offset
            return
        self.batches.append(committed)
        if not committed.is_control:
            self.records += committed.records
        self.snapshot_id = SnapshotId(committed.last_offset + 1, committed.epoch)

    def wants_step(self, quorum: Quorum) -> bool:
        """Whether a snapshot is due or being written."""
        if self._writing is not None:
            return True
        unsaved = self.snapshot_id.end_offset - self._saved_offset
        return 0 < self._snapshot_every <= unsaved or quorum.wants_snapshot

    def step(self, quorum: Quorum) -> None:
        """Begins a snapshot, or writes some of one."""
        if self._writing is None:
            writer = quorum.begin_snapshot(self.snapshot_id, self._append_time_ms)
            self._saved_offset = self.snapshot_id.end_offset
            if writer is not None:
                self._writing = (writer, list(self.records))
            return
        writer, rest = self._writing
        if not writer.is_current:
            self._writing = None
        elif rest:
            writer.append(rest[:RECORDS_PER_STEP])
            del rest[:RECORDS_PER_STEP]
        else:
            writer.finish()
            self._writing = None


@dataclass(slots=True, eq=False)
class Replica:
    """One process and its disk."""

    node_id: int
    disk: SimDisk
    alive: bool = False
    # Counts processes.
    life: int = 0
    # Whether its disk completes nothing at the moment.
    stalled: bool = False
    # Exclusive end of what is on the disk while the process is down.
    durable_end: int = 0
    # Whether its configuration names the voters, and not only where to ask for them.
    configured: bool = True
    # The port of its address.
    port: int = FIRST_PORT
    # How many disks it has had before this one.
    lost_disks: int = 0
    # Requests without an answer: the peer's id as the requester knows it, the request, and the
    # replica that it went to.
    requests: list[tuple[int, Request, int]] = field(default_factory=list)
    # What its turns cost; `None` where work is free.
    loop: EventLoop[Output] | None = None
    # Inputs that wait until the turn is over, in order.
    waiting: list[Callable[[], object]] = field(default_factory=list)
    # What its disk has to do, in order.
    disk_queue: deque[Effect] = field(default_factory=deque)
    # The instant for which a timer is queued.
    timer_at: int = -1
    # Highest one of this process; it never falls.
    high_watermark: int = 0
    # What log and quorum ask of the disk; of this process.
    effects: EffectQueue = field(default_factory=EffectQueue)
    # Whether the next step of its snapshot is on the queue.
    saving: bool = False
    log: Log = field(init=False)
    quorum: Quorum = field(init=False)
    state: RecordList = field(init=False)

    def begin_life(self, snapshot_every: int) -> None:
        """A new process, which knows nothing yet."""
        self.life += 1
        self.alive = True
        self.effects = EffectQueue()
        self.disk_queue.clear()
        self.requests.clear()
        self.timer_at = -1
        self.high_watermark = 0
        self.saving = False
        self.state = RecordList(snapshot_every)

    @property
    def busy(self) -> bool:
        """Whether the process is in the middle of a turn."""
        return self.loop is not None and self.loop.under_way is not None

    def end_work(self) -> None:
        """The process is gone, in the middle of a turn perhaps."""
        self.waiting.clear()
        self.disk.spent_us = 0
        if self.loop is not None:
            self.loop.end_life()

    def end_turn(self, now: int, outputs: list[Output]) -> int:
        """Adds up what a turn has cost, and keeps its outputs back until it is over; returns when
        that is."""
        if self.loop is None:
            return now
        disk_us, self.disk.spent_us = self.disk.spent_us, 0
        over_at = self.loop.end_turn(
            now,
            disk_us,
            len(outputs) + len(self.effects),
            decided=self.quorum.log_end_offset,
            replayed=self.quorum.high_watermark,
            snapshot=self.quorum.latest_snapshot,
        )
        if over_at > now:
            self.loop.under_way = outputs
        return over_at

    def in_this_life(self, action: Callable[[], None]) -> Callable[[], None]:
        """The action, unless the process has ended when it is due."""
        life = self.life

        def guarded() -> None:
            if self.alive and self.life == life:
                action()

        return guarded

    def follows(self, leader: "Replica") -> bool:
        """Whether this replica, which runs, is that leader or follows it in its epoch."""
        quorum = self.quorum
        return quorum.leader_id == leader.node_id and quorum.epoch == leader.quorum.epoch

    @property
    def key(self) -> ReplicaKey:
        """Id and disk."""
        return ReplicaKey(self.node_id, directory_of(self.node_id, self.lost_disks))

    @property
    def voter(self) -> Voter:
        """As the voter set has it, or would have it."""
        return Voter(*self.key, (endpoint_of(self.node_id, self.port),))
