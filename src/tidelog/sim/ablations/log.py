"""Safeguards of a replica's log, and what it is worth without them."""

from collections.abc import Callable
from typing import Any, Final

from tidelog.env.memory_disk import MemoryDisk
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log import replay
from tidelog.log.batch_file import BatchFile
from tidelog.log.checkpoint import CLEAN_SHUTDOWN_FILE
from tidelog.log.directory import LogDirectory
from tidelog.log.log import Log
from tidelog.log.producer_state import ProducerStates
from tidelog.records.batch import BatchHeader
from tidelog.replication.replicas import Replicas
from tidelog.replication.roles import Roles
from tidelog.sim.ablations.safeguard import of_regression


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing."""


def _load_as_clean(load: Callable[..., None]) -> Callable[..., None]:
    """Every stop counts as a clean one."""
    return lambda self, _clean, *rest: load(self, True, *rest)


def _keep_marker(delete: Callable[..., None]) -> Callable[..., None]:
    """The marker of a clean stop stays where it is."""

    def delete_others(self: MemoryDisk, path: str) -> None:
        if path != CLEAN_SHUTDOWN_FILE:
            delete(self, path)

    return delete_others


def _keep_high_watermark(start_over: Callable[..., None]) -> Callable[..., None]:
    def start_over_alone(self: Log, offset: int) -> None:
        high_watermark = self.high_watermark
        start_over(self, offset)
        self.high_watermark = high_watermark

    return start_over_alone


def _try_again(self: Replicas, subject: Any, error: str, now: Any) -> None:
    """A failed flush counts as done."""
    self.on_flushed(subject, now)


def _refuse_unknown(admit: Callable[..., Any]) -> Callable[..., Any]:
    def admit_known(self: ProducerStates, header: BatchHeader, origin: Any) -> Any:
        if header.base_sequence > 0 and header.producer_id not in self.by_id:
            raise ProtocolError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return admit(self, header, origin)

    return admit_known


def _answer_where_it_would_be(append: Callable[..., Any]) -> Callable[..., Any]:
    """A duplicate is answered with the log end instead of the offset of the first time."""

    def append_or_repeat(self: Log, *args: Any) -> Any:
        end = self.log_end_offset
        result = append(self, *args)
        return result._replace(first_offset=end) if result.first_offset < end else result

    return append_or_repeat


SAFEGUARDS: Final = (
    # Epochs and recovery ---------------------------------------------------------------------
    of_regression(
        "r06",
        "epoch-of-new-leader",
        "keeping uncommitted records of a later epoch",
        (Log, "assign_epoch", lambda *_: False),
    ),
    of_regression(
        "r15",
        "marker-removed-first",
        "trusting a torn log because an earlier stop was clean",
        (MemoryDisk, "delete", _keep_marker(MemoryDisk.delete)),
    ),
    of_regression(
        "r15",
        "recovery-after-unclean-stop",
        "trusting a torn log",
        (LogDirectory, "_load_logs", _load_as_clean(LogDirectory._load_logs)),
    ),
    # Devices ---------------------------------------------------------------------------------
    of_regression(
        "r21",
        "offline-after-an-error",
        "writing behind a write that failed",
        (Roles, "go_offline", _nothing),
    ),
    of_regression(
        "r22",
        "bounds-move-together",
        "a high watermark outside of the log",
        (Log, "truncate_fully_and_start_at", _keep_high_watermark(Log.truncate_fully_and_start_at)),
    ),
    of_regression(
        "r38",
        "checksums-on-read",
        "serving what a failing medium made of a record",
        (BatchFile, "_check_batch", _nothing),
    ),
    of_regression(
        "r39",
        "failed-flushes-are-final",
        "acknowledging what a failed flush has lost",
        (Replicas, "on_flush_failed", _try_again),
    ),
    # Producers -------------------------------------------------------------------------------
    of_regression(
        "r25",
        "producers-are-cut-with-the-log",
        "taking a batch that was cut for a duplicate",
        (ProducerStates, "maybe_rewind_to", lambda *_: True),
    ),
    of_regression(
        "r26",
        "unknown-producers",
        "refusing a producer whose records are deleted",
        (ProducerStates, "admit", _refuse_unknown(ProducerStates.admit)),
    ),
    of_regression(
        "r27", "idempotence", "a retry appended twice", (ProducerStates, "admit", lambda *_: None)
    ),
    of_regression(
        "r27",
        "dedup-windows",
        "refusing a retry after a restart",
        (replay, "_complete_windows", _nothing),
    ),
    of_regression(
        "r27",
        "original-offsets",
        "answering a retry with another offset than the first time",
        (Log, "append_as_leader", _answer_where_it_would_be(Log.append_as_leader)),
    ),
)
"""Of recovery, epochs, producers and devices."""
