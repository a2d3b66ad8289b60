"""The start of a log directory that is under way: `directory.py` opens some logs a turn."""

from collections import deque
from dataclasses import dataclass

from tidelog.log.pieces import Pieces
from tidelog.log.values import Checkpoints
from tidelog.model import TopicPartition


@dataclass(slots=True)
class Start:
    """What is left of it, and what it goes by."""

    clean: bool
    wall_ms: int
    known: dict[TopicPartition, Checkpoints]
    """What the checkpoints have for the logs that are to be opened; new ones keep that until the
    start has ended."""
    checkpoints_are_sound: bool
    sync_later: bool
    """Whether one sync makes all that recovery keeps durable."""
    waiting: deque[TopicPartition]
    """To be opened, in this order."""
    opening: Pieces[None] | None = None
    """What is left of the log that is being opened."""
    has_first: bool = False
    """Whether recovery has made records durable that no checkpoint covers, or has found a log sound
    that one holds for damaged."""
    has_lower_marks: bool = False
    """Whether a checkpointed high watermark is above the end of its log."""
    is_syncing: bool = False

    @property
    def is_opening(self) -> bool:
        """Whether not all logs are open."""
        return self.opening is not None or bool(self.waiting)
