"""Goal: a disk with more open files than descriptors behaves like one with enough of them.

Method: real files, with limits of a few; what is open is counted in /proc. The suite of the disks
(`test_disks.py`) runs with one descriptor as well.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Queue

import pytest

from tests.unit.log.harness import DIRECTORY_ID, TOPIC_ID, WALL_MS, batch, read_all
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import StorageError
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.pieces import finish
from tidelog.model import TopicPartition
from tidelog.runtime.flusher import DiskAnswer, Flusher
from tidelog.runtime.open_files import SPARE_DESCRIPTORS, OpenFiles, share_of_files
from tidelog.runtime.os_disk import OsDisk
from tidelog.runtime.os_file import OsFile

DESCRIPTORS = Path("/proc/self/fd")


def open_below(root: Path) -> int:
    """Descriptors of this process that are files below a directory."""
    targets = []
    for link in DESCRIPTORS.iterdir():
        # The one with which the directory itself is listed is gone already.
        with suppress(FileNotFoundError):
            targets.append(link.readlink())
    return sum(root in target.parents for target in targets)


def disk_of(root: Path, limit: int) -> tuple[OsDisk, OpenFiles, list[str]]:
    """A disk, its open files, and the paths that were handed to the flush thread."""
    open_files = OpenFiles(limit)
    later: list[str] = []
    open_files.sync_later = lambda file: later.append(file.path)
    return OsDisk(str(root), open_files), open_files, later


def on_fdatasync(monkeypatch: pytest.MonkeyPatch, action: Callable[[str], None]) -> None:
    """Calls `action` with the name of each file before it is synced."""
    fdatasync = os.fdatasync

    def sync(descriptor: int) -> None:
        action((DESCRIPTORS / str(descriptor)).readlink().name)
        fdatasync(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)


def test_a_thousand_idle_files_need_few_descriptors(tmp_path: Path) -> None:
    """Each can be read, written, cut, synced and deleted as if it were open."""
    disk, open_files, _ = disk_of(tmp_path, 8)
    files = [disk.open(f"{number}.log", create=True) for number in range(1_000)]
    for number, file in enumerate(files[:40]):
        file.append([b"%03d" % number])
    assert open_below(tmp_path) == open_files.descriptor_count == 8
    for number, file in enumerate(files[:40]):
        assert file.read(0, 9) == b"%03d" % number
        file.truncate(2)
        disk.sync(file)
    for number, file in enumerate(files[:40]):
        assert file.append([b"!"]) == 2
        assert file.read(0, 9) == b"%02d!" % (number // 10)
    assert all(file.read(0, 1) == b"" for file in files[40:])
    assert open_below(tmp_path) == 8
    for file in files[:40]:
        file.close()
        disk.delete(file.path)
    for file in files[40:]:
        file.close()
    assert open_files.descriptor_count == open_below(tmp_path) == 0
    assert not open_files._by_directory


def test_logs_are_served_with_fewer_descriptors_than_there_are(tmp_path: Path) -> None:
    """A log directory of 40 logs: filled, rolled, flushed, read, closed and loaded again."""
    disk, open_files, _ = disk_of(tmp_path, 5)
    format_directory(disk, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
    config = LogConfig(segment_bytes=300)
    effects = EffectQueue()

    def start() -> LogDirectory:
        return LogDirectory.open(
            disk, effects=effects, trace=Trace(TraceList()), default_config=config, wall_ms=WALL_MS
        )

    def flush() -> None:
        for effect in effects.take():
            if isinstance(effect, Flush):
                disk.sync(effect.file)

    directory = start()
    partitions = [TopicPartition("orders", number) for number in range(40)]
    for partition in partitions:
        directory.create(partition, TOPIC_ID, config)
    written = partitions[::4]
    for _ in range(4):
        for partition in written:
            directory.logs[partition].append_as_leader(batch(2), 0, WALL_MS)
    flush()
    assert all(len(directory.logs[partition].segments) > 1 for partition in written)
    before = [read_all(directory.logs[partition]) for partition in written]
    for partition in written:
        directory.logs[partition].tail.clear()
    assert [read_all(directory.logs[partition]) for partition in written] == before
    assert open_below(tmp_path) <= 5
    directory.close()
    assert open_files.descriptor_count == 0
    directory = start()
    flush()
    assert [read_all(directory.logs[partition]) for partition in written] == before
    assert len(directory.logs) == 40 and open_below(tmp_path) <= 5
    for partition in partitions:
        directory.schedule_delete(partition)
    finish(directory.forget_renamed())
    *_, last = effects.take()
    assert isinstance(last, Replace) and isinstance(last.subject, RenamesForgotten)
    directory.renamed.on_renames_forgotten(last.subject)
    assert directory.clear_renamed(40) == 40
    assert open_files.descriptor_count == 0


def test_what_was_written_keeps_its_descriptor_until_it_is_synced(tmp_path: Path) -> None:
    """Closing it would lose the error of a write-back that failed."""
    disk, _, later = disk_of(tmp_path, 3)
    written, idle, other = (disk.open(name, create=True) for name in "abc")
    written.append([b"x"])
    disk.open("d", create=True)
    assert not written.is_parked and idle.is_parked and not other.is_parked
    disk.open("e", create=True)
    assert not written.is_parked and other.is_parked
    assert later == ["a"]
    disk.sync(written)
    disk.open("f", create=True)
    disk.open("g", create=True)
    disk.open("h", create=True)
    assert written.is_parked


def test_where_all_are_unsynced_the_oldest_is_synced_before_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And others are handed to the flush thread, so that it need not come to that again."""
    disk, _, later = disk_of(tmp_path, 4)
    files = [disk.open(name, create=True) for name in "abcd"]
    for file in files:
        file.append([b"x"])
    synced: list[str] = []
    on_fdatasync(monkeypatch, synced.append)
    disk.open("e", create=True).append([b"x"])
    assert [file.is_parked for file in files] == [True, False, False, False]
    assert synced == ["a"] and later == []
    disk.open("f", create=True).append([b"x"])
    assert synced == ["a", "b"] and later == ["b", "c", "d"]
    for file in files[2:]:
        disk.sync(file)
    disk.open("g", create=True)
    disk.open("h", create=True)
    assert synced == ["a", "b", "c", "d"], "nothing had to be synced in between"
    assert [file.read(0, 9) for file in files] == [b"x"] * 4


def test_files_in_use_stay(tmp_path: Path) -> None:
    """The hand takes a file that was not used since it came by last."""
    disk, _, _ = disk_of(tmp_path, 4)
    busy, *others = (disk.open(name, create=True) for name in "abcd")
    for number in range(20):
        busy.read(0, 1)
        disk.open(f"new-{number}", create=True)
        assert not busy.is_parked or number == 0
    assert all(other.is_parked for other in others)


def test_a_sync_that_fails_is_reported_by_the_flush_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the fault of the file that is opened next; the one that failed refuses everything,
    and raises an error at the next sync of it."""
    disk, _, later = disk_of(tmp_path, 1)
    bad = disk.open("bad", create=True)
    bad.append([b"x"])

    def fail(name: str) -> None:
        if name == "bad":
            raise OSError(5, "Input/output error")

    on_fdatasync(monkeypatch, fail)
    disk.open("good", create=True).append([b"y"])
    assert later == ["bad"]
    monkeypatch.undo()
    for use in (lambda: disk.sync(bad), lambda: bad.append([b"z"]), lambda: bad.read(0, 1)):
        with pytest.raises(StorageError, match="fsync failed"):
            use()


def test_a_file_is_not_parked_while_a_sync_uses_it(tmp_path: Path) -> None:
    """Its number could be another file's before the sync is over: the limit yields."""
    disk, open_files, _ = disk_of(tmp_path, 1)
    file = disk.open("a", create=True)
    assert file._begin_sync()
    other = disk.open("b", create=True)
    assert not file.is_parked and open_files.descriptor_count == 2
    file._end_sync()
    disk.open("c", create=True)
    assert file.is_parked and other.is_parked and open_files.descriptor_count == 1


def test_the_flush_thread_works_beside_it(tmp_path: Path) -> None:
    """Goal: a property; whatever is synced and parked in between, each file has what was written.
    Method: a real flush thread, 40 files on 5 descriptors, 3,000 random operations."""
    open_files = OpenFiles(5)
    disk = OsDisk(str(tmp_path), open_files)
    answers: Queue[list[DiskAnswer]] = Queue()
    failures: list[BaseException] = []
    flusher = Flusher(disk, answer=answers.put, fail=failures.append)
    open_files.sync_later = lambda file: flusher.submit(Flush(file, None))
    prng = Prng(4)
    files: dict[str, tuple[OsFile, bytearray]] = {}
    flushed = 0
    for number in range(3_000):
        name = f"{prng.below(40)}.log"
        if name not in files:
            files[name] = disk.open(name, create=True), bytearray()
        file, model = files[name]
        match prng.below(12):
            case 0 | 1 | 2:
                assert file.append([b"%d," % number]) == len(model)
                model += b"%d," % number
            case 3:
                size_bytes = prng.between(0, len(model))
                file.truncate(size_bytes)
                del model[size_bytes:]
            case 4:
                flusher.submit(Flush(file, number))
                flushed += 1
            case 5 if prng.below(4) == 0:
                file.close()
                disk.delete(name)
                del files[name]
            case _:
                assert file.read(0, 1 << 20) == model
    assert flusher.close(30) and failures == [] and flusher.failure is None
    assert sum(len(answers.get()) for _ in range(answers.qsize())) == flushed
    for file, model in files.values():
        assert disk.read_file(file.path) == file.read(0, 1 << 20) == model


def test_files_leave_descriptors_to_connections() -> None:
    """A share of all, and never everything."""
    assert share_of_files(256) == 192
    assert share_of_files(20_000) == 15_000
    for descriptors in range(256, 3_000):
        rest = descriptors - share_of_files(descriptors)
        assert rest >= 2 * SPARE_DESCRIPTORS and rest >= descriptors // 4
