"""What a follower does with one partition's part of a Fetch answer.

An answer counts only if it still fits the question: same leader epoch, and the log still ends where
the fetch began (`ResponseMatchesRequest`). Then, in this order: an error delays the partition, or
leads to the bounds of the leader's log; a divergence cuts the log; otherwise records, high
watermark and log start are taken over (`follower`).

**Cutting.** A log that ends below its checkpointed recovery point is taken for damaged after a
crash. So durable records are cut only when a checkpoint that does not claim them is durable itself
(`ClaimBeforeCut`); the partition is not fetched meanwhile. So are records below the high watermark:
those that take their place are not committed, and a kill must not leave a mark above them. Of many
segments a turn cuts a few, from the end (`MAX_SEGMENTS_CUT_PER_TURN`), and a checkpoint is written
before the next ones go. What is left after each turn is the beginning of the log.

**Errors.** A leader that does not know of its leadership yet answers UNKNOWN_LEADER_EPOCH or
NOT_LEADER_OR_FOLLOWER for a moment after every election; so pauses begin short and double up to
`replica.fetch.backoff.ms`.

Source: KIP-595; Kafka's fetcher thread for the reactions to errors.
"""

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, LogDamaged, ProtocolError, StorageError
from tidelog.limits import (
    CUT_WORK,
    FILE_DELETION_WORK,
    FIRST_RECORDS_WORK,
    MAX_SEGMENTS_CUT_PER_TURN,
)
from tidelog.log.file_names import SEGMENT_SUFFIXES
from tidelog.log.log import Log
from tidelog.replication.events import following as events
from tidelog.replication.events.following import DelayReason, RestartReason, TruncationReason
from tidelog.replication.fetch_state import FetchState, FollowedPartitions, Phase, pause_ms
from tidelog.replication.follower import (
    Cut,
    Progress,
    append_fetched,
    cut_before,
    truncate,
    where_to_agree,
)
from tidelog.wire.fetch import FetchedPartition


class FetchAnswers:
    """Applies one leader's answers to the partitions that follow it."""

    __slots__ = ("_env", "_followed")

    def __init__(self, followed: FollowedPartitions) -> None:
        self._env = followed.env
        self._followed = followed

    def on_partition(self, state: FetchState, fetched: FetchedPartition, now: Instant) -> None:
        """Applies the answer of one partition that is in one of the phases `ANSWERED`."""
        partition = state.partition
        if state.sent_offset != partition.log.log_end_offset:
            self._env.trace.debug(
                partition, "on_fetch_response", "ignored", "the log has moved since",
                sent=state.sent_offset, log_end=partition.log.log_end_offset,
            )  # fmt: skip
            return
        if fetched.error_code is not ErrorCode.NONE:
            self._on_error(state, fetched.error_code, now)
            return
        try:
            if fetched.diverging_epoch is not None:
                self._on_divergence(state, fetched, now)
            else:
                self._on_records(state, fetched, now)
        except (StorageError, LogDamaged) as error:
            self.fail(state, error)
        except ProtocolError as error:
            self.delay(state, DelayReason.BAD_RECORDS, now, detail=error.message)

    def _on_error(self, state: FetchState, code: ErrorCode, now: Instant) -> None:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._followed.enter(state, Phase.NEEDS_LOG_END)
        elif code is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader is in a later epoch; fetching begins anew when the metadata has it too.
            self._followed.enter(state, Phase.FAILED)
        else:
            self.delay(state, code, now)

    def _on_records(self, state: FetchState, fetched: FetchedPartition, now: Instant) -> None:
        log = state.partition.log
        self._followed.count_bytes(state, fetched.records_bytes, now)
        before = cut_before(log, fetched, state.leader_epoch)
        if before is not None:
            # The records come again with the next fetch.
            self.cut(state, before)
            state.errors = 0
            return
        if fetched.records_bytes and not log.segments.active.size_bytes:
            self._env.work.spend(FIRST_RECORDS_WORK)
        progress = append_fetched(log, fetched, state.leader_epoch, self._env.trace)
        self._followed.note_lag(state, log.log_end_offset < fetched.high_watermark)
        if fetched.records_bytes and progress is not Progress.APPENDED:
            # All of it is of a later epoch, or cut short. The leader would send the same at once.
            self.delay(state, DelayReason.NOTHING_TAKEN, now)
            return
        state.errors = 0
        if progress is not Progress.NOTHING:
            self._env.changed.mark(state.partition)
            if state.phase is Phase.FETCHING:
                self._followed.stale[state] = None
                if state.lags and fetched.records_bytes:
                    lacks = fetched.high_watermark - log.log_end_offset
                    self._followed.note_fed(state, fetched.records_bytes, lacks)

    # Cutting --------------------------------------------------------------------------------

    def _on_divergence(self, state: FetchState, fetched: FetchedPartition, now: Instant) -> None:
        diverging = fetched.diverging_epoch
        assert diverging is not None, "asked to cut without a diverging epoch"
        leader_start = fetched.log_start_offset
        target = where_to_agree(state.partition.log, diverging)
        cut = Cut(target, TruncationReason.DIVERGED, diverging)
        if target <= leader_start and leader_start > 0:
            # Where the logs part is not known any more, only that nothing above is common.
            cut = Cut(leader_start, RestartReason.DIVERGED_BELOW_START, diverging)
        if self.cut(state, cut):
            state.errors = 0
        else:
            detail = f"no progress with {diverging}"
            self.delay(state, DelayReason.NO_PROGRESS, now, detail=detail)

    def cut(self, state: FetchState, cut: Cut) -> bool:
        """Cuts a log; durable records, and committed ones, only once no checkpoint claims that they
        are. Returns whether anything changes. Raises `StorageError` and `LogDamaged`."""
        log = state.partition.log
        if cut.keeps and 0 < cut.target <= log.log_start_offset:
            # It may lie within a batch: its epochs begin at the log start.
            cut = cut._replace(reason=RestartReason.NOTHING_LEFT)
        if cut.keeps:
            cut = cut._replace(target=log.end_below(cut.target))
        is_claimed = cut.lowest_end < log.recovery_point or cut.target < log.high_watermark
        if is_claimed or _next_end(log, cut) is not None:
            self._followed.enter(state, Phase.CUTTING)
            state.cut = cut
            log.announced_end = cut.lowest_end
            self._followed.cutting.append(state)
            return True
        start = log.log_start_offset
        if not truncate(log, cut, self._env.trace):
            return False
        self._save_lower_start(log, start)
        self.fetch_on(state)
        return True

    def on_announced(self, state: FetchState) -> None:
        """A checkpoint is durable that was written for a CUTTING partition: cuts some of it."""
        cut, log = state.cut, state.partition.log
        if cut is None or self._followed.by_key.get(state.key) is not state:
            return
        end, before, start = _next_end(log, cut), len(log.segments), log.log_start_offset
        try:
            if end is None:
                truncate(log, cut, self._env.trace)
            else:
                log.truncate_to(end)
        except (StorageError, LogDamaged) as error:
            self.fail(state, error)
            return
        self._save_lower_start(log, start)
        gone = before - len(log.segments)
        self._env.work.spend(CUT_WORK + gone * len(SEGMENT_SUFFIXES) * FILE_DELETION_WORK)
        if end is None:
            self.fetch_on(state)
        else:
            self._followed.cutting.append(state)

    def _save_lower_start(self, log: Log, before: int) -> None:
        """A log that was cut below its start begins lower. A start that finds the former one in the
        checkpoint would drop what lies below, durable or not."""
        directory = self._env.directories.of(log.topic_partition)
        if log.log_start_offset < before and directory is not None:
            directory.checkpoint_log_start_offsets()

    # Phases ---------------------------------------------------------------------------------

    def fetch_on(self, state: FetchState) -> None:
        """The log has another end: fetching begins there."""
        self._env.changed.mark(state.partition)
        self._followed.enter(state, Phase.FETCHING)

    def fail(self, state: FetchState, error: StorageError | LogDamaged) -> None:
        """The log cannot be written or is damaged: it is not fetched any more."""
        self._followed.enter(state, Phase.FAILED)
        self._env.changed.failed.append((state.partition, error))

    def delay(
        self,
        state: FetchState,
        reason: DelayReason | ErrorCode,
        now: Instant,
        *,
        detail: str = "",
        handler: str = "on_fetch_response",
    ) -> None:
        """Fetches a partition again after a pause."""
        wait_ms = pause_ms(state.errors, self._env.config)
        state.errors += 1
        self._followed.delay(state, Instant(now + wait_ms))
        event = events.FetchDelayed if state.errors == 1 else events.FetchDelayedAgain
        self._env.trace.event(
            event(
                partition=state.partition.topic_partition,
                handler=handler,
                reason=reason,
                detail=detail,
                ms=wait_ms,
                leader=self._followed.leader_id,
                leader_epoch=state.leader_epoch,
                fetch_offset=state.sent_offset,
            )
        )


def _next_end(log: Log, cut: Cut) -> int | None:
    """Where a log that is cut in several turns ends after this one; `None` for the last of them."""
    end = log.segments.first_of_last(MAX_SEGMENTS_CUT_PER_TURN)
    return end if end > max(cut.lowest_end, log.segments.first_base_offset) else None
