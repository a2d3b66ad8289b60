"""One suite for both disks: the memory disk behaves as the OS disk does."""

import ctypes
import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.log.harness import DIRECTORY_ID, PARTITION, TOPIC_ID, WALL_MS, batch, read_all
from tidelog.config import LogConfig
from tidelog.env.disk import UNKNOWN_SPACE, Disk, DiskSpace
from tidelog.env.effects import EffectQueue, Flush, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import LogDamaged, StorageError, UsageError
from tidelog.log.checkpoint import CleanShutdown
from tidelog.log.directory import LogDirectory
from tidelog.log.identity import format_directory
from tidelog.log.partition_directories import RenamesForgotten
from tidelog.log.pieces import finish
from tidelog.runtime.open_files import OpenFiles
from tidelog.runtime.os_disk import OsDisk
from tidelog.runtime.os_file import OsFile

DiskMaker = Callable[[Path], Disk]
BOTH = pytest.mark.parametrize(
    "make",
    [
        lambda path: MemoryDisk(),
        lambda path: OsDisk(str(path)),
        lambda path: OsDisk(str(path), OpenFiles(1)),
    ],
    ids=["memory", "os", "os-one-descriptor"],
)


@BOTH
def test_appends_are_read_back(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: chunks land in order at the end; reads are short only at the end."""
    disk = make(tmp_path)
    file = disk.open("a.log", create=True)
    assert file.append([b"abc"]) == 0
    assert file.append([b"de", memoryview(b"xfgx")[1:3], bytearray(b"h"), b""]) == 3
    assert file.size_bytes == 8 and file.path == "a.log"
    assert file.read(0, 100) == b"abcdefgh"
    assert file.read(2, 3) == b"cde" and file.read(8, 5) == b"" and file.read(99, 5) == b""
    file.close()
    again = disk.open("a.log")
    assert again.append([b"!"]) == 8
    assert disk.read_file("a.log") == b"abcdefgh!"


@BOTH
def test_a_boot_is_named(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: two that look at a directory in one life of the machine agree on which it is."""
    disk = make(tmp_path)
    named = disk.boot_id
    assert named == make(tmp_path).boot_id
    assert named or sys.platform != "linux"
    assert named.isascii() and "\n" not in named
    if isinstance(disk, MemoryDisk):
        disk.crash()
        assert disk.boot_id != named


@BOTH
def test_a_new_file_is_made_by_its_first_append(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: until then it is nowhere and takes nothing, and everything but an append leaves it so;
    a name that was taken meanwhile stays what it is."""
    disk = make(tmp_path)
    assert disk.make_dir("t-0") and not disk.make_dir("t-0")
    file = disk.new_file("t-0/a.log")
    assert file.size_bytes == 0 and file.read(0, 10) == b""
    file.truncate(0)
    disk.sync(file)
    assert disk.list_dir("t-0") == [] and not disk.exists("t-0/a.log")
    assert disk.read_file("t-0/a.log") is None
    assert file.append([b"abc"]) == 0 and file.append([b"d"]) == 3
    disk.sync(file)
    assert disk.list_dir("t-0") == ["a.log"] and file.read(0, 10) == b"abcd"
    taken = disk.new_file("t-0/a.log")
    with pytest.raises(StorageError, match=r"t-0/a\.log"):
        taken.append([b"x"])
    assert disk.read_file("t-0/a.log") == b"abcd"
    never, gone = disk.new_file("t-0/b.log"), disk.new_file("t-0/c.log")
    never.close()
    disk.delete("t-0")
    assert not disk.exists("t-0")
    with pytest.raises(StorageError):
        gone.append([b"x"])


@BOTH
def test_a_new_file_is_made_where_its_directory_is(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: an empty log that has moved to another disk takes its first record. Its directory got
    the plain name after the file was opened."""
    disk = make(tmp_path)
    disk.make_dir("t-0.1-future")
    first, second = (disk.new_file(f"t-0.1-future/{name}") for name in "ab")
    disk.rename("t-0.1-future", "t-0")
    assert first.path == "t-0/a" and first.append([b"abc"]) == 0
    disk.sync(first)
    assert disk.list_dir() == ["t-0"] and disk.read_file("t-0/a") == b"abc"
    # Of one that was not made nothing is kept when its directory goes.
    disk.delete("t-0")
    with pytest.raises(StorageError):
        second.append([b"x"])
    second.close()


@BOTH
def test_everything_is_synced_at_once(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: one call for all files, new directories included; of the memory disk a power cut shows
    it."""
    disk = make(tmp_path)
    disk.make_dir("t-0")
    file = disk.open("t-0/a.log", create=True)
    file.append([b"abc"])
    disk.open("b", create=True).append([b"d"])
    disk.sync(disk.everything())
    if isinstance(disk, MemoryDisk):
        file.append([b"lost"])
        disk.crash()
    assert disk.read_file("t-0/a.log") == b"abc" and disk.read_file("b") == b"d"


def test_without_syncfs_each_file_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a system without such a call is not asked for `sync`, which need not wait there."""
    synced = []
    monkeypatch.setattr("tidelog.runtime.directory_syncs._SYNCFS", None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    disk = OsDisk(str(tmp_path / "disk"))
    disk.make_dir("t-0")
    disk.open("t-0/a.log", create=True).append([b"abc"])
    disk.open("b", create=True).append([b"d"])
    synced.clear()
    disk.sync(disk.everything())
    places = [tmp_path / "disk" / name for name in ("t-0/a.log", "t-0", "b", "")]
    assert sorted(synced) == sorted(place.stat().st_ino for place in places)


def test_a_file_system_that_is_gone_is_not_synced(tmp_path: Path) -> None:
    """Goal: a stop does not take it for durable."""
    disk = OsDisk(str(tmp_path / "disk"))
    (tmp_path / "disk").rmdir()
    with pytest.raises(StorageError):
        disk.sync(disk.everything())


def test_a_lost_write_is_reported_to_each_directory_on_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no clean stop of a log directory because another one on the same file system has taken
    the report of its loss. Method: a syncfs that reports as Linux does: a failure to each
    description once that was open then, and to one that is opened later if it was not reported."""
    failures, reported = 0, 0
    seen: dict[int, int] = {}
    system_open = os.open

    def opens(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = system_open(path, flags, mode)
        seen[descriptor] = failures if reported == failures else 0
        return descriptor

    def syncfs(descriptor: int) -> int:
        nonlocal reported
        if seen[descriptor] == failures:
            return 0
        seen[descriptor] = reported = failures
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(os, "open", opens)
    monkeypatch.setattr("tidelog.runtime.directory_syncs._SYNCFS", syncfs)
    disks = [OsDisk(str(tmp_path / name)) for name in ("a", "b")]
    for disk in disks:
        disk.lock()
    disks[1].open("log", create=True).append([b"lost"])
    failures = 1
    for disk in disks:
        with pytest.raises(StorageError, match="Input/output error"):
            disk.sync(disk.everything())
    # That was all; what is written from now on may become durable.
    for disk in disks:
        disk.sync(disk.everything())
        disk.unlock()


@BOTH
def test_a_directory_is_deleted_in_steps(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: a log of thousands of segments holds no loop up; open files can still be read."""
    disk = make(tmp_path)
    disk.make_dir("t-0")
    files = [disk.open(f"t-0/{number}", create=True) for number in range(7)]
    for file in files:
        file.append([b"abc"])
        disk.sync(file)
    assert disk.delete_some("t-0", 3) == 3 and len(disk.list_dir("t-0")) == 4
    assert disk.delete_some("t-0", 4) == 4 and disk.list_dir("t-0") == []
    assert disk.delete_some("t-0", 4) == 0 and not disk.exists("t-0")
    assert disk.delete_some("t-0", 4) == 0
    assert all(file.read(0, 3) == b"abc" for file in files)


@BOTH
def test_what_people_have_put_into_a_directory_goes_with_it(
    make: DiskMaker, tmp_path: Path
) -> None:
    """Goal: a directory in a topic's, or a file in its place, must not take the disk offline when
    the topic is deleted, and again at each start."""
    disk = make(tmp_path)
    disk.make_dir("t-0/notes/old")
    disk.open("t-0/notes/x", create=True).append([b"abc"])
    disk.open("t-0/y", create=True).append([b"abc"])
    disk.open("t-1", create=True).append([b"abc"])
    assert disk.delete_some("t-0", 3) == 2 and not disk.exists("t-0")
    assert disk.delete_some("t-1", 3) == 0 and not disk.exists("t-1")


@BOTH
def test_there_is_nothing_below_a_file(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: the topic id of a log in whose place a file stands is unknown."""
    disk = make(tmp_path)
    disk.open("t-0", create=True)
    assert disk.read_file("t-0/partition.metadata") is None
    assert disk.read_head("t-0/partition.metadata", 1) is None


def test_a_pipe_is_an_empty_file(tmp_path: Path) -> None:
    """Goal: to open one waits for its other end, and a start would never end."""
    os.mkfifo(tmp_path / "leader-epoch-checkpoint")
    disk = OsDisk(str(tmp_path))
    assert disk.read_file("leader-epoch-checkpoint") == b""


@BOTH
def test_many_chunks_are_written_whole(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: more chunks than one system call takes."""
    file = make(tmp_path).open("a.log", create=True)
    chunks = [b"%d," % index for index in range(3_000)]
    file.append(chunks)
    assert file.read(0, 1 << 20) == b"".join(chunks)


@BOTH
def test_truncation_cuts_and_appends_go_on(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: an append after a cut lands at the new end; growing by truncate is a bug."""
    file = make(tmp_path).open("a.log", create=True)
    file.append([b"abcdef"])
    file.truncate(2)
    assert file.size_bytes == 2
    assert file.append([b"Z"]) == 2
    assert file.read(0, 9) == b"abZ"
    with pytest.raises(AssertionError):
        file.truncate(4)


@BOTH
def test_a_missing_file_is_a_storage_error(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: only `create` makes files, and never their directories."""
    disk = make(tmp_path)
    with pytest.raises(StorageError):
        disk.open("a.log")
    with pytest.raises(StorageError):
        disk.open("no/a.log", create=True)
    with pytest.raises(StorageError):
        disk.list_dir("no")
    with pytest.raises(StorageError):
        disk.replace("no/a", b"")
    assert disk.read_file("a.log") is None and not disk.exists("a.log")


@BOTH
def test_directories(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: made with parents, listed sorted, renamed and deleted with their content."""
    disk = make(tmp_path)
    disk.make_dir("p-0/deep")
    disk.make_dir("p-0")
    disk.replace("p-0/b", b"1")
    disk.replace("p-0/a", b"2")
    disk.replace("p-0/deep/c", b"3")
    assert disk.list_dir("p-0") == ["a", "b", "deep"] and disk.list_dir() == ["p-0"]
    disk.rename("p-0", "q-0")
    assert disk.read_file("q-0/deep/c") == b"3" and not disk.exists("p-0")
    disk.make_dir("p-0")
    with pytest.raises(StorageError):
        disk.rename("p-0", "q-0")
    with pytest.raises(StorageError):
        disk.rename("gone", "elsewhere")
    disk.delete("q-0")
    disk.delete("q-0")
    assert disk.list_dir() == ["p-0"]


@BOTH
def test_replacing_and_deleting_files(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: the new content stands alone, no temporary file stays, deleting is idempotent."""
    disk = make(tmp_path)
    disk.replace("c", b"long content")
    disk.replace("c", b"short")
    assert disk.read_file("c") == b"short" and disk.list_dir() == ["c"]
    disk.rename("c", "d")
    disk.delete("d")
    disk.delete("d")
    assert disk.list_dir() == []


@BOTH
def test_a_file_has_two_names(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: both names lead to one file, and one stays when the other goes or is replaced; a source
    that is missing is an answer, a target that is there an error."""
    disk = make(tmp_path)
    disk.make_dir("t-0")
    disk.make_dir("t-1")
    file = disk.open("t-0/id", create=True)
    file.append([b"abc"])
    assert disk.link("t-0/id", "t-1/id") and not disk.link("t-0/other", "t-1/other")
    with pytest.raises(StorageError, match="t-1/id"):
        disk.link("t-0/id", "t-1/id")
    assert not disk.link("t-0/id", "t-2/id")
    file.append([b"d"])
    assert disk.read_file("t-1/id") == b"abcd" and disk.list_dir("t-1") == ["id"]
    disk.replace("t-0/id", b"new")
    assert disk.read_file("t-1/id") == b"abcd"
    disk.delete("t-1")
    assert disk.read_file("t-0/id") == b"new"


def test_a_file_system_without_second_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: where no file may have a second name a log has a file of its own; no other error is
    taken for that."""
    disk = OsDisk(str(tmp_path))
    disk.open("a", create=True).close()
    failure = OSError(errno.EPERM, os.strerror(errno.EPERM))

    def link(source: str, target: str) -> None:
        raise failure

    monkeypatch.setattr(os, "link", link)
    assert not disk.link("a", "b")
    failure = OSError(errno.EIO, os.strerror(errno.EIO))
    with pytest.raises(StorageError, match="b"):
        disk.link("a", "b")


@BOTH
def test_a_closed_file_is_not_used_but_may_be_synced(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: using it is a bug; a flush that was queued before the close does no harm."""
    disk = make(tmp_path)
    file = disk.open("a.log", create=True)
    file.append([b"abc"])
    disk.sync(file)
    file.close()
    file.close()
    disk.sync(file)
    with pytest.raises(AssertionError):
        file.append([b"x"])
    with pytest.raises(AssertionError):
        file.read(0, 1)


@BOTH
def test_a_deleted_open_file_reads_on(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: a reader that still holds a deleted segment does not fail."""
    disk = make(tmp_path)
    file = disk.open("a.log", create=True)
    file.append([b"abc"])
    disk.delete("a.log")
    assert file.read(0, 3) == b"abc"


@BOTH
def test_a_renamed_open_file_reads_on(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: a file that was opened by another name stays the same file, also when its name is
    given to another one."""
    disk = make(tmp_path)
    disk.make_dir("p-0")
    file = disk.open("p-0/a.log", create=True)
    file.append([b"abc"])
    disk.rename("p-0", "p-0.x-delete")
    disk.make_dir("p-0")
    disk.open("p-0/a.log", create=True).append([b"xyz"])
    assert file.read(0, 3) == b"abc"


@BOTH
def test_an_open_file_without_its_name_is_synced_where_its_directory_is(
    make: DiskMaker, tmp_path: Path
) -> None:
    """Goal: a flush under way does not fail because a segment was set aside, or deleted, and its
    log got another directory."""
    disk = make(tmp_path)
    disk.make_dir("p-0")
    files = [disk.open(f"p-0/{name}", create=True) for name in "ab"]
    for file in files:
        file.append([b"abc"])
    disk.rename("p-0/a", "p-0/a.deleted")
    disk.delete("p-0/b", durable=False)
    disk.rename("p-0", "p-0.x-delete")
    for file in files:
        disk.sync(file)
        assert file.read(0, 3) == b"abc"
        file.close()


@BOTH
def test_random_operations_agree_with_a_model(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: a property; appends, cuts, syncs and reads of two files against plain bytearrays."""
    disk = make(tmp_path)
    pairs = [(disk.open(name, create=True), bytearray()) for name in ("a.log", "b.log")]
    prng = Prng(9)
    for _ in range(800):
        file, model = prng.choice(pairs)
        action = prng.below(6)
        if action < 3:
            chunks = [prng.next_u64().to_bytes(8, "big") * prng.below(9) for _ in range(3)]
            assert file.append(chunks) == len(model)
            model += b"".join(chunks)
        elif action == 3:
            size_bytes = prng.between(0, len(model))
            file.truncate(size_bytes)
            del model[size_bytes:]
        elif action == 4:
            disk.sync(file)
        position, length = prng.below(len(model) + 9), prng.below(300)
        assert file.read(position, length) == model[position : position + length]
        assert file.size_bytes == len(model)


@BOTH
def test_a_log_lives_on_it(make: DiskMaker, tmp_path: Path) -> None:
    """Goal: the whole log directory works the same: append, roll, flush, stop, start, delete."""
    disk = make(tmp_path)
    effects = EffectQueue()
    config = LogConfig(segment_bytes=900, index_interval_bytes=200)
    format_directory(disk, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)

    def start() -> LogDirectory:
        return LogDirectory.open(
            disk, effects=effects, trace=Trace(TraceList()), default_config=config, wall_ms=WALL_MS
        )

    directory = start()
    log = directory.create(PARTITION, TOPIC_ID, config)
    for index in range(25):
        each = batch(2, producer_id=1, producer_epoch=0, sequence=2 * index)
        log.append_as_leader(each, index // 9, WALL_MS)
    before = read_all(log)
    log.tail.clear()
    assert read_all(log) == before
    directory.close_cleanly(CleanShutdown(5))
    for effect in effects.take():
        if isinstance(effect, Flush):
            disk.sync(effect.file)
        elif isinstance(effect, Replace):
            disk.replace(effect.path, effect.data)
    directory.close()
    directory = start()
    log = directory.logs[PARTITION]
    assert directory.clean_shutdown.broker_epoch == 5
    assert read_all(log) == before and log.topic_id == TOPIC_ID
    assert log.truncate_to(20) and log.log_end_offset == 20
    directory.checkpoint_recovery_points()
    for effect in effects.take():
        if isinstance(effect, Replace):
            disk.replace(effect.path, effect.data)
    directory.check()
    directory.close()
    directory = start()
    assert directory.logs[PARTITION].log_end_offset == 20
    directory.schedule_delete(PARTITION)
    finish(directory.forget_renamed())
    *_, last = effects.take()
    assert isinstance(last, Replace) and isinstance(last.subject, RenamesForgotten)
    directory.renamed.on_renames_forgotten(last.subject)
    assert directory.clear_renamed(1) == 1


@pytest.mark.parametrize("kept", [0, 1])
def test_a_segment_that_became_shorter_between_two_batches_is_damage(
    tmp_path: Path, kept: int
) -> None:
    """Goal: a scan of a file that ends where a batch could begin comes to an end, with a word.
    Method: a log's file is cut behind its back."""
    disk = OsDisk(str(tmp_path))
    format_directory(disk, cluster_id="c", node_id=1, directory_id=DIRECTORY_ID)
    directory = LogDirectory.open(
        disk,
        effects=EffectQueue(),
        trace=Trace(TraceList()),
        default_config=LogConfig(),
        wall_ms=WALL_MS,
    )
    log = directory.create(PARTITION, TOPIC_ID, LogConfig())
    for _ in range(4):
        log.append_as_leader(batch(2), 0, WALL_MS)
    (path,) = tmp_path.glob(f"{PARTITION}/*.log")
    os.truncate(path, kept * len(batch(2)))
    with pytest.raises(LogDamaged, match="the file ends at byte"):
        list(log.segments[0].batches.scan())


class _Device:
    """The names that fsync made durable: the listing of each directory when it was synced."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._fsync = os.fsync
        self.listings: dict[int, dict[str, int]] = {}
        monkeypatch.setattr(os, "fsync", self._on_fsync)

    def _on_fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(f"/proc/self/fd/{descriptor}") as entries:
                self.listings[status.st_ino] = {entry.name: entry.inode() for entry in entries}

    def files(self) -> list[str]:
        """The files that are found after a power cut."""
        return sorted(self._below(self._root.stat().st_ino, "", set(self._directories())))

    def _directories(self) -> Iterator[int]:
        return (path.stat().st_ino for path in self._root.rglob("*") if path.is_dir())

    def _below(self, inode: int, prefix: str, directories: set[int]) -> Iterator[str]:
        for name, child in self.listings.get(inode, {}).items():
            if child in directories:
                yield from self._below(child, f"{prefix}{name}/", directories)
            else:
                yield prefix + name


def _random_change(prng: Prng, disk: Disk, number: int) -> None:
    """One change of names, the same on every disk."""
    directories = [name for name in disk.list_dir() if name.startswith("d")]
    directory = prng.choice(directories) if directories else ""
    files = disk.list_dir(directory) if directory else []
    other = f"d{prng.below(3)}"
    match prng.below(7):
        case 0:
            disk.make_dir(other)
        case 1 if directory and not disk.exists(other):
            disk.rename(directory, other)
        case 2 if files:
            disk.rename(f"{directory}/{prng.choice(files)}", f"{directory}/r{number}")
        case 3 if directory:
            disk.replace(f"{directory}/w{number}", b"x")
        case 4 if files:
            disk.delete(f"{directory}/{prng.choice(files)}")
        case 5 if files:
            disk.sync(disk.open(f"{directory}/{prng.choice(files)}"))
        case _ if directory:
            disk.open(f"{directory}/f{number}", create=True).close()


def test_what_the_memory_disk_calls_durable_was_synced_by_the_os_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the model of power cuts and the real disk agree on every name: after any changes the
    files that a power cut leaves are the same. Method: 40 random runs on both disks, with every
    fsync of a directory noted; the second half of each run is a new process's, which knows of no
    fsync."""
    for seed in range(40):
        root = tmp_path / str(seed)
        device = _Device(root, monkeypatch)
        memory = MemoryDisk()
        for half in range(2):
            real = OsDisk(str(root))
            for number in range(15):
                for disk in (memory, real):
                    _random_change(
                        Prng(seed * 1_000 + half * 100 + number), disk, half * 15 + number
                    )
                assert device.files() == sorted(memory.durable_files()), f"seed {seed}"


# The OS disk alone ---------------------------------------------------------------------------


def test_a_read_that_the_kernel_cuts_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: bytes are missing only at the end of the file. Method: pread gives three at a time."""
    file = OsDisk(str(tmp_path)).open("a.log", create=True)
    file.append([b"abcdefgh"])
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 3), at))
    assert file.read(0, 8) == b"abcdefgh"
    assert file.read(1, 5) == b"bcdef" and file.read(6, 9) == b"gh"


def test_a_new_root_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the directories above the log directory know its name, or a vote would be durable in
    a directory without a durable name."""
    synced: list[int] = []
    fsync = os.fsync

    def on_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", on_fsync)
    OsDisk(str(tmp_path / "a" / "b" / "c"))
    expected = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert synced == [path.stat().st_ino for path in expected]
    OsDisk(str(tmp_path / "a" / "b" / "c"))
    assert len(synced) == 3


def test_a_partial_write_is_cut_back(tmp_path: Path) -> None:
    """Goal: what a failing append wrote before it failed is removed, and the file goes on.
    Method: a real limit on the file size makes the second half of an append fail."""
    import resource
    import signal

    disk = OsDisk(str(tmp_path))
    file = disk.open("a.log", create=True)
    file.append([b"x" * 100])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
        for chunks in ([b"y" * 80], [b"y" * 30, b"z" * 30]):
            with pytest.raises(StorageError):
                file.append(chunks)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert disk.read_file("a.log") == b"x" * 100
    assert file.append([b"ok"]) == 100
    assert file.read(98, 9) == b"xxok"


def test_a_failed_fsync_poisons_the_file(tmp_path: Path) -> None:
    """Goal: fsyncgate; after a failed fsync nothing of the file is trusted any more.
    Method: the descriptor is replaced by a pipe's, which cannot be synced."""
    disk = OsDisk(str(tmp_path))
    file = disk.open("a.log", create=True)
    file.append([b"abc"])
    reader, writer = os.pipe()
    os.dup2(writer, file.fileno())
    with pytest.raises(StorageError):
        file.sync_content()
    with pytest.raises(StorageError):
        file.append([b"def"])
    file.close()
    os.close(reader)
    os.close(writer)


def test_closing_waits_for_a_sync_under_way(tmp_path: Path) -> None:
    """Goal: the descriptor's number is not given away while the flush thread uses it.
    Method: a file is closed between the begin and the end of a sync."""
    disk = OsDisk(str(tmp_path))
    file = disk.open("a.log", create=True)
    descriptor = file.fileno()
    assert file._begin_sync()
    file.close()
    os.fstat(descriptor)
    file._end_sync()
    with pytest.raises(OSError):
        os.fstat(descriptor)
    assert not file._begin_sync()


def test_syncs_from_another_thread(tmp_path: Path) -> None:
    """Goal: fsync and close race without an error, many times."""
    disk = OsDisk(str(tmp_path))
    failures: list[BaseException] = []
    for index in range(30):
        file = disk.open(f"{index}.log", create=True)
        file.append([b"abc"])

        def sync(file: OsFile = file) -> None:
            try:
                file.sync_content()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=sync)
        thread.start()
        file.close()
        thread.join()
    assert failures == []


def test_a_replacement_without_its_directory_fails(tmp_path: Path) -> None:
    """Goal: the flush thread learns that the topic is gone, and leaves nothing behind."""
    with pytest.raises(StorageError):
        OsDisk(str(tmp_path)).replace("gone-0/leader-epoch-checkpoint", b"x")
    assert list(tmp_path.iterdir()) == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Goal: a second holder of the lock gets an error with a hint, and later the lock."""
    first, second = OsDisk(str(tmp_path)), OsDisk(str(tmp_path))
    first.lock()
    with pytest.raises(UsageError):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_an_unusable_root_is_a_storage_error(tmp_path: Path) -> None:
    """Goal: a root that is a file is reported, not raised as an OSError."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        OsDisk(str(tmp_path / "file"))


def test_the_volume_has_room(tmp_path: Path) -> None:
    """As the file system reports; the memory disk's is its capacity, when it has one."""
    total_bytes, usable_bytes = OsDisk(str(tmp_path)).space()
    assert 0 <= usable_bytes <= total_bytes
    disk = MemoryDisk()
    assert disk.space() == UNKNOWN_SPACE
    disk.capacity_bytes = 100
    disk.open("log", create=True).append([b"12345"])
    assert disk.space() == DiskSpace(100, 95)
