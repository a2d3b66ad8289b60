"""The events of the log: what a replica's files lost, regained or were renamed to, and why.

Lines that only people read are not here. None of these events has a kind: replication emits the
events that event files keep. It hosts no metadata log, so that log never appears in them.
"""

from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Level, PartitionEvent, event
from tidelog.log.checkpoint import RECOVERY_POINT_FILE, IdentityFault


@event("truncate_to", "truncated")
class LogTruncated(PartitionEvent):
    """The end of the log was cut."""

    offset: int
    """The new log end."""
    log_end_offset: int
    """Before the cut."""
    high_watermark: int
    """Before the cut."""


@event("truncate_fully_and_start_at", "restarted")
class LogRestarted(PartitionEvent):
    """The log was emptied and begins anew."""

    log_end_offset: int
    """Where it begins."""


@event("recover", "cut", level=Level.WARN)
class TailCut(PartitionEvent):
    """Recovery after an unclean stop cut a torn tail."""

    reason: ClassVar = "bad batch"
    offset: int
    """The new log end."""
    bytes: int
    """What was cut of the segment; later segments are dropped."""


@event("load_segment", "index rebuilt", level=Level.WARN)
class IndexRebuilt(PartitionEvent):
    """An index file was missing or wrong and was made anew from the batches."""

    reason: str
    file: str


@event("check_epochs", "epochs rebuilt", level=Level.WARN)
class EpochsRebuilt(PartitionEvent):
    """The epoch checkpoint did not fit the batches and was made anew from them."""

    reason: ClassVar = "they are not those of the batches"


@event("read_topic_id", "topic id unknown", level=Level.WARN, about=("partition", "detail"))
class TopicIdUnknown(PartitionEvent):
    """`partition.metadata` could not be read."""

    reason: IdentityFault
    detail: str
    """The reason with the values that were found."""
    file: str

    def why(self) -> str:
        """The detail."""
        return self.detail


@event("schedule_delete", "renamed")
class LogDeleted(PartitionEvent):
    """A log was taken out of service; its directory waits for deletion under another name."""

    directory: str


@event("set_aside", "renamed")
class LogSetAside(PartitionEvent):
    """A log was taken out of service; its directory is kept under another name."""

    directory: str


@event("quarantine", "out of service", level=Level.ERROR)
class LogQuarantined(PartitionEvent):
    """A log is out of service because durable records are missing or damaged."""

    reason: str
    bad_from: int
    """Base offset of the first bad segment."""
    was_durable_to: int
    """The recovery point that the log had."""


@event("open", "deleted", level=Level.WARN)
class FutureLogDropped(PartitionEvent):
    """The copy of a log that moves to this directory is damaged; the move begins anew."""

    reason: str


class LastStop(StrEnum):
    """How the last process of a log directory ended."""

    CLEAN = ""
    UNCLEAN = "no clean shutdown marker, logs were recovered"


@event("open", "loaded", about=("root",))
class DirectoryLoaded(Event):
    """All logs of a log directory are open or known to be damaged."""

    root: str
    reason: LastStop
    logs: int
    damaged: int


@event("read_checkpoints", "missing", level=Level.WARN)
class RecoveryPointsMissing(Event):
    """There are logs, and the recovery point checkpoint is missing or empty."""

    reason: ClassVar = "all counts as durable"
    subject: ClassVar = RECOVERY_POINT_FILE
