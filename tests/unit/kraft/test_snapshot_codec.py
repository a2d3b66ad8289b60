"""FetchSnapshot on the wire: both versions, both ways."""

from dataclasses import replace

import pytest

from tests.unit.kraft.solo import CLUSTER_ID
from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId
from tidelog.kraft.snapshot_codec import (
    snapshot_request_of,
    snapshot_request_to_entity,
    snapshot_response_of,
    snapshot_response_to_entity,
)
from tidelog.model import Endpoint, Uuid
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, parse_header

REQUEST = FetchSnapshotRequest(
    cluster_id=CLUSTER_ID,
    replica_id=2,
    replica_directory_id=Uuid(b"d" * 16),
    epoch=5,
    snapshot_id=SnapshotId(1234, 4),
    position=77,
    max_bytes=1 << 20,
)
RESPONSE = FetchSnapshotResponse(
    ErrorCode.NONE,
    leader_id=1,
    leader_epoch=5,
    snapshot_id=SnapshotId(1234, 4),
    size_bytes=5000,
    position=77,
    data=b"some bytes, cut anywhere",
    leader_endpoint=Endpoint("", "n1", 9093),
)


def test_a_request_comes_back_as_it_went() -> None:
    """Goal: version 1, which is what is sent."""
    frame = codec.encode_request(snapshot_request_to_entity(REQUEST), 3, "x")
    header, offset = parse_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version) == (ApiKey.FETCH_SNAPSHOT, 1)
    entity = codec.decode_request(header, memoryview(frame)[4:], offset)
    assert snapshot_request_of(entity) == REQUEST


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "error", [ErrorCode.NONE, ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE]
)
def test_a_response_comes_back_as_it_went(version: int, error: ErrorCode) -> None:
    """Goal: both versions; only version 1 has the leader's address."""
    response = replace(RESPONSE, error_code=error)
    entity = snapshot_response_to_entity(response, version)
    read = snapshot_response_of(entity)
    assert replace(read, data=bytes(read.data)) == replace(
        response, leader_endpoint=response.leader_endpoint if version else None
    )


def test_a_wrong_cluster_is_reported_at_the_top() -> None:
    """Goal: as Kafka does; no replica acts upon epoch 0 and no leader."""
    response = replace(RESPONSE, error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    entity = snapshot_response_to_entity(response, 1)
    assert entity.topics == ()
    assert snapshot_response_of(entity) == FetchSnapshotResponse(
        ErrorCode.INCONSISTENT_CLUSTER_ID, -1, 0
    )


def test_another_partition_is_malformed() -> None:
    """Goal: a quorum has one partition."""
    entity = snapshot_request_to_entity(REQUEST)
    topic = replace(entity.topics[0], name="orders")
    with pytest.raises(MalformedFrame, match="is not the quorum's partition"):
        snapshot_request_of(replace(entity, topics=(topic,)))
    with pytest.raises(MalformedFrame, match="exactly one partition"):
        snapshot_request_of(replace(entity, topics=()))
