"""Log directories on the file system: locked, different from each other, or offline."""

import os
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from tidelog.env.disk import OfflineDisk
from tidelog.errors import UsageError
from tidelog.runtime.log_directories import open_disks, require_different
from tidelog.runtime.os_disk import OsDisk


def test_each_directory_is_locked_and_a_missing_one_is_made(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    with ExitStack() as stack:
        disks, files = open_disks([str(first), str(second)], 100, stack)
        assert [disk.root for disk in disks] == [str(first), str(second)]
        assert [one.limit for one in files] == [50, 50]
        for again in ([str(first)], [str(second)]):
            with pytest.raises(UsageError, match="in use by another process"):
                open_disks(again, 100, stack)
    with ExitStack() as stack:
        open_disks([str(second)], 100, stack)


def test_another_than_the_first_may_be_unusable(tmp_path: Path) -> None:
    first, blocked = tmp_path / "a", tmp_path / "file"
    first.mkdir()
    blocked.write_text("no directory")
    with ExitStack() as stack:
        (_, offline), _ = open_disks([str(first), str(blocked / "b")], 100, stack)
        assert isinstance(offline, OfflineDisk) and offline.root == str(blocked / "b")
        with pytest.raises(UsageError, match="does not exist"):
            open_disks([str(tmp_path / "absent"), str(first)], 100, stack)


def test_one_directory_under_two_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="are the same directory"):
        require_different([str(tmp_path), str(tmp_path / "link")])


def test_a_directory_in_another_one_is_refused(tmp_path: Path) -> None:
    """Goal: a node does not take one of its disks for a log that it need not have, and set it aside
    with all that is in it."""
    outer, link = tmp_path / "a", tmp_path / "link"
    outer.mkdir()
    link.symlink_to(outer)
    for inner in (outer / "disk-1", outer / "x" / "y", link / "disk-1"):
        for pair in ([outer, inner], [inner, outer]):
            with pytest.raises(UsageError, match=f"`{inner}` lies in `{outer}`"):
                require_different([str(each) for each in pair])
    require_different([str(outer), str(tmp_path / "ab")])
    with pytest.raises(UsageError, match="lies in `/`"):
        require_different(["/", str(outer)])


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(
    "path", ["__cluster_metadata-0/quorum-state", "log-start-offset-checkpoint"]
)
def test_what_a_killed_process_has_replaced_is_durable_before_it_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Goal: a power cut after a kill does not take back a vote that the next process has given.
    Method: the process ends between the rename and the sync of the directory; what is noted is
    which directories the next one has synced when its disks are open."""
    fsync = os.fsync
    synced: set[int] = set()

    def die(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise Killed
        fsync(descriptor)

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    disk = OsDisk(str(tmp_path))
    disk.make_dir("__cluster_metadata-0")
    disk.replace(path, b"old")
    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(Killed):
        disk.replace(path, b"new")
    monkeypatch.setattr(os, "fsync", note)
    with ExitStack() as stack:
        (found, *_), _ = open_disks(
            [str(tmp_path), str(tmp_path.parent / f"{tmp_path.name}-b")], 100, stack
        )
        assert isinstance(found, OsDisk) and found.read_file(path) == b"new"
        assert (tmp_path / path).parent.stat().st_ino in synced
