"""The beginning and the end of a leader's epoch, as its voters learn of them.

A new leader announces itself to the voters that do not fetch (BeginQuorumEpoch). One that resigns
names its successors, the voter with the longest log first (EndQuorumEpoch): that one asks for votes
at once, each further one a little later. Followers of a leader that resigned stop fetching from it
and grant pre-votes.

Source: KIP-595; the order of checks is Kafka's.
"""

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import messages, transitions
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SUBJECT, LeaderResigned, RoleCause, RoleReason
from tidelog.kraft.leader import Leader
from tidelog.kraft.roles import Follower, Prospective, Resigned, is_same_replica
from tidelog.kraft.timers import end_epoch_backoff_ms
from tidelog.model import NO_LEADER, ZERO_UUID, Uuid


def on_begin_request(
    core: QuorumCore, request: messages.BeginQuorumEpochRequest, reply_to: object, now: Instant
) -> None:
    """A leader announces its epoch."""
    disk = request.voter_directory_id
    error = _leader_error(core, request, disk)
    if error is ErrorCode.NONE and not core.identity.is_named(request.voter_id, disk):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is ErrorCode.NONE:
        core.timers.has_known_leader = True
        transitions.heed(core, request, now, RoleCause(RoleReason.NAMED_BY_LEADER))
        role = core.role
        if isinstance(role, Prospective):
            transitions.become_follower(
                core, core.epoch, role.leader_id, now, RoleCause(RoleReason.LEADER_ANNOUNCED)
            )
        elif isinstance(role, Follower) and not role.leader_has_resigned:
            role.fetch_deadline = max(role.fetch_deadline, core.timers.fetch_deadline_from(now))
            role.fetch_at = now
    core.reply(reply_to, messages.BeginQuorumEpochResponse, error)


def on_begin_response(
    core: QuorumCore, peer_id: int, response: messages.BeginQuorumEpochResponse, now: Instant
) -> None:
    """A voter knows this leader, or another one."""
    core.addresses.learn(response.leader_id, response.leader_endpoint)
    transitions.heed(core, response, now, RoleCause(RoleReason.NAMED_BY_PEER, peer_id))


def on_end_request(
    core: QuorumCore, request: messages.EndQuorumEpochRequest, reply_to: object, now: Instant
) -> None:
    """The leader resigns; the best successor goes first."""
    error = _leader_error(core, request)
    if error is ErrorCode.NONE:
        transitions.heed(core, request, now, RoleCause(RoleReason.NAMED_BY_LEADER))
        role = core.role
        if isinstance(role, Follower):
            role.is_in_doubt = role.leader_has_resigned = True
            role.fetch_deadline = Instant(now + _successor_wait_ms(core, request))
            core.env.trace.event(
                LeaderResigned(
                    leader=request.leader_id,
                    epoch=request.leader_epoch,
                    ask_in_ms=role.fetch_deadline - now,
                )
            )
    core.reply(reply_to, messages.EndQuorumEpochResponse, error)


def _successor_wait_ms(core: QuorumCore, request: messages.EndQuorumEpochRequest) -> int:
    max_ms = core.config.election_backoff_max_ms
    successors = request.preferred_candidates
    for position, successor in enumerate(successors):
        if is_same_replica(successor, core.identity.key):
            return end_epoch_backoff_ms(position, len(successors), max_ms)
    return max_ms


def on_end_response(
    core: QuorumCore, peer_id: int, response: messages.EndQuorumEpochResponse, now: Instant
) -> None:
    """A voter knows that this leader resigned."""
    transitions.heed(core, response, now, RoleCause(RoleReason.NAMED_BY_PEER, peer_id))
    if isinstance(core.role, Resigned):
        core.role.on_acknowledged(peer_id)


def resign(core: QuorumCore, now: Instant, reason: RoleReason) -> None:
    """A leader gives up its epoch; any other role stays as it is."""
    if isinstance(core.role, Leader):
        keys = {peer_id: core.voter_key(peer_id) for peer_id in core.peers}
        transitions.become_resigned(
            core, tuple(core.role.by_progress(keys)), now, RoleCause(reason)
        )


def _leader_error(
    core: QuorumCore,
    request: messages.BeginQuorumEpochRequest | messages.EndQuorumEpochRequest,
    named_disk: Uuid = ZERO_UUID,
) -> ErrorCode:
    leader_id, epoch = request.leader_id, request.leader_epoch
    if not core.is_my_cluster(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    known_id = core.role.election.leader_id
    if epoch == core.epoch and known_id not in (NO_LEADER, leader_id):
        core.env.trace.error(
            SUBJECT,
            "leader_error",
            "refused",
            "another replica leads this epoch: the request is forged, or ElectionSafety broken",
            epoch=epoch,
            leader=known_id,
            named=leader_id,
        )
        return ErrorCode.INVALID_REQUEST
    may_teach = core.may_have_unknown_voters(named_disk)
    if request.leader_endpoints and may_teach:
        core.addresses.learn(leader_id, core.addresses.choose(request.leader_endpoints))
    is_other = core.addresses.knows(leader_id) and leader_id != core.own_id
    return ErrorCode.NONE if is_other else ErrorCode.INVALID_REQUEST
