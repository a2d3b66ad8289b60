"""DeleteRecords: log starts that rise because a client asked. The files go later (`retention.py`).

A leader raises its log start at once; not a byte moves. Followers get it with the answers to
their fetches, raise theirs, and report it in the next fetch. The request waits until the *low
watermark* has reached its offset: the lowest log start of the leader and of all replicas that are
alive. One that is fenced is not waited for. It learns of the deletion when it comes back.

    error                         when
    OFFSET_OUT_OF_RANGE           a negative offset (but -1, the high watermark) or one above the
                                  high watermark: what is not committed cannot be deleted
    POLICY_VIOLATION              `cleanup.policy` is `compact` alone
    NOT_LEADER_OR_FOLLOWER        this node does not lead, or ceased to while the request waited
    REQUEST_TIMED_OUT             the deadline came first; the deletion goes on all the same

An answer of a partition carries the low watermark, with REQUEST_TIMED_OUT as far as it got.

The new log start is in the checkpoint every `log.flush.offset.checkpoint.interval.ms` and after a
clean stop. As in Kafka, a process that is killed before has the old log start when it is back, and
then its leader's.

Invariant: `OneReply`.

Source: KIP-107; Kafka's DelayedDeleteRecords and Partition for the error codes.
"""

from collections.abc import Sequence

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.log.log import Log
from tidelog.model import NO_EPOCH, NO_OFFSET, ZERO_TOPIC_ID
from tidelog.replication.messages import TO_HIGH_WATERMARK, DeletedRecords, RecordsToDelete, ReplyTo
from tidelog.replication.partition import Partition
from tidelog.replication.purgatory import DelayedDelete
from tidelog.replication.shared import Env


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

    def delete_before(self, partition: Partition, offset: int) -> None:
        """The coordinator of a led partition needs nothing below this offset, which is committed.
        Nothing happens where `cleanup.policy` is `compact` alone."""
        if _may_delete(partition.log) and _raise(partition.log, offset):
            self._env.changed.mark(partition, log_changed=False)

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


def _may_delete(log: Log) -> bool:
    """As in Kafka, a topic that is neither compacted nor deleted loses records on request."""
    policy = log.config.cleanup_policy
    return "delete" in policy or "compact" not in policy


def _raise(log: Log, offset: int) -> bool:
    """Raises the log start; returns whether it was lower. Raises `ProtocolError`."""
    if not _may_delete(log):
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, "cleanup.policy is `compact` alone")
    if offset < 0:
        raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no offset `{offset}`")
    return log.maybe_raise_log_start_offset(offset)
