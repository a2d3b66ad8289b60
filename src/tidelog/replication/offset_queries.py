"""Questions about offsets that are answered at once: ListOffsets and OffsetForLeaderEpoch.

A client must never see offsets go backwards. Right after an election the leader's high watermark
may be behind what the former leader had already shown, until every member of the ISR has fetched
once. As long as it is below the start of the leader's epoch, "what is the latest offset" has no
answer yet: OFFSET_NOT_AVAILABLE, and the same for a lookup by time that leads to what cannot be
fetched yet. The earliest offset is always known. Replicas and debugging tools see the whole log and
are never put off.

Source: KIP-207 (OFFSET_NOT_AVAILABLE), KIP-320, KIP-734 (maximum timestamp).
"""

from collections.abc import Sequence
from typing import Final

from tidelog.errors import ErrorCode, LogDamaged, ProtocolError, StorageError
from tidelog.log.log import Log
from tidelog.model import (
    CONSUMER_REPLICA_ID,
    NO_EPOCH,
    NO_TIMESTAMP,
    UNDEFINED_EPOCH_END,
    ZERO_TOPIC_ID,
    TopicPartition,
)
from tidelog.replication.hosted import Hosted
from tidelog.replication.leader import LeaderState
from tidelog.replication.messages import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    EpochEndQuery,
    EpochEndResult,
    ListOffsetsQuery,
    ListOffsetsResult,
)
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Roles
from tidelog.wire.fetch import READ_COMMITTED

DEBUGGING_REPLICA_ID: Final = -2
"""May ask any replica, not only the leader."""


class OffsetQueries:
    """Answers the queries of one request, and passes on what fails under them."""

    __slots__ = ("_damaged", "_hosted", "_roles")

    def __init__(
        self,
        hosted: Hosted,
        roles: Roles,
        damaged: list[tuple[Partition, StorageError | LogDamaged]],
    ) -> None:
        self._hosted = hosted
        self._roles = roles
        # Where partitions go whose log turned out to be damaged; handled at the end of the tick.
        self._damaged = damaged

    def list_offsets(
        self, queries: Sequence[ListOffsetsQuery], *, replica_id: int, isolation_level: int
    ) -> list[ListOffsetsResult]:
        """Answers ListOffsets: see `Replicas.list_offsets`."""
        return [self._list_offset(query, replica_id, isolation_level) for query in queries]

    def _list_offset(
        self, query: ListOffsetsQuery, replica_id: int, isolation_level: int
    ) -> ListOffsetsResult:
        key = TopicPartition(query.topic, query.partition)
        try:
            return list_offset(
                self._hosted, query, replica_id=replica_id, isolation_level=isolation_level
            )
        except StorageError as error:
            self._roles.go_offline(self._hosted.partitions[key], str(error))
        except LogDamaged as damage:
            self._damaged.append((self._hosted.partitions[key], damage))
        return ListOffsetsResult(*key, ErrorCode.KAFKA_STORAGE_ERROR)

    def end_offsets_for_epochs(self, queries: Sequence[EpochEndQuery]) -> list[EpochEndResult]:
        """Answers OffsetForLeaderEpoch."""
        return [epoch_end(self._hosted, query) for query in queries]


def list_offset(
    hosted: Hosted, query: ListOffsetsQuery, *, replica_id: int, isolation_level: int
) -> ListOffsetsResult:
    """Answers one query. Raises `StorageError` when the log cannot be read, `LogDamaged` when it is
    not what was written."""
    found = hosted.find(query.topic, query.partition, ZERO_TOPIC_ID, query.current_leader_epoch)
    if not isinstance(found, Partition):
        return ListOffsetsResult(query.topic, query.partition, found)
    leadership = found.leadership
    if leadership is None and replica_id != DEBUGGING_REPLICA_ID:
        return ListOffsetsResult(query.topic, query.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = found.log
    by_client = replica_id == CONSUMER_REPLICA_ID
    fetchable_end = _fetchable_end(log, isolation_level) if by_client else log.log_end_offset
    unsettled = by_client and leadership is not None and _is_unsettled(log, leadership)
    try:
        timestamp, offset, leader_epoch = _look_up(found, query.timestamp, fetchable_end, unsettled)
    except LogDamaged:
        raise
    except ProtocolError as error:
        return ListOffsetsResult(query.topic, query.partition, error.code)
    return ListOffsetsResult(
        query.topic, query.partition, ErrorCode.NONE, timestamp, offset, leader_epoch
    )


def _fetchable_end(log: Log, isolation_level: int) -> int:
    return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark


def _is_unsettled(log: Log, leadership: LeaderState) -> bool:
    return log.high_watermark < leadership.epoch_start_offset


def _look_up(
    partition: Partition, timestamp: int, fetchable_end: int, unsettled: bool
) -> tuple[int, int, int]:
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        if unsettled:
            raise ProtocolError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return NO_TIMESTAMP, fetchable_end, partition.leader_epoch
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return NO_TIMESTAMP, log.log_start_offset, log.epoch_at(log.log_start_offset)
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    elif timestamp >= 0:
        found = log.offset_for_timestamp(timestamp)
    else:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION)
    if found is None:
        return NO_TIMESTAMP, -1, NO_EPOCH
    if found.offset < fetchable_end:
        return found.timestamp, found.offset, found.leader_epoch
    if unsettled:
        raise ProtocolError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return NO_TIMESTAMP, -1, NO_EPOCH


def epoch_end(hosted: Hosted, query: EpochEndQuery) -> EpochEndResult:
    """Answers where an epoch ends in the log of the partition led here."""
    found = hosted.find(query.topic, query.partition, ZERO_TOPIC_ID, query.current_leader_epoch)
    code = ErrorCode.NONE
    if not isinstance(found, Partition):
        code = found
    elif found.leadership is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        end = found.log.end_offset_for_epoch(query.leader_epoch)
        return EpochEndResult(query.topic, query.partition, code, end)
    return EpochEndResult(query.topic, query.partition, code, UNDEFINED_EPOCH_END)
