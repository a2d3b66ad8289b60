"""The quorum's messages on the wire, as kio entities; Fetch is in `fetch_codec.py`.

| request | API | versions read | version sent |
| --- | --- | --- | --- |
| `VoteRequest` | Vote (52) | 0-2 | 2 or 1 |
| `BeginQuorumEpochRequest` | BeginQuorumEpoch (53) | 0-1 | 1 |
| `EndQuorumEpochRequest` | EndQuorumEpoch (54) | 0-1 | 1 |
| `QuorumFetchRequest` | Fetch (1) | 13-18 | 18 or 17 |
| `FetchSnapshotRequest` | FetchSnapshot (59) | 0-1 | 1 |
| `AddVoterRequest` | AddRaftVoter (80) | 0-1 | 1 |
| `RemoveVoterRequest` | RemoveRaftVoter (81) | 0 | 0 |
| `UpdateVoterRequest` | UpdateRaftVoter (82) | 0 | 0 |
| `SupportRequest` | ApiVersions (18) | by the node | 4 |

A message's fields have the names of the entity's, or the ones in its row of `_FORMS`; what is no
number or text has a conversion each way. A field that a version lacks is left out, and is read as
`_ABSENT` says.

The messages between replicas have the layout topics/partitions and concern exactly one partition;
anything else is malformed. A wrong cluster id is reported at the top of a response, every other
error with the partition, as Kafka does. A response with an error at the top has neither epoch nor
leader: it is read as epoch 0 and no leader, which no replica acts upon.

The bytes of a snapshot travel in a field for records, but they are cut anywhere and are never read
as batches here. Version 4 of ApiVersions is the first whose answer lists features that begin at
level 0, as `kraft.version` does.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from tidelog import __version__
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.kraft import messages
from tidelog.kraft.messages import ReplicaKey, Request, Response, SnapshotId
from tidelog.kraft.voters import KRAFT_VERSION, endpoints_of, plain_endpoints, plain_voter, voter_of
from tidelog.model import METADATA_PARTITION, METADATA_TOPIC, NO_LEADER, ZERO_UUID, Endpoint
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity, has_field, make, plain

TOP_LEVEL_ERRORS: Final = frozenset((ErrorCode.INCONSISTENT_CLUSTER_ID,))
"""Reported at the top of a response between replicas; every other error is the partition's."""


class _Form(NamedTuple):
    """How the messages of one API are written."""

    request: Any
    response: Any
    sent_version: int
    renamed: Mapping[str, str] = {}
    """The entity's name of a field where it is another than ours."""


_CHANGE: Final = {
    "timeout_ms": "timeout",
    "waits_for_commit": "ack_when_committed",
    "message": "error_message",
}
_FORMS: Final = {
    ApiKey.VOTE: _Form(
        messages.VoteRequest,
        messages.VoteResponse,
        2,
        {
            "epoch": "replica_epoch",
            "candidate_id": "replica_id",
            "candidate_directory_id": "replica_directory_id",
            "last_epoch": "last_offset_epoch",
            "granted": "vote_granted",
        },
    ),
    ApiKey.BEGIN_QUORUM_EPOCH: _Form(
        messages.BeginQuorumEpochRequest, messages.BeginQuorumEpochResponse, 1
    ),
    ApiKey.END_QUORUM_EPOCH: _Form(
        messages.EndQuorumEpochRequest, messages.EndQuorumEpochResponse, 1
    ),
    ApiKey.FETCH: _Form(messages.QuorumFetchRequest, messages.QuorumFetchResponse, 18),
    ApiKey.FETCH_SNAPSHOT: _Form(
        messages.FetchSnapshotRequest,
        messages.FetchSnapshotResponse,
        1,
        {"epoch": "current_leader_epoch", "size_bytes": "size", "data": "unaligned_records"},
    ),
    ApiKey.ADD_RAFT_VOTER: _Form(
        messages.AddVoterRequest, messages.VoterChangeResponse, 1, _CHANGE
    ),
    ApiKey.REMOVE_RAFT_VOTER: _Form(
        messages.RemoveVoterRequest, messages.VoterChangeResponse, 0, _CHANGE
    ),
    ApiKey.UPDATE_RAFT_VOTER: _Form(messages.UpdateVoterRequest, messages.VoterChangeResponse, 0),
    ApiKey.API_VERSIONS: _Form(messages.SupportRequest, messages.SupportResponse, 4),
}
_API_KEYS: Final = {form.request: key for key, form in _FORMS.items()}

SENT_VERSIONS: Final = {key: form.sent_version for key, form in _FORMS.items()}
"""The version in which each request is sent, and so the one in which its answer comes."""

_ONLY_METADATA: Final = "the quorum has exactly one partition, that of the metadata"
_ABSENT: Final = {
    "voter_id": -1,
    "voter_directory_id": ZERO_UUID,
    "replica_directory_id": ZERO_UUID,
    "pre_vote": False,
    "leader_endpoints": (),
    "node_endpoints": (),
}
"""What the fields stand for that older versions lack."""

_TO_WIRE: Final[dict[str, Any]] = {
    "leader_endpoints": plain_endpoints,
    "preferred_candidates": lambda keys: [
        {"candidate_id": node_id, "candidate_directory_id": disk} for node_id, disk in keys
    ],
    "snapshot_id": SnapshotId._asdict,
    "data": bytes,
    "message": lambda message: message or None,
}
_OF_WIRE: Final[dict[str, Any]] = {
    "leader_endpoints": endpoints_of,
    "preferred_candidates": lambda rows: tuple(ReplicaKey(*row.values()) for row in rows),
    "snapshot_id": lambda row: SnapshotId(**row),
    "data": lambda data: data or b"",
    "message": lambda message: message or "",
    "timeout_ms": lambda timeout_ms: max(0, timeout_ms),
}


def api_of(request: Request) -> ApiKey:
    """The API that carries a request."""
    return _API_KEYS[type(request)]


def _wire_values(message: Any, form: _Form) -> dict[str, Any]:
    """The plain values of a message under the entity's names."""
    values: dict[str, Any] = {}
    for item in fields(message):
        value = getattr(message, item.name)
        if item.name == "voter":
            values |= plain_voter(value)
        else:
            convert = _TO_WIRE.get(item.name)
            values[form.renamed.get(item.name, item.name)] = convert(value) if convert else value
    return values


def _message(message_type: Any, form: _Form, values: Mapping[str, Any]) -> Any:
    """The message of plain values; a field that has none keeps its default."""
    found = {}
    for item in fields(message_type):
        name = form.renamed.get(item.name, item.name)
        if name in values:
            convert = _OF_WIRE.get(item.name)
            found[item.name] = convert(values[name]) if convert else values[name]
    return message_type(**found)


def _about_the_quorum(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The list of topics of a message about the one partition, under all names that it has."""
    index = METADATA_PARTITION.partition
    partition = {**values, "partition_index": index, "partition": index, "index": index}
    return [{"topic_name": METADATA_TOPIC, "name": METADATA_TOPIC, "partitions": [partition]}]


def _only_partition(topics: list[Any], fault: ProtocolError) -> Any:
    if len(topics) != 1 or len(topics[0]["partitions"]) != 1:
        raise fault
    # The name and the number come first in both.
    topic, partition = next(iter(topics[0].values())), topics[0]["partitions"][0]
    if (topic, next(iter(partition.values()))) != METADATA_PARTITION:
        raise fault
    return partition


def request_to_entity(request: Request, *, is_older: bool = False) -> Entity:
    """The kio entity of a request, in the version that is sent, or in the one before."""
    key = api_of(request)
    form = _FORMS[key]
    if isinstance(request, messages.SupportRequest):
        values = {"client_software_name": "tidelog", "client_software_version": __version__}
    else:
        values = _wire_values(request, form)
    entity_type = codec.request_class(key, form.sent_version - is_older)
    return make(entity_type, **{**values, "topics": _about_the_quorum(values)})


def request_of(entity: Entity) -> Any:
    """The value of a request of any version.

    Raises `ProtocolError` when it is one between replicas and not about exactly the metadata
    partition.
    """
    form = _FORMS[ApiKey(entity.__api_key__)]
    values = {**_ABSENT, **plain(entity)}
    if "topics" in values:
        fault = ProtocolError(ErrorCode.INVALID_REQUEST, _ONLY_METADATA)
        values |= _only_partition(values["topics"], fault)
        successors = values.get("preferred_successors", ())
        values.setdefault("preferred_candidates", [{"node_id": node_id} for node_id in successors])
    elif form.request is messages.RemoveVoterRequest:
        values["voter"] = ReplicaKey(values["voter_id"], values["voter_directory_id"])
    else:
        values["voter"] = voter_of(values)
    return _message(form.request, form, values)


def response_to_entity(api_key: ApiKey, response: Response, api_version: int) -> Entity:
    """The kio entity of a response, in the version of its request."""
    assert not isinstance(response, messages.SupportResponse), "ApiVersions is answered by the node"
    entity_type = codec.response_class(api_key, api_version)
    values = {"throttle_time": 0, **_wire_values(response, _FORMS[api_key])}
    endpoint = response.leader_endpoint or Endpoint("", "", -1)
    reached = {"node_id": response.leader_id, "host": endpoint.host, "port": endpoint.port}
    values["current_leader"] = {**values, **reached}
    if response.leader_endpoint is not None:
        values["node_endpoints"] = [reached]
    if has_field(entity_type, "topics"):
        at_top = response.error_code in TOP_LEVEL_ERRORS
        values["topics"] = [] if at_top else _about_the_quorum(values)
        values = values if at_top else {**values, "error_code": ErrorCode.NONE}
    return make(entity_type, **values)


def response_of(entity: Entity) -> Any:
    """The value of a response of any version.

    Raises `MalformedFrame` when it is one between replicas and not about exactly the metadata
    partition.
    """
    form = _FORMS[ApiKey(entity.__api_key__)]
    values = {**_ABSENT, **plain(entity)}
    if form.response is messages.SupportResponse:
        return _support_of(values)
    if "topics" in values:
        if values["error_code"] is not ErrorCode.NONE:
            return form.response(values["error_code"], NO_LEADER, 0)
        values |= _only_partition(values["topics"], MalformedFrame(_ONLY_METADATA))
    leader = values.get("current_leader", values)
    values |= {name: leader[name] for name in ("leader_id", "leader_epoch") if name in leader}
    for node in values["node_endpoints"]:
        if node["node_id"] == values["leader_id"]:
            values["leader_endpoint"] = Endpoint("", node["host"], node["port"])
    return _message(form.response, form, values)


def _support_of(values: Mapping[str, Any]) -> messages.SupportResponse:
    versions = None
    for feature in values["supported_features"]:
        if feature["name"] == KRAFT_VERSION:
            versions = (feature["min_version"], feature["max_version"])
    return messages.SupportResponse(values["error_code"], versions)
