"""One replica's log of one partition. (Signatures first; the working log follows.)"""

from tidelog.config import LogConfig
from tidelog.env.disk import Buffer
from tidelog.log.values import (
    AppendOrigin,
    AppendResult,
    FollowerAppend,
    InvalidRecords,
    LogEnv,
    LogFlush,
    LogRead,
    TimestampedOffset,
)
from tidelog.model import EpochEndOffset, TopicId, TopicPartition
from tidelog.wire.fetch import AbortedTransaction

__all__ = [
    "AppendOrigin",
    "AppendResult",
    "FollowerAppend",
    "InvalidRecords",
    "Log",
    "LogEnv",
    "LogFlush",
    "LogRead",
    "TimestampedOffset",
]


class Log:
    """A log; made by `LogDirectory`."""

    topic_partition: TopicPartition
    topic_id: TopicId
    config: LogConfig
    recovery_point: int

    @property
    def log_start_offset(self) -> int:
        """First offset still served."""
        raise NotImplementedError

    @property
    def log_end_offset(self) -> int:
        """Next offset to write."""
        raise NotImplementedError

    @property
    def high_watermark(self) -> int:
        """Exclusive end of the committed prefix as far as this replica knows."""
        raise NotImplementedError

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end for read_committed."""
        raise NotImplementedError

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the cache; -1 for none."""
        raise NotImplementedError

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        wall_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Validates, stamps and appends exactly one batch.

        Raises `ProtocolError` (`InvalidRecords` with record errors) and leaves the log untouched,
        or `StorageError`.
        """
        raise NotImplementedError

    def append_records(
        self,
        batch: bytes,
        leader_epoch: int,
        wall_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
    ) -> AppendResult:
        """Appends a batch of our own making (coordinators, quorum)."""
        raise NotImplementedError

    def append_as_follower(self, records: Buffer, max_epoch: int) -> FollowerAppend:
        """Appends whole batches as the leader sent them."""
        raise NotImplementedError

    def read(
        self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, all below `upper_offset`.

        Raises OFFSET_OUT_OF_RANGE below the log start or above the log end.
        """
        raise NotImplementedError

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> bool:
        """Notes that a leader epoch starts here (become_leader); written through at once."""
        raise NotImplementedError

    def update_high_watermark(self, value: int) -> bool:
        """Sets it, clamped to [log start, log end]; returns whether it changed."""
        raise NotImplementedError

    def maybe_raise_log_start_offset(self, value: int) -> bool:
        """Raises the log start (DeleteRecords, or the leader's on a follower)."""
        raise NotImplementedError

    def truncate_to(self, offset: int) -> bool:
        """Drops everything from `offset` on; returns whether records were dropped."""
        raise NotImplementedError

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Empties the log and makes it begin at `offset`."""
        raise NotImplementedError

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Where the given epoch ends here (facts of KIP-101)."""
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record at or after `timestamp`."""
        raise NotImplementedError

    def max_timestamp(self) -> TimestampedOffset | None:
        """The record with the largest timestamp; `None` in an empty log."""
        raise NotImplementedError

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`; -1 when unknown."""
        raise NotImplementedError

    def aborted_in(self, start: int, upper: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch [start, upper)."""
        raise NotImplementedError

    def request_flush(self) -> int:
        """Emits `Flush` effects for all unsynced files; returns the offset they will cover."""
        raise NotImplementedError

    def on_flushed(self, subject: LogFlush) -> None:
        """Moves the recovery point."""
        raise NotImplementedError

    def check(self) -> None:
        """Asserts every invariant."""
        raise NotImplementedError
