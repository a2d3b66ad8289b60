"""FetchSnapshot (API 59) on the wire: kio entities of versions 0 and 1.

Version 1 has the directory of the asking replica and where the leader is reached (KIP-853). The
bytes of a snapshot travel in a field for records, but they are cut anywhere and are never read as
batches here.

A request about another partition than the quorum's is malformed, as everywhere in this package. A
wrong cluster id is reported at the top of the response, every other error with the partition.
"""

from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.kraft.codec import (
    SENT_VERSIONS,
    TOP_LEVEL_ERRORS,
    leader_endpoint_of,
    leader_endpoints,
)
from tidelog.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC, NO_LEADER
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, uuid_of


def snapshot_request_to_entity(request: FetchSnapshotRequest) -> Entity:
    """The kio entity of a request, in the version that is sent."""
    entity_type = codec.request_class(ApiKey.FETCH_SNAPSHOT, SENT_VERSIONS[ApiKey.FETCH_SNAPSHOT])
    topic_type = nested(entity_type, "topics")
    partition_type = nested(topic_type, "partitions")
    partition = make(
        partition_type,
        partition=METADATA_PARTITION.partition,
        current_leader_epoch=request.epoch,
        snapshot_id=_snapshot_entity(partition_type, request.snapshot_id),
        position=request.position,
        replica_directory_id=uuid_of(request.replica_directory_id),
    )
    return make(
        entity_type,
        cluster_id=request.cluster_id,
        replica_id=request.replica_id,
        max_bytes=request.max_bytes,
        topics=(make(topic_type, name=METADATA_TOPIC, partitions=(partition,)),),
    )


def snapshot_request_of(entity: Entity) -> FetchSnapshotRequest:
    """The value of a request of any version.

    Raises `MalformedFrame` when it is not about exactly the metadata partition.
    """
    partition = _only_partition(entity, "partition")
    return FetchSnapshotRequest(
        cluster_id=entity.cluster_id,
        replica_id=entity.replica_id,
        replica_directory_id=bytes_of(field(partition, "replica_directory_id", None)),
        epoch=partition.current_leader_epoch,
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=entity.max_bytes,
    )


def snapshot_response_to_entity(response: FetchSnapshotResponse, api_version: int) -> Entity:
    """The kio entity of a response, in the version of its request."""
    entity_type = codec.response_class(ApiKey.FETCH_SNAPSHOT, api_version)
    if response.error_code in TOP_LEVEL_ERRORS:
        return make(
            entity_type, throttle_time=millis(0), error_code=error(response.error_code), topics=()
        )
    topic_type = nested(entity_type, "topics")
    partition_type = nested(topic_type, "partitions")
    leader_type = nested(partition_type, "current_leader")
    partition = make(
        partition_type,
        index=METADATA_PARTITION.partition,
        error_code=error(response.error_code),
        snapshot_id=_snapshot_entity(partition_type, response.snapshot_id),
        current_leader=make(
            leader_type, leader_id=response.leader_id, leader_epoch=response.leader_epoch
        ),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=bytes(response.data),
    )
    return make(
        entity_type,
        throttle_time=millis(0),
        error_code=error(ErrorCode.NONE),
        topics=(make(topic_type, name=METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=leader_endpoints(entity_type, response.leader_id, response.leader_endpoint),
    )


def snapshot_response_of(entity: Entity) -> FetchSnapshotResponse:
    """The value of a response of any version.

    Raises `MalformedFrame` when it is not about exactly the metadata partition.
    """
    code = error_of(entity.error_code)
    if code is not ErrorCode.NONE:
        return FetchSnapshotResponse(code, NO_LEADER, 0)
    partition = _only_partition(entity, "index")
    leader = partition.current_leader
    return FetchSnapshotResponse(
        error_of(partition.error_code),
        leader.leader_id,
        leader.leader_epoch,
        SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.size,
        partition.position,
        partition.unaligned_records or b"",
        leader_endpoint_of(entity, leader.leader_id),
    )


def _snapshot_entity(partition_type: type, snapshot_id: SnapshotId) -> Entity:
    return make(
        nested(partition_type, "snapshot_id"),
        end_offset=snapshot_id.end_offset,
        epoch=snapshot_id.epoch,
    )


def _only_partition(entity: Entity, index_field: str) -> Entity:
    if len(entity.topics) != 1 or len(entity.topics[0].partitions) != 1:
        raise MalformedFrame("the quorum has exactly one partition")
    topic = entity.topics[0]
    partition = topic.partitions[0]
    if (topic.name, getattr(partition, index_field)) != METADATA_PARTITION:
        raise MalformedFrame(f"`{topic.name}` is not the quorum's partition")
    return partition
