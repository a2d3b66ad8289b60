"""Elections: who asks for votes when, who grants them, and how a leader begins and ends.

A replica that misses its leader asks first whether it would be elected (pre-vote, KIP-996), in
the epoch it is in. Only with the consent of a majority does it begin the next epoch, vote for
itself, and ask for real votes. A replica that is merely cut off therefore disturbs nobody: those
who hear the leader refuse.

Early detection (`tidelog.broker.disconnect.grace.ms`). When the leader's process is gone, the
node's failure detector says so long before the fetch timeout: the follower then doubts the leader
and asks for pre-votes at once. It still needs a majority that lost the leader as well, so one bad
link elects nobody. The same haste is in order when the leader itself says that it is none.

Two at once. Followers lose a leader together and would split the vote. A random wait of a few
milliseconds separates them, and whoever grants a pre-vote steps back for a moment, once; between
two that already ask, the one with the longer log (then the lower id) goes first. A candidate that
cannot win any more does not wait out its whole timeout either. All of this is about time only.

Source: KIP-595, KIP-996; the order of checks is Kafka's.
"""

from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft.core import SUBJECT, YIELD_MS, QuorumCore
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ReplicaKey,
    VoteRequest,
    VoteResponse,
)
from tidelog.kraft.quorum_state import ElectionState
from tidelog.kraft.roles import (
    Campaign,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
    VoteDecision,
    is_same_replica,
)
from tidelog.model import NO_LEADER, ZERO_UUID, Uuid

LOST_WAIT_MS: Final = (YIELD_MS, 3 * YIELD_MS)
"""A candidate that cannot win any more waits this long for the winner before it asks again."""

MAX_STEPS: Final = 8
"""Roles that one instant may lead through, from resigned over unattached to candidate."""


def end_epoch_backoff_ms(position: int, successor_count: int, max_ms: int) -> int:
    """How long the successor at `position` (0 is the best) waits before it asks for votes."""
    if position == 0:
        return 0
    return min(max_ms, (max_ms >> (successor_count - 1)) << (position - 1))


class Elections:
    """The election side of one replica."""

    __slots__ = ("_core",)

    def __init__(self, core: QuorumCore) -> None:
        # Roles, log and mouth, shared with replication.
        self._core = core

    # The start -------------------------------------------------------------------------------

    def start(self, now: Instant) -> None:
        """Takes up the role that the durable state allows.

        Who led must not lead that epoch again, because what it had not flushed is lost and it
        would write other records at the same offsets: it resigns.
        """
        core = self._core
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
            core.install(Unattached(state, None, core.draw_probe_peer()))
        elif state.leader_id == core.own_id:
            successors = tuple(core.voter_key(peer_id) for peer_id in core.peers)
            core.install(Resigned(state, successors, core.draw_first_wait(now)))
        elif state.leader_id in core.voters:
            core.install(Follower(state, core.fetch_deadline_from(now)))
        else:
            core.install(Unattached(state, core.draw_first_wait(now), core.draw_probe_peer()))

    # Votes -----------------------------------------------------------------------------------

    def on_vote_request(self, request: VoteRequest, reply_to: object, now: Instant) -> None:
        """Grants or refuses."""
        core = self._core
        error = self._vote_error(request)
        if error is ErrorCode.NONE and request.epoch > core.epoch:
            core.maybe_move(request.epoch, NO_LEADER, now, f"vote asked by {request.candidate_id}")
        if error is ErrorCode.NONE and not self._is_me(
            request.voter_id, request.voter_directory_id
        ):
            error = ErrorCode.INVALID_VOTER_KEY
        decision = VoteDecision(False, error.name)
        if error is ErrorCode.NONE:
            decision = self._decide_vote(request, now)
        core.env.trace.info(
            SUBJECT,
            "on_vote_request",
            "granted" if decision.granted else "refused",
            decision.reason,
            candidate=request.candidate_id,
            pre_vote=request.pre_vote,
            epoch=request.epoch,
            last_epoch=request.last_epoch,
            last_offset=request.last_offset,
        )
        core.reply(
            reply_to,
            VoteResponse(
                error, core.public_leader_id, core.epoch, decision.granted, core.leader_endpoint
            ),
        )

    def _vote_error(self, request: VoteRequest) -> ErrorCode:
        core = self._core
        if not core.is_my_cluster(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        newest_allowed = request.epoch if request.pre_vote else request.epoch - 1
        if not 0 <= request.last_epoch <= newest_allowed or request.last_offset < 0:
            return ErrorCode.INVALID_REQUEST
        if request.candidate_id < 0 or request.candidate_id == core.own_id:
            return ErrorCode.INVALID_REQUEST
        is_between_voters = core.is_voter and request.candidate_id in core.voters
        if not is_between_voters and not self._has_voters_in_log(request.voter_directory_id):
            # The voters are fixed: whoever is none of them has no business with a vote, nor with
            # the epoch that its request would begin.
            return ErrorCode.INCONSISTENT_VOTER_SET
        return self._epoch_error(request.epoch)

    def _decide_vote(self, request: VoteRequest, now: Instant) -> VoteDecision:
        core = self._core
        mine = (core.last_epoch, core.log.log_end_offset)
        log_is_fresh = (request.last_epoch, request.last_offset) >= mine
        decision = core.role.decide_vote(request, log_is_fresh=log_is_fresh)
        if decision.granted and core.must_catch_up:
            decision = VoteDecision(False, "has lost records that it acknowledged")
        if not decision.granted:
            return decision
        if request.pre_vote:
            self._yield_to(request, now)
        elif core.role.voted is None:
            candidate = ReplicaKey(request.candidate_id, request.candidate_directory_id)
            state = ElectionState(core.epoch, core.role.leader_id, candidate)
            deadline = core.draw_election_timeout(now)
            core.become_unattached(
                state, now, f"voted for {request.candidate_id}", deadline=deadline
            )
        return decision

    def _yield_to(self, request: VoteRequest, now: Instant) -> None:
        """Steps back for a moment, once in a role, after granting a pre-vote."""
        core = self._core
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

    def on_vote_response(
        self, peer_id: int, request: VoteRequest, response: VoteResponse, now: Instant
    ) -> None:
        """Counts an answer that was waited for."""
        core = self._core
        if response.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            # Not `maybe_move`: epochs and leaders of another cluster are none of ours.
            core.env.trace.warn(
                SUBJECT,
                "on_vote_response",
                "refused",
                "the voter is of another cluster; hint: one of the two data directories is not of "
                "this cluster, check `log.dirs` and `controller.quorum.voters`",
                voter=peer_id,
                cluster_id=core.identity.cluster_id,
            )
        else:
            core.learn_endpoint(response.leader_id, response.leader_endpoint)
            if core.maybe_move(
                response.leader_epoch, response.leader_id, now, f"told by {peer_id}"
            ):
                return
        role = core.role
        is_counted = isinstance(role, Prospective if request.pre_vote else Candidate)
        if not is_counted or not isinstance(role, Campaign) or request.epoch != role.epoch:
            return
        if response.error_code is ErrorCode.UNSUPPORTED_VERSION and request.pre_vote:
            # It knows no pre-votes: do without.
            core.become_candidate(now, f"{peer_id} knows no pre-vote")
        else:
            granted = response.granted and response.error_code is ErrorCode.NONE
            role.ballot.record(peer_id, granted=granted)
        self.count_votes(now)

    def count_votes(self, now: Instant) -> None:
        """Draws the consequence of the ballot, if it has one."""
        core = self._core
        role = core.role
        if isinstance(role, Candidate) and core.state_file.durable == role.election:
            role.ballot.record(core.own_id, granted=True)
        if not isinstance(role, Campaign):
            return
        if role.ballot.is_won:
            if isinstance(role, Candidate):
                core.become_leader(now, f"elected by {role.ballot}")
            elif isinstance(role, Prospective) and role.yield_until <= now:
                core.become_candidate(now, f"pre-vote won with {role.ballot}")
        elif isinstance(role, Prospective) and role.ballot.is_lost:
            self._give_up(f"pre-vote lost with {role.ballot}", now)
        elif isinstance(role, Candidate) and not role.has_lost:
            unreachable = [peer for peer in core.peers if core.requests.is_failing(peer)]
            if not role.ballot.can_be_won_without(unreachable):
                role.has_lost = True
                wait_ms = core.env.prng.between(*LOST_WAIT_MS)
                role.election_deadline = min(role.election_deadline, Instant(now + wait_ms))

    def _give_up(self, reason: str, now: Instant) -> None:
        core = self._core
        if not core.knows(core.role.leader_id):
            # Nobody, or somebody of whom only the own disk speaks.
            core.become_unattached(core.role.election, now, reason)
        else:
            core.become_follower(core.epoch, core.role.leader_id, now, reason)

    # The beginning and the end of an epoch -----------------------------------------------------

    def on_begin_request(
        self, request: BeginQuorumEpochRequest, reply_to: object, now: Instant
    ) -> None:
        """Somebody leads now."""
        core = self._core
        disk = request.voter_directory_id
        error = self._leader_error(request, disk)
        if error is ErrorCode.NONE and not self._is_me(request.voter_id, disk):
            error = ErrorCode.INVALID_VOTER_KEY
        if error is ErrorCode.NONE:
            core.has_known_leader = True
            core.maybe_move(request.leader_epoch, request.leader_id, now, "told by the leader")
            role = core.role
            if isinstance(role, Prospective):
                core.become_follower(core.epoch, role.leader_id, now, "heard the leader")
            elif isinstance(role, Follower) and not role.has_heard_goodbye:
                role.fetch_deadline = max(role.fetch_deadline, core.fetch_deadline_from(now))
                role.fetch_at = now
        core.reply(
            reply_to,
            BeginQuorumEpochResponse(
                error, core.public_leader_id, core.epoch, core.leader_endpoint
            ),
        )

    def on_begin_response(
        self, peer_id: int, response: BeginQuorumEpochResponse, now: Instant
    ) -> None:
        """A voter knows about us, or about somebody else."""
        self._core.learn_endpoint(response.leader_id, response.leader_endpoint)
        self._core.maybe_move(response.leader_epoch, response.leader_id, now, f"told by {peer_id}")

    def on_end_request(
        self, request: EndQuorumEpochRequest, reply_to: object, now: Instant
    ) -> None:
        """The leader says goodbye; the best successor goes first."""
        core = self._core
        error = self._leader_error(request)
        if error is ErrorCode.NONE:
            core.maybe_move(request.leader_epoch, request.leader_id, now, "told by the leader")
            role = core.role
            if isinstance(role, Follower):
                role.is_in_doubt = role.has_heard_goodbye = True
                role.fetch_deadline = Instant(now + self._successor_wait_ms(request))
                core.env.trace.info(
                    SUBJECT,
                    "on_end_request",
                    "doubts",
                    "the leader resigned",
                    leader=request.leader_id,
                    epoch=request.leader_epoch,
                    ask_in_ms=role.fetch_deadline - now,
                )
        core.reply(
            reply_to,
            EndQuorumEpochResponse(error, core.public_leader_id, core.epoch, core.leader_endpoint),
        )

    def _successor_wait_ms(self, request: EndQuorumEpochRequest) -> int:
        max_ms = self._core.config.election_backoff_max_ms
        successors = request.preferred_candidates
        for position, successor in enumerate(successors):
            if is_same_replica(successor, self._core.identity.key):
                return end_epoch_backoff_ms(position, len(successors), max_ms)
        return max_ms

    def on_end_response(self, peer_id: int, response: EndQuorumEpochResponse, now: Instant) -> None:
        """A voter knows that we resigned."""
        core = self._core
        core.maybe_move(response.leader_epoch, response.leader_id, now, f"told by {peer_id}")
        if isinstance(core.role, Resigned):
            core.role.on_acknowledged(peer_id)

    def resign(self, now: Instant, reason: str) -> None:
        """A leader gives up its epoch; any other role stays as it is."""
        core = self._core
        if isinstance(core.role, Leader):
            keys = {peer_id: core.voter_key(peer_id) for peer_id in core.peers}
            core.become_resigned(tuple(core.role.by_progress(keys)), now, reason)

    # Doubt and time --------------------------------------------------------------------------

    def on_peer_suspected(self, peer_id: int, now: Instant) -> None:
        """The peer's process is gone, says the node's failure detector."""
        role = self._core.role
        if self._core.config.disconnect_grace_ms == 0:
            return
        if isinstance(role, Follower) and role.leader_id == peer_id:
            self.doubt_leader(now, "suspected dead")

    def doubt_leader(self, now: Instant, reason: str) -> None:
        """The leader that is followed leads no more, probably: ask for votes soon."""
        core = self._core
        role = core.role
        assert isinstance(role, Follower), f"{role.name.value} doubts a leader"
        if role.has_heard_goodbye:
            return
        role.is_in_doubt = True
        role.fetch_deadline = min(role.fetch_deadline, core.draw_suspicion_jitter(now))
        core.env.trace.info(
            SUBJECT, "doubt_leader", "doubts", reason, leader=role.leader_id, epoch=role.epoch
        )

    def wake(self, now: Instant) -> None:
        """Acts on the role's deadline, and on the next role's if that is due as well."""
        for _ in range(MAX_STEPS):
            deadline = self._core.role.deadline()
            if deadline is None or deadline > now:
                return
            self._on_deadline(now)
        raise AssertionError(f"{self._core.role.name.value} is due again and again at {now}")

    def _on_deadline(self, now: Instant) -> None:
        core = self._core
        role = core.role
        if isinstance(role, Unattached) and core.must_listen:
            core.become_unattached(role.election, now, "has no state to lead with")
        elif isinstance(role, Unattached):
            core.become_prospective(now, "nobody leads")
        elif isinstance(role, Follower):
            self._on_fetch_deadline(role, now)
        elif isinstance(role, Prospective):
            if role.ballot.is_won and role.yield_until <= now:
                self.count_votes(now)
            else:
                self._give_up(f"pre-vote timed out with {role.ballot}", now)
        elif isinstance(role, Candidate):
            core.become_prospective(now, f"election timed out with {role.ballot}")
        elif isinstance(role, Leader):
            self.resign(now, "a majority does not fetch")
        elif isinstance(role, Resigned):
            core.become_unattached(ElectionState(role.epoch + 1), now, "rested after resigning")
        self.count_votes(now)

    def _on_fetch_deadline(self, role: Follower, now: Instant) -> None:
        core = self._core
        role.is_in_doubt = True
        if core.may_campaign and not core.must_listen:
            core.become_prospective(now, f"leader {role.leader_id} is silent")
        else:
            # Who cannot lead asks the voters who does; its state stays.
            state = role.election
            core.become_unattached(state, now, f"leader {role.leader_id} is silent")

    # Checks of requests ------------------------------------------------------------------------

    def _is_me(self, voter_id: int, directory_id: Uuid) -> bool:
        identity = self._core.identity
        if voter_id not in (-1, identity.node_id):
            return False
        return directory_id in (ZERO_UUID, identity.directory_id)

    def _has_voters_in_log(self, named_disk: Uuid) -> bool:
        """Whether a sender that names this disk as the receiver's may be, and may count this
        replica as, a voter of whom this one does not know. With voters in the log that may always
        be. With configured voters, when the disk is this replica's own: only a set in the log has
        that, and its record has not come here yet or was lost with the power, never acknowledged.
        """
        core = self._core
        return core.is_dynamic or named_disk == core.identity.directory_id

    def _epoch_error(self, epoch: int) -> ErrorCode:
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self._core.epoch else ErrorCode.NONE

    def _leader_error(
        self,
        request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
        named_disk: Uuid = ZERO_UUID,
    ) -> ErrorCode:
        core = self._core
        leader_id, epoch = request.leader_id, request.leader_epoch
        if not core.is_my_cluster(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        error = self._epoch_error(epoch)
        known_id = core.role.election.leader_id
        if epoch == core.epoch and known_id not in (NO_LEADER, leader_id):
            core.env.trace.error(
                SUBJECT,
                "on_request",
                "refused",
                "another replica leads this epoch: the request is forged, or ElectionSafety broken",
                epoch=epoch,
                leader=known_id,
                named=leader_id,
            )
            return ErrorCode.INVALID_REQUEST
        may_teach = self._has_voters_in_log(named_disk)
        if error is ErrorCode.NONE and request.leader_endpoints and may_teach:
            core.learn_endpoint(leader_id, core.choose(request.leader_endpoints))
        if not core.knows(leader_id) or leader_id == core.own_id or epoch < 0:
            return ErrorCode.INVALID_REQUEST
        return error
