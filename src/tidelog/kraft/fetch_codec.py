"""The quorum's Fetch on the wire: `wire.fetch` values instead of kio entities.

The same request carries partitions of topics; the quorum's is about exactly the metadata partition,
and anything else is malformed. It is read in the versions 12 to 18 and sent in 18.
"""

from typing import Final

from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.kraft.codec import TOP_LEVEL_ERRORS
from tidelog.kraft.messages import QuorumFetchRequest, QuorumFetchResponse, SnapshotId
from tidelog.model import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_LEADER,
    ZERO_TOPIC_ID,
    Endpoint,
    EpochEndOffset,
    Uuid,
)
from tidelog.wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderHint,
)

_FULL_FETCH_EPOCH: Final = -1
"""Session epoch of a fetch without a session."""


def fetch_request_to_wire(request: QuorumFetchRequest) -> FetchRequest:
    """The Fetch request that carries a quorum fetch (version 17 or 18)."""
    partition = FetchPartition(
        topic=METADATA_TOPIC,
        topic_id=METADATA_TOPIC_ID,
        partition=METADATA_PARTITION.partition,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        log_start_offset=-1,
        max_bytes=0,
        high_watermark=request.high_watermark,
    )
    return FetchRequest(
        replica_id=request.replica_id,
        replica_epoch=-1,
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=request.max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=_FULL_FETCH_EPOCH,
        partitions=[partition],
        forgotten=[],
        cluster_id=request.cluster_id,
        replica_directory_id=request.replica_directory_id,
    )


def fetch_request_of(fetch: FetchRequest) -> QuorumFetchRequest:
    """The quorum fetch that a Fetch request carries.

    Raises `MalformedFrame` when it is not about exactly the metadata partition.
    """
    if len(fetch.partitions) != 1:
        raise MalformedFrame("a quorum fetch has exactly one partition")
    partition = fetch.partitions[0]
    if partition.topic_id == ZERO_TOPIC_ID:
        is_metadata = partition.topic == METADATA_TOPIC
    else:
        is_metadata = partition.topic_id == METADATA_TOPIC_ID
    if not is_metadata or partition.partition != METADATA_PARTITION.partition:
        raise MalformedFrame(f"`{partition.topic}` is not the quorum's partition")
    return QuorumFetchRequest(
        cluster_id=fetch.cluster_id,
        replica_id=fetch.replica_id,
        replica_directory_id=Uuid(fetch.replica_directory_id),
        epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=fetch.max_bytes,
    )


def fetch_response_to_wire(response: QuorumFetchResponse) -> FetchResponse:
    """The Fetch response that carries the answer."""
    if response.error_code in TOP_LEVEL_ERRORS:
        return FetchResponse(0, response.error_code, 0, [])
    partition = FetchedPartition(
        topic=METADATA_TOPIC,
        topic_id=METADATA_TOPIC_ID,
        partition=METADATA_PARTITION.partition,
        error_code=response.error_code,
        high_watermark=response.high_watermark,
        last_stable_offset=-1,
        log_start_offset=response.log_start_offset,
        records=list(response.records),
        records_bytes=response.records_bytes,
        diverging_epoch=response.diverging_epoch,
        current_leader=LeaderHint(response.leader_id, response.leader_epoch),
        snapshot_id=_wire_snapshot_id(response.snapshot_id),
        aborted=[],
    )
    endpoints: list[tuple[int, Endpoint, str | None]] = []
    if response.leader_endpoint is not None:
        endpoints.append((response.leader_id, response.leader_endpoint, None))
    return FetchResponse(0, ErrorCode.NONE, 0, [partition], endpoints)


def fetch_response_of(fetch: FetchResponse) -> QuorumFetchResponse:
    """The answer that a Fetch response carries; its records are views of the frame.

    Raises `MalformedFrame` when it is not about exactly one partition.
    """
    if fetch.error_code is not ErrorCode.NONE:
        return QuorumFetchResponse(fetch.error_code, NO_LEADER, 0)
    if len(fetch.partitions) != 1:
        raise MalformedFrame("a quorum fetch has exactly one partition")
    partition = fetch.partitions[0]
    hint = partition.current_leader or LeaderHint(NO_LEADER, 0)
    endpoint = None
    for node_id, address, _ in fetch.node_endpoints:
        if node_id == hint.leader_id:
            endpoint = address
    return QuorumFetchResponse(
        partition.error_code,
        hint.leader_id,
        hint.leader_epoch,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=partition.diverging_epoch,
        records=tuple(partition.records),
        records_bytes=partition.records_bytes,
        leader_endpoint=endpoint,
        snapshot_id=_snapshot_id_of(partition.snapshot_id),
    )


def _wire_snapshot_id(snapshot_id: SnapshotId | None) -> EpochEndOffset | None:
    if snapshot_id is None:
        return None
    return EpochEndOffset(snapshot_id.epoch, snapshot_id.end_offset)


def _snapshot_id_of(field: EpochEndOffset | None) -> SnapshotId | None:
    """As in Kafka, a field with two negative numbers is as good as none."""
    if field is None or max(field) < 0:
        return None
    return SnapshotId(field.end_offset, field.leader_epoch)
