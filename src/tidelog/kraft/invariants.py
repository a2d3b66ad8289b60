"""The invariants that one replica can see of itself, by name.

Asserted here: EpochMonotonic, DurableBeforeSent, DurableBeforeCounted, SingleFetchInFlight,
HighWatermarkMonotonic, OwnEpochFirst, ValidRoles, BaseBeforeLeading. Each part asserts its own
beside. Theory: `docs/protocol/kraft.md`.
"""

from tidelog.kraft.core import QuorumCore
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import FetchSnapshotRequest, QuorumFetchRequest
from tidelog.kraft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from tidelog.model import NO_LEADER


def check_core(core: QuorumCore) -> None:
    """Asserts what holds between two inputs, whatever the role."""
    role, log = core.role, core.log
    core.state_file.check()
    assert core.state_file.written == role.election, (
        f"DurableBeforeSent: written {core.state_file.written}, role {role.election}"
    )
    assert core.outbox.is_sealed, "DurableBeforeSent: an output is not sealed"
    assert log.log_start_offset <= core.high_watermark <= log.log_end_offset, (
        f"HighWatermarkMonotonic: {log.log_start_offset} <= {core.high_watermark} <= "
        f"{log.log_end_offset}"
    )
    assert core.last_epoch <= core.epoch, (
        f"EpochMonotonic: log of epoch {core.last_epoch} in {core.epoch}"
    )
    core.snapshots.check()
    _check_fetches(core)


def check_role(core: QuorumCore, parked_count: int) -> None:
    """Asserts what holds for the present role; `parked_count` is of fetches that wait here."""
    role = core.role
    own_id = core.own_id
    assert not core.may_only_follow or isinstance(role, Unattached | Follower | Resigned), (
        f"BaseBeforeLeading: {role.name.value} without a state"
    )
    match role:
        case Leader():
            _check_leader(core, role)
        case Resigned():
            assert role.leader_id == own_id, f"ValidRoles: resigned, {role.leader_id} led"
        case Candidate():
            voted = role.voted
            assert voted == core.identity.key, f"ValidRoles: candidate voted {voted}"
            assert role.leader_id == NO_LEADER, f"ValidRoles: candidate of {role.leader_id}"
            counts_itself = own_id in role.ballot.granting
            assert not counts_itself or core.state_file.durable == role.election, (
                f"DurableBeforeCounted: own vote counted, durable {core.state_file.durable}"
            )
        case Prospective():
            assert core.may_campaign, "ValidRoles: an observer asks for votes"
        case Follower():
            assert role.leader_id not in (NO_LEADER, own_id), f"ValidRoles: {role.election}"
        case Unattached():
            assert core.may_campaign == (role.election_deadline is not None), "ValidRoles"
    assert isinstance(role, Leader) or not parked_count, (
        f"ValidRoles: {role.name.value} parks {parked_count} fetches"
    )


def _check_leader(core: QuorumCore, role: Leader) -> None:
    assert role.voted is not None, "ValidRoles: a leader has voted for itself"
    assert role.voted.node_id == role.leader_id == core.own_id, f"ValidRoles: {role.election}"
    assert role.own_end_offset <= core.log.recovery_point, (
        f"DurableBeforeCounted: counts {role.own_end_offset}, flushed {core.log.recovery_point}"
    )
    assert role.high_watermark == -1 or role.high_watermark > role.epoch_start_offset, (
        f"OwnEpochFirst: {role.high_watermark}, epoch starts at {role.epoch_start_offset}"
    )
    assert role.high_watermark <= core.high_watermark, (
        f"HighWatermarkMonotonic: leader {role.high_watermark}, known {core.high_watermark}"
    )


def _check_fetches(core: QuorumCore) -> None:
    fetches = core.requests.outstanding(QuorumFetchRequest)
    pieces = core.requests.outstanding(FetchSnapshotRequest)
    assert len(fetches) + len(pieces) <= 1, f"SingleFetchInFlight: {fetches}, {pieces}"
    for fetch in fetches:
        assert isinstance(fetch, QuorumFetchRequest)
        assert fetch.fetch_offset <= core.log.recovery_point, (
            f"DurableBeforeCounted: fetch at {fetch.fetch_offset}, "
            f"flushed {core.log.recovery_point}"
        )
