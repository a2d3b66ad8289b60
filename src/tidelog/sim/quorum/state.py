"""The state machine of the quorum tier: it remembers every record, and makes snapshots of them.

Its state is the list of all records, so a snapshot can be compared with the log that it stands for.
A snapshot is due after so many records; it is written a few records at a time, with other events
between, and any of the writes may be the process's last.
"""

from tidelog.kraft.messages import Committed, CommittedBatch, LoadedSnapshot, SnapshotId
from tidelog.kraft.quorum import Quorum
from tidelog.kraft.snapshots import SnapshotWriter

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
