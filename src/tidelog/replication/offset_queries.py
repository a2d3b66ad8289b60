"""Questions that are answered at once: ListOffsets, OffsetForLeaderEpoch, DescribeProducers.

A client must never see offsets go backwards. Right after an election the leader's high watermark
may be behind what the former leader had already shown, until every member of the ISR has fetched
once. As long as it is below the start of the leader's epoch, "what is the latest offset" has no
answer yet: OFFSET_NOT_AVAILABLE, and the same for a lookup by time that leads to what cannot be
fetched yet. The earliest offset is always known. Replicas and debugging tools see the whole log and
are never put off.

Source: KIP-207 (OFFSET_NOT_AVAILABLE), KIP-320, KIP-734 (maximum timestamp).
"""

from typing import Final

from tidelog.errors import ErrorCode, LogDamaged, ProtocolError, StorageError
from tidelog.log.log import Log
from tidelog.model import (
    CONSUMER_REPLICA_ID,
    NO_EPOCH,
    NO_TIMESTAMP,
    UNDEFINED_EPOCH_END,
    ZERO_TOPIC_ID,
)
from tidelog.replication import messages
from tidelog.replication.fetch_reading import fetchable_end
from tidelog.replication.leader import LeaderState
from tidelog.replication.messages import (
    ActiveProducer,
    EpochEndQuery,
    EpochEndResult,
    ListOffsetsQuery,
    ListOffsetsResult,
    ProducersOf,
)
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Roles
from tidelog.replication.shared import Env

_OF_TIERS: Final = (messages.LATEST_TIERED_TIMESTAMP, messages.EARLIEST_PENDING_UPLOAD_TIMESTAMP)
DEBUGGING_REPLICA_ID: Final = -2
"""May ask any replica, not only the leader."""


def list_offset(
    roles: Roles, query: ListOffsetsQuery, replica_id: int, isolation_level: int
) -> ListOffsetsResult:
    """Answers one query of ListOffsets. Takes a replica offline whose device fails; one whose log
    is damaged is dealt with at the end of the tick."""
    topic, number, epoch, timestamp = query
    found = roles.env.hosted.find(topic, number, ZERO_TOPIC_ID, epoch)
    if not isinstance(found, Partition):
        return ListOffsetsResult(topic, number, found)
    leadership = found.leadership
    if leadership is None and replica_id != DEBUGGING_REPLICA_ID:
        return ListOffsetsResult(topic, number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = found.log
    by_client = replica_id == CONSUMER_REPLICA_ID
    end = fetchable_end(log, isolation_level) if by_client else log.log_end_offset
    unsettled = by_client and leadership is not None and _is_unsettled(log, leadership)
    try:
        offset = _look_up(found, timestamp, end, unsettled)
    except StorageError as error:
        roles.go_offline(found, str(error))
        return ListOffsetsResult(topic, number, ErrorCode.KAFKA_STORAGE_ERROR)
    except ProtocolError as error:
        if isinstance(error, LogDamaged):
            roles.env.changed.failed.append((found, error))
        return ListOffsetsResult(topic, number, error.code)
    return ListOffsetsResult(topic, number, ErrorCode.NONE, *offset)


def epoch_end(env: Env, query: EpochEndQuery) -> EpochEndResult:
    """Answers where an epoch ends in the log of a partition that is led here."""
    topic, number, current_epoch, leader_epoch = query
    found = env.hosted.find(topic, number, ZERO_TOPIC_ID, current_epoch)
    if not isinstance(found, Partition):
        return EpochEndResult(topic, number, found, UNDEFINED_EPOCH_END)
    if found.leadership is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return EpochEndResult(topic, number, code, UNDEFINED_EPOCH_END)
    end = found.log.end_offset_for_epoch(leader_epoch)
    return EpochEndResult(topic, number, ErrorCode.NONE, end)


def producers_of(env: Env, topic: str, number: int) -> ProducersOf:
    """The producers of a partition that is led here, with their open transactions."""
    found = env.hosted.find(topic, number, ZERO_TOPIC_ID, NO_EPOCH)
    if not isinstance(found, Partition):
        return ProducersOf(topic, number, found)
    if found.leadership is None:
        return ProducersOf(topic, number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    active = tuple(
        ActiveProducer(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
        for entry in found.log.producers.by_id.values()
    )
    return ProducersOf(topic, number, ErrorCode.NONE, active)


def _is_unsettled(log: Log, leadership: LeaderState) -> bool:
    return log.high_watermark < leadership.epoch_start_offset


def _look_up(
    partition: Partition, timestamp: int, end: int, unsettled: bool
) -> tuple[int, int, int]:
    log = partition.log
    if timestamp == messages.LATEST_TIMESTAMP:
        if unsettled:
            raise ProtocolError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return NO_TIMESTAMP, end, partition.leader_epoch
    if timestamp in (messages.EARLIEST_TIMESTAMP, messages.EARLIEST_LOCAL_TIMESTAMP):
        return NO_TIMESTAMP, log.log_start_offset, log.epoch_at(log.log_start_offset)
    if timestamp == messages.MAX_TIMESTAMP:
        found = log.max_timestamp()
    elif timestamp >= 0:
        found = log.offset_for_timestamp(timestamp)
    elif timestamp in _OF_TIERS:
        found = None
    else:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION)
    if found is None:
        return NO_TIMESTAMP, -1, NO_EPOCH
    if found.offset < end:
        return found.timestamp, found.offset, found.leader_epoch
    if unsettled:
        raise ProtocolError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return NO_TIMESTAMP, -1, NO_EPOCH
