"""The flush thread of a disk: it runs beside the loop, because fsync blocks. Each disk has its own.

It takes `Flush` and `Replace` effects in two lanes: the metadata log's files and all others. It
keeps the order of each lane, and answers in that order. All effects that have queued up in a lane
while the disk was busy are one group. A file is synced once per group, however many flushes ask for
it, because every append that these flushes cover happened before the group was taken. That is group
commit without a timer: the slower the disk, the larger the groups. Before each piece of the
partitions' work the metadata's is done and answered: a vote waits for one file, not for those of
every partition that changed its leader.

Invariants: one answer per effect with a subject, in order within a lane; an answer comes only
after its sync; after the first failure in any lane nothing is tried any more and everything fails.
A failed fsync may have dropped the pages, so a second one could succeed without them. And a later
file may certify that the earlier ones are safe, as the clean-shutdown marker does: it is in the
lane that goes last.

A file that is not found because it was deleted meanwhile, with its topic, counts as done: it will
not be read again. Any other failure is one, also of such a file.

The queue has no bound of its own. A log asks for a flush of its newest records again only after
the last answer. But each segment that is sealed asks once, and each checkpoint at its interval. So
a disk that is behind has up to five files waiting for each `segment.bytes` that was written
meanwhile: as in Kafka, nothing holds back the producers of records that are flushed lazily.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

from tidelog.env.disk import Disk, File
from tidelog.env.effects import Flush, Flushed, FlushFailed, Replace, is_of_metadata
from tidelog.errors import StorageError

DiskWork = Flush | Replace
DiskAnswer = Flushed | FlushFailed


class Flusher:
    """The thread and its queue."""

    def __init__(
        self,
        disk: Disk,
        *,
        answer: Callable[[list[DiskAnswer]], None],
        fail: Callable[[BaseException], None],
        number: int = 0,
    ) -> None:
        """`answer` and `fail` are called on the thread; `fail` reports a bug in the work. Of the
        disk the thread calls `sync` and `replace`."""
        self._disk = disk
        # Its number, for answers about failures.
        self._number = number
        self._answer = answer
        self._fail = fail
        # The first failure, once there is one; written by the thread, and by a stop that gives up.
        self.failure: str | None = None
        # Work in order of arrival; `None` ends the thread.
        self._queue: SimpleQueue[DiskWork | None] = SimpleQueue()
        # Arrived and not begun, by lane; the thread's own.
        self._metadata: list[DiskWork] = []
        self._partitions: list[DiskWork] = []
        self._closing = False
        self._thread = Thread(target=self._run, name=f"flush {number}", daemon=True)
        self._thread.start()

    def submit(self, work: DiskWork) -> None:
        """Queues one effect."""
        self._queue.put(work)

    def close(self, timeout_s: float) -> bool:
        """Finishes what was submitted and ends the thread; false when the disk hangs. Then nothing
        more is begun: the next process may have the directory by the time that the disk goes on."""
        self._queue.put(None)
        self._thread.join(timeout_s)
        has_ended = not self._thread.is_alive()
        if not has_ended and self.failure is None:
            self.failure = "the disk hangs"
        return has_ended

    def _run(self) -> None:
        try:
            while not self._closing:
                self._arrive(self._queue.get())
                self._metadata_first()
                while self._partitions:
                    group, self._partitions = self._partitions, []
                    self._carry_out(group, self._metadata_first)
                    self._metadata_first()
        except BaseException as error:
            self._fail(error)

    def _arrive(self, work: DiskWork | None) -> None:
        if work is None:
            self._closing = True
        elif is_of_metadata(work):
            self._metadata.append(work)
        else:
            self._partitions.append(work)

    def _metadata_first(self) -> None:
        """Takes in what has arrived and works off one group of the metadata's lane."""
        with suppress(Empty):
            while True:
                self._arrive(self._queue.get_nowait())
        group, self._metadata = self._metadata, []
        self._carry_out(group, lambda: None)

    def _carry_out(self, group: list[DiskWork], before_each: Callable[[], None]) -> None:
        synced: set[File] = set()
        answers: list[DiskAnswer] = []
        for work in group:
            before_each()
            if self.failure is None:
                try:
                    self._do(work, synced)
                except StorageError as error:
                    self.failure = str(error)
            if self.failure is not None:
                answers.append(FlushFailed(work.subject, self.failure, self._number))
            elif work.subject is not None:
                answers.append(Flushed(work.subject))
        if answers:
            self._answer(answers)

    def _do(self, work: DiskWork, synced: set[File]) -> None:
        try:
            if isinstance(work, Replace):
                self._disk.replace(work.path, work.data)
            elif work.file not in synced:
                self._disk.sync(work.file)
                synced.add(work.file)
        except StorageError as error:
            if not (isinstance(error.__cause__, FileNotFoundError) and _is_of_deleted(work)):
                raise


def _is_of_deleted(work: DiskWork) -> bool:
    """Whether a file that is not found was deleted, with its log perhaps. A topic may have been
    created again meanwhile, so the names that are there now do not say. What the quorum waits for
    is never deleted."""
    if isinstance(work, Flush):
        return work.file.closed
    return "/" in work.path and not is_of_metadata(work)
