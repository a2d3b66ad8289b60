"""Elections: when a replica asks for votes, and what it makes of the answers.

A replica that misses its leader asks first whether it would be elected (pre-vote, KIP-996), in the
epoch it is in. Only with the consent of a majority does it begin the next epoch, vote for itself,
and ask for real votes. A replica that is merely cut off therefore does not disturb the others:
voters that follow the leader refuse.

Early detection (`tidelog.broker.disconnect.grace.ms`). When the leader's process is gone, the
node's failure detector reports it long before the fetch timeout: the follower then doubts the
leader and asks for pre-votes at once. It still needs a majority that lost the leader as well, so
one bad link changes no leader. A follower acts as fast when the leader itself reports that it has
resigned.

Two at once. Followers lose a leader together and would split the vote. A random wait of a few
milliseconds separates them (`timers.py`), and a voter that grants a pre-vote steps back
(`voting.py`). A candidate that cannot win any more does not wait out its whole timeout either. All
of this is about time only.

Source: KIP-595, KIP-996.
"""

from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import epochs, transitions
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SUBJECT, DoubtReason, LeaderDoubted, RoleCause, RoleReason
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import VoteRequest, VoteResponse
from tidelog.kraft.quorum_state import ElectionState
from tidelog.kraft.roles import Campaign, Candidate, Follower, Prospective, Resigned, Unattached

MAX_STEPS: Final = 8
"""Roles that one instant may lead through, from resigned over unattached to candidate."""


# The start -------------------------------------------------------------------------------


def start(core: QuorumCore, now: Instant) -> None:
    """Takes up the role that the durable state allows.

    A replica that led must not lead that epoch again: what it had not flushed is lost, and it
    would write other records at the same offsets. So it resigns.
    """
    state = core.state_file.written
    if core.last_epoch > state.epoch:
        # Never below the log's epoch.
        core.env.trace.warn(
            SUBJECT,
            "start",
            "another epoch",
            "`quorum-state` was lost, or is older than the log",
            epoch=core.last_epoch,
            was=state.epoch,
        )
        state = ElectionState(core.last_epoch)
    if not core.may_campaign:
        transitions.install(core, Unattached(state, None, core.draw_probe_peer()))
    elif state.leader_id == core.own_id:
        successors = tuple(core.voter_key(peer_id) for peer_id in core.peers)
        transitions.install(core, Resigned(state, successors, core.draw_first_wait(now)))
    elif state.leader_id in core.voters:
        transitions.install(core, Follower(state, core.timers.fetch_deadline_from(now)))
    else:
        transitions.install(
            core, Unattached(state, core.draw_first_wait(now), core.draw_probe_peer())
        )


# Votes -----------------------------------------------------------------------------------


def on_vote_response(
    core: QuorumCore, peer_id: int, request: VoteRequest, response: VoteResponse, now: Instant
) -> None:
    """Counts an answer that was waited for."""
    if response.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID:
        # Not `maybe_transition`: epochs and leaders of another cluster do not count here.
        warn_of_other_cluster(core, peer_id)
    else:
        core.addresses.learn(response.leader_id, response.leader_endpoint)
        if transitions.heed(core, response, now, RoleCause(RoleReason.NAMED_BY_PEER, peer_id)):
            return
    role = core.role
    is_counted = isinstance(role, Prospective if request.pre_vote else Candidate)
    if not is_counted or not isinstance(role, Campaign) or request.epoch != role.epoch:
        return
    if response.error_code is ErrorCode.UNSUPPORTED_VERSION and request.pre_vote:
        # It knows no pre-votes: do without.
        transitions.become_candidate(core, now, RoleCause(RoleReason.PRE_VOTE_UNKNOWN, peer_id))
    else:
        granted = response.granted and response.error_code is ErrorCode.NONE
        role.ballot.record(peer_id, granted=granted)
    count_votes(core, now)


def warn_of_other_cluster(core: QuorumCore, peer_id: int) -> None:
    """A voter has answered INCONSISTENT_CLUSTER_ID; the operator must know."""
    core.env.trace.warn(
        SUBJECT,
        "warn_of_other_cluster",
        "refused",
        "the voter is of another cluster; hint: one of the two data directories is not of "
        "this cluster, check `log.dirs` and `controller.quorum.voters`",
        voter=peer_id,
        cluster_id=core.identity.cluster_id,
    )


def count_votes(core: QuorumCore, now: Instant) -> None:
    """Draws the consequence of the ballot, if it has one."""
    role = core.role
    if isinstance(role, Candidate) and core.state_file.durable == role.election:
        role.ballot.record(core.own_id, granted=True)
    if not isinstance(role, Campaign):
        return
    if role.ballot.is_won:
        if isinstance(role, Candidate):
            transitions.become_leader(core, now, role.ballot.cause(RoleReason.ELECTED))
        elif isinstance(role, Prospective) and role.yield_until <= now:
            transitions.become_candidate(core, now, role.ballot.cause(RoleReason.PRE_VOTE_WON))
    elif isinstance(role, Prospective) and role.ballot.is_lost:
        _give_up(core, role.ballot.cause(RoleReason.PRE_VOTE_LOST), now)
    elif isinstance(role, Candidate) and not role.has_lost:
        unreachable = [peer for peer in core.peers if core.requests.is_failing(peer)]
        if not role.ballot.can_be_won_without(unreachable):
            role.has_lost = True
            role.election_deadline = min(role.election_deadline, core.timers.draw_lost_wait(now))


def _give_up(core: QuorumCore, cause: RoleCause, now: Instant) -> None:
    if not core.addresses.knows(core.role.leader_id):
        # No leader is known, or only the own disk names it.
        transitions.become_unattached(core, core.role.election, now, cause)
    else:
        transitions.become_follower(core, core.epoch, core.role.leader_id, now, cause)


# Doubt and time --------------------------------------------------------------------------


def on_peer_suspected(core: QuorumCore, peer_id: int, now: Instant) -> None:
    """The node's failure detector reports that the peer's process is gone."""
    role = core.role
    if core.config.disconnect_grace_ms == 0:
        return
    if isinstance(role, Follower) and role.leader_id == peer_id:
        doubt_leader(core, now, DoubtReason.SUSPECTED_DEAD)


def doubt_leader(core: QuorumCore, now: Instant, reason: DoubtReason) -> None:
    """The leader that is followed has probably gone: ask for votes soon."""
    role = core.role
    assert isinstance(role, Follower), f"{role.name.value} doubts a leader"
    if role.leader_has_resigned:
        return
    role.is_in_doubt = True
    role.fetch_deadline = min(role.fetch_deadline, core.timers.draw_suspicion_jitter(now))
    core.env.trace.event(LeaderDoubted(reason=reason, leader=role.leader_id, epoch=role.epoch))


def wake(core: QuorumCore, now: Instant) -> None:
    """Acts on the role's deadline, and on the next role's if that is due as well."""
    for _ in range(MAX_STEPS):
        deadline = core.role.deadline()
        if deadline is None or deadline > now:
            return
        _on_deadline(core, now)
    raise AssertionError(f"{core.role.name.value} is due again and again at {now}")


def _on_deadline(core: QuorumCore, now: Instant) -> None:
    role = core.role
    if isinstance(role, Unattached) and core.may_only_follow:
        transitions.become_unattached(core, role.election, now, RoleCause(RoleReason.NO_STATE))
    elif isinstance(role, Unattached):
        transitions.become_prospective(core, now, RoleCause(RoleReason.NO_LEADER))
    elif isinstance(role, Follower):
        _on_fetch_deadline(core, role, now)
    elif isinstance(role, Prospective):
        if role.ballot.is_won and role.yield_until <= now:
            count_votes(core, now)
        else:
            _give_up(core, role.ballot.cause(RoleReason.PRE_VOTE_TIMED_OUT), now)
    elif isinstance(role, Candidate):
        transitions.become_prospective(core, now, role.ballot.cause(RoleReason.ELECTION_TIMED_OUT))
    elif isinstance(role, Leader):
        epochs.resign(core, now, RoleReason.MAJORITY_SILENT)
    elif isinstance(role, Resigned):
        transitions.become_unattached(
            core, ElectionState(role.epoch + 1), now, RoleCause(RoleReason.RESTED)
        )
    count_votes(core, now)


def _on_fetch_deadline(core: QuorumCore, role: Follower, now: Instant) -> None:
    role.is_in_doubt = True
    silent = RoleCause(RoleReason.LEADER_SILENT, role.leader_id)
    if core.may_campaign and not core.may_only_follow:
        transitions.become_prospective(core, now, silent)
    else:
        # A replica that cannot lead asks the voters for the leader; its state stays.
        state = role.election
        transitions.become_unattached(core, state, now, silent)
