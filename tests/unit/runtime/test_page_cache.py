"""Goal: what a failed sync has lost is not read from memory any more, by no process.

Method: a sync fails as in Linux, where the pages count as clean from then on; what is noted is of
which files the kernel is then asked to drop the pages.
"""

import ctypes
import os
from pathlib import Path

import pytest

from tidelog.errors import StorageError
from tidelog.runtime import page_cache
from tidelog.runtime.open_files import OpenFiles
from tidelog.runtime.os_disk import OsDisk


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of the files whose pages were dropped, in order."""
    found: list[int] = []
    advise = os.posix_fadvise

    def on_advice(descriptor: int, offset: int, length: int, advice: int) -> None:
        assert (offset, length, advice) == (0, 0, os.POSIX_FADV_DONTNEED)
        advise(descriptor, offset, length, advice)
        found.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "posix_fadvise", on_advice)
    return found


def fail(*_: object) -> None:
    """As a device does."""
    raise OSError(5, "Input/output error")


def test_the_pages_of_a_file_go_when_its_sync_has_failed(
    tmp_path: Path, dropped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted voter would otherwise promise what was only in memory."""
    disk = OsDisk(str(tmp_path))
    file = disk.open("a.log", create=True)
    file.append([b"abc"])
    disk.sync(file)
    assert dropped == []
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageError, match="fsync failed"):
        disk.sync(file)
    assert dropped == [(tmp_path / "a.log").stat().st_ino]
    # What the device has is still there, for the next process.
    assert disk.read_file("a.log") == b"abc"


def test_the_pages_of_a_parked_file_go_too(
    tmp_path: Path, dropped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no descriptor."""
    disk = OsDisk(str(tmp_path), OpenFiles(1))
    file = disk.open("a.log", create=True)
    disk.sync(file)
    disk.open("b.log", create=True)
    assert file.is_parked
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageError, match="fsync failed"):
        disk.sync(file)
    assert dropped == [(tmp_path / "a.log").stat().st_ino]


def test_the_pages_of_all_files_go_when_a_sync_of_everything_has_failed(
    tmp_path: Path, dropped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them are lost is not reported."""

    def fail_all(_: int) -> int:
        ctypes.set_errno(5)
        return -1

    disk = OsDisk(str(tmp_path))
    disk.make_dir("t-0")
    for name in ("a", "t-0/b", "t-0/c"):
        disk.open(name, create=True).append([b"x"])
    monkeypatch.setattr("tidelog.runtime.directory_syncs._SYNCFS", fail_all)
    with pytest.raises(StorageError, match="Input/output error"):
        disk.sync(disk.everything())
    places = [tmp_path / name for name in ("a", "t-0/b", "t-0/c")]
    assert sorted(dropped) == sorted(place.stat().st_ino for place in places)


def test_a_file_that_is_gone_has_no_pages(tmp_path: Path, dropped: list[int]) -> None:
    page_cache.forget_file(str(tmp_path / "gone"))
    assert dropped == []


def test_a_system_without_such_a_call_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    monkeypatch.delattr(os, "posix_fadvise")
    page_cache.forget_tree(str(tmp_path))
    assert (tmp_path / "a").read_bytes() == b"x"
