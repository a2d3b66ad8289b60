"""The quorum's Fetch on the wire: `wire.fetch` values instead of kio entities.

The same request carries partitions of topics; the quorum's is about exactly the metadata partition,
and anything else is refused. It is sent in version 18. Versions below 13, which name topics, are
refused as in Kafka: no version of it that can be a partner sends them.
"""

from typing import Final

from tidelog import model
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.kraft.codec import TOP_LEVEL_ERRORS
from tidelog.kraft.messages import QuorumFetchRequest, QuorumFetchResponse, SnapshotId
from tidelog.wire import fetch

_FULL_FETCH_EPOCH: Final = -1
"""Session epoch of a fetch without a session."""
_TOPIC_AND_PARTITION: Final = (
    model.METADATA_TOPIC,
    model.METADATA_TOPIC_ID,
    model.METADATA_PARTITION.partition,
)


def fetch_request_to_wire(request: QuorumFetchRequest) -> fetch.FetchRequest:
    """The Fetch request that carries a quorum fetch (version 17 or 18)."""
    partition = fetch.FetchPartition(
        *_TOPIC_AND_PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        log_start_offset=-1,
        max_bytes=0,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
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


def fetch_request_of(request: fetch.FetchRequest) -> QuorumFetchRequest:
    """The quorum fetch that a Fetch request carries.

    Raises `ProtocolError` when it is not about exactly the metadata partition, by its id.
    """
    _, topic_id, index = _TOPIC_AND_PARTITION
    asked = [(partition.topic_id, partition.partition) for partition in request.partitions]
    if asked != [(topic_id, index)]:
        text = "a quorum fetch is about the metadata partition alone"
        raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    partition = request.partitions[0]
    return QuorumFetchRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica_id,
        replica_directory_id=model.Uuid(request.replica_directory_id),
        epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
    )


def fetch_response_to_wire(response: QuorumFetchResponse) -> fetch.FetchResponse:
    """The Fetch response that carries the answer."""
    if response.error_code in TOP_LEVEL_ERRORS:
        return fetch.FetchResponse(0, response.error_code, 0, [])
    snapshot_id = response.snapshot_id
    partition = fetch.FetchedPartition(
        *_TOPIC_AND_PARTITION,
        error_code=response.error_code,
        high_watermark=response.high_watermark,
        last_stable_offset=-1,
        log_start_offset=response.log_start_offset,
        records=list(response.records),
        records_bytes=response.records_bytes,
        diverging_epoch=response.diverging_epoch,
        current_leader=fetch.LeaderHint(response.leader_id, response.leader_epoch),
        snapshot_id=snapshot_id and model.EpochEndOffset(snapshot_id.epoch, snapshot_id.end_offset),
        aborted=[],
    )
    leader = response.leader_endpoint
    endpoints: fetch.NodeEndpoints = []
    if leader is not None:
        endpoints.append((response.leader_id, leader, None))
    return fetch.FetchResponse(0, ErrorCode.NONE, 0, [partition], endpoints)


def fetch_response_of(response: fetch.FetchResponse) -> QuorumFetchResponse:
    """The answer that a Fetch response carries; its records are views of the frame.

    Raises `MalformedFrame` when it is not about exactly one partition.
    """
    if response.error_code is not ErrorCode.NONE:
        return QuorumFetchResponse(response.error_code, model.NO_LEADER, 0)
    if len(response.partitions) != 1:
        raise MalformedFrame("a quorum fetch has exactly one partition")
    partition = response.partitions[0]
    leader_id, leader_epoch = partition.current_leader or (model.NO_LEADER, 0)
    endpoints = {node_id: endpoint for node_id, endpoint, _ in response.node_endpoints}
    snapshot_id, end = None, partition.snapshot_id
    # As in Kafka, two negative numbers are as good as none.
    if end is not None and max(end) >= 0:
        snapshot_id = SnapshotId(end.end_offset, end.leader_epoch)
    return QuorumFetchResponse(
        partition.error_code,
        leader_id,
        leader_epoch,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=partition.diverging_epoch,
        records=tuple(partition.records),
        records_bytes=partition.records_bytes,
        leader_endpoint=endpoints.get(leader_id),
        snapshot_id=snapshot_id,
    )
