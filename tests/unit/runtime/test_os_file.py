"""Goal: a file that is parked in between is the same file, and a sync covers what came before it.

What every file does is in `test_disks.py`; who is parked when, in `test_open_files.py`.
"""

import os
from pathlib import Path

import pytest

from tidelog.errors import StorageError
from tidelog.runtime.open_files import OpenFiles
from tidelog.runtime.os_disk import OsDisk
from tidelog.runtime.os_file import OsFile


def parked_file(root: Path) -> OsFile:
    """A file with three bytes and no descriptor."""
    disk = OsDisk(str(root), OpenFiles(1))
    file = disk.open("a.log", create=True)
    file.append([b"abc"])
    disk.sync(file)
    assert not file.is_parked
    disk.open("b.log", create=True)
    assert file.is_parked
    return file


def test_the_sync_of_a_parked_file_is_a_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a former process wrote may still be in memory only."""
    file = parked_file(tmp_path)
    synced: list[int] = []
    fdatasync = os.fdatasync
    monkeypatch.setattr(
        os, "fdatasync", lambda fd: (synced.append(os.fstat(fd).st_ino), fdatasync(fd))
    )
    file.sync_content()
    assert synced == [(tmp_path / "a.log").stat().st_ino] and file.is_parked


@pytest.mark.parametrize("source, target", [("t-0.1-future", "t-0"), ("t-0.1-future/a", "b")])
def test_a_parked_file_that_is_renamed_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str
) -> None:
    """Goal: the node does not end because the loop gave a file, or its directory, another name when
    the flush thread was about to open it."""
    disk = OsDisk(str(tmp_path), OpenFiles(1))
    disk.make_dir("t-0.1-future")
    file = disk.open("t-0.1-future/a", create=True)
    disk.sync(file)
    other = disk.open("b.log", create=True)
    disk.sync(other)
    assert file.is_parked
    synced: list[int] = []
    system_open, fdatasync = os.open, os.fdatasync

    def opens(path: str, flags: int, mode: int = 0o777) -> int:
        monkeypatch.setattr(os, "open", system_open)
        prefix = "" if target == "t-0" else "t-0.1-future/"
        disk.rename(source, prefix + target)
        return system_open(path, flags, mode)

    monkeypatch.setattr(os, "open", opens)
    monkeypatch.setattr(
        os, "fdatasync", lambda fd: (synced.append(os.fstat(fd).st_ino), fdatasync(fd))
    )
    inode = (tmp_path / "t-0.1-future" / "a").stat().st_ino
    disk.sync(file)
    assert synced == [inode]


def test_a_write_during_a_sync_is_not_covered_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: the write comes when the device has done its work and the sync has not returned."""
    file = OsDisk(str(tmp_path)).open("a.log", create=True)
    file.append([b"a"])
    assert not file.is_synced
    fdatasync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (fdatasync(fd), file.append([b"b"])))
    file.sync_content()
    assert not file.is_synced
    monkeypatch.undo()
    file.sync_content()
    assert file.is_synced
    for change in (lambda: file.append([b"c"]), lambda: file.truncate(1)):
        change()
        assert not file.is_synced
        file.sync_bytes()
        assert file.is_synced


def test_a_parked_file_that_another_process_changed_is_refused(tmp_path: Path) -> None:
    """Its size is known; another one under its name would be served as records."""
    for number, content in enumerate((b"abcd", b"ab", None)):
        root = tmp_path / str(number)
        file = parked_file(root)
        if content is None:
            (root / "a.log").unlink()
        else:
            (root / "a.log").write_bytes(content)
        for _ in range(2):
            with pytest.raises(StorageError):
                file.read(0, 1)
        file.close()


def test_a_parked_file_is_closed_without_a_descriptor(tmp_path: Path) -> None:
    """Goal: no descriptor of another file is closed in its place."""
    file = parked_file(tmp_path)
    before = set(Path("/proc/self/fd").iterdir())
    file.close()
    file.sync_content()
    assert set(Path("/proc/self/fd").iterdir()) == before
    with pytest.raises(AssertionError):
        file.read(0, 1)
