"""Deletion of large files."""

import os
import threading
from pathlib import Path

import pytest

from tidelog.runtime.os_disk import OsDisk
from tidelog.runtime.unlinking import THREAD_NAME


@pytest.mark.parametrize("in_steps", [False, True])
def test_another_thread_frees_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_steps: bool
) -> None:
    """Its name is gone at once, for a node's loop does not wait for its blocks."""
    disk = OsDisk(str(tmp_path))
    large = tmp_path / "orders-0" / "large"
    large.parent.mkdir()
    with large.open("wb") as file:
        file.truncate(1 << 30)
    inode, closed_by = large.stat().st_ino, []
    close = os.close

    def witnessed(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == inode:
            closed_by.append(threading.current_thread().name)
        close(descriptor)

    monkeypatch.setattr(os, "close", witnessed)
    if in_steps:
        disk.delete_some("orders-0", 5)
    else:
        disk.delete("orders-0/large")
    assert not large.exists()
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join()
    assert closed_by == [THREAD_NAME]
