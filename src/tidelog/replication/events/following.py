"""Events of followers: what they cut, and when they do not fetch."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Kind, Level, PartitionEvent, Payload
from tidelog.errors import ErrorCode
from tidelog.model import EpochEndOffset
from tidelog.replication.events.shape import NoAnswer, Shown, present, reason_name


class TruncationReason(StrEnum):
    """Why a follower cuts its log."""

    NO_EPOCH = "no leader epoch known"
    DIVERGED = "diverging epoch"
    LEADER_ENDS_HERE = "the leader's log ends here"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated(PartitionEvent):
    """A follower has cut records that its leader does not have."""

    handler: ClassVar = "truncate"
    decision: ClassVar = "truncated"
    kind: ClassVar = Kind.TRUNCATE

    reason: TruncationReason
    log_end_before: int
    log_end: int
    epoch_before: int
    epoch: int
    """The newest leader epoch in the log."""
    high_watermark: int
    """Before."""
    diverging: EpochEndOffset | None = None
    """What the leader answered."""

    def shown(self) -> Shown:
        """Before and after as one."""
        pairs = (
            ("log_end", f"{self.log_end_before}->{self.log_end}"),
            ("epoch", f"{self.epoch_before}->{self.epoch}"),
            ("high_watermark", self.high_watermark),
            ("diverging", _plain(self.diverging)),
        )
        return present(pairs)

    def payload(self) -> Payload:
        """From where to where."""
        return {
            "from": self.log_end_before,
            "to": self.log_end,
            "high_watermark": self.high_watermark,
            "reason": self.why(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncatedBelowHighWatermark(LogTruncated):
    """A follower has cut records that it took for committed."""

    level: ClassVar = Level.WARN
    decision: ClassVar = "truncated below the high watermark"


def _plain(diverging: EpochEndOffset | None) -> tuple[int, ...] | None:
    return None if diverging is None else tuple(diverging)


class RestartReason(StrEnum):
    """Why a follower empties its log."""

    DIVERGED_BELOW_START = "diverging below the leader's log start"
    BATCH_BEGINS_BELOW = "the leader's first batch begins below"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRestarted(PartitionEvent):
    """A follower empties its log, of which the leader has deleted what could be compared."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "restart"
    decision: ClassVar = "restarted"

    reason: RestartReason
    leader_start: int
    """Where the log begins anew."""
    log_start: int
    log_end: int
    high_watermark: int
    diverging: EpochEndOffset | None = None
    """What the leader answered."""

    def shown(self) -> Shown:
        """Without a divergence that there was not."""
        *rest, (name, _) = Event.shown(self)
        return present((*rest, (name, _plain(self.diverging))))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLeftBehind(PartitionEvent):
    """A follower empties its log, because the leader's begins above it."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "on_list_offsets_response"
    decision: ClassVar = "restarted"
    reason: ClassVar = "the leader's log starts above this one's end"

    log_end: int
    leader_start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesSkipped(PartitionEvent):
    """A follower did not take batches of a later leader epoch than it knows."""

    handler: ClassVar = "append_fetched"
    decision: ClassVar = "skipped"
    reason: ClassVar = "batches above the epoch of the fetch"

    fetch_epoch: int
    bytes: int
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchesPaused(Event):
    """A leader gave no usable answer: nothing is fetched from it for a while."""

    about: ClassVar = ("leader_id",)
    handler: ClassVar = "on_fetch_response"
    decision: ClassVar = "pausing"

    leader_id: int
    reason: NoAnswer | ErrorCode
    ms: int

    @property
    def subject(self) -> str:
        """`fetcher 2`, by the leader."""
        return f"fetcher {self.leader_id}"

    def why(self) -> str:
        """The name of a code."""
        return reason_name(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchesPausedAgain(FetchesPaused):
    """The same once more in a row."""

    level: ClassVar = Level.DEBUG


class DelayReason(StrEnum):
    """Why a partition is not fetched for a while, where it is not an error code."""

    BAD_RECORDS = "the records were refused"
    NOTHING_TAKEN = "no batch could be taken"
    NO_PROGRESS = "no progress"
    NO_ANSWER = "no answer"
    IN_RANGE = "offset is in range by now"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchDelayed(PartitionEvent):
    """A partition is not fetched for a while."""

    about: ClassVar = ("partition", "handler", "detail")
    decision: ClassVar = "delayed"

    handler: str
    """Which answer it was."""
    reason: DelayReason | ErrorCode
    detail: str = ""
    """More than the reason, in words."""
    ms: int
    leader: int
    leader_epoch: int
    fetch_offset: int

    def why(self) -> str:
        """The name of a code, or the most that is known."""
        return self.detail or reason_name(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchDelayedAgain(FetchDelayed):
    """The same once more in a row."""

    level: ClassVar = Level.DEBUG
