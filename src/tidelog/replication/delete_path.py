"""DeleteRecords: log starts that rise because a client asked, and the files that then go.

A leader raises its log start at once; not a byte moves. Followers get it with the answers to
their fetches, raise theirs, and report it in the next fetch. The request waits until the *low
watermark* has reached its offset: the lowest log start of the leader and of all replicas that are
alive. One that is fenced is not waited for. It learns of the deletion when it comes back.

    error                         when
    OFFSET_OUT_OF_RANGE           a negative offset (but -1, the high watermark) or one above the
                                  high watermark: what is not committed cannot be deleted
    POLICY_VIOLATION              `cleanup.policy` lacks `delete`
    NOT_LEADER_OR_FOLLOWER        this node does not lead, or ceased to while the request waited
    REQUEST_TIMED_OUT             the deadline came first; the deletion goes on all the same

An answer of a partition carries the low watermark, with REQUEST_TIMED_OUT as far as it got.

**Files.** Segments that end at or below the log start are deleted, once the file
`log-start-offset-checkpoint` has it on the device (`log_starts_to_save`, `on_log_starts_saved`).
So a start after a crash never takes for damage what was deleted on purpose: below the checkpointed
start anything may be missing (`loading`). The active segment stays.

The checkpoint is written every `log.flush.offset.checkpoint.interval.ms` and at a clean stop. As in
Kafka, a process that is killed before has the old log start when it is back, and then its leader's.

Invariant: `OneReply`.

Left out: retention by size and time, which would raise the log start in the same way.

Source: KIP-107; Kafka's DelayedDeleteRecords and Partition for the error codes.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError, StorageError
from tidelog.log.log import Log
from tidelog.model import NO_EPOCH, NO_OFFSET, ZERO_TOPIC_ID
from tidelog.replication.messages import (
    TO_HIGH_WATERMARK,
    DeletedRecords,
    LogStart,
    LogStartsSaved,
    RecordsToDelete,
    ReplyTo,
)
from tidelog.replication.partition import Partition
from tidelog.replication.purgatory import DelayedDelete
from tidelog.replication.shared import Env

_DELETE: Final = "delete"


class DeletePath:
    """Deletions that are asked for, and those that wait."""

    __slots__ = ("_env",)

    def __init__(self, env: Env) -> None:
        self._env = env

    def delete(
        self, wanted: Sequence[RecordsToDelete], reply_to: ReplyTo, now: Instant, *, timeout_ms: int
    ) -> list[Partition]:
        """Raises what can be raised; answers at once or leaves the request waiting. Returns the
        partitions of which the followers are to be answered."""
        results: list[DeletedRecords] = []
        delayed = DelayedDelete(reply_to, results, now=now, timeout_ms=timeout_ms)
        raised = []
        for want in wanted:
            topic, number, offset = want
            found = self._env.hosted.find(topic, number, ZERO_TOPIC_ID, NO_EPOCH)
            if not isinstance(found, Partition):
                results.append(DeletedRecords(topic, number, found))
                continue
            if found.leadership is None:
                results.append(DeletedRecords(topic, number, ErrorCode.NOT_LEADER_OR_FOLLOWER))
                continue
            log = found.log
            if offset == TO_HIGH_WATERMARK:
                offset = log.high_watermark
            try:
                if _raise(log, offset):
                    raised.append(found)
                    self._env.changed.mark(found, log_changed=False)
            except ProtocolError as error:
                results.append(DeletedRecords(topic, number, error.code))
                continue
            low_watermark = found.leadership.low_watermark
            if low_watermark < offset:
                delayed.register(found.deletions, len(results), offset)
            results.append(DeletedRecords(topic, number, ErrorCode.NONE, low_watermark))
        if delayed.pending:
            self._env.deadlines.add(delayed)
        else:
            delayed.done = True
            self._env.outbox.emit(delayed.reply())
        return raised

    # Completion -----------------------------------------------------------------------------

    def complete(self, partition: Partition) -> None:
        """Some log start of a led partition may have moved: answers what that satisfies."""
        leadership = partition.leadership
        assert leadership is not None, f"{partition} is not led by this node"
        low_watermark = leadership.low_watermark
        for (delayed, index), offset in list(partition.deletions.items()):
            delayed.note(index, low_watermark)
            if low_watermark >= offset:
                self._resolve(delayed, index, ErrorCode.NONE)

    def fail(self, partition: Partition, code: ErrorCode) -> None:
        """The replica ceased to lead, or to be: answers everything that waits for it."""
        for delayed, index in list(partition.deletions):
            delayed.note(index, NO_OFFSET)
            self._resolve(delayed, index, code)

    def _resolve(self, delayed: DelayedDelete, index: int, code: ErrorCode) -> None:
        if delayed.resolve(index, code):
            self._env.answer(delayed)

    # Files ----------------------------------------------------------------------------------

    def log_starts_to_save(self, partitions: Iterable[Partition]) -> list[LogStart]:
        """What to delete of these once the log starts are on the device. A start only rises, so
        the checkpoint may be written later."""
        return [
            (partition.topic_partition, partition.topic_id, partition.log.log_start_offset)
            for partition in partitions
            if partition.offline is None and _has_dead_segments(partition.log)
        ]

    def on_log_starts_saved(self, subject: LogStartsSaved) -> None:
        """They are: deletes the segments below."""
        for key, topic_id, log_start_offset in subject.starts:
            partition = self._env.hosted.partitions.get(key)
            if partition is None or partition.topic_id != topic_id or partition.offline is not None:
                continue
            try:
                partition.log.delete_segments_below_start(log_start_offset)
            except StorageError as error:
                self._env.changed.failed.append((partition, error))


def _raise(log: Log, offset: int) -> bool:
    """Raises the log start; returns whether it was lower. Raises `ProtocolError`."""
    if _DELETE not in log.config.cleanup_policy:
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy lacks `{_DELETE}`")
    if offset < 0:
        raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no offset `{offset}`")
    return log.maybe_raise_log_start_offset(offset)


def _has_dead_segments(log: Log) -> bool:
    segments = log.segments
    return len(segments) > 1 and segments[1].base_offset <= log.log_start_offset
