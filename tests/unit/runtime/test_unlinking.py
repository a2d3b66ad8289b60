"""Deletion of large files."""

import os
import resource
import threading
from pathlib import Path

import pytest

from tests.unit.runtime.harness import TIMEOUT_S
from tidelog.runtime.os_disk import OsDisk
from tidelog.runtime.unlinking import THREAD_NAME, most_at_a_time


def descriptor_count() -> int:
    """How many this process has."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def wait_for_threads() -> None:
    """Until all that was begun is freed."""
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join()


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
    wait_for_threads()
    assert closed_by == [THREAD_NAME]


def test_a_topic_of_many_large_files_leaves_descriptors_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a node does not run out of them while it deletes. Method: no blocks become free before
    all names are gone; one more round shows that each thread gives its place back."""
    disk = OsDisk(str(tmp_path))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    assert most_at_a_time() == 16
    gate, close = threading.Event(), os.close

    def slow(descriptor: int) -> None:
        if threading.current_thread().name == THREAD_NAME:
            assert gate.wait(TIMEOUT_S)
        close(descriptor)

    monkeypatch.setattr(os, "close", slow)
    for _ in range(2):
        gate.clear()
        (tmp_path / "orders-0").mkdir()
        for number in range(most_at_a_time() + 5):
            with (tmp_path / "orders-0" / str(number)).open("wb") as file:
                file.truncate(1 << 30)
        before = descriptor_count()
        disk.delete_some("orders-0", 100)
        assert descriptor_count() == before + most_at_a_time()
        assert not (tmp_path / "orders-0").exists()
        gate.set()
        wait_for_threads()
        assert descriptor_count() == before


def test_a_process_without_another_thread_frees_the_file_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = OsDisk(str(tmp_path))
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    before = descriptor_count()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    disk.delete("large")
    assert not (tmp_path / "large").exists()
    assert descriptor_count() == before
