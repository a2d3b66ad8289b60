"""Changes of the voter set on the wire.

| value | API | versions read | version sent |
| --- | --- | --- | --- |
| `AddVoterRequest` | AddRaftVoter (80) | 0-1 | 1 |
| `RemoveVoterRequest` | RemoveRaftVoter (81) | 0 | 0 |
| `UpdateVoterRequest` | UpdateRaftVoter (82) | 0 | 0 |
| `SupportRequest` | ApiVersions (18) | by the node | 4 |

The answers to the first three are one value, `VoterChangeResponse`. Version 4 of ApiVersions is the
first whose answer lists features that begin at level 0, as `kraft.version` does.
"""

from typing import Final

from tidelog import __version__
from tidelog.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    SupportRequest,
    SupportResponse,
    UpdateVoterRequest,
    Voter,
    VoterChangeRequest,
    VoterChangeResponse,
)
from tidelog.kraft.voters import KRAFT_VERSION, SUPPORTED_VERSIONS
from tidelog.model import NO_LEADER, Endpoint
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, field, has_field, make, nested
from tidelog.wire.values import bytes_of, error, error_of, millis, to_millis, uuid_of

SENT_VERSIONS: Final = {
    ApiKey.ADD_RAFT_VOTER: 1,
    ApiKey.REMOVE_RAFT_VOTER: 0,
    ApiKey.UPDATE_RAFT_VOTER: 0,
    ApiKey.API_VERSIONS: 4,
}
"""The version in which each request is sent, and so the one in which its answer comes."""


def api_of(request: VoterChangeRequest | SupportRequest) -> ApiKey:
    """The API that carries a request."""
    match request:
        case AddVoterRequest():
            return ApiKey.ADD_RAFT_VOTER
        case RemoveVoterRequest():
            return ApiKey.REMOVE_RAFT_VOTER
        case UpdateVoterRequest():
            return ApiKey.UPDATE_RAFT_VOTER
        case SupportRequest():
            return ApiKey.API_VERSIONS


def request_to_entity(request: VoterChangeRequest | SupportRequest) -> Entity:
    """The kio entity of a request, in the version that is sent."""
    api_key = api_of(request)
    entity_type = codec.request_class(api_key, SENT_VERSIONS[api_key])
    if isinstance(request, SupportRequest):
        name = {"client_software_name": "tidelog", "client_software_version": __version__}
        return make(entity_type, **name)
    values: dict[str, object] = {
        "cluster_id": request.cluster_id,
        "voter_id": request.voter.node_id,
        "voter_directory_id": uuid_of(request.voter.directory_id),
    }
    if isinstance(request.voter, Voter):
        listener_type = nested(entity_type, "listeners")
        values["listeners"] = tuple(
            make(listener_type, name=end.listener, host=end.host, port=end.port)
            for end in request.voter.endpoints
        )
    if isinstance(request, AddVoterRequest):
        values["timeout"] = millis(request.timeout_ms)
        values["ack_when_committed"] = request.waits_for_commit
    elif isinstance(request, UpdateVoterRequest):
        low, high = request.voter.kraft_versions
        values["current_leader_epoch"] = request.leader_epoch
        values["k_raft_version_feature"] = make(
            nested(entity_type, "k_raft_version_feature"),
            min_supported_version=low,
            max_supported_version=high,
        )
    return make(entity_type, **values)


def request_of(entity: Entity) -> VoterChangeRequest:
    """The value of a request of any version."""
    api_key = int(entity.__api_key__)
    directory_id = bytes_of(entity.voter_directory_id)
    if api_key == ApiKey.REMOVE_RAFT_VOTER:
        return RemoveVoterRequest(entity.cluster_id, ReplicaKey(entity.voter_id, directory_id))
    endpoints = tuple(Endpoint(end.name, end.host, end.port) for end in entity.listeners)
    if api_key == ApiKey.ADD_RAFT_VOTER:
        return AddVoterRequest(
            entity.cluster_id,
            Voter(entity.voter_id, directory_id, endpoints, SUPPORTED_VERSIONS),
            field(entity, "ack_when_committed", True),
            max(0, to_millis(entity.timeout)),
        )
    assert api_key == ApiKey.UPDATE_RAFT_VOTER, f"API {api_key} changes no voters"
    levels = entity.k_raft_version_feature
    versions = (levels.min_supported_version, levels.max_supported_version)
    voter = Voter(entity.voter_id, directory_id, endpoints, versions)
    return UpdateVoterRequest(entity.cluster_id, entity.current_leader_epoch, voter)


def response_to_entity(api_key: int, response: VoterChangeResponse, api_version: int) -> Entity:
    """The kio entity of a response, in the version of its request."""
    entity_type = codec.response_class(api_key, api_version)
    values: dict[str, object] = {
        "throttle_time": millis(0),
        "error_code": error(response.error_code),
    }
    if has_field(entity_type, "error_message"):
        values["error_message"] = response.message or None
    if has_field(entity_type, "current_leader"):
        endpoint = response.leader_endpoint or Endpoint("", "", -1)
        values["current_leader"] = make(
            nested(entity_type, "current_leader"),
            leader_id=response.leader_id,
            leader_epoch=response.leader_epoch,
            host=endpoint.host,
            port=endpoint.port,
        )
    return make(entity_type, **values)


def response_of(entity: Entity) -> VoterChangeResponse:
    """The value of the answer to a change."""
    code = error_of(entity.error_code)
    leader = field(entity, "current_leader", None)
    leader_id = NO_LEADER if leader is None else leader.leader_id
    leader_epoch = -1 if leader is None else leader.leader_epoch
    message = field(entity, "error_message", None) or ""
    return VoterChangeResponse(code, message, leader_id, leader_epoch)


def support_of(entity: Entity) -> SupportResponse:
    """The value of an ApiVersions answer."""
    for feature in entity.supported_features:
        if feature.name == KRAFT_VERSION:
            versions = (feature.min_version, feature.max_version)
            return SupportResponse(error_of(entity.error_code), versions)
    return SupportResponse(error_of(entity.error_code))
