"""One replica on its way to another log directory, and how far it is (`moves.py`)."""

from dataclasses import dataclass, field

from tidelog.env.instant import Instant
from tidelog.limits import MOVE_FIRST_BYTES
from tidelog.log.directory import LogDirectory
from tidelog.log.futures import FutureLog
from tidelog.log.log import Log


@dataclass(slots=True, eq=False)
class Move:
    """One replica on its way."""

    target: LogDirectory
    """Where it goes."""
    began_at: Instant
    future: FutureLog | None = None
    """The copy; `None` before it is made, and when it has taken the log's place."""
    source: LogDirectory | None = None
    """The former directory, once the copy has taken the log's place."""
    is_stale: bool = False
    """Whether the log may have been compacted since the copy was made: nothing of that is kept."""
    log: Log | None = None
    """The log with which the copy was compared last."""
    cut_count: int = -1
    """How often that had been cut then."""
    copied_bytes: int = 0
    slice_bytes: int = MOVE_FIRST_BYTES
    """How much the next slice is at most: more of large batches than of small ones."""
    claimed_cut: int = -1
    """The newest cut of the copy above which its directory's checkpoints claim nothing."""
    flushes: set[int] = field(default_factory=set)
    """The flushes under way, by number."""
    flushed: tuple[int, int] | None = None
    """What was `written` to the copy when it was flushed last."""
    given_up: str | None = None
    """Why the replica stays where it is; `None` while it moves."""
    then: LogDirectory | None = None
    """Where it is to go when this move has ended."""

    def must_compare(self, log: Log, future: Log) -> bool:
        """Whether the log may have lost what the copy has, since they were compared last."""
        before, now = (self.log, self.cut_count), (log, log.ledger.truncation_count)
        self.log, self.cut_count = now
        return before != now or future.log_end_offset < log.log_start_offset

    def has_unclaimed_cut(self, future: Log) -> bool:
        """Whether the copy was cut since this was asked last."""
        before, self.claimed_cut = self.claimed_cut, future.ledger.truncation_count
        return future.ledger.was_truncated and self.claimed_cut != before
