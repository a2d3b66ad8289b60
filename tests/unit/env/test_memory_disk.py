"""The memory disk's own part: what a power cut takes and what faults do."""

from collections import Counter

import pytest

from tidelog.env.crash_image import PAGE_BYTES, SECTOR_BYTES
from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.errors import StorageError


def test_a_power_cut_takes_what_was_not_synced() -> None:
    """Goal: synced bytes stay, later ones go, handles die. A file that was never synced has a name
    when its directory was synced for another one, and nothing in it."""
    disk = MemoryDisk()
    kept, lost = disk.open("kept", create=True), disk.open("lost", create=True)
    kept.append([b"abc"])
    disk.sync(kept)
    kept.append([b"def"])
    lost.append([b"xyz"])
    disk.replace("whole", b"123")
    disk.crash()
    assert disk.list_dir() == ["kept", "lost", "whole"]
    assert disk.read_file("lost") == b""
    assert disk.read_file("kept") == b"abc" and disk.read_file("whole") == b"123"
    assert disk.used_bytes == 6
    with pytest.raises(AssertionError):
        kept.append([b"x"])


def test_an_unsynced_cut_may_come_undone() -> None:
    """Goal: bytes that were durable and then cut off are back after a power cut, without what
    was written in their place; after a sync they are gone for good."""
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    file.append([b"abcdef"])
    disk.sync(file)
    file.truncate(4)
    file.truncate(2)
    file.append([b"ZZZZZZ"])
    disk.crash()
    assert disk.read_file("a") == b"abcdef"
    file = disk.open("a")
    file.truncate(2)
    file.append([b"Q"])
    disk.sync(file)
    disk.crash()
    assert disk.read_file("a") == b"abQ"


def test_names_need_a_sync_of_their_directory() -> None:
    """Goal: made, created and renamed things are gone after a power cut, deleted directories are
    back; a deleted file stays deleted."""
    disk = MemoryDisk()
    disk.make_dir("kept-0")
    disk.replace("kept-0/a", b"1")
    disk.replace("kept-0/b", b"2")
    disk.make_dir("moved-0")
    disk.replace("moved-0/c", b"3")
    disk.delete("kept-0/b")
    disk.make_dir("new-0")
    disk.open("new-0/d", create=True).append([b"4"])
    disk.open("kept-0/e", create=True).append([b"5"])
    disk.rename("moved-0", "moved-0-delete")
    disk.delete("kept-0")
    assert disk.list_dir() == ["moved-0-delete", "new-0"]
    disk.crash()
    assert disk.list_dir() == ["kept-0", "moved-0"]
    assert disk.list_dir("kept-0") == ["a"] and disk.list_dir("moved-0") == ["c"]


def test_a_sync_takes_the_whole_path_along() -> None:
    """Goal: a file that was synced is found again, however new the directories above it; so are
    renames beside it."""
    disk = MemoryDisk()
    disk.make_dir("old")
    disk.make_dir("a/b")
    file = disk.open("a/b/c", create=True)
    file.append([b"x"])
    disk.rename("old", "new")
    disk.sync(file)
    disk.make_dir("d/e")
    disk.replace("d/e/f", b"y")
    disk.crash()
    assert disk.read_file("a/b/c") == b"x" and disk.read_file("d/e/f") == b"y"
    assert disk.exists("new") and not disk.exists("old")


def test_changes_of_one_name_are_never_kept_without_the_earlier_ones() -> None:
    """Goal: after create, rename, create again a power cut leaves some prefix of these changes,
    never both names for one file nor the second file without the rename. Method: 200 seeds."""
    seen = set()
    for seed in range(200):
        disk = MemoryDisk()
        disk.open("a", create=True)
        disk.rename("a", "b")
        disk.open("a", create=True)
        disk.open("z", create=True)
        disk.crash(Prng(seed))
        seen.add(tuple(disk.list_dir()))
    assert seen == {
        *((), ("a",), ("b",), ("a", "b")),
        *(("z",), ("a", "z"), ("b", "z"), ("a", "b", "z")),
    }


def test_a_power_cut_keeps_any_part_of_what_was_written() -> None:
    """Goal: with a generator synced bytes always survive, and of the others nothing, a prefix, any
    pages, zeros or all. Method: 600 seeds over five pages; all outcomes must occur."""
    lengths, fired = set(), Counter[str]()
    holes = 0
    for seed in range(600):
        disk = MemoryDisk()
        file = disk.open("a", create=True)
        file.append([b"s" * 10])
        disk.sync(file)
        file.append([b"u" * 5 * PAGE_BYTES])
        fired += disk.crash(Prng(seed))
        data = disk.read_file("a") or b""
        assert data.startswith(b"s" * 10) and len(data) <= 10 + 5 * PAGE_BYTES
        assert not data[10:].strip(b"u\0")
        lengths.add(len(data))
        holes += b"\0u" in data
    assert {10, 10 + 5 * PAGE_BYTES} < lengths
    assert holes > 30
    assert set(fired) == {
        *("dropped-writes", "kept-all", "kept-prefix"),
        *("reordered-pages", "torn-write", "zero-filled-tail"),
    }


def test_a_sector_is_torn_whole() -> None:
    """Goal: within a page that was being written, zeros begin at a sector of the file."""
    torn = 0
    for seed in range(300):
        disk = MemoryDisk()
        file = disk.open("a", create=True)
        file.append([b"u" * PAGE_BYTES])
        disk.sync(disk.open("b", create=True))
        if "reordered-pages" in disk.crash(Prng(seed)):
            kept = len((disk.read_file("a") or b"").rstrip(b"\0"))
            torn += kept not in (0, PAGE_BYTES)
            assert kept % SECTOR_BYTES == 0
    assert torn > 0


def test_what_is_durable_can_be_looked_at() -> None:
    """Goal: the image that a power cut leaves for sure, without a power cut."""
    disk = MemoryDisk()
    disk.make_dir("p-0")
    file = disk.open("p-0/a", create=True)
    file.append([b"abc"])
    assert disk.durable_files() == {}
    disk.sync(file)
    file.append([b"def"])
    disk.replace("q", b"1")
    assert disk.durable_files() == {"p-0/a": b"abc", "q": b"1"}
    assert [path for path, _ in disk.contents()] == ["p-0/a", "q"]
    assert not disk.content("p-0/a").is_durable
    disk.crash()
    assert {path: bytes(each.data) for path, each in disk.contents()} == {
        "p-0/a": b"abc",
        "q": b"1",
    }


def test_a_full_disk_writes_nothing() -> None:
    """Goal: an append is whole or not at all; deleting, cutting and replacing free space."""
    disk = MemoryDisk(capacity_bytes=10)
    file = disk.open("a", create=True)
    file.append([b"12345678"])
    with pytest.raises(StorageError):
        file.append([b"ab", b"c"])
    assert file.size_bytes == 8
    file.truncate(7)
    file.append([b"abc"])
    with pytest.raises(StorageError):
        disk.replace("b", b"x")
    disk.delete("a")
    disk.replace("b", b"x" * 10)
    disk.replace("b", b"y" * 10)
    assert disk.used_bytes == 10


def test_a_failing_disk_fails_everything() -> None:
    """Goal: EIO on each operation while it is switched on, none afterwards."""
    disk = MemoryDisk()
    disk.make_dir("d")
    file = disk.open("a", create=True)
    disk.failing = "input/output error"
    for operation in (
        lambda: file.append([b"x"]),
        lambda: file.read(0, 1),
        lambda: file.truncate(0),
        lambda: disk.sync(file),
        lambda: disk.open("a"),
        lambda: disk.read_file("a"),
        lambda: disk.replace("a", b""),
        lambda: disk.delete("a"),
        lambda: disk.rename("a", "b"),
        lambda: disk.list_dir(),
        lambda: disk.make_dir("e"),
        lambda: disk.exists("a"),
    ):
        with pytest.raises(StorageError):
            operation()
    disk.failing = None
    assert file.append([b"x"]) == 0


def test_damage_hits_one_bit() -> None:
    """Goal: the fault injector changes what it returns."""
    disk = MemoryDisk()
    disk.replace("a", b"\x00\x00")
    disk.flip_bit("a", 9)
    assert disk.read_file("a") == b"\x00\x02"
