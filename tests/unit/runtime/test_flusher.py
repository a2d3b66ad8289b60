"""Goal: durability work is done in order, once per file and group; every failure is reported."""

import errno
import os
import threading
from pathlib import Path
from queue import Queue

import pytest

from tests.unit.runtime.harness import TIMEOUT_S
from tidelog.env.disk import File
from tidelog.env.effects import Flush, Flushed, FlushFailed, Replace
from tidelog.env.memory_disk import MemoryDisk
from tidelog.runtime.flusher import DiskAnswer, Flusher
from tidelog.runtime.os_disk import OsDisk


class SlowDisk(MemoryDisk):
    """A memory disk whose first sync waits for a gate, so that work queues up behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.done: list[str] = []

    def sync(self, file: File) -> None:
        """Syncs once the gate is open."""
        assert self.gate.wait(TIMEOUT_S)
        super().sync(file)
        self.done.append(file.path)

    def replace(self, path: str, data: bytes) -> None:
        """Replaces once the gate is open."""
        assert self.gate.wait(TIMEOUT_S)
        super().replace(path, data)
        self.done.append(path)


def started(disk: SlowDisk) -> tuple[Flusher, "Queue[list[DiskAnswer]]"]:
    """A flusher, and the groups it answers."""
    answers: Queue[list[DiskAnswer]] = Queue()
    return Flusher(disk, answer=answers.put, fail=answers.put), answers  # type: ignore[arg-type]


def test_a_group_syncs_each_file_once_and_answers_each_subject_in_order() -> None:
    disk = SlowDisk()
    a, b = disk.open("a", create=True), disk.open("b", create=True)
    flusher, answers = started(disk)
    flusher.submit(Flush(a, "first"))
    for subject in range(3):
        flusher.submit(Flush(a, ("a", subject)))
        flusher.submit(Flush(b, ("b", subject)))
    flusher.submit(Replace("epochs", b"0", "epochs"))
    flusher.submit(Replace("unawaited", b"0"))
    flusher.submit(Flush(a, "last"))
    disk.gate.set()
    assert flusher.close(TIMEOUT_S)
    found = []
    while not answers.empty():
        found += answers.get()
    subjects = ["first", ("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert found == [Flushed(subject) for subject in (*subjects, "epochs", "last")]
    # The first may have been a group of its own; the rest is one.
    assert disk.done.count("a") <= 2
    assert disk.done.count("b") == 1
    assert disk.read_file("unawaited") == b"0"


def test_the_metadata_goes_before_what_has_queued_up_for_partitions() -> None:
    """Goal: a vote waits for one file, not for those of every partition that changed its leader."""
    disk = SlowDisk()
    disk.make_dir("__cluster_metadata-0")
    log = disk.open("__cluster_metadata-0/00000000000000000000.log", create=True)
    flusher, answers = started(disk)
    for partition in range(3):
        flusher.submit(Replace(f"t-{partition}.epochs", b"0", partition))
    flusher.submit(Replace("__cluster_metadata-0/quorum-state", b"{}", "vote"))
    flusher.submit(Flush(log, "records"))
    flusher.submit(Replace(".kafka_cleanshutdown", b"", "marker"))
    disk.gate.set()
    assert flusher.close(TIMEOUT_S)
    found = []
    while not answers.empty():
        found += [answer.subject for answer in answers.get()]
    assert [subject for subject in found if subject in ("vote", "records")] == ["vote", "records"]
    assert [subject for subject in found if subject not in ("vote", "records")] == [
        *range(3),
        "marker",
    ]
    # One of the partitions' may have been under way.
    assert found.index("records") <= 2
    assert disk.done.index(log.path) <= 2


def test_failures_are_answered_even_when_no_effect_waits_for_success() -> None:
    disk = SlowDisk()
    file = disk.open("a", create=True)
    disk.gate.set()
    disk.failing = "broken"
    flusher, answers = started(disk)
    flusher.submit(Flush(file, "a"))
    flusher.submit(Replace("b", b""))
    assert flusher.close(TIMEOUT_S)
    found = []
    while not answers.empty():
        found += answers.get()
    assert [type(answer) for answer in found] == [FlushFailed, FlushFailed]
    assert [answer.subject for answer in found] == ["a", None]


def test_after_a_failure_nothing_is_tried_any_more() -> None:
    """Goal: no clean-shutdown marker behind a failed fsync."""
    disk = SlowDisk()
    file = disk.open("a", create=True)
    disk.gate.set()
    flusher, answers = started(disk)
    disk.failing = "broken"
    flusher.submit(Flush(file, "a"))
    assert isinstance(answers.get(timeout=TIMEOUT_S)[0], FlushFailed)
    disk.failing = None
    flusher.submit(Replace(".kafka_cleanshutdown", b"", "marker"))
    assert flusher.close(TIMEOUT_S)
    assert isinstance(answers.get(timeout=TIMEOUT_S)[0], FlushFailed)
    assert not disk.exists(".kafka_cleanshutdown")
    assert flusher.failure is not None


def test_what_was_deleted_with_its_topic_counts_as_done(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path))
    disk.make_dir("t-0")
    file = disk.open("t-0/log", create=True)
    answers: Queue[list[DiskAnswer]] = Queue()
    flusher = Flusher(disk, answer=answers.put, fail=answers.put)  # type: ignore[arg-type]
    file.close()
    disk.rename("t-0", "t-0.x-delete")
    flusher.submit(Flush(file, "log"))
    flusher.submit(Replace("t-0/leader-epoch-checkpoint", b"0", "epochs"))
    assert flusher.close(TIMEOUT_S)
    found = []
    while not answers.empty():
        found += answers.get()
    assert found == [Flushed("log"), Flushed("epochs")]


def outcome_of(disk: OsDisk, work: Flush | Replace) -> DiskAnswer:
    """What a flusher answers to one effect."""
    answers: Queue[list[DiskAnswer]] = Queue()
    flusher = Flusher(disk, answer=answers.put, fail=answers.put)  # type: ignore[arg-type]
    flusher.submit(work)
    assert flusher.close(TIMEOUT_S)
    (answer,) = answers.get()
    return answer


@pytest.mark.parametrize("made_again", ["before the content is durable", "before the file is made"])
def test_a_topic_may_be_created_again_while_a_file_of_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_again: str
) -> None:
    """Goal: that a directory has the name now does not mean that the disk has failed, and a node
    does not end because of it. Method: the topic goes and comes while the old one's file is being
    written."""
    disk = OsDisk(str(tmp_path))
    disk.make_dir("t-0")
    fsync, system_open = os.fsync, os.open

    def sync(descriptor: int) -> None:
        monkeypatch.undo()
        disk.rename("t-0", "t-0.x-delete")
        disk.make_dir("t-0")
        fsync(descriptor)

    def opens(path: str, flags: int, mode: int = 0o777) -> int:
        monkeypatch.undo()
        disk.rename("t-0", "t-0.x-delete")
        try:
            return system_open(path, flags, mode)
        finally:
            disk.make_dir("t-0")

    if made_again == "before the content is durable":
        monkeypatch.setattr(os, "fsync", sync)
    else:
        monkeypatch.setattr(os, "open", opens)
    assert outcome_of(disk, Replace("t-0/epochs", b"0", "epochs")) == Flushed("epochs")
    assert disk.list_dir("t-0") == []


def test_a_vote_without_its_directory_is_not_durable(tmp_path: Path) -> None:
    """Nothing deletes the metadata log, so its directory was lost: a vote that counted as durable
    could be given twice."""
    disk = OsDisk(str(tmp_path))
    answer = outcome_of(disk, Replace("__cluster_metadata-0/quorum-state", b"{}", "vote"))
    assert isinstance(answer, FlushFailed)


def test_the_failure_of_a_device_counts_whatever_became_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no marker of a clean stop behind a failed fsync. Method: a file is closed, and a
    directory renamed, while the device fails."""
    disk = OsDisk(str(tmp_path))
    disk.make_dir("t-0")
    file = disk.open("t-0/log", create=True)
    file.append([b"x"])

    def fail(_: int) -> None:
        file.close()
        if disk.exists("t-0"):
            disk.rename("t-0", "t-0.x-delete")
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail)
    assert isinstance(outcome_of(disk, Flush(file, "log")), FlushFailed)
    disk.make_dir("t-0")
    monkeypatch.setattr(os, "fsync", fail)
    assert isinstance(outcome_of(disk, Replace("t-0/epochs", b"0", "epochs")), FlushFailed)


def test_a_hanging_disk_does_not_hang_the_stop() -> None:
    disk = SlowDisk()
    flusher, _ = started(disk)
    flusher.submit(Flush(disk.open("a", create=True), "a"))
    flusher.submit(Replace(".kafka_cleanshutdown", b"", "marker"))
    assert not flusher.close(0.01)
    disk.gate.set()
    assert flusher.close(TIMEOUT_S)
    # The process that has the directory by then would look clean when it has died.
    assert disk.done == ["a"] and not disk.exists(".kafka_cleanshutdown")


def test_a_bug_in_the_work_is_reported_as_a_bug() -> None:
    disk = SlowDisk()
    disk.gate.set()
    failures: Queue[BaseException] = Queue()
    flusher = Flusher(disk, answer=lambda answers: None, fail=failures.put)
    file = disk.open("a", create=True)
    disk.done = None  # type: ignore[assignment]
    flusher.submit(Flush(file, "a"))
    assert isinstance(failures.get(timeout=TIMEOUT_S), AttributeError)
