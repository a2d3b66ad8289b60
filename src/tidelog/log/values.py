"""Requests to a log and its results: small values without behaviour."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from tidelog.env.disk import Disk
from tidelog.env.effects import EffectQueue
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log.tail_cache import TailBudget
from tidelog.model import TopicId, TopicPartition, Uuid
from tidelog.wire.produce import RecordError

UNKNOWN_END: Final = 1 << 62
"""Added to a recovery point in its file where that proves no end: all of the log counts as durable
at the next start too. Kafka takes a point above the log end for the log end."""


class AppendOrigin(Enum):
    """Where the batch comes from that a leader appends; decides which checks apply."""

    CLIENT = "client"
    """Everything is checked: shape, timestamps, sequences, epochs."""
    COORDINATOR = "coordinator"
    """Group and transaction coordinators: producer epochs are checked, sequences are not."""
    RAFT = "raft"
    """The metadata quorum's own batches: only stamped."""


def never_compacted(topic: str) -> bool:
    """The answer where no metadata is at hand (`LogEnv.was_compacted`)."""
    return False


class LogEnv(NamedTuple):
    """What every log of a node shares."""

    disk: Disk
    effects: EffectQueue
    trace: Trace
    tails: TailBudget | None = None
    """What the tail caches may hold together; `None` where there is one log."""
    was_compacted: Callable[[str], bool] = never_compacted
    """Whether the metadata says of a topic that it is or was compacted. To answer may take a read
    of all metadata, so only a start asks that has found a gap."""


class AppendResult(NamedTuple):
    """Where a leader's append went."""

    first_offset: int
    last_offset: int
    """Inclusive."""
    log_append_time_ms: int
    """-1 for CreateTime topics."""
    duplicate: bool
    """The batch was there already: the offsets are those of the earlier append, nothing was
    written. A reply for acks=all waits until the high watermark passes `last_offset`."""
    size_bytes: int
    """Bytes written; 0 for a duplicate."""


class FollowerAppend(NamedTuple):
    """What a follower appended of a fetch response."""

    first_offset: int
    """-1 when nothing was appended."""
    last_offset: int
    """Inclusive; -1 when nothing was appended."""
    size_bytes: int
    skipped_bytes: int
    """Bytes left out because their epoch is above the one the fetch was made in."""


class TimestampedOffset(NamedTuple):
    """The answer to an offset lookup by time."""

    timestamp: int
    offset: int
    leader_epoch: int


class Checkpoints(NamedTuple):
    """The entries of one log in the checkpoint files of its directory."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    complete: bool = True
    """Whether the recovery point proves what was durable; else all of the log counts as that."""
    cleaned_to: int = -1
    """Exclusive: how far a cleaner was here; -1 for never. Else offsets may be missing between
    batches."""

    @property
    def claim(self) -> int:
        """What the recovery point's file has of it."""
        return self.recovery_point + (0 if self.complete else UNKNOWN_END)


class LogFlush(NamedTuple):
    """Subject of the `Flush` effects of one log. Hand every answered one to `Log.on_flushed`; only
    the one that `completes` its group moves the recovery point, and only when no truncation came in
    between."""

    topic_partition: TopicPartition
    topic_id: TopicId
    upto: int
    """Exclusive: offsets below it are durable once this is answered."""
    completes: bool
    truncation_count: int
    is_future: bool = False
    """The log is not the replica's yet: it is being copied (`futures.py`)."""


class HighWatermarksSaved(NamedTuple):
    """Subject of the checkpoint of high watermarks that is written at an interval."""

    directory_id: Uuid


class LogsRecovered(NamedTuple):
    """Subject of the sync that makes durable what recovery kept."""

    directory_id: Uuid


class DirectoryClosed(NamedTuple):
    """Subject of the last effect of a clean stop."""

    directory_id: Uuid


class OfflineDirectory(NamedTuple):
    """A directory that cannot be used."""

    root: str
    directory_id: Uuid
    """Zero when it was never read."""
    error: str


class InvalidRecords(ProtocolError):
    """Records of a client's batch break the rules; lists which ones when that is known."""

    def __init__(
        self,
        message: str,
        record_errors: Sequence[RecordError] = (),
        code: ErrorCode = ErrorCode.INVALID_RECORD,
    ) -> None:
        super().__init__(code, message)
        # For the record_errors field of the Produce response (version 8 and up).
        self.record_errors: tuple[RecordError, ...] = tuple(record_errors)
