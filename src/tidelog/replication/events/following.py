"""Events of followers: what they cut, and when they do not fetch."""

from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Kind, Level, PartitionEvent, Payload, event
from tidelog.errors import ErrorCode
from tidelog.model import EpochEndOffset
from tidelog.replication.events.shape import NoAnswer, Shown, present


class TruncationReason(StrEnum):
    """Why a follower cuts its log."""

    NO_EPOCH = "no leader epoch known"
    DIVERGED = "diverging epoch"
    LEADER_ENDS_HERE = "the leader's log ends here"


@event("truncate", "truncated", Kind.TRUNCATE)
class LogTruncated(PartitionEvent):
    """A follower has cut records that its leader does not have."""

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


@event(decision="truncated below the high watermark", level=Level.WARN)
class LogTruncatedBelowHighWatermark(LogTruncated):
    """A follower has cut records that it took for committed."""


def _plain(diverging: EpochEndOffset | None) -> tuple[int, ...] | None:
    return None if diverging is None else tuple(diverging)


class RestartReason(StrEnum):
    """Why a follower empties its log."""

    DIVERGED_BELOW_START = "diverging below the leader's log start"
    NOTHING_LEFT = "nothing above its log start is kept"
    BATCH_BEGINS_BELOW = "the leader's first batch begins below"
    LEFT_BEHIND = "the leader's log starts above this one's end"


@event("restart", "restarted", level=Level.WARN)
class LogRestarted(PartitionEvent):
    """A follower empties its log, of which the leader has deleted what could be compared."""

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


@event("append_fetched", "skipped")
class BatchesSkipped(PartitionEvent):
    """A follower did not take batches of a later leader epoch than it knows."""

    reason: ClassVar = "batches above the epoch of the fetch"

    fetch_epoch: int
    bytes: int
    log_end: int


@event("on_fetch_response", "pausing", about=("leader_id",), noun="fetcher")
class FetchesPaused(Event):
    """A leader gave no usable answer: nothing is fetched from it for a while."""

    leader_id: int
    reason: NoAnswer | ErrorCode
    ms: int


@event(level=Level.DEBUG)
class FetchesPausedAgain(FetchesPaused):
    """The same once more in a row."""


class DelayReason(StrEnum):
    """Why a partition is not fetched for a while, where it is not an error code."""

    BAD_RECORDS = "the records were refused"
    NOTHING_TAKEN = "no batch could be taken"
    NO_PROGRESS = "no progress"
    NO_ANSWER = "no answer"
    IN_RANGE = "offset is in range by now"


@event(decision="delayed", about=("partition", "handler", "detail"))
class FetchDelayed(PartitionEvent):
    """A partition is not fetched for a while."""

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
        return self.detail or Event.why(self)


@event(level=Level.DEBUG)
class FetchDelayedAgain(FetchDelayed):
    """The same once more in a row."""
