"""JoinGroup: who becomes a member, and whether the group rebalances for it.

| who joins | what follows |
| --- | --- |
| a client, to a consumer group without members | it becomes a classic one |
| a client without member id | gets one, and comes back with it (KIP-394); a static one at once |
| a new member | rebalance |
| a static member's next process | its place and assignment in a stable group, else rebalance |
| a member, while the group rebalances | waits for the next generation |
| a member of a generation, unchanged | the generation again: its answer got lost |
| the leader of a stable group, or a member with other protocols | rebalance |

Source: KIP-345, KIP-394, KIP-814.
"""

from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups.classic_group import ClassicGroup, Member
from tidelog.groups.env import Env
from tidelog.groups.events import RebalanceReason
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import NO_MEMBER, JoinGroup, JoinGroupResult
from tidelog.groups.rebalances import Rebalances
from tidelog.groups.records import GroupRecord
from tidelog.limits import MAX_MEMBER_IDS_GIVEN_OUT, MAX_TEXT_BYTES
from tidelog.rsm.coordinator import Refused, ReplyTo
from tidelog.wire.notation import fitting

_DIGITS: Final = 37
"""Bytes of a member id behind the name."""


class Joining:
    """Decides every JoinGroup of one coordinator."""

    __slots__ = ("_env", "_rebalances")

    def __init__(self, env: Env, rebalances: Rebalances) -> None:
        self._env = env
        self._rebalances = rebalances

    def join(self, request: JoinGroup, reply_to: ReplyTo, now: Instant) -> None:
        """Answers, or leaves the request waiting for the next generation."""
        group = self._env.find(request.group_id)
        code = self._fault_of(request, group)
        if code is ErrorCode.NONE:
            code = self._convert(request.group_id)
        if code is not ErrorCode.NONE:
            self._refuse(request, reply_to, code)
            return
        if group is None:
            group = ClassicGroup(request.group_id)
        if request.member_id == NO_MEMBER:
            self._join_new(group, request, reply_to, now)
        elif request.member_id in group.pending:
            del group.pending[request.member_id]
            self._add(group, request, request.member_id, reply_to, now)
        else:
            self._join_again(group, request, reply_to, now)

    def _fault_of(self, request: JoinGroup, group: ClassicGroup | None) -> ErrorCode:
        config = self._env.config
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        low, high = config.min_session_timeout_ms, config.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if self._env.shares(request.group_id) is not None:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        member_id = request.member_id
        if group is None:
            if member_id != NO_MEMBER:
                return ErrorCode.UNKNOWN_MEMBER_ID
            group = ClassicGroup(request.group_id)
        if not self._has_room_for(group, member_id):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not group.supports(request.protocol_type, request.protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if member_id in group.pending:
            is_in_use = request.group_instance_id in group.static_members
            return ErrorCode.FENCED_INSTANCE_ID if is_in_use else ErrorCode.NONE
        if member_id == NO_MEMBER:
            return ErrorCode.NONE
        return group.fault_of(member_id, request.group_instance_id)

    def _convert(self, group_id: str) -> ErrorCode:
        """A consumer group without members gives way to a classic one."""
        group = self._env.consumers(group_id)
        return ErrorCode.NONE if group is None else self._env.append(group.tombstones(group_id))

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._env.config.max_size
        if member_id == NO_MEMBER and len(group.pending) >= MAX_MEMBER_IDS_GIVEN_OUT:
            return False
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING:
            is_waiting = member is not None and member.join_reply is not None
            return is_waiting or sum(1 for _ in group.joined) < limit
        return member is not None or len(group.members) < limit

    def _refuse(self, request: JoinGroup, reply_to: ReplyTo, code: ErrorCode) -> None:
        is_full = code is ErrorCode.GROUP_MAX_SIZE_REACHED
        self._env.answer(
            reply_to, JoinGroupResult(code, NO_MEMBER if is_full else request.member_id)
        )

    # New members --------------------------------------------------------------------------

    def _join_new(
        self, group: ClassicGroup, request: JoinGroup, reply_to: ReplyTo, now: Instant
    ) -> None:
        instance_id = request.group_instance_id
        member_id = self._new_member_id(request.client_id if instance_id is None else instance_id)
        if instance_id is not None:
            if instance_id in group.static_members:
                self._replace(group, request, member_id, reply_to, now)
            else:
                self._add(group, request, member_id, reply_to, now)
        elif request.requires_member_id:
            group.pending[member_id] = None
            self._env.keep(group)
            deadline = Instant(now + request.session_timeout_ms)
            self._env.timers.set((group.group_id, member_id), deadline)
            self._env.answer(reply_to, JoinGroupResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, request, member_id, reply_to, now)

    def _new_member_id(self, name: str) -> str:
        """No other member can have it, not even one that another coordinator named."""
        digits = self._env.prng.uuid().hex()
        parts = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
        # The id must fit into answers and records, and a client's name may be as long as any text.
        return "-".join((fitting(name, MAX_TEXT_BYTES - _DIGITS), *parts))

    def _add(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        member_id: str,
        reply_to: ReplyTo,
        now: Instant,
    ) -> None:
        if not group.members:
            group.protocol_type = request.protocol_type
        if group.state is GroupState.PREPARING and group.is_initial:
            group.has_newcomer = True
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
        )
        group.add(member)
        self._env.keep(group)
        self._rebalances.await_join(group, member, reply_to, now)
        self._rebalances.ask_again(group, RebalanceReason.MEMBER_JOINED, now)

    # Static members -----------------------------------------------------------------------

    def _replace(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        member_id: str,
        reply_to: ReplyTo,
        now: Instant,
    ) -> None:
        """Another process of a static member: the former one is fenced."""
        instance_id, former_leader = request.group_instance_id, group.leader_id
        assert instance_id is not None, f"{member_id} is not static"
        member = group.members[group.static_members[instance_id]]
        self._rebalances.answer_waiting(member, ErrorCode.FENCED_INSTANCE_ID)
        self._env.timers.clear((group.group_id, member.member_id))
        group.replace(member, member_id)
        self._update(member, request)
        if group.state is not GroupState.STABLE:
            self._rebalances.await_join(group, member, reply_to, now)
            self._rebalances.ask_again(group, RebalanceReason.STATIC_MEMBER_REPLACED, now)
            return
        if group.vote() != group.protocol_name:
            self._rebalances.await_join(group, member, reply_to, now)
            self._rebalances.prepare(group, RebalanceReason.PROTOCOLS_CHANGED, now)
            return
        self._env.begin_session(group, member, now)
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        record = GroupRecord(group.group_id, group.value(assignments, self._env.wall_ms(now)))
        self._env.write([record], self._place_of(group, member, request, former_leader), reply_to)

    @staticmethod
    def _place_of(
        group: ClassicGroup, member: Member, request: JoinGroup, former_leader: str | None
    ) -> JoinGroupResult:
        """The generation that goes on with the member. An older client that was the leader would
        assign again; it gets to know the former leader's id, which is not its own."""
        if request.may_skip_assignment:
            found = group.generation_of(member)
            return found._replace(skip_assignment=member.member_id == group.leader_id)
        return group.generation_of(member)._replace(leader=former_leader or NO_MEMBER, members=())

    # Members ------------------------------------------------------------------------------

    def _join_again(
        self, group: ClassicGroup, request: JoinGroup, reply_to: ReplyTo, now: Instant
    ) -> None:
        member = group.members[request.member_id]
        is_changed = member.protocols != request.protocols
        leads = group.leader_id == member.member_id
        is_settled = group.state is GroupState.COMPLETING or (
            group.state is GroupState.STABLE and not leads
        )
        if is_settled and not is_changed:
            self._env.begin_session(group, member, now)
            self._env.answer(reply_to, group.generation_of(member))
            return
        if group.state is GroupState.EMPTY:
            self._env.answer(reply_to, Refused(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        reason = RebalanceReason.PROTOCOLS_CHANGED
        if not is_changed and leads:
            reason = RebalanceReason.LEADER_JOINED_AGAIN
        self._update(member, request)
        if group.state is not GroupState.PREPARING and member.sync_reply is not None:
            self._env.answer(member.sync_reply, Refused(ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync_reply = None
        self._rebalances.await_join(group, member, reply_to, now)
        self._rebalances.ask_again(group, reason, now)

    @staticmethod
    def _update(member: Member, request: JoinGroup) -> None:
        member.client_id = request.client_id
        member.client_host = request.client_host
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.protocols = request.protocols
