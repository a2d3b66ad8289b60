"""SyncGroup, Heartbeat and LeaveGroup: what members ask between two rebalances.

    state                SyncGroup                Heartbeat
    Empty                UNKNOWN_MEMBER_ID        UNKNOWN_MEMBER_ID
    PreparingRebalance   REBALANCE_IN_PROGRESS    REBALANCE_IN_PROGRESS
    CompletingRebalance  waits for the leader's   -
    Stable               the assignment           -

Before that: an unknown member is UNKNOWN_MEMBER_ID, a static one that was replaced
FENCED_INSTANCE_ID, another generation ILLEGAL_GENERATION, another protocol in SyncGroup
INCONSISTENT_GROUP_PROTOCOL. A heartbeat renews the session in any
state, also with REBALANCE_IN_PROGRESS: the member is alive, and is about to join.

Source: KIP-62, KIP-345, KIP-559.
"""

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup, Member
from tidelog.groups.env import AssignmentCommitted, Env
from tidelog.groups.events import RebalanceReason, RemovalReason
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import (
    NO_MEMBER,
    Heartbeat,
    HeartbeatResult,
    LeaveGroup,
    LeaveGroupResult,
    Leaver,
    SyncGroup,
    SyncGroupResult,
)
from tidelog.groups.rebalances import Rebalances
from tidelog.groups.records import GroupRecord
from tidelog.rsm.coordinator import ReplyTo


class Membership:
    """Decides every SyncGroup, Heartbeat and LeaveGroup of one coordinator."""

    __slots__ = ("_env", "_rebalances")

    def __init__(self, env: Env, rebalances: Rebalances) -> None:
        self._env = env
        self._rebalances = rebalances

    # SyncGroup ----------------------------------------------------------------------------

    def sync(self, request: SyncGroup, reply_to: ReplyTo, now: Instant) -> None:
        """Answers, or leaves the request waiting for the assignment."""
        group = self._env.find(request.group_id)
        code = _fault_of(group, request)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            assert group is not None, f"{request.group_id} has a member"
            code = _fault_of_protocol(group, request) or code
        if code is not ErrorCode.NONE:
            self._env.answer(reply_to, SyncGroupResult(code))
            return
        assert group is not None, f"{request.group_id} has a member"
        member = group.members[request.member_id]
        if group.state is GroupState.STABLE:
            member.has_synced = True
            self._env.begin_session(group, member, now)
            self._env.answer(reply_to, group.assignment_of(member))
            return
        assert group.state is GroupState.COMPLETING, f"{group.group_id} is {group.state}"
        self._rebalances.await_sync(group, member, reply_to)
        if member.member_id == group.leader_id:
            self._write_assignment(group, dict(request.assignments), now)

    def _write_assignment(
        self, group: ClassicGroup, assignments: dict[str, bytes], now: Instant
    ) -> None:
        """The members get it when it is committed."""
        record = GroupRecord(group.group_id, group.value(assignments, self._env.wall_ms(now)))
        token = AssignmentCommitted(group.group_id, group.generation_id, tuple(assignments.items()))
        code = self._env.append([record], token, token)
        if code is not ErrorCode.NONE:
            self._rebalances.on_assignment_lost(group, code, now)

    # Heartbeat ----------------------------------------------------------------------------

    def heartbeat(self, request: Heartbeat, reply_to: ReplyTo, now: Instant) -> None:
        """Answers at once."""
        group = self._env.groups.get(request.group_id)
        code = _fault_of(group, request)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            assert group is not None, f"{request.group_id} has a member"
            member = group.members[request.member_id]
            if member.join_reply is None and member.sync_reply is None:
                self._env.begin_session(group, member, now)
        self._env.answer(reply_to, HeartbeatResult(code))

    def on_disconnected(self, group_id: str, member_id: str, now: Instant) -> None:
        """The connection of a member has ended. Static members keep what they have meanwhile, and
        one that waits for the others is not watched."""
        group = self._env.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None or member.group_instance_id is not None:
            return
        if member.join_reply is None and member.sync_reply is None:
            key = (group_id, member_id)
            self._env.hasten(self._env.timers, key, member.session_timeout_ms, now)

    # LeaveGroup ---------------------------------------------------------------------------

    def leave(self, request: LeaveGroup, reply_to: ReplyTo, now: Instant) -> None:
        """Members leave at once; the answer waits for the record of what is left, if any."""
        if not request.group_id:
            self._env.answer(reply_to, LeaveGroupResult(ErrorCode.INVALID_GROUP_ID))
            return
        results: list[tuple[Leaver, ErrorCode]] = []
        group = self._env.find(request.group_id)
        if group is None:
            results = [(each, ErrorCode.UNKNOWN_MEMBER_ID) for each in request.leavers]
            self._env.answer(reply_to, LeaveGroupResult(ErrorCode.NONE, tuple(results)))
            return
        for leaver in request.leavers:
            results.append((leaver, self._leave(group, leaver, now)))
        has_left = any(code is ErrorCode.NONE for _, code in results)
        if has_left and group.state is not GroupState.EMPTY:
            self._rebalances.ask_again(group, RebalanceReason.MEMBER_LEFT, now)
        else:
            self._rebalances.go_on(group, now)
        self._env.write((), LeaveGroupResult(ErrorCode.NONE, tuple(results)), reply_to)

    def _leave(self, group: ClassicGroup, leaver: Leaver, now: Instant) -> ErrorCode:
        member_id = leaver.member_id
        if member_id in group.pending:
            self._rebalances.withdraw(group, member_id)
            return ErrorCode.NONE
        if member_id == NO_MEMBER and leaver.group_instance_id is not None:
            member_id = group.static_members.get(leaver.group_instance_id, NO_MEMBER)
        code = group.fault_of(member_id, leaver.group_instance_id)
        if code is ErrorCode.NONE:
            member: Member = group.members[member_id]
            self._rebalances.remove(group, member, RemovalReason.LEFT, now)
        return code


def _fault_of(group: ClassicGroup | None, request: SyncGroup | Heartbeat) -> ErrorCode:
    """What stands against a request of a member of a generation."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.fault_in_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )
    if code is not ErrorCode.NONE:
        return code
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _fault_of_protocol(group: ClassicGroup, request: SyncGroup) -> ErrorCode:
    is_other_type = request.protocol_type not in (None, group.protocol_type)
    is_other_name = request.protocol_name not in (None, group.protocol_name)
    if is_other_type or is_other_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE
