"""What a follower does with what its leader sent: truncate, append, take over the bounds.

**Divergence.** A follower names in each fetch the leader epoch that its last record belongs to.
When the leader's log has that epoch end earlier, or does not have it at all, it answers with the
largest epoch at or below it that it knows and where that epoch ends, and the follower cuts its own
log there. Repeated until both agree, this finds the longest common prefix without ever comparing
records (`LogMatching`). Records and high watermark of such an answer mean nothing and are not
looked at.

Cutting below the follower's own high watermark is allowed: its high watermark may come from a
deposed leader. What is *committed* is never cut, because a leader elected from the ISR has it.

Where a leader's log start was raised, what was below is not known any more: two logs that differ
there may seem to agree. A follower that must cut at or below it keeps nothing. Nor does one that
must cut at or below its own log start, which may lie within a batch.

**Append.** Batches are taken as they are, with their offsets and epochs. Batches of an epoch above
the one that the fetch was made in are left out (KAFKA-18723): they come from a leadership that
this follower does not know yet, and it could not prove to the next leader that it holds them.

**Bounds.** The follower's high watermark is the leader's, clamped to its own log, one fetch late;
it may go back. Its log start only rises.

Source: KIP-101, KIP-279, KIP-595 (divergence in Fetch), KAFKA-18723.
"""

from enum import Enum
from typing import NamedTuple

from tidelog.env.trace import Trace
from tidelog.log.log import Log
from tidelog.log.reading import as_buffer
from tidelog.model import NO_EPOCH, NO_OFFSET, EpochEndOffset
from tidelog.records.batch import read_header
from tidelog.replication.events import following
from tidelog.replication.events.following import RestartReason, TruncationReason
from tidelog.wire.fetch import FetchedPartition


class Progress(Enum):
    """What one answer did to a follower's log."""

    NOTHING = "nothing"
    BOUNDS = "bounds"
    """High watermark or log start moved."""
    APPENDED = "appended"


class Cut(NamedTuple):
    """Where a log is to be cut and why."""

    target: int
    reason: TruncationReason | RestartReason
    """With a `RestartReason` nothing is kept: the log begins anew at the target."""
    diverging: EpochEndOffset | None = None
    """What the leader answered."""

    @property
    def keeps(self) -> bool:
        """Whether the log keeps what is below the target."""
        return not isinstance(self.reason, RestartReason)

    @property
    def lowest_end(self) -> int:
        """Where the log may end while it is being cut."""
        return self.target if self.keeps else 0


def decide_truncation(
    diverging: EpochEndOffset, own: EpochEndOffset, *, high_watermark: int, log_end_offset: int
) -> int:
    """Where to cut. `own` is where the diverging epoch, or the largest one below it, ends in the
    follower's log."""
    if diverging.end_offset == NO_OFFSET:
        return high_watermark
    if diverging.leader_epoch == NO_EPOCH or own.end_offset == NO_OFFSET:
        return min(diverging.end_offset, log_end_offset)
    if own.leader_epoch != diverging.leader_epoch:
        # The leader's epoch is unknown here: cut to the end of the largest one below it, and let
        # the next fetch ask again.
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, diverging.end_offset, log_end_offset)


def where_to_agree(log: Log, diverging: EpochEndOffset) -> int:
    """Where the leader's answer demands to cut the log. Nothing changes by that when the answer
    contradicts itself."""
    return decide_truncation(
        diverging,
        log.end_offset_for_epoch(diverging.leader_epoch),
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
    )


def truncate(log: Log, cut: Cut, trace: Trace) -> bool:
    """Cuts the log; returns whether its end or its newest epoch changed."""
    if isinstance(cut.reason, RestartReason):
        return _restart(log, cut.target, cut.reason, cut.diverging, trace)
    log_end, epoch, high_watermark = log.log_end_offset, log.latest_epoch, log.high_watermark
    log.truncate_to(cut.target)
    if (log.log_end_offset, log.latest_epoch) == (log_end, epoch):
        return False
    below = cut.target < high_watermark
    event = following.LogTruncatedBelowHighWatermark if below else following.LogTruncated
    trace.event(
        event(
            partition=log.topic_partition,
            reason=cut.reason,
            log_end_before=log_end,
            log_end=log.log_end_offset,
            epoch_before=epoch,
            epoch=log.latest_epoch,
            high_watermark=high_watermark,
            diverging=cut.diverging,
        )
    )
    return True


def _restart(
    log: Log, start: int, reason: RestartReason, diverging: EpochEndOffset | None, trace: Trace
) -> bool:
    """Empties the log, which goes on at its leader's log start."""
    bounds = (log.log_start_offset, log.log_end_offset)
    is_begun = bounds == (start, start) and log.segments.first_base_offset == start
    if is_begun and log.latest_epoch == NO_EPOCH:
        return False
    trace.event(
        following.LogRestarted(
            partition=log.topic_partition,
            reason=reason,
            leader_start=start,
            log_start=bounds[0],
            log_end=bounds[1],
            high_watermark=log.high_watermark,
            diverging=diverging,
        )
    )
    log.truncate_fully_and_start_at(start)
    return True


def cut_before(log: Log, fetched: FetchedPartition, sent_epoch: int) -> Cut | None:
    """Where the log is to be cut before it takes this answer over, if it ends at the leader's log
    start and may be of another history below, where epochs are not compared. It is: 1. Records were
    deleted up to the middle of a batch, and this log ends there with other batches. It may be: 2.
    Its last epoch is not the leader's there. Records of it are hidden by a log start that is not
    durable yet, and would be served after a kill."""
    end, epoch = log.log_end_offset, sent_epoch
    if not log.segments.first_base_offset < end == fetched.log_start_offset:
        return None
    if fetched.records_bytes:
        header = read_header(as_buffer(fetched.records))
        if header.base_offset < end:
            return Cut(end, RestartReason.BATCH_BEGINS_BELOW)
        epoch = header.leader_epoch
    is_known = log.log_start_offset == end or log.latest_epoch == epoch
    return None if is_known else Cut(end, RestartReason.DIVERGED_BELOW_START)


def append_fetched(log: Log, fetched: FetchedPartition, sent_epoch: int, trace: Trace) -> Progress:
    """Appends the records and takes over high watermark and log start.

    Raises what the log raises: `ProtocolError` for damaged records, `StorageError`.
    """
    progress = Progress.NOTHING
    if fetched.records_bytes:
        appended = log.append_as_follower(as_buffer(fetched.records), sent_epoch)
        if appended.size_bytes:
            progress = Progress.APPENDED
        if appended.skipped_bytes:
            trace.event(
                following.BatchesSkipped(
                    partition=log.topic_partition,
                    fetch_epoch=sent_epoch,
                    bytes=appended.skipped_bytes,
                    log_end=log.log_end_offset,
                )
            )
    moved = log.update_high_watermark(min(fetched.high_watermark, log.log_end_offset))
    if log.log_start_offset < fetched.log_start_offset <= log.high_watermark:
        moved |= log.maybe_raise_log_start_offset(fetched.log_start_offset)
    return Progress.BOUNDS if moved and progress is Progress.NOTHING else progress
