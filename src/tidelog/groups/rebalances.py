"""How a generation of a classic group begins and ends, whatever the cause.

A rebalance (`prepare`) waits until every member has joined again, at most for the longest rebalance
timeout; then (`complete_join`) dynamic members that did not are removed. Static members stay: their
next process takes their place. A group that was empty waits for `group.initial.rebalance.delay.ms`
instead, and longer while members keep coming, so that the first of a hundred consumers does not
begin a generation of its own.

In the new generation the leader sends the assignment. It is written to the log first; members get
it when it is committed (`on_assignment_committed`). A member that does not ask for it within the
rebalance timeout is removed, or the others would own everything but its share for ever.

Invariants
- GenerationMonotonic: a group's generation id only grows, in memory and in its records.
- AssignmentIsDurable: a SyncGroup is answered with an assignment that is committed.
- OneAnswer: a JoinGroup or SyncGroup that waits gets exactly one answer.

Source: KIP-62, KIP-134, KIP-345, KIP-394.
"""

from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups import events
from tidelog.groups.classic_group import ClassicGroup, Member
from tidelog.groups.env import AssignmentCommitted, Env
from tidelog.groups.events import RebalanceReason, RemovalReason
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import NO_MEMBER, JoinGroupResult, SyncGroupResult
from tidelog.groups.records import GroupRecord
from tidelog.rsm.coordinator import Refused

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member that never was part of a generation may wait for its first one."""

_GROUP: Final = ""
"""In a timer's key: the deadline is the group's."""


class Rebalances:
    """The rebalances of the groups of one coordinator."""

    __slots__ = ("_env",)

    def __init__(self, env: Env) -> None:
        self._env = env

    # Beginning ----------------------------------------------------------------------------

    def prepare(self, group: ClassicGroup, reason: RebalanceReason, now: Instant) -> None:
        """Asks all members to join again. The group must be kept already."""
        assert group.state is not GroupState.PREPARING, f"{group.group_id} rebalances already"
        self._env.trace.event(
            events.RebalanceBegan(
                group_id=group.group_id,
                reason=reason,
                generation_id=group.generation_id,
                members=len(group.members),
            )
        )
        if group.state is GroupState.COMPLETING:
            self._refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        group.is_initial = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING
        if group.is_initial:
            delay_ms = self._env.config.initial_rebalance_delay_ms
            group.initial_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.has_newcomer = False
            self._set_deadline(group, Instant(now + delay_ms))
        else:
            self._set_deadline(group, Instant(now + group.rebalance_timeout_ms))
            self.maybe_complete_join(group, now)

    def ask_again(self, group: ClassicGroup, reason: RebalanceReason, now: Instant) -> None:
        """Something about the members has changed: a rebalance begins, or the one under way may
        have nothing to wait for any more."""
        if group.state is GroupState.PREPARING:
            self.maybe_complete_join(group, now)
        else:
            self.prepare(group, reason, now)

    def maybe_complete_join(self, group: ClassicGroup, now: Instant) -> bool:
        """Ends a rebalance that has nothing to wait for."""
        may_grow = group.is_initial and not group.is_idle
        if group.state is not GroupState.PREPARING or may_grow or not group.has_all_joined:
            return False
        self.complete_join(group, now)
        return True

    def on_deadline(self, group: ClassicGroup, now: Instant) -> None:
        """The wait of a group is over."""
        if group.state is GroupState.PREPARING:
            if group.is_initial and group.has_newcomer and group.initial_left_ms > 0:
                delay_ms = min(self._env.config.initial_rebalance_delay_ms, group.initial_left_ms)
                group.initial_left_ms -= delay_ms
                group.has_newcomer = False
                self._set_deadline(group, Instant(now + delay_ms))
            else:
                self.complete_join(group, now)
        elif group.state in (GroupState.COMPLETING, GroupState.STABLE):
            self._expire_syncs(group, now)

    # Ending -------------------------------------------------------------------------------

    def complete_join(self, group: ClassicGroup, now: Instant) -> None:
        """Begins the next generation with the members that have joined."""
        missing = [each for each in group.members.values() if each.join_reply is None]
        for member in missing:
            if member.group_instance_id is None:
                self.remove(group, member, RemovalReason.NOT_JOINED, now)
        if group.members and not group.elect_leader():
            # Only static members are left, and none of them has joined.
            self._set_deadline(group, Instant(now + group.rebalance_timeout_ms))
            return
        group.generation_id += 1
        group.is_initial = False
        if not group.members:
            self._become_empty(group, now)
            return
        protocol = group.vote()
        group.choose(protocol)
        group.state = GroupState.COMPLETING
        self._env.trace.event(
            events.GenerationBegan(
                group_id=group.group_id,
                generation_id=group.generation_id,
                protocol=protocol,
                leader=group.leader_id or "",
                members=len(group.members),
            )
        )
        for member in group.members.values():
            member.is_new = False
            member.has_synced = False
            self.answer_join(group, member, group.generation_of(member), now)
        self._set_deadline(group, Instant(now + group.rebalance_timeout_ms))

    def _become_empty(self, group: ClassicGroup, now: Instant) -> None:
        group.state, group.leader_id = GroupState.EMPTY, None
        group.choose(None)
        self._env.timers.clear((group.group_id, _GROUP))
        self._env.trace.event(
            events.GroupEmptied(group_id=group.group_id, generation_id=group.generation_id)
        )
        # The group is looked up in the log from now on: without the record its former members
        # would be there again, and commit.
        self._env.note(GroupRecord(group.group_id, group.value({}, self._env.wall_ms(now))))
        self._env.keep(group)

    def on_assignment_committed(self, token: AssignmentCommitted, now: Instant) -> None:
        """The assignment of a generation is in the log; gives it to the members, if it is still
        theirs."""
        group = self._env.groups.get(token.group_id)
        if (
            group is None
            or group.state is not GroupState.COMPLETING
            or group.generation_id != token.generation_id
        ):
            return
        assignments = dict(token.assignments)
        group.state = GroupState.STABLE
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self.answer_sync(group, member, group.assignment_of(member), now)

    def on_assignment_lost(self, group: ClassicGroup, code: ErrorCode, now: Instant) -> None:
        """The assignment could not be written."""
        self._refuse_syncs(group, code, now)
        if not self._env.is_deposed:
            self.prepare(group, RebalanceReason.NOT_WRITTEN, now)

    def _refuse_syncs(self, group: ClassicGroup, code: ErrorCode, now: Instant) -> None:
        for member in group.members.values():
            member.assignment = b""
            self.answer_sync(group, member, SyncGroupResult(code), now)

    def _expire_syncs(self, group: ClassicGroup, now: Instant) -> None:
        late = [each for each in group.members.values() if not each.has_synced]
        for member in late:
            self.remove(group, member, RemovalReason.NOT_SYNCED, now)
        if late:
            self.prepare(group, RebalanceReason.NOT_SYNCED, now)

    # Members ------------------------------------------------------------------------------

    def remove(
        self, group: ClassicGroup, member: Member, reason: RemovalReason, now: Instant
    ) -> None:
        """Takes a member out; what it waits for is answered with UNKNOWN_MEMBER_ID."""
        self._env.trace.event(
            events.MemberRemoved(group_id=group.group_id, reason=reason, member_id=member.member_id)
        )
        self.answer_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member)
        self._env.timers.clear((group.group_id, member.member_id))

    def on_silent(self, group: ClassicGroup, member_id: str, now: Instant) -> None:
        """A session has ended: of a member, or of a member id that was given out."""
        if member_id in group.pending:
            self.withdraw(group, member_id)
            self.go_on(group, now)
            return
        self.remove(group, group.members[member_id], RemovalReason.SILENT, now)
        self.ask_again(group, RebalanceReason.MEMBER_EXPIRED, now)

    def withdraw(self, group: ClassicGroup, member_id: str) -> None:
        """A member id that was given out is not waited for any more."""
        del group.pending[member_id]
        self._env.timers.clear((group.group_id, member_id))

    def go_on(self, group: ClassicGroup, now: Instant) -> None:
        """Fewer member ids are waited for."""
        if not self.maybe_complete_join(group, now):
            self._env.keep(group)

    def await_join(
        self, group: ClassicGroup, member: Member, reply_to: object, now: Instant
    ) -> None:
        """The JoinGroup waits for the next generation. A member that waits need not send
        heartbeats; one that was never in a generation may not wait for ever."""
        if member.join_reply is not None:
            # Its client has given up on the earlier request, or its process was replaced.
            self._refuse_join(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.join_reply = reply_to
        key = (group.group_id, member.member_id)
        if member.is_new:
            self._env.timers.set(key, Instant(now + NEW_MEMBER_JOIN_TIMEOUT_MS))
        else:
            self._env.timers.clear(key)

    def await_sync(self, group: ClassicGroup, member: Member, reply_to: object) -> None:
        """The SyncGroup waits for the assignment."""
        if member.sync_reply is not None:
            self._env.answer(member.sync_reply, Refused(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply_to
        member.has_synced = True
        self._env.timers.clear((group.group_id, member.member_id))

    def answer_join(
        self, group: ClassicGroup, member: Member, result: JoinGroupResult, now: Instant
    ) -> None:
        """Answers the JoinGroup that waits, if any; the member's session begins anew."""
        if member.join_reply is not None:
            self._env.answer(member.join_reply, result)
            member.join_reply = None
            self._env.begin_session(group, member, now)

    def answer_sync(
        self, group: ClassicGroup, member: Member, result: SyncGroupResult, now: Instant
    ) -> None:
        """Answers the SyncGroup that waits, if any; the member's session begins anew."""
        if member.sync_reply is not None:
            self._env.answer(member.sync_reply, result)
            member.sync_reply = None
            self._env.begin_session(group, member, now)

    def answer_waiting(self, member: Member, code: ErrorCode) -> None:
        """Refuses whatever a member waits for."""
        if member.join_reply is not None:
            self._refuse_join(member, code)
        if member.sync_reply is not None:
            self._env.answer(member.sync_reply, Refused(code))
        member.join_reply = member.sync_reply = None

    def _refuse_join(self, member: Member, code: ErrorCode) -> None:
        """A member that joined without an id keeps the one it was given, if it may come back."""
        kept = NO_MEMBER if code is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        self._env.answer(member.join_reply, JoinGroupResult(code, kept))

    def _set_deadline(self, group: ClassicGroup, deadline: Instant) -> None:
        self._env.timers.set((group.group_id, _GROUP), deadline)
