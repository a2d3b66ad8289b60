"""The store of snapshots: what counts when, what a start finds, and damage."""

import pytest

from tidelog.env.effects import EffectQueue, Flush
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Level, Trace, TraceList
from tidelog.kraft.messages import SnapshotId
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, encode_snapshot, snapshot_name
from tidelog.kraft.snapshots import SnapshotFlush, Snapshots, SnapshotWriter
from tidelog.model import METADATA_PARTITION

FIRST, SECOND, THIRD = SnapshotId(10, 1), SnapshotId(20, 1), SnapshotId(30, 2)


class Store:
    """A store over a memory disk; the test carries its flushes out."""

    def __init__(self, *ids: SnapshotId, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self.disk.make_dir(str(METADATA_PARTITION))
        for snapshot_id in ids:
            self.disk.replace(path_of(snapshot_id), encode_snapshot(snapshot_id, 5, [b"x"]))
        self.effects = EffectQueue()
        self.sink = TraceList()
        self.snapshots = Snapshots(self.disk, self.effects, Trace(self.sink, Level.DEBUG))

    def begin(self, snapshot_id: SnapshotId) -> SnapshotWriter:
        return self.snapshots.begin(snapshot_id, 5, ())

    def flush_once(self) -> SnapshotId | None:
        (effect,) = self.effects.take()
        assert isinstance(effect, Flush)
        assert isinstance(effect.subject, SnapshotFlush)
        self.disk.sync(effect.file)
        return self.snapshots.on_flushed(effect.subject)

    def make(self, snapshot_id: SnapshotId) -> None:
        writer = self.begin(snapshot_id)
        writer.append([b"y"])
        writer.finish()
        assert self.flush_once() is None
        assert self.flush_once() == snapshot_id

    def names(self) -> list[str]:
        return self.disk.list_dir(str(METADATA_PARTITION))


def path_of(snapshot_id: SnapshotId, suffix: str = "") -> str:
    return f"{METADATA_PARTITION}/{snapshot_name(snapshot_id)}{suffix}"


def test_a_snapshot_counts_when_content_and_name_are_durable() -> None:
    """Goal: not before. Method: a power cut after each step."""
    store = Store()
    writer = store.begin(FIRST)
    writer.append([b"a"])
    writer.append([b"b"])
    writer.finish()
    assert store.snapshots.latest is None
    assert store.flush_once() is None
    assert store.snapshots.latest is None
    assert store.flush_once() == FIRST
    assert store.snapshots.latest == FIRST
    store.disk.crash()
    after = Store(disk=store.disk)
    content = after.snapshots.load(FIRST)
    assert content is not None
    assert content.records == [b"a", b"b"]
    assert content.append_time_ms == 5


@pytest.mark.parametrize("flushes", [0, 1])
def test_a_power_cut_before_that_leaves_nothing_half(flushes: int) -> None:
    """Goal: an unfinished file is deleted by the next start, whatever survived of it."""
    for seed in range(20):
        store = Store()
        writer = store.begin(FIRST)
        writer.append([b"a"])
        writer.finish()
        for _ in range(flushes):
            assert store.flush_once() is None
        store.disk.crash(Prng(seed))
        after = Store(disk=store.disk)
        assert all(not name.endswith(".part") for name in after.names())
        for snapshot_id in after.snapshots.ids:
            assert after.snapshots.load(snapshot_id) is not None


def test_only_one_is_on_its_way() -> None:
    """Goal: a download gives the own one up, and its flush counts for nothing."""
    store = Store()
    writer = store.begin(FIRST)
    writer.append([b"a"])
    writer.finish()
    (effect,) = store.effects.take()
    assert isinstance(effect, Flush)
    assert isinstance(effect.subject, SnapshotFlush)
    part = store.snapshots.begin_part(FIRST)
    assert not writer.is_current
    part.append(b"z")
    assert store.snapshots.on_flushed(effect.subject) is None
    assert store.snapshots.is_busy
    store.snapshots.give_up()
    assert store.names() == []


def test_a_snapshot_that_was_outrun_is_given_up() -> None:
    """Goal: snapshots ascend."""
    store = Store(FIRST)
    writer = store.begin(FIRST)
    writer.finish()
    assert store.flush_once() is None
    assert store.snapshots.ids == [FIRST]
    assert store.names() == [snapshot_name(FIRST)]


def test_a_start_finds_what_is_complete() -> None:
    """Goal: sorted, without parts and foreign files."""
    store = Store(THIRD, FIRST)
    store.disk.replace(path_of(SECOND, ".part"), b"half")
    store.disk.replace(f"{METADATA_PARTITION}/00000000000000000007.snapshot", b"")
    found = Store(disk=store.disk).snapshots
    assert found.ids == [FIRST, THIRD]
    assert (found.earliest, found.latest) == (FIRST, THIRD)
    assert not store.disk.exists(path_of(SECOND, ".part"))


def test_what_formatting_left_stands_for_nothing() -> None:
    """Goal: a bootstrap checkpoint is neither the latest nor the earliest."""
    store = Store(BOOTSTRAP_SNAPSHOT)
    assert store.snapshots.ids == [BOOTSTRAP_SNAPSHOT]
    assert store.snapshots.latest is None
    assert store.snapshots.earliest is None
    store.make(FIRST)
    assert (store.snapshots.earliest, store.snapshots.latest) == (FIRST, FIRST)


def test_a_damaged_snapshot_is_named_and_put_aside() -> None:
    """SnapshotWhole. Goal: the operator reads which file, why, what to do; it counts no more."""
    store = Store(FIRST, SECOND)
    store.disk.flip_bit(path_of(SECOND), 8 * 100)
    assert store.snapshots.load(SECOND) is None
    assert store.snapshots.ids == [FIRST]
    line = store.sink.events[-1].text()
    assert path_of(SECOND) in line
    assert "hint:" in line
    assert store.disk.exists(path_of(SECOND, ".corrupt"))
    assert Store(disk=store.disk).snapshots.ids == [FIRST]


def test_a_missing_file_counts_as_damaged() -> None:
    """Goal: it was deleted while the node ran."""
    store = Store(FIRST)
    store.disk.delete(path_of(FIRST))
    assert store.snapshots.load(FIRST) is None
    assert store.snapshots.ids == []


def test_pieces_are_read_at_any_position() -> None:
    """Goal: what FetchSnapshot needs."""
    store = Store(FIRST, SECOND)
    whole = encode_snapshot(SECOND, 5, [b"x"])
    assert store.snapshots.size_of(SECOND) == len(whole)
    pieces = [store.snapshots.read_at(SECOND, at, 50) for at in range(0, len(whole), 50)]
    assert b"".join(pieces) == whole
    assert store.snapshots.read_at(FIRST, 0, 8) == bytes(8)


def test_older_ones_are_forgotten() -> None:
    """Goal: files go, the rest stays."""
    store = Store(FIRST, SECOND, THIRD)
    assert store.snapshots.size_of(FIRST) > 0
    store.snapshots.forget_before(20, "tested")
    assert store.snapshots.ids == [SECOND, THIRD]
    assert store.names() == [snapshot_name(SECOND), snapshot_name(THIRD)]


def test_snapshots_that_do_not_ascend_are_a_bug() -> None:
    """Goal: an older epoch at a later offset cannot be of one log."""
    store = Store(SnapshotId(10, 3), SnapshotId(20, 2))
    with pytest.raises(AssertionError, match="snapshots 10-3, 20-2"):
        store.snapshots.check()
