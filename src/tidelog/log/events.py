"""The events of the log: what a replica's files lost, regained or were renamed to, and why.

Lines that only people read are not here. None of these events has a kind: replication emits the
events that event files keep. It hosts no metadata log, so that log never appears in them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from tidelog.env.event import Event, Level, PartitionEvent
from tidelog.log.checkpoint import RECOVERY_POINT_FILE, IdentityFault


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated(PartitionEvent):
    """The end of the log was cut."""

    handler: ClassVar = "truncate_to"
    decision: ClassVar = "truncated"
    offset: int
    """The new log end."""
    log_end_offset: int
    """Before the cut."""
    high_watermark: int
    """Before the cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRestarted(PartitionEvent):
    """The log was emptied and begins anew."""

    handler: ClassVar = "truncate_fully_and_start_at"
    decision: ClassVar = "restarted"
    log_end_offset: int
    """Where it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCut(PartitionEvent):
    """Recovery after an unclean stop cut a torn tail."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "recover"
    decision: ClassVar = "cut"
    reason: ClassVar = "bad batch"
    offset: int
    """The new log end."""
    bytes: int
    """What was cut of the segment; later segments are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRebuilt(PartitionEvent):
    """An index file was missing or wrong and was made anew from the batches."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "load_segment"
    decision: ClassVar = "index rebuilt"
    reason: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsRebuilt(PartitionEvent):
    """The epoch checkpoint did not fit the batches and was made anew from them."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "check_epochs"
    decision: ClassVar = "epochs rebuilt"
    reason: ClassVar = "they are not those of the batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdUnknown(PartitionEvent):
    """`partition.metadata` could not be read."""

    about: ClassVar[tuple[str, ...]] = ("partition", "detail")
    level: ClassVar = Level.WARN
    handler: ClassVar = "read_topic_id"
    decision: ClassVar = "topic id unknown"
    reason: IdentityFault
    detail: str
    """The reason with the values that were found."""
    file: str

    def why(self) -> str:
        """The detail."""
        return self.detail


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDeleted(PartitionEvent):
    """A log was taken out of service; its directory waits for deletion under another name."""

    handler: ClassVar = "schedule_delete"
    decision: ClassVar = "renamed"
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSetAside(PartitionEvent):
    """A log was taken out of service; its directory is kept under another name."""

    handler: ClassVar = "set_aside"
    decision: ClassVar = "renamed"
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuarantined(PartitionEvent):
    """A log is out of service because durable records are missing or damaged."""

    level: ClassVar = Level.ERROR
    handler: ClassVar = "quarantine"
    decision: ClassVar = "out of service"
    reason: str
    bad_from: int
    """Base offset of the first bad segment."""
    was_durable_to: int
    """The recovery point that the log had."""


class LastStop(StrEnum):
    """How the last process of a log directory ended."""

    CLEAN = ""
    UNCLEAN = "no clean shutdown marker, logs were recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryLoaded(Event):
    """All logs of a log directory are open or known to be damaged."""

    about: ClassVar[tuple[str, ...]] = ("root",)
    handler: ClassVar = "open"
    decision: ClassVar = "loaded"
    root: str
    reason: LastStop
    logs: int
    damaged: int

    @property
    def subject(self) -> str:
        """The directory."""
        return self.root


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPointsMissing(Event):
    """There are logs, and the recovery point checkpoint is missing or empty."""

    level: ClassVar = Level.WARN
    handler: ClassVar = "read_checkpoints"
    decision: ClassVar = "missing"
    reason: ClassVar = "all counts as durable"
    subject: ClassVar = RECOVERY_POINT_FILE
