"""The files of one log that are not durable yet, and its flushes under way.

A flush covers a group of files: the log file of every segment that was appended to, and whatever
sealing wrote beside it (indexes, producer snapshots). Each file is one `Flush` effect; effects
keep their order, so the answer to the last one proves the whole group.

An answer proves nothing when the log was truncated after the request: the same offsets may have
been written again since. Groups are answered in the order in which they were requested, which
is how the files that only a flush keeps open are closed.

Invariants
- Every file that was handed in is part of exactly one group and is closed after its answer.
- `answered` never returns an offset that was rewritten after the request.
"""

from collections import deque
from collections.abc import Iterable
from itertools import chain

from tidelog.env.disk import File
from tidelog.env.effects import EffectQueue, Flush
from tidelog.log.segment import Segment
from tidelog.log.values import LogFlush
from tidelog.model import TopicId, TopicPartition


class FlushLedger:
    """The unsynced files of one log and its flushes under way."""

    __slots__ = (
        "_effects",
        "_first_count",
        "_topic_partition",
        "_under_way",
        "_written",
        "cut_is_pending",
        "is_future",
        "truncation_count",
    )

    def __init__(self, topic_partition: TopicPartition, effects: EffectQueue) -> None:
        self._topic_partition = topic_partition
        self._effects = effects
        # Files beside the segments that the next group has to cover.
        self._written: list[File] = []
        # Per group under way, in order: the files to close when it is answered.
        self._under_way: deque[list[File]] = deque()
        # How often the log was cut, and others whose place it took; part of each subject.
        self.truncation_count = 0
        # Whether a file was cut, and that may not be durable: then a power cut may undo it.
        self.cut_is_pending = False
        # Subjects with a smaller count are of an earlier object of the same log.
        self._first_count = 0
        # Whether the log is a copy that is not the replica's log yet; part of each subject.
        self.is_future = False

    @property
    def was_truncated(self) -> bool:
        """Whether this log was, since it was opened, and not only one whose place it took."""
        return self.truncation_count > self._first_count

    @property
    def is_under_way(self) -> bool:
        """Whether a flush is not answered yet."""
        return bool(self._under_way)

    def add(self, *files: File) -> None:
        """Hands in files that are complete; they are closed once they are durable."""
        self._written += files

    def is_due(self, segments: Iterable[Segment]) -> bool:
        """Whether a request would cover anything."""
        return bool(self._written) or any(segment.dirty for segment in segments)

    def request(self, segments: Iterable[Segment], upto: int, topic_id: TopicId) -> None:
        """Emits a group for everything not yet covered; none when there is nothing."""
        files = list(self._written)
        for segment in segments:
            if segment.dirty:
                files += segment.unsynced_files()
                segment.dirty = False
        if not files:
            return
        last, partition, cuts = files[-1], self._topic_partition, self.truncation_count
        for file in files:
            subject = LogFlush(partition, topic_id, upto, file is last, cuts, self.is_future)
            self._effects.emit(Flush(file, subject))
        self._under_way.append(self._written)
        self._written = []

    def answered(self, subject: LogFlush) -> int | None:
        """The offset below which all is durable, when this answer proves one."""
        if not subject.completes or subject.truncation_count < self._first_count:
            return None
        if self._under_way:
            for file in self._under_way.popleft():
                file.close()
        if subject.truncation_count != self.truncation_count:
            return None
        self.cut_is_pending = False
        return subject.upto

    def begin_after(self, truncation_count: int) -> None:
        """The log was opened anew: answers to an earlier object's requests do not count."""
        self.truncation_count = self._first_count = truncation_count + 1

    def on_truncation(self) -> None:
        """Voids every flush under way."""
        self.truncation_count += 1

    def close_written(self) -> None:
        """Closes what no request covers; the caller makes it durable by other means."""
        for file in self._written:
            file.close()
        self._written.clear()

    def close(self) -> None:
        """Closes what was handed in."""
        for file in chain(*self._under_way):
            file.close()
        self._under_way.clear()
        self.close_written()
