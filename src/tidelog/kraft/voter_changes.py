"""Which changes of the voter set a leader refuses, and with which error.

Pure decisions over the leader's state, in Kafka's order: another cluster, another leader, a
malformed voter, a busy leader (REQUEST_TIMED_OUT: ask again), static voters (UNSUPPORTED_VERSION),
a voter that is there already or is not there, a replica that is not reached, does not fit, or lags.
Every function returns an error and its message; NONE and no message for a change that may begin.

Source: KIP-853; Kafka's AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler.
"""

from dataclasses import replace

from tidelog.env.instant import NEVER, Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    SupportRequest,
    SupportResponse,
    UpdateVoterRequest,
    Voter,
    VoterChangeRequest,
)
from tidelog.kraft.voters import DYNAMIC_VOTERS, KRAFT_VERSION, is_voter
from tidelog.model import ZERO_UUID

Refusal = tuple[ErrorCode, str]

ACCEPTED: Refusal = (ErrorCode.NONE, "")
_NOT_COMMITTED: Refusal = (
    ErrorCode.REQUEST_TIMED_OUT,
    "nothing of the leader's epoch is committed yet",
)


def decide_request(core: QuorumCore, request: VoterChangeRequest, *, is_changing: bool) -> Refusal:
    """Whether a change may begin; `is_changing` while another one is under way."""
    if not core.is_my_cluster(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID, "the request is for another cluster"
    role = core.role
    if not isinstance(role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {core.own_id} does not lead the quorum"
    if isinstance(request, UpdateVoterRequest) and request.current_leader_epoch != core.epoch:
        fenced = request.current_leader_epoch < core.epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
        return code, f"epoch {request.current_leader_epoch}, the leader's is {core.epoch}"
    refusal = _decide_form(core, request)
    if refusal != ACCEPTED:
        return refusal
    is_checking_support = core.requests.ready_at(request.voter.node_id, SupportRequest) == NEVER
    if is_changing or is_checking_support:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
    if role.high_watermark < 0:
        return _NOT_COMMITTED
    if not core.is_dynamic:
        return (
            ErrorCode.UNSUPPORTED_VERSION,
            "the voters are static (`kraft.version` 0) and cannot be changed",
        )
    offset = core.history.voters_offset
    assert offset is not None, "a version without voters"
    if offset >= core.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed"
    return _decide_by_set(core, request)


def _decide_form(core: QuorumCore, request: VoterChangeRequest) -> Refusal:
    voter = request.voter
    if voter.node_id < 0 or voter.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "a voter has an id and the id of its directory"
    if isinstance(voter, Voter):
        endpoints = core.identity.endpoints
        listener = endpoints[0].listener if endpoints else ""
        if listener not in [end.listener for end in voter.endpoints]:
            return ErrorCode.INVALID_REQUEST, f"the voter has no listener `{listener}`"
        low, high = voter.kraft_versions
        if not 0 <= low <= high:
            return ErrorCode.INVALID_REQUEST, f"`kraft.version` from {low} to {high}"
    return ACCEPTED


def _decide_by_set(core: QuorumCore, request: VoterChangeRequest) -> Refusal:
    voters, node_id = core.voters, request.voter.node_id
    if isinstance(request, AddVoterRequest):
        if node_id in voters:
            return (
                ErrorCode.DUPLICATE_VOTER,
                f"node {node_id} is a voter already; remove it first if its disk was replaced",
            )
    elif not is_voter(voters, ReplicaKey(node_id, request.voter.directory_id)):
        return ErrorCode.VOTER_NOT_FOUND, f"node {node_id} with this directory is not a voter"
    elif isinstance(request, RemoveVoterRequest) and len(voters) == 1:
        return ErrorCode.VOTER_NOT_FOUND, f"node {node_id} is the last voter"
    return ACCEPTED


def decide_support(
    core: QuorumCore,
    request: AddVoterRequest | UpdateVoterRequest,
    response: SupportResponse | None,
    now: Instant,
) -> Refusal:
    """Whether a newcomer fits that has answered what it supports, or is not reached (`None`)."""
    node_id = request.voter.node_id
    if response is None or response.error_code is not ErrorCode.NONE:
        address = core.addresses.choose(request.voter.endpoints)
        return ErrorCode.REQUEST_TIMED_OUT, f"node {node_id} was not reached at `{address}`"
    version = core.history.version
    if response.kraft_versions is None:
        return ErrorCode.INVALID_REQUEST, f"node {node_id} has no feature `kraft.version`"
    low, high = response.kraft_versions
    if not low <= version <= high:
        return (
            ErrorCode.INVALID_REQUEST,
            f"node {node_id} supports `kraft.version` {low} to {high}, not {version}",
        )
    key = ReplicaKey(node_id, request.voter.directory_id)
    assert isinstance(core.role, Leader), f"{core.role.name.value} changes voters"
    if isinstance(request, AddVoterRequest) and not core.role.is_caught_up(key, now):
        return (
            ErrorCode.REQUEST_TIMED_OUT,
            f"node {node_id} with this directory has not caught up with the metadata log",
        )
    return ACCEPTED


def decide_upgrade(core: QuorumCore, level: int, *, is_changing: bool) -> Refusal:
    """Whether `level` may become the `kraft.version`, or is it already."""
    role = core.role
    if not isinstance(role, Leader):
        return ErrorCode.NOT_CONTROLLER, f"node {core.own_id} does not lead the quorum"
    version = core.history.version
    if level < version or level > DYNAMIC_VOTERS:
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"`{KRAFT_VERSION}` is {version} and cannot become {level}",
        )
    if level == version:
        return ACCEPTED
    if is_changing or role.high_watermark < 0:
        return _NOT_COMMITTED
    unknown = [voter.node_id for voter in fetching_voters(core) if not any(voter.directory_id)]
    if unknown:
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"the directories of the voters {unknown} are not known: they have not fetched",
        )
    return ACCEPTED


def fetching_voters(core: QuorumCore) -> list[Voter]:
    """The configured voters with the directories for which they fetch from this leader."""
    role = core.role
    assert isinstance(role, Leader), f"{role.name.value} asks for directories"
    own = core.identity.directory_id
    return [
        replace(voter, directory_id=own if key == core.own_id else role.voters[key].directory_id)
        for key, voter in core.voters.items()
    ]
