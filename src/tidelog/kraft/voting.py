"""The voter's side of an election: which candidate gets a vote, and how a voter steps back.

A vote is for one candidate per epoch and only for a log that is at least as long as the own one
(the table in `roles.py`). A pre-vote (KIP-996) promises nothing and changes no epoch. A voter that
grants one steps back for a moment, once in a role: of two replicas that lost the leader together,
one should ask first. Between two that already ask, the one with the longer log (then the lower id)
goes first. That is about time only, never about which replica may be elected.

Source: KIP-595, KIP-996; the order of checks is Kafka's.
"""

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import transitions
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import RoleCause, RoleReason, VoteGranted, VoteReason, VoteRefused
from tidelog.kraft.messages import ReplicaKey, VoteRequest, VoteResponse
from tidelog.kraft.quorum_state import ElectionState
from tidelog.kraft.roles import Follower, Prospective, Unattached, VoteDecision
from tidelog.kraft.timers import YIELD_MS
from tidelog.model import NO_LEADER


def on_vote_request(core: QuorumCore, request: VoteRequest, reply_to: object, now: Instant) -> None:
    """Grants or refuses."""
    error = _vote_error(core, request)
    if error is ErrorCode.NONE and request.epoch > core.epoch:
        transitions.maybe_transition(
            core,
            request.epoch,
            NO_LEADER,
            now,
            RoleCause(RoleReason.VOTE_ASKED, request.candidate_id),
        )
    if error is ErrorCode.NONE and not core.identity.is_named(
        request.voter_id, request.voter_directory_id
    ):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is ErrorCode.NONE:
        decision = _decide_vote(core, request, now)
    else:
        decision = VoteDecision(False, VoteReason(error.name))
    event = VoteGranted if decision.granted else VoteRefused
    core.env.trace.event(
        event(
            reason=decision.reason,
            peer_id=decision.peer_id,
            candidate=request.candidate_id,
            pre_vote=request.pre_vote,
            epoch=request.epoch,
            last_epoch=request.last_epoch,
            last_offset=request.last_offset,
        )
    )
    core.reply(reply_to, VoteResponse, error, granted=decision.granted)


def _vote_error(core: QuorumCore, request: VoteRequest) -> ErrorCode:
    if not core.is_my_cluster(request.cluster_id):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    newest_allowed = request.epoch if request.pre_vote else request.epoch - 1
    if not 0 <= request.last_epoch <= newest_allowed or request.last_offset < 0:
        return ErrorCode.INVALID_REQUEST
    if request.candidate_id < 0 or request.candidate_id == core.own_id:
        return ErrorCode.INVALID_REQUEST
    is_between_voters = core.is_voter and request.candidate_id in core.voters
    if not is_between_voters and not core.may_have_unknown_voters(request.voter_directory_id):
        # The voters are fixed: another node cannot ask for a vote, nor begin an epoch by its
        # request.
        return ErrorCode.INCONSISTENT_VOTER_SET
    return ErrorCode.FENCED_LEADER_EPOCH if request.epoch < core.epoch else ErrorCode.NONE


def _decide_vote(core: QuorumCore, request: VoteRequest, now: Instant) -> VoteDecision:
    mine = (core.last_epoch, core.log.log_end_offset)
    log_is_fresh = (request.last_epoch, request.last_offset) >= mine
    decision = core.role.decide_vote(request, log_is_fresh=log_is_fresh)
    if decision.granted and core.must_catch_up:
        decision = VoteDecision(False, VoteReason.LOST_RECORDS)
    if not decision.granted:
        return decision
    if request.pre_vote:
        _yield_to(core, request, now)
    elif core.role.voted is None:
        candidate = ReplicaKey(request.candidate_id, request.candidate_directory_id)
        state = ElectionState(core.epoch, core.role.leader_id, candidate)
        deadline = core.timers.draw_election_timeout(now)
        transitions.become_unattached(
            core, state, now, RoleCause(RoleReason.VOTED, request.candidate_id), deadline=deadline
        )
    return decision


def _yield_to(core: QuorumCore, request: VoteRequest, now: Instant) -> None:
    """Steps back for a moment, once in a role, after granting a pre-vote."""
    role = core.role
    if role.has_yielded:
        return
    until = Instant(now + YIELD_MS)
    if isinstance(role, Prospective):
        theirs = (request.last_epoch, request.last_offset, -request.candidate_id)
        if theirs <= (core.last_epoch, core.log.log_end_offset, -core.own_id):
            return
        role.yield_until = until
    elif isinstance(role, Follower):
        role.fetch_deadline = max(role.fetch_deadline, until)
    elif isinstance(role, Unattached) and role.election_deadline is not None:
        role.election_deadline = max(role.election_deadline, until)
    role.has_yielded = True
