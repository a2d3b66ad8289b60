"""Changes of a replica's role: the only way from one role to another.

Each `become_*` makes the role's object, checks the transition table and the succession of election
states, forgets outstanding requests and traces the cause. The durable write of the new state
follows when the input is handled (`QuorumCore.settle`), once for all changes that one input caused.

Left out: when to change; that is for `elections.py`, `voting.py`, `epochs.py` and `fetcher.py`.
"""

from tidelog.env.instant import Instant
from tidelog.kraft import events, messages
from tidelog.kraft.control_records import append_control, opening_records
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import RoleAtStart, RoleCause, RoleChanged
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import ReplicaKey
from tidelog.kraft.quorum_state import TRANSITIONS, ElectionState, check_succession
from tidelog.kraft.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached
from tidelog.model import NO_LEADER


def install(core: QuorumCore, role: Role) -> None:
    """Sets the role that a process starts with; later ones come from `become_*`."""
    core.role = role
    core.addresses.on_leader(role.leader_id)
    core.env.trace.event(RoleAtStart(role=role.name.value, **_figures(core)))


def become_unattached(
    core: QuorumCore,
    state: ElectionState,
    now: Instant,
    cause: RoleCause,
    *,
    deadline: Instant | None = None,
) -> None:
    """Follows no leader in this epoch, perhaps waiting for the candidate it voted for."""
    if not core.may_campaign:
        deadline = None
    elif deadline is None:
        deadline = core.draw_first_wait(now)
    role = Unattached(state, deadline, core.draw_probe_peer())
    _become(core, events.BecameUnattached, role, cause)


def become_follower(
    core: QuorumCore, epoch: int, leader_id: int, now: Instant, cause: RoleCause
) -> None:
    """Fetches from this leader."""
    voted = core.role.voted if epoch == core.epoch else None
    state = ElectionState(epoch, leader_id, voted)
    role = Follower(state, core.timers.fetch_deadline_from(now))
    _become(core, events.BecameFollower, role, cause)


def become_prospective(core: QuorumCore, now: Instant, cause: RoleCause) -> None:
    """Asks for pre-votes."""
    assert core.may_campaign, "an observer is never elected"
    deadline = core.timers.draw_election_timeout(now)
    role = Prospective(core.role.election, core.own_id, tuple(core.voters), deadline)
    _become(core, events.BecameProspective, role, cause)


def become_candidate(core: QuorumCore, now: Instant, cause: RoleCause) -> None:
    """Begins the next epoch with a vote for itself."""
    assert core.last_epoch <= core.epoch, f"log of epoch {core.last_epoch} in {core.epoch}"
    state = ElectionState(core.epoch + 1, NO_LEADER, core.identity.key)
    deadline = core.timers.draw_election_timeout(now)
    role = Candidate(state, core.own_id, tuple(core.voters), deadline)
    _become(core, events.BecameCandidate, role, cause)


def become_leader(core: QuorumCore, now: Instant, cause: RoleCause) -> None:
    """Leads, and opens the epoch with a LEADER_CHANGE record."""
    role = core.role
    assert isinstance(role, Candidate), f"only a candidate is elected, not {role.name.value}"
    assert core.state_file.durable == role.election, (
        f"DurableBeforeCounted: elected with {role.election}, durable {core.state_file.durable}"
    )
    assert core.last_epoch < role.epoch, f"log of epoch {core.last_epoch} before {role.epoch}"
    leader = Leader(
        ElectionState(role.epoch, core.own_id, role.voted),
        core.voter_keys(),
        epoch_start_offset=core.log.log_end_offset,
        fetch_timeout_ms=core.config.fetch_timeout_ms,
        now=now,
        counts_itself=core.is_voter,
    )
    core.timers.has_known_leader = True
    _become(core, events.BecameLeader, leader, cause)
    append_control(core, opening_records(core, role.ballot.granting), now)
    assert core.log.latest_epoch == role.epoch, f"{core.log.latest_epoch} in {role.epoch}"
    leader.count_own(core.durable_end_offset)


def become_resigned(
    core: QuorumCore, successors: tuple[ReplicaKey, ...], now: Instant, cause: RoleCause
) -> None:
    """Gives up an epoch that it led."""
    known = core.timers.has_known_leader
    deadline = core.timers.draw_election_timeout(now) if known else core.draw_first_wait(now)
    role = Resigned(core.role.election, successors, deadline)
    _become(core, events.BecameResigned, role, cause)


def maybe_transition(
    core: QuorumCore, epoch: int, leader_id: int, now: Instant, cause: RoleCause
) -> bool:
    """Moves on when a message shows a higher epoch, or a leader of this one that was not
    known; returns whether the role has changed."""
    if epoch < core.epoch:
        return False
    can_follow = leader_id != core.own_id and core.addresses.knows(leader_id)
    if epoch > core.epoch:
        if can_follow:
            become_follower(core, epoch, leader_id, now, cause)
        else:
            # A replica that raises the epoch must not put off the own turn again and again.
            current = core.role
            turn = current.election_deadline if isinstance(current, Unattached) else None
            become_unattached(core, ElectionState(epoch), now, cause, deadline=turn)
        return True
    if not can_follow:
        return False
    if core.role.leader_id == NO_LEADER or isinstance(core.role, Unattached):
        become_follower(core, epoch, leader_id, now, cause)
        return True
    assert leader_id == core.role.leader_id, (
        f"ElectionSafety: {leader_id} and {core.role.leader_id} lead epoch {epoch}"
    )
    return False


def heed(core: QuorumCore, message: messages.NamesLeader, now: Instant, cause: RoleCause) -> bool:
    """`maybe_transition` to the leader and the epoch that a message names."""
    return maybe_transition(core, message.leader_epoch, message.leader_id, now, cause)


def _become(core: QuorumCore, event: type[RoleChanged], role: Role, cause: RoleCause) -> None:
    assert role.name in TRANSITIONS[core.role.name], (
        f"ValidTransitions: {core.role.name.value} -> {role.name.value} ({cause})"
    )
    check_succession(core.role.election, role.election)
    core.role = role
    core.addresses.on_leader(role.leader_id)
    core.requests.forget_outstanding()
    core.env.trace.event(event(cause=cause, **_figures(core)))


def _figures(core: QuorumCore) -> dict[str, int]:
    """What every event about the role shows."""
    role = core.role
    return {
        "epoch": role.epoch,
        "leader": role.leader_id,
        "voted": -1 if role.voted is None else role.voted.node_id,
        "log_end": core.log.log_end_offset,
        "high_watermark": core.high_watermark,
    }
