"""The flush thread: the one thread beside the loop, because fsync blocks.

It takes `Flush` and `Replace` effects in their order and answers in that order. Whatever has
queued up while the disk was busy is one group: a file is synced once per group, however often it
was asked for, because every append that a group's flush speaks of happened before the group was
taken. That is group commit without a timer: the slower the disk, the larger the groups.

Invariants: one answer per effect with a subject, in order; an answer comes only after its sync;
after the first failure nothing is tried any more and everything fails. A failed fsync may have
dropped the pages, so a second one would lie; and what comes later may say that what came before
is safe, as the clean-shutdown marker does.

What was deleted meanwhile, with its topic, counts as done: nobody will read it.

The queue has no bound of its own: each log and each file asks again only after its answer.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from tidelog.env.disk import File
from tidelog.env.effects import Flush, Flushed, FlushFailed, Replace
from tidelog.errors import StorageError

DiskWork = Flush | Replace
DiskAnswer = Flushed | FlushFailed


class DurableDisk(Protocol):
    """What the thread needs of a disk; both calls block and raise `StorageError`."""

    def sync(self, file: File) -> None:
        """Makes all appends of the file durable."""

    def replace(self, path: str, data: bytes) -> None:
        """Writes a whole file atomically and durably."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""


class Flusher:
    """The thread and its queue."""

    def __init__(
        self,
        disk: DurableDisk,
        *,
        answer: Callable[[list[DiskAnswer]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """`answer` and `fail` are called on the thread; `fail` tells of a bug in the work."""
        self._disk = disk
        self._answer = answer
        self._fail = fail
        # The first failure, once there is one; written by the thread only.
        self.failure: str | None = None
        # Work in order; `None` ends the thread.
        self._queue: SimpleQueue[DiskWork | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="flush", daemon=True)
        self._thread.start()

    def submit(self, work: DiskWork) -> None:
        """Queues one effect."""
        self._queue.put(work)

    def close(self, timeout_s: float) -> bool:
        """Finishes what was submitted and ends the thread; false when the disk hangs."""
        self._queue.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            group = [self._queue.get()]
            while True:
                try:
                    group.append(self._queue.get_nowait())
                except Empty:
                    break
            try:
                answers = self._carry_out([work for work in group if work is not None])
            except BaseException as error:
                self._fail(error)
                return
            if answers:
                self._answer(answers)
            if None in group:
                return

    def _carry_out(self, group: list[DiskWork]) -> list[DiskAnswer]:
        synced: set[File] = set()
        answers: list[DiskAnswer] = []
        for work in group:
            if self.failure is None:
                try:
                    self._do(work, synced)
                except StorageError as error:
                    self.failure = str(error)
            if self.failure is not None:
                answers.append(FlushFailed(work.subject, self.failure))
            elif work.subject is not None:
                answers.append(Flushed(work.subject))
        return answers

    def _do(self, work: DiskWork, synced: set[File]) -> None:
        try:
            if isinstance(work, Replace):
                self._disk.replace(work.path, work.data)
            elif work.file not in synced:
                self._disk.sync(work.file)
                synced.add(work.file)
        except StorageError:
            if not self._is_gone(work):
                raise

    def _is_gone(self, work: DiskWork) -> bool:
        if isinstance(work, Flush):
            return work.file.closed
        directory, _, _ = work.path.rpartition("/")
        return bool(directory) and not self._disk.exists(directory)
