"""The memory disk's own part: what a power cut takes and what faults do."""

import pytest

from tidelog.env.memory_disk import MemoryDisk
from tidelog.env.prng import Prng
from tidelog.errors import StorageError


def test_a_power_cut_takes_what_was_not_synced() -> None:
    """Goal: synced bytes stay, later ones go, never synced files vanish, handles die."""
    disk = MemoryDisk()
    kept, lost = disk.open("kept", create=True), disk.open("lost", create=True)
    kept.append([b"abc"])
    disk.sync(kept)
    kept.append([b"def"])
    lost.append([b"xyz"])
    disk.replace("whole", b"123")
    disk.crash()
    assert disk.list_dir() == ["kept", "whole"]
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


def test_a_torn_write_keeps_the_durable_prefix() -> None:
    """Goal: with a generator any part of the unsynced bytes survives, never fewer than the
    synced ones. Method: 300 seeds; all outcomes must occur."""
    lengths = set()
    garbled = 0
    for seed in range(300):
        disk = MemoryDisk()
        file = disk.open("a", create=True)
        file.append([b"s" * 10])
        disk.sync(file)
        file.append([b"u" * 10])
        disk.crash(Prng(seed))
        data = disk.read_file("a") or b""
        assert data.startswith(b"s" * 10) and len(data) <= 20
        lengths.add(len(data))
        garbled += b"\x00" in data
    assert lengths == set(range(10, 21))
    assert 0 < garbled < 300


def test_a_full_disk_writes_nothing() -> None:
    """Goal: an append is whole or not at all; deleting, cutting and replacing give room."""
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
    """Goal: the fault injector changes what it says."""
    disk = MemoryDisk()
    disk.replace("a", b"\x00\x00")
    disk.flip_bit("a", 9)
    assert disk.read_file("a") == b"\x00\x02"
