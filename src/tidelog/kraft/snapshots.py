"""The snapshots of one replica: the files, which of them count, and the one being written.

A snapshot counts once its file is complete, durable and has its final name; until then the name
ends in `.part`, and a process that finds such a file at its start deletes it. Two sources write:
this node's state machine (`SnapshotWriter`, a batch at a time, so that ten thousand partitions
hold nothing up), and a download from the leader (`snapshot_fetcher.py`).

    begin -> append ... -> finish: flush -> flushed: renamed, flush -> flushed: counted

The second flush is for the new name: until it is over, a power cut may give the old one back.

A snapshot that turns out to be damaged, whenever it is read, is named to the operator and put
aside as `.corrupt`: neither loaded nor served again (*SnapshotWhole*).

Invariants
- `ids` ascend in both offset and epoch, and every one of them has a durable file.
- At most one file is on its way.

Left out: when to make one (the owner of the state) and when to forget one (`log_cleaning.py`).

Source: KIP-630; Kafka's `KafkaRaftLog`, `FileRawSnapshotWriter`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.env.disk import Buffer, Disk, File
from tidelog.env.effects import EffectQueue, Flush
from tidelog.env.trace import Trace
from tidelog.errors import CorruptBatch
from tidelog.kraft.events import SUBJECT, SnapshotPutAside
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import (
    BOOTSTRAP_SNAPSHOT,
    PART_SUFFIX,
    ControlEntry,
    SnapshotContent,
    SnapshotEncoder,
    parse_snapshot_name,
    read_snapshot,
    snapshot_name,
)
from tidelog.log.file_names import CHECKPOINT_SUFFIX, CORRUPT_SUFFIX
from tidelog.model import METADATA_PARTITION


class SnapshotFlush(NamedTuple):
    """Subject of the `Flush` effect of a complete snapshot."""

    snapshot_id: SnapshotId
    sequence: int
    """Distinguishes a file from an earlier one of the same name that was given up."""
    of_name: bool
    """Whether it makes the final name durable; before, it is the content."""


class PartFile:
    """A snapshot on its way: bytes are appended, then it is sealed or given up."""

    def __init__(
        self, disk: Disk, effects: EffectQueue, snapshot_id: SnapshotId, sequence: int
    ) -> None:
        self._disk = disk
        self._effects = effects
        self._sequence = sequence
        self.snapshot_id = snapshot_id
        # Where it is; changes when it gets its final name.
        self.path = f"{METADATA_PARTITION}/{snapshot_name(snapshot_id)}{PART_SUFFIX}"
        # The flush that is under way; `None` while bytes are missing.
        self.flush: SnapshotFlush | None = None
        self._file: File = disk.open(self.path, create=True)
        if self._file.size_bytes:
            self._file.truncate(0)

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return self._file.size_bytes

    def append(self, data: Buffer) -> None:
        """Writes at the end."""
        self._file.append((data,))

    def read(self) -> bytes:
        """All that was written."""
        return self._file.read(0, self._file.size_bytes)

    def request_flush(self, *, of_name: bool) -> None:
        """Asks for the durability of its content, which is complete, or of its final name."""
        self.flush = SnapshotFlush(self.snapshot_id, self._sequence, of_name)
        self._effects.emit(Flush(self._file, self.flush))

    def rename(self) -> None:
        """Its content is durable: gives it its final name, and asks for that to be durable."""
        self._file.close()
        final_path = self.path.removesuffix(PART_SUFFIX)
        self._disk.rename(self.path, final_path)
        self.path = final_path
        self._file = self._disk.open(final_path)
        self.request_flush(of_name=True)

    def give_up(self) -> None:
        """Deletes it."""
        self._file.close()
        self._disk.delete(self.path)

    def close(self) -> None:
        """It counts: nothing is left to do with the file."""
        self._file.close()


class SnapshotWriter:
    """Writes this node's state as a snapshot; made by `Snapshots.begin`."""

    def __init__(self, snapshots: "Snapshots", part: PartFile, encoder: SnapshotEncoder) -> None:
        self._snapshots = snapshots
        self._part = part
        self._encoder = encoder

    @property
    def snapshot_id(self) -> SnapshotId:
        """What it will be called."""
        return self._part.snapshot_id

    @property
    def is_current(self) -> bool:
        """False once the quorum gave it up, because the leader's snapshot is on its way."""
        return self._snapshots.is_writing(self._part)

    @property
    def is_on_its_way(self) -> bool:
        """False once it counts, or was given up."""
        return self._snapshots.has_begun(self._part)

    def append(self, records: Sequence[bytes]) -> None:
        """Writes one batch. Raises `StorageError`."""
        assert self.is_current, f"snapshot {self.snapshot_id} was given up"
        self._part.append(self._encoder.records(records))

    def finish(self) -> None:
        """The state is complete; the snapshot counts when it is durable. Raises `StorageError`."""
        assert self.is_current, f"snapshot {self.snapshot_id} was given up"
        self._part.append(self._encoder.footer())
        self._snapshots.seal(self._part)


class Snapshots:
    """All snapshots of this replica's metadata log."""

    def __init__(self, disk: Disk, effects: EffectQueue, trace: Trace) -> None:
        self._disk = disk
        self._effects = effects
        self._trace = trace
        # Complete and durable, ascending.
        self.ids: list[SnapshotId] = []
        # Put aside as damaged. What they were is lost, and not where they ended.
        self._lost: set[SnapshotId] = set()
        # The one being written or waiting for its flush; `None` for none.
        self._part: PartFile | None = None
        # Numbers the part files of this process.
        self._sequence = 0
        # The snapshot that was read last, open, for the follower that asks for its next bytes.
        self._open: tuple[SnapshotId, File] | None = None
        self._find()

    def _find(self) -> None:
        directory = str(METADATA_PARTITION)
        for name in self._disk.list_dir(directory):
            if name.endswith(CHECKPOINT_SUFFIX + PART_SUFFIX):
                self._trace.info(SUBJECT, "find", "deleted", "unfinished snapshot", file=name)
                self._disk.delete(f"{directory}/{name}")
                continue
            snapshot_id = parse_snapshot_name(name)
            lost_id = parse_snapshot_name(name.removesuffix(CORRUPT_SUFFIX))
            if snapshot_id is not None:
                self.ids.append(snapshot_id)
            elif lost_id is not None:
                self._lost.add(lost_id)
        self.ids.sort()

    # Views -----------------------------------------------------------------------------------

    @property
    def latest(self) -> SnapshotId | None:
        """The newest one that stands for records of the log."""
        return self.ids[-1] if self.ids and self.ids[-1] != BOOTSTRAP_SNAPSHOT else None

    @property
    def earliest(self) -> SnapshotId | None:
        """The oldest one that stands for records of the log."""
        for snapshot_id in self.ids:
            if snapshot_id != BOOTSTRAP_SNAPSHOT:
                return snapshot_id
        return None

    def epoch_before(self, end_offset: int) -> int:
        """The epoch of the last record below this offset, by a snapshot that ends there, damaged or
        not; 0 when there is none."""
        here = [each for each in (*self.ids, *self._lost) if each.end_offset == end_offset]
        return max(here).epoch if here else 0

    @property
    def is_busy(self) -> bool:
        """Whether one is on its way."""
        return self._part is not None

    def is_writing(self, part: PartFile) -> bool:
        """Whether this very file still takes bytes."""
        return self._part is part and part.flush is None

    def has_begun(self, part: PartFile) -> bool:
        """Whether this very file is on its way."""
        return self._part is part

    @staticmethod
    def path_of(snapshot_id: SnapshotId) -> str:
        """Where a complete snapshot is."""
        return f"{METADATA_PARTITION}/{snapshot_name(snapshot_id)}"

    # Reading ---------------------------------------------------------------------------------

    def load(self, snapshot_id: SnapshotId) -> SnapshotContent | None:
        """The content; `None` when it is damaged, and then it counts no more.

        Raises `StorageError` when the disk cannot be read.
        """
        data = self._disk.read_file(self.path_of(snapshot_id))
        try:
            return read_snapshot(b"" if data is None else data, snapshot_id)
        except CorruptBatch as error:
            self._put_aside(snapshot_id, error.message)
            return None

    def _put_aside(self, snapshot_id: SnapshotId, fault: str) -> None:
        self._release()
        path = self.path_of(snapshot_id)
        kept_as = path + CORRUPT_SUFFIX
        self._trace.event(SnapshotPutAside(path=path, fault=fault, kept_as=kept_as))
        self.ids.remove(snapshot_id)
        self._lost.add(snapshot_id)
        self._disk.delete(kept_as)
        if self._disk.exists(path):
            self._disk.rename(path, kept_as)

    def size_of(self, snapshot_id: SnapshotId) -> int:
        """Bytes of a complete snapshot."""
        return self._file_of(snapshot_id).size_bytes

    def read_at(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Some bytes of a complete snapshot."""
        return self._file_of(snapshot_id).read(position, max_bytes)

    def _file_of(self, snapshot_id: SnapshotId) -> File:
        assert snapshot_id in self.ids, f"no snapshot {snapshot_id}"
        if self._open is None or self._open[0] != snapshot_id:
            self._release()
            self._open = (snapshot_id, self._disk.open(self.path_of(snapshot_id)))
        return self._open[1]

    def _release(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    # Writing ---------------------------------------------------------------------------------

    def begin(
        self, snapshot_id: SnapshotId, append_time_ms: int, control_entries: Sequence[ControlEntry]
    ) -> SnapshotWriter:
        """Begins a snapshot of the own state."""
        assert not self.is_busy, f"a snapshot is on its way, {snapshot_id} must wait"
        encoder = SnapshotEncoder(snapshot_id, append_time_ms)
        part = self.begin_part(snapshot_id)
        part.append(encoder.header(control_entries))
        return SnapshotWriter(self, part, encoder)

    def begin_part(self, snapshot_id: SnapshotId) -> PartFile:
        """Begins a file; gives up the one that is on its way."""
        self.give_up()
        self._sequence += 1
        self._part = PartFile(self._disk, self._effects, snapshot_id, self._sequence)
        return self._part

    def give_up(self) -> None:
        """Deletes the file that is on its way, if any."""
        if self._part is not None:
            self._part.give_up()
            self._part = None

    def seal(self, part: PartFile) -> None:
        """All bytes are there; asks for the flush."""
        assert self.is_writing(part), f"snapshot {part.snapshot_id} was given up"
        part.request_flush(of_name=False)

    def on_flushed(self, flush: SnapshotFlush) -> SnapshotId | None:
        """A flush is over. Returns the snapshot when with that it counts; `None` when its name is
        still to be made durable, or when it was given up or outrun meanwhile."""
        part = self._part
        if part is None or part.flush != flush:
            return None
        if self.ids and part.snapshot_id <= self.ids[-1]:
            self.give_up()
        elif flush.of_name:
            self._part = None
            part.close()
            self.ids.append(part.snapshot_id)
            return part.snapshot_id
        else:
            part.rename()
        return None

    def forget_before(self, end_offset: int, reason: str) -> None:
        """Deletes snapshots that end below an offset."""
        doomed = [one for one in self.ids if one.end_offset < end_offset]
        for snapshot_id in doomed:
            if self._open is not None and self._open[0] == snapshot_id:
                self._release()
            self._disk.delete(self.path_of(snapshot_id))
            self._trace.info(SUBJECT, "forget_before", "deleted", reason, snapshot=str(snapshot_id))
        self.ids = [one for one in self.ids if one.end_offset >= end_offset]

    def check(self) -> None:
        """Asserts the order of snapshots."""
        for before, after in zip(self.ids, self.ids[1:], strict=False):
            assert before.end_offset < after.end_offset, f"snapshots {before}, {after}"
            assert before.epoch <= after.epoch, f"snapshots {before}, {after}"
