"""The election's messages on the wire: kio entities of Vote, BeginQuorumEpoch and EndQuorumEpoch.

| value | API | versions read | version sent |
| --- | --- | --- | --- |
| `VoteRequest` | Vote (52) | 0-2 | 2 |
| `BeginQuorumEpochRequest` | BeginQuorumEpoch (53) | 0-1 | 1 |
| `EndQuorumEpochRequest` | EndQuorumEpoch (54) | 0-1 | 1 |
| `QuorumFetchRequest` | Fetch (1) | 12-18 | 18 | (`fetch_codec.py`)
| `FetchSnapshotRequest` | FetchSnapshot (59) | 0-1 | 1 | (`snapshot_codec.py`)

Every message has the layout topics/partitions and concerns exactly one partition; anything else is
malformed. A wrong cluster id is reported at the top of a response, every other error with the
partition, as Kafka does. A response with an error at the top has neither epoch nor leader:
it is read as epoch 0 and no leader, which no replica acts upon.
"""

from typing import Final

from tidelog.errors import ErrorCode, MalformedFrame
from tidelog.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    QuorumFetchRequest,
    ReplicaKey,
    Request,
    VoteRequest,
    VoteResponse,
)
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC, NO_LEADER, Endpoint
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, has_field, make, nested
from tidelog.wire.values import bytes_of, error, error_of, uuid_of

SENT_VERSIONS: Final = {
    ApiKey.VOTE: 2,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.FETCH: 18,
    ApiKey.FETCH_SNAPSHOT: 1,
}
"""The version in which each request is sent, and so the one in which its answer comes."""

TOP_LEVEL_ERRORS: Final = frozenset((ErrorCode.INCONSISTENT_CLUSTER_ID,))
"""Reported at the top of a response; every other error is the partition's."""


def api_of(request: Request) -> ApiKey:
    """The API that carries a request."""
    match request:
        case VoteRequest():
            return ApiKey.VOTE
        case BeginQuorumEpochRequest():
            return ApiKey.BEGIN_QUORUM_EPOCH
        case EndQuorumEpochRequest():
            return ApiKey.END_QUORUM_EPOCH
        case QuorumFetchRequest():
            return ApiKey.FETCH
        case FetchSnapshotRequest():
            return ApiKey.FETCH_SNAPSHOT
        case _:
            raise AssertionError(f"{request} is in `voter_codec`")


# Vote, BeginQuorumEpoch, EndQuorumEpoch: requests --------------------------------------------


def request_to_entity(
    request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest,
) -> Entity:
    """The kio entity of a request, in the version that is sent."""
    api_key = api_of(request)
    entity_type = codec.request_class(api_key, SENT_VERSIONS[api_key])
    topic_type = nested(entity_type, "topics")
    partition = _request_partition(request, nested(topic_type, "partitions"))
    endpoints = () if isinstance(request, VoteRequest) else request.leader_endpoints
    voter_id = -1 if isinstance(request, EndQuorumEpochRequest) else request.voter_id
    return make(
        entity_type,
        cluster_id=request.cluster_id,
        voter_id=voter_id,
        topics=(make(topic_type, topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=_endpoint_entities(entity_type, endpoints),
    )


def _request_partition(
    request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest, partition_type: type
) -> Entity:
    if isinstance(request, VoteRequest):
        return make(
            partition_type,
            partition_index=METADATA_PARTITION.partition,
            replica_epoch=request.epoch,
            replica_id=request.candidate_id,
            replica_directory_id=uuid_of(request.candidate_directory_id),
            voter_directory_id=uuid_of(request.voter_directory_id),
            last_offset_epoch=request.last_epoch,
            last_offset=request.last_offset,
            pre_vote=request.pre_vote,
        )
    common = {
        "partition_index": METADATA_PARTITION.partition,
        "leader_id": request.leader_id,
        "leader_epoch": request.leader_epoch,
    }
    if isinstance(request, BeginQuorumEpochRequest):
        voter_directory_id = uuid_of(request.voter_directory_id)
        return make(partition_type, voter_directory_id=voter_directory_id, **common)
    candidate_type = nested(partition_type, "preferred_candidates")
    candidates = tuple(
        make(
            candidate_type,
            candidate_id=candidate.node_id,
            candidate_directory_id=uuid_of(candidate.directory_id),
        )
        for candidate in request.preferred_candidates
    )
    return make(partition_type, preferred_candidates=candidates, **common)


def request_of(entity: Entity) -> VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest:
    """The value of a Vote, BeginQuorumEpoch or EndQuorumEpoch request of any version.

    Raises `MalformedFrame` when it is not about exactly the metadata partition.
    """
    partition = _only_partition(entity)
    api_key = int(entity.__api_key__)
    if api_key == ApiKey.VOTE:
        return VoteRequest(
            cluster_id=entity.cluster_id,
            voter_id=field(entity, "voter_id", -1),
            voter_directory_id=bytes_of(field(partition, "voter_directory_id", None)),
            candidate_id=partition.replica_id,
            candidate_directory_id=bytes_of(field(partition, "replica_directory_id", None)),
            epoch=partition.replica_epoch,
            last_epoch=partition.last_offset_epoch,
            last_offset=partition.last_offset,
            pre_vote=field(partition, "pre_vote", False),
        )
    endpoints = tuple(
        Endpoint(listener.name, listener.host, listener.port)
        for listener in field(entity, "leader_endpoints", ())
    )
    if api_key == ApiKey.BEGIN_QUORUM_EPOCH:
        return BeginQuorumEpochRequest(
            cluster_id=entity.cluster_id,
            voter_id=field(entity, "voter_id", -1),
            voter_directory_id=bytes_of(field(partition, "voter_directory_id", None)),
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            leader_endpoints=endpoints,
        )
    assert api_key == ApiKey.END_QUORUM_EPOCH, f"API {api_key} is not one of the quorum's"
    return EndQuorumEpochRequest(
        cluster_id=entity.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        preferred_candidates=_candidates_of(partition),
        leader_endpoints=endpoints,
    )


def _candidates_of(partition: Entity) -> tuple[ReplicaKey, ...]:
    successors = field(partition, "preferred_successors", None)
    if successors is not None:
        return tuple(ReplicaKey(node_id) for node_id in successors)
    return tuple(
        ReplicaKey(candidate.candidate_id, bytes_of(candidate.candidate_directory_id))
        for candidate in partition.preferred_candidates
    )


def _endpoint_entities(entity_type: type, endpoints: tuple[Endpoint, ...]) -> tuple[Entity, ...]:
    if not endpoints or not has_field(entity_type, "leader_endpoints"):
        return ()
    endpoint_type = nested(entity_type, "leader_endpoints")
    return tuple(
        make(endpoint_type, name=endpoint.listener, host=endpoint.host, port=endpoint.port)
        for endpoint in endpoints
    )


# Vote, BeginQuorumEpoch, EndQuorumEpoch: responses -------------------------------------------


def response_to_entity(
    response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse, api_version: int
) -> Entity:
    """The kio entity of a response, in the version of its request."""
    entity_type = codec.response_class(_api_of_response(response), api_version)
    if response.error_code in TOP_LEVEL_ERRORS:
        return make(entity_type, error_code=error(response.error_code), topics=())
    topic_type = nested(entity_type, "topics")
    partition = make(
        nested(topic_type, "partitions"),
        partition_index=METADATA_PARTITION.partition,
        error_code=error(response.error_code),
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        vote_granted=isinstance(response, VoteResponse) and response.granted,
    )
    return make(
        entity_type,
        error_code=error(ErrorCode.NONE),
        topics=(make(topic_type, topic_name=METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=leader_endpoints(entity_type, response.leader_id, response.leader_endpoint),
    )


def _api_of_response(
    response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse,
) -> ApiKey:
    match response:
        case VoteResponse():
            return ApiKey.VOTE
        case BeginQuorumEpochResponse():
            return ApiKey.BEGIN_QUORUM_EPOCH
        case EndQuorumEpochResponse():
            return ApiKey.END_QUORUM_EPOCH


def response_of(entity: Entity) -> VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse:
    """The value of a Vote, BeginQuorumEpoch or EndQuorumEpoch response of any version.

    Raises `MalformedFrame` when it is not about exactly the metadata partition.
    """
    code, leader_id, leader_epoch, granted = error_of(entity.error_code), NO_LEADER, 0, False
    if code is ErrorCode.NONE:
        partition = _only_partition(entity)
        code = error_of(partition.error_code)
        leader_id, leader_epoch = partition.leader_id, partition.leader_epoch
        granted = field(partition, "vote_granted", False)
    endpoint = leader_endpoint_of(entity, leader_id)
    api_key = int(entity.__api_key__)
    if api_key == ApiKey.VOTE:
        return VoteResponse(code, leader_id, leader_epoch, granted, endpoint)
    if api_key == ApiKey.BEGIN_QUORUM_EPOCH:
        return BeginQuorumEpochResponse(code, leader_id, leader_epoch, endpoint)
    assert api_key == ApiKey.END_QUORUM_EPOCH, f"API {api_key} is not one of the quorum's"
    return EndQuorumEpochResponse(code, leader_id, leader_epoch, endpoint)


def leader_endpoints(
    entity_type: type, leader_id: int, endpoint: Endpoint | None
) -> tuple[Entity, ...]:
    """Where the leader is reached, for responses of the versions that have the field."""
    if endpoint is None or not has_field(entity_type, "node_endpoints"):
        return ()
    node_type = nested(entity_type, "node_endpoints")
    return (make(node_type, node_id=leader_id, host=endpoint.host, port=endpoint.port),)


def leader_endpoint_of(entity: Entity, leader_id: int) -> Endpoint | None:
    """Where the leader is reached, if the response names it."""
    endpoint = None
    for node in field(entity, "node_endpoints", ()):
        if node.node_id == leader_id:
            endpoint = Endpoint("", node.host, node.port)
    return endpoint


def _only_partition(entity: Entity) -> Entity:
    if len(entity.topics) != 1 or len(entity.topics[0].partitions) != 1:
        raise MalformedFrame("the quorum has exactly one partition")
    topic = entity.topics[0]
    if (topic.topic_name, topic.partitions[0].partition_index) != METADATA_PARTITION:
        raise MalformedFrame(f"`{topic.topic_name}` is not the quorum's partition")
    return topic.partitions[0]
