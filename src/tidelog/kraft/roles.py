"""What a replica is: one small class for each role, holding only what that role needs.

Each role knows three things about itself: which election state it stands for, how it answers a
request for a vote, and which peers it wants to send a request to. `transitions.py` moves a
replica from role to role.

The answers to votes (KIP-996). "Log" means: the candidate's log is at least as long as mine,
epoch first.

| my role | pre-vote | vote |
| --- | --- | --- |
| unattached, prospective | log | none given in this epoch, no leader known, and log |
| follower | log, but only while the leader is in doubt | no |
| candidate, resigned | log | no: the vote of this epoch is my own |
| leader | no | no |

A follower that is in contact with its leader refuses pre-votes: a replica that is cut off cannot
take the leadership away from those that are not. The leader is in doubt until the first successful
fetch from it, and again once it is suspected dead or has resigned.

The leader's role is in `leader.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from tidelog.env.instant import Instant
from tidelog.kraft.events import RoleCause, RoleReason, VoteReason
from tidelog.kraft.messages import ReplicaKey, VoteRequest
from tidelog.kraft.quorum_state import ElectionState, RoleName
from tidelog.model import NO_LEADER, ZERO_UUID


class VoteDecision(NamedTuple):
    """Granted or not, and why."""

    granted: bool
    reason: VoteReason
    peer_id: int = -1
    """The replica that the reason names; -1 for none."""


class PlannedRequest(NamedTuple):
    """A role wants to send its request to this peer, not before `due`."""

    peer_id: int
    due: Instant


class Role(ABC):
    """What all roles have in common."""

    name: ClassVar[RoleName]

    def __init__(self, state: ElectionState) -> None:
        # The quorum epoch; fixed for the life of a role object.
        self.epoch: int = state.epoch
        # The leader of this epoch, -1 when unknown; fixed for the life of a role object.
        self.leader_id: int = state.leader_id
        # The candidate that has its vote in this epoch; fixed for the life of a role object.
        self.voted: ReplicaKey | None = state.voted
        # Whether it has already stepped back once for a replica that asked for a pre-vote.
        self.has_yielded: bool = False

    @property
    def election(self) -> ElectionState:
        """What must be durable while in this role."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    @abstractmethod
    def decide_vote(self, request: VoteRequest, *, log_is_fresh: bool) -> VoteDecision:
        """The answer to a request in this epoch."""

    def deadline(self) -> Instant | None:
        """When this role must act even if nothing happens."""
        return None

    def planned_requests(self) -> list[PlannedRequest]:
        """The peers to send the role's request to, and from when on."""
        return []


def _decide_by_log(log_is_fresh: bool) -> VoteDecision:
    return VoteDecision(
        log_is_fresh, VoteReason.LOG_FRESH if log_is_fresh else VoteReason.LOG_STALE
    )


def _decide_uncommitted(role: Role, request: VoteRequest, *, log_is_fresh: bool) -> VoteDecision:
    """For roles that may still have a vote to give."""
    if request.pre_vote:
        return _decide_by_log(log_is_fresh)
    candidate = ReplicaKey(request.candidate_id, request.candidate_directory_id)
    if role.voted is not None and not is_same_replica(role.voted, candidate):
        return VoteDecision(False, VoteReason.VOTED_FOR_OTHER, role.voted.node_id)
    if role.voted is None and role.leader_id != NO_LEADER:
        return VoteDecision(False, VoteReason.LEADER_KNOWN, role.leader_id)
    return _decide_by_log(log_is_fresh)


def _decide_own_vote(_: Role, request: VoteRequest, *, log_is_fresh: bool) -> VoteDecision:
    """For roles whose vote of this epoch is their own."""
    if request.pre_vote:
        return _decide_by_log(log_is_fresh)
    return VoteDecision(False, VoteReason.VOTED_FOR_ITSELF)


def is_same_replica(one: ReplicaKey, other: ReplicaKey) -> bool:
    """Same id and same directory; a directory that is not known matches any."""
    if one.node_id != other.node_id:
        return False
    return ZERO_UUID in (one.directory_id, other.directory_id) or one == other


class Unattached(Role):
    """Knows its epoch and no leader. Asks other replicas for one; a voter also waits for its
    turn to ask for votes."""

    name = RoleName.UNATTACHED

    def __init__(
        self, state: ElectionState, election_deadline: Instant | None, probe_peer: int | None
    ) -> None:
        super().__init__(state)
        # When to become prospective; None for an observer, which never does.
        self.election_deadline: Instant | None = election_deadline
        # The replica to ask next for the leader; None when there is none to ask.
        self.probe_peer: int | None = probe_peer
        # When to ask it.
        self.probe_at: Instant = Instant(0)
        # The pause after the next answer that names no leader; doubles up to a bound.
        self.probe_wait_ms: int = 0

    decide_vote = _decide_uncommitted

    def deadline(self) -> Instant | None:
        """The election deadline."""
        return self.election_deadline

    def planned_requests(self) -> list[PlannedRequest]:
        """A fetch to find the leader."""
        return [] if self.probe_peer is None else [PlannedRequest(self.probe_peer, self.probe_at)]


class Follower(Role):
    """Fetches from the leader."""

    name = RoleName.FOLLOWER

    def __init__(self, state: ElectionState, fetch_deadline: Instant) -> None:
        super().__init__(state)
        assert state.leader_id != NO_LEADER, f"a follower has a leader: {state}"
        # When to stop believing in the leader; each successful fetch moves it on.
        self.fetch_deadline: Instant = fetch_deadline
        # Whether the leader may be gone: grants pre-votes while true.
        self.is_in_doubt: bool = True
        # Whether the leader has resigned: it is not asked any more, and `fetch_deadline` is this
        # replica's turn among the successors.
        self.leader_has_resigned: bool = False
        # Not fetching before: after an answer that was an error.
        self.fetch_at: Instant = Instant(0)

    def decide_vote(self, request: VoteRequest, *, log_is_fresh: bool) -> VoteDecision:
        """See the table."""
        if request.pre_vote and self.is_in_doubt:
            return _decide_by_log(log_is_fresh)
        return VoteDecision(False, VoteReason.FOLLOWING, self.leader_id)

    def deadline(self) -> Instant | None:
        """The fetch deadline."""
        return self.fetch_deadline

    def planned_requests(self) -> list[PlannedRequest]:
        """The next fetch."""
        return [] if self.leader_has_resigned else [PlannedRequest(self.leader_id, self.fetch_at)]


class Ballot:
    """The answers of all voters to one request for votes."""

    def __init__(self, voter_ids: Sequence[int]) -> None:
        # One entry for each voter, in the order of ids; None until it answers.
        self._answers: dict[int, bool | None] = dict.fromkeys(sorted(voter_ids))
        # Votes that decide.
        self._majority: int = len(self._answers) // 2 + 1

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Notes an answer; a granted vote is never taken back."""
        if voter_id in self._answers and self._answers[voter_id] is not True:
            self._answers[voter_id] = granted

    @property
    def granting(self) -> list[int]:
        """The voters that granted, in the order of ids."""
        return [voter_id for voter_id, granted in self._answers.items() if granted]

    @property
    def undecided(self) -> list[int]:
        """The voters that have not answered, in the order of ids."""
        return [voter_id for voter_id, granted in self._answers.items() if granted is None]

    @property
    def is_won(self) -> bool:
        """A majority granted."""
        return len(self.granting) >= self._majority

    @property
    def is_lost(self) -> bool:
        """A majority cannot grant any more."""
        return not self.can_be_won_without(())

    def can_be_won_without(self, absent: Sequence[int]) -> bool:
        """Whether the voters that have not answered suffice, the absent ones left out."""
        hoped_for = [voter_id for voter_id in self.undecided if voter_id not in absent]
        return len(self.granting) + len(hoped_for) >= self._majority

    def cause(self, reason: RoleReason) -> RoleCause:
        """The cause of a change of role that these votes decide."""
        granted_count, voter_count = len(self.granting), len(self._answers)
        return RoleCause(reason, granted_count=granted_count, voter_count=voter_count)


class Campaign(Role):
    """What prospective and candidate share: a ballot and a time limit."""

    def __init__(
        self, state: ElectionState, own_id: int, voter_ids: Sequence[int], deadline: Instant
    ) -> None:
        super().__init__(state)
        # This node, which sends itself nothing.
        self._own_id: int = own_id
        # The answers so far.
        self.ballot: Ballot = Ballot(voter_ids)
        # When to give up.
        self.election_deadline: Instant = deadline

    def deadline(self) -> Instant | None:
        """When to give up."""
        return self.election_deadline

    def planned_requests(self) -> list[PlannedRequest]:
        """A request to each voter that has not answered."""
        undecided = self.ballot.undecided
        return [
            PlannedRequest(peer_id, Instant(0)) for peer_id in undecided if peer_id != self._own_id
        ]


class Prospective(Campaign):
    """Asks for pre-votes in the epoch it is in. Nothing of it is durable, and no epoch changes."""

    name = RoleName.PROSPECTIVE

    def __init__(
        self, state: ElectionState, own_id: int, voter_ids: Sequence[int], deadline: Instant
    ) -> None:
        super().__init__(state, own_id, voter_ids, deadline)
        self.ballot.record(own_id, granted=True)
        # Not becoming a candidate before: a voter with a longer log asks, too.
        self.yield_until: Instant = Instant(0)

    decide_vote = _decide_uncommitted

    def deadline(self) -> Instant | None:
        """When to give up, or to go on after having stepped back."""
        if self.ballot.is_won:
            return min(self.election_deadline, self.yield_until)
        return self.election_deadline


class Candidate(Campaign):
    """Has begun an epoch. Its own vote counts once it is durable, like every vote."""

    name = RoleName.CANDIDATE

    has_lost: bool = False
    """Whether a majority is out of reach and `election_deadline` was moved up for that."""

    decide_vote = _decide_own_vote


class Resigned(Role):
    """Led this epoch. Announces its resignation to all voters, and waits."""

    name = RoleName.RESIGNED

    def __init__(
        self, state: ElectionState, successors: Sequence[ReplicaKey], election_deadline: Instant
    ) -> None:
        super().__init__(state)
        # The other voters, the one that has replicated most first.
        self.successors: tuple[ReplicaKey, ...] = tuple(successors)
        # When to begin anew, in the next epoch.
        self.election_deadline: Instant = election_deadline
        # Voters that have not confirmed the resignation.
        self._unacknowledged: list[int] = [successor.node_id for successor in successors]

    @property
    def is_acknowledged(self) -> bool:
        """Whether all voters know of the resignation."""
        return not self._unacknowledged

    def on_acknowledged(self, peer_id: int) -> None:
        """The peer knows."""
        if peer_id in self._unacknowledged:
            self._unacknowledged.remove(peer_id)

    decide_vote = _decide_own_vote

    def deadline(self) -> Instant | None:
        """When to begin anew."""
        return self.election_deadline

    def planned_requests(self) -> list[PlannedRequest]:
        """The resignation, to each voter that has not confirmed it."""
        return [PlannedRequest(peer_id, Instant(0)) for peer_id in self._unacknowledged]
