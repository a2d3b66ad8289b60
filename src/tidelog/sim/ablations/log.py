"""Safeguards of a replica's log, and what it is worth without them."""

from typing import Any, Final

from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log import replay
from tidelog.log.batch_file import BatchFile
from tidelog.log.checkpoint import CLEAN_SHUTDOWN_FILE
from tidelog.log.directory import LogDirectory
from tidelog.log.flushed_end import FlushedEnd
from tidelog.log.log import Log
from tidelog.log.producer_state import ProducerStates
from tidelog.records.batch import BatchHeader
from tidelog.replication.replicas import Replicas
from tidelog.replication.roles import Roles
from tidelog.sim.ablations.safeguard import Original, guard


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing."""


def _load_as_clean(begin: Original, self: LogDirectory, _clean: bool, *rest: Any) -> Any:
    """Every stop counts as a clean one."""
    return begin(self, True, *rest)


def _keep_marker(delete: Original, self: MemoryDisk, path: str, **how: Any) -> None:
    """The marker of a clean stop stays where it is."""
    if path != CLEAN_SHUTDOWN_FILE:
        delete(self, path, **how)


def _keep_high_watermark(start_over: Original, self: Log, offset: int, **how: bool) -> None:
    high_watermark = self.high_watermark
    start_over(self, offset, **how)
    self.high_watermark = high_watermark


def _try_again(self: Replicas, subject: Any, error: str, now: Any) -> None:
    """A failed flush counts as done."""
    self.on_flushed(subject, now)


def _refuse_unknown(admit: Original, self: ProducerStates, header: BatchHeader, origin: Any) -> Any:
    if header.base_sequence > 0 and header.producer_id not in self.by_id:
        raise ProtocolError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return admit(self, header, origin)


def _answer_where_it_would_be(append: Original, self: Log, *args: Any, **how: Any) -> Any:
    """A duplicate is answered with the log end instead of the offset of the first time."""
    end = self.log_end_offset
    result = append(self, *args, **how)
    return result._replace(first_offset=end) if result.first_offset < end else result


SAFEGUARDS: Final = (
    # Epochs and recovery ---------------------------------------------------------------------
    guard("r06", "epoch-of-new-leader", "keeping uncommitted records of a later epoch").replaced(
        Log, "assign_epoch", lambda *_: False
    ),
    guard(
        "r15", "marker-removed-first", "trusting a torn log because an earlier stop was clean"
    ).wrapped(MemoryDisk, "delete", _keep_marker),
    guard("r15", "recovery-after-unclean-stop", "trusting a torn log").wrapped(
        LogDirectory, "_begin_start", _load_as_clean
    ),
    # Devices ---------------------------------------------------------------------------------
    guard("r21", "offline-after-an-error", "writing behind a write that failed").replaced(
        Roles, "go_offline", _nothing
    ),
    guard("r22", "bounds-move-together", "a high watermark outside of the log").wrapped(
        Log, "truncate_fully_and_start_at", _keep_high_watermark
    ),
    guard("r38", "checksums-on-read", "serving what a failing medium made of a record").replaced(
        BatchFile, "_check_batch", _nothing
    ),
    guard(
        "s20", "flushed-end-is-noted", "voting for a voter that lacks what this one has promised"
    ).replaced(FlushedEnd, "read", lambda _: 0),
    guard("r39", "failed-flushes-are-final", "acknowledging what a failed flush has lost").replaced(
        Replicas, "on_flush_failed", _try_again
    ),
    # Producers -------------------------------------------------------------------------------
    guard(
        "r25", "producers-are-cut-with-the-log", "taking a batch that was cut for a duplicate"
    ).replaced(ProducerStates, "maybe_rewind_to", lambda *_: True),
    guard("r26", "unknown-producers", "refusing a producer whose records are deleted").wrapped(
        ProducerStates, "admit", _refuse_unknown
    ),
    guard("r27", "idempotence", "a retry appended twice").replaced(
        ProducerStates, "admit", lambda *_: None
    ),
    guard("r27", "dedup-windows", "refusing a retry after a restart").replaced(
        replay, "_complete_windows", _nothing
    ),
    guard(
        "r27", "original-offsets", "answering a retry with another offset than the first time"
    ).wrapped(Log, "append_as_leader", _answer_where_it_would_be),
)
"""Of recovery, epochs, producers and devices."""
