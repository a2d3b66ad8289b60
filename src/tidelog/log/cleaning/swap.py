"""A cleaned segment takes the place of the old ones, so that a crash at any point loses nothing.

| stage | names of the new files | of the old | durable before the next stage |
| --- | --- | --- | --- |
| `WRITTEN` | `.cleaned` | plain | the new content |
| `READY` | `.swap` | plain | the new names: from here on a start finishes the swap |
| `CLEARED` | `.swap` | `.deleted` | the old ones' new names |
| `PLACED` | plain | `.deleted` | the plain names |

Renames are not durable by themselves, and a crash may keep any of them and undo the others. If the
old files lost their names while the new ones still had `.cleaned`, a start would delete both. If
a new one had its plain name while an old one behind it still had its own, both would be
the log. And a `.swap` that outlived its stage would be taken for a part of the next round, whose
`.cleaned` shows it to be incomplete. So each stage waits for the one before: *SwapInSteps*.

Readers have the old segments up to `PLACED`, by their open files.

Source: Kafka's `LocalLog.replaceSegments`, with a sync of the directory more.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tidelog.env.disk import File
from tidelog.env.effects import Flush
from tidelog.log.replacement import CLEANED_SUFFIX, SWAP_SUFFIX
from tidelog.log.segment import Segment
from tidelog.log.state import LogState
from tidelog.model import TopicId, TopicPartition


class Stage(IntEnum):
    """How far a swap is: what the files are called now."""

    WRITTEN = 0
    READY = 1
    CLEARED = 2
    PLACED = 3
    DONE = 4


class CleanedFlush(NamedTuple):
    """Subject of the `Flush` effects of one stage of a swap."""

    topic_partition: TopicPartition
    topic_id: TopicId
    number: int
    """Of the round."""
    base_offset: int
    stage: Stage
    completes: bool
    """Whether it is the last file of the stage."""


class Swap:
    """Puts one new segment in the place of its group."""

    def __init__(
        self,
        state: LogState,
        number: int,
        group: list[Segment],
        written: Segment,
        put_aside: Callable[[int], None],
    ) -> None:
        self._state = state
        # Of the round.
        self._number = number
        # The old segments, in the log until the new one is in place.
        self._group = group
        self._written = written
        self._put_aside = put_aside
        self._stage = Stage.WRITTEN
        # What the flush under way needs open.
        self._open: list[File] = []

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to wait for."""
        return self._stage is Stage.DONE

    def begin(self) -> None:
        """Asks for the new files to be durable. Raises `StorageError`."""
        self._open = self._written.write_indexes()
        self._flush(*self._open, *self._written.unsynced_files())

    def on_flushed(self, subject: CleanedFlush) -> None:
        """Goes on to the next stage when this one is durable. Raises `StorageError`."""
        if subject.completes and subject == self._subject_of(is_last=True):
            self._go_on()
            if self._stage is not Stage.DONE:
                self._flush(*self._open)

    def undo_or_finish(self) -> None:
        """The log is about to be cut: takes the new files away, or where the old ones have lost
        their names already finishes at once. Blocks for up to two syncs. Raises `StorageError`."""
        if self._stage <= Stage.READY:
            self.close()
            self._written.delete()
            self._stage = Stage.DONE
        while self._stage is not Stage.DONE:
            for file in self._open:
                self._state.env.disk.sync(file)
            self._go_on()

    def close(self) -> None:
        """Releases the files."""
        self._close_open()
        self._written.close()

    def _close_open(self) -> None:
        for file in self._open:
            file.close()
        self._open = []

    def _flush(self, *files: File) -> None:
        for file in files:
            subject = self._subject_of(is_last=file is files[-1])
            self._state.env.effects.emit(Flush(file, subject))

    def _subject_of(self, *, is_last: bool) -> CleanedFlush:
        partition, topic_id = self._state.topic_partition, self._state.topic_id
        base_offset = self._written.base_offset
        return CleanedFlush(partition, topic_id, self._number, base_offset, self._stage, is_last)

    def _go_on(self) -> None:
        """What this stage waited for is durable."""
        self._close_open()
        match self._stage:
            case Stage.WRITTEN:
                self._written.close()
                self._written.rename(CLEANED_SUFFIX, SWAP_SUFFIX)
                self._stage = Stage.READY
            case Stage.READY:
                for segment in self._group:
                    segment.set_aside()
                    self._put_aside(segment.base_offset)
                self._stage = Stage.CLEARED
            case Stage.CLEARED:
                self._place()
                self._stage = Stage.PLACED
            case _:
                self._stage = Stage.DONE
                return
        self._open = [self._written.reopened()]

    def _place(self) -> None:
        state = self._state
        self._written.rename(SWAP_SUFFIX, "")
        placed = self._written.in_place(state.config)
        state.segments.replace(self._group, placed)
        # What readers find in memory may belong to transactions that the index has forgotten.
        state.tail.clear()
        for segment in self._group:
            segment.close()
            if segment.base_offset != placed.base_offset:
                state.snapshots.set_aside(segment.base_offset)
