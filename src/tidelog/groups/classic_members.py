"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group.

A classic member takes the same steps as the others (`consumer_steps.py`), with its own requests: it
is asked to join again where another member would get a new assignment with a heartbeat.

| request | what it does |
| --- | --- |
| JoinGroup | says what the member wants and still uses; its epoch is the generation |
| SyncGroup | what the member has; REBALANCE_IN_PROGRESS when there is a newer target |
| Heartbeat | REBALANCE_IN_PROGRESS when the member has a step to take |
| LeaveGroup | removes members, of both protocols |

No client of such a group leads it: the coordinator assigns, and the answer names no leader. A
member that is asked to join, or that has joined and does not ask for its assignment, has its
rebalance timeout for it.

Source: KIP-848.
"""

from collections.abc import Sequence

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, MalformedFrame, ProtocolError
from tidelog.groups.consumer_draft import Draft
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import (
    ClassicMember,
    Current,
    IdPartition,
    MemberState,
    Subscription,
)
from tidelog.groups.consumer_steps import ConsumerSteps
from tidelog.groups.env import Env
from tidelog.groups.events import RebalanceReason, RemovalReason
from tidelog.groups.messages import (
    NO_MEMBER,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeaveGroupResult,
    Leaver,
    SyncGroup,
    SyncGroupResult,
)
from tidelog.groups.migration import DISABLED, Migration
from tidelog.model import uuid_to_text
from tidelog.rsm.coordinator import ReplyTo
from tidelog.wire.consumer_protocol import CONSUMERS, ConsumerSubscription, subscription_of

ClassicRequest = JoinGroup | SyncGroup | Heartbeat | LeaveGroup


class ClassicMembers:
    """Decides what classic members ask of the consumer groups of one coordinator."""

    __slots__ = ("_env", "_migration", "_steps")

    def __init__(self, env: Env, steps: ConsumerSteps, migration: Migration) -> None:
        self._env = env
        self._steps = steps
        self._migration = migration

    def decide(
        self, request: ClassicRequest, group: ConsumerGroup, reply_to: ReplyTo, now: Instant
    ) -> None:
        """Answers; the group has members."""
        match request:
            case JoinGroup():
                self._join(request, group, reply_to, now)
            case SyncGroup():
                self._sync(request, group, reply_to, now)
            case Heartbeat():
                self._heartbeat(request, group, reply_to, now)
            case LeaveGroup():
                self._leave(request, group, reply_to, now)

    # JoinGroup ----------------------------------------------------------------------------

    def _join(
        self, request: JoinGroup, group: ConsumerGroup, reply_to: ReplyTo, now: Instant
    ) -> None:
        member_id = request.member_id or uuid_to_text(self._env.prng.uuid())
        try:
            self._check(request, group, member_id)
            said = _said(request)
            draft = Draft(request.group_id, group)
            is_last = self._take_place(draft, request, member_id)
            before = draft.group
            after = self._steps.advance(
                draft, member_id, _wanted(draft, request, member_id, said), self._held(said), now
            )
        except ProtocolError as error:
            is_given = error.code is ErrorCode.MEMBER_ID_REQUIRED
            named = member_id if is_given else NO_MEMBER
            if error.code is ErrorCode.INVALID_SESSION_TIMEOUT:
                named = request.member_id
            self._env.answer(reply_to, JoinGroupResult(error.code, named))
            return
        generation = after.epoch
        if is_last and self._migration.may_downgrade(draft.group, ()):
            reason = None
            if draft.group.group_epoch > before.group_epoch:
                # As in Kafka, it has no generation before the classic group has rebalanced.
                reason, generation = RebalanceReason.STATIC_MEMBER_REPLACED, 0
            self._migration.downgrade(draft, before, reason, now)
        result = JoinGroupResult(
            ErrorCode.NONE, member_id, generation, CONSUMERS, request.protocols[0].name
        )
        if self._env.write(draft.records, result, reply_to) is not ErrorCode.NONE:
            return
        self._steps.took_effect(draft, now)
        if draft.successor is None:
            member = draft.group.subscriptions[member_id]
            self._steps.begin_session(request.group_id, member, member_id, now)
            self._steps.expect_step(request.group_id, member, member_id, now)

    def _check(self, request: JoinGroup, group: ConsumerGroup, member_id: str) -> None:
        """Raises `ProtocolError` when the member may not join, or not yet."""
        config = self._env.config
        low, high = config.min_session_timeout_ms, config.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise ProtocolError(ErrorCode.INVALID_SESSION_TIMEOUT, "")
        if config.migration_policy.lower() == DISABLED:
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        is_full = len(group.subscriptions) >= config.consumer_max_size
        if is_full and member_id not in group.subscriptions:
            raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        names = {each.name for each in request.protocols}
        for member in group.classic_members():
            names.intersection_update(name for name, _ in member.protocols)
        if request.protocol_type != CONSUMERS or not names:
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        must_come_back = request.requires_member_id and request.group_instance_id is None
        if request.member_id == NO_MEMBER and must_come_back:
            raise ProtocolError(ErrorCode.MEMBER_ID_REQUIRED, "")

    def _take_place(self, draft: Draft, request: JoinGroup, member_id: str) -> bool:
        """A static member's next process takes its place; returns whether the former one spoke the
        consumer protocol. Raises `ProtocolError`."""
        if request.group_instance_id is None:
            return False
        known = draft.group.static_member(request.group_instance_id)
        if request.member_id == NO_MEMBER:
            if known is None:
                return False
            spoke_consumer = draft.group.subscriptions[known].classic is None
            self._steps.replace(draft, known, member_id)
            return spoke_consumer
        _check_static(known, member_id)
        return False

    def _held(self, said: ConsumerSubscription) -> Sequence[IdPartition]:
        ids = [(self._env.topics.id_of(tp.topic), tp.partition) for tp in said.owned]
        return [IdPartition(topic_id, number) for topic_id, number in ids if topic_id]

    # SyncGroup and Heartbeat --------------------------------------------------------------

    def _sync(
        self, request: SyncGroup, group: ConsumerGroup, reply_to: ReplyTo, now: Instant
    ) -> None:
        try:
            classic, current = _member_of(group, request)
            if request.protocol_type not in (None, CONSUMERS) or request.protocol_name not in (
                None,
                classic.protocols[0][0],
            ):
                raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
            is_late = current.epoch < group.group_epoch
            if is_late and current.state is not MemberState.UNREVOKED:
                self._expect_join(request, group, now)
                raise ProtocolError(ErrorCode.REBALANCE_IN_PROGRESS, "")
        except ProtocolError as error:
            self._env.answer(reply_to, SyncGroupResult(error.code))
            return
        result = SyncGroupResult(
            ErrorCode.NONE,
            request.protocol_type,
            request.protocol_name,
            self._migration.packed(classic, tuple(current.assigned)),
        )
        if self._env.write((), result, reply_to) is ErrorCode.NONE:
            member = group.subscriptions[request.member_id]
            self._steps.next_steps.clear((request.group_id, request.member_id))
            self._steps.begin_session(request.group_id, member, request.member_id, now)

    def _heartbeat(
        self, request: Heartbeat, group: ConsumerGroup, reply_to: ReplyTo, now: Instant
    ) -> None:
        code = ErrorCode.NONE
        try:
            _, current = _member_of(group, request)
            member = group.subscriptions[request.member_id]
            self._steps.begin_session(request.group_id, member, request.member_id, now)
            if _has_step(group, request.member_id, current):
                self._expect_join(request, group, now)
                code = ErrorCode.REBALANCE_IN_PROGRESS
        except ProtocolError as error:
            code = error.code
        self._env.answer(reply_to, HeartbeatResult(code))

    def _expect_join(
        self, request: SyncGroup | Heartbeat, group: ConsumerGroup, now: Instant
    ) -> None:
        """The member is asked to join; the first word counts."""
        if not self._steps.next_steps.has((request.group_id, request.member_id)):
            member = group.subscriptions[request.member_id]
            self._steps.expect_step(request.group_id, member, request.member_id, now)

    # LeaveGroup ---------------------------------------------------------------------------

    def _leave(
        self, request: LeaveGroup, group: ConsumerGroup, reply_to: ReplyTo, now: Instant
    ) -> None:
        results: list[tuple[Leaver, ErrorCode]] = []
        leaving: dict[str, None] = {}
        for leaver in request.leavers:
            try:
                leaving[_leaving(group, leaver)] = None
                results.append((leaver, ErrorCode.NONE))
            except ProtocolError as error:
                results.append((leaver, error.code))
        draft = Draft(request.group_id, group)
        if leaving:
            reason = RemovalReason.LEFT
            draft = self._steps.without(request.group_id, group, list(leaving), reason, now)
        result = LeaveGroupResult(ErrorCode.NONE, tuple(results))
        if self._env.write(draft.records, result, reply_to) is ErrorCode.NONE:
            self._steps.took_effect(draft, now)


def _said(request: JoinGroup) -> ConsumerSubscription:
    """What the member says about itself. Raises `ProtocolError`."""
    try:
        return subscription_of(request.protocols[0].metadata)
    except MalformedFrame:
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "") from None


def _wanted(
    draft: Draft, request: JoinGroup, member_id: str, said: ConsumerSubscription
) -> Subscription:
    before = draft.group.subscriptions.get(member_id) or Subscription()
    protocols = tuple((each.name, each.metadata) for each in request.protocols)
    return Subscription(
        before.instance_id if request.group_instance_id is None else request.group_instance_id,
        before.rack_id if said.rack is None else said.rack,
        request.client_id,
        request.client_host,
        tuple(sorted(set(said.topics))),
        "",
        request.rebalance_timeout_ms,
        before.assignor,
        ClassicMember(request.session_timeout_ms, protocols),
    )


def _member_of(
    group: ConsumerGroup, request: SyncGroup | Heartbeat
) -> tuple[ClassicMember, Current]:
    """The classic member that asks in its present generation. Raises `ProtocolError`."""
    if request.group_instance_id is not None:
        _check_static(group.static_member(request.group_instance_id), request.member_id)
    member = group.subscriptions.get(request.member_id)
    if member is None or member.classic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "")
    current = group.current(request.member_id)
    if request.generation_id != current.epoch:
        raise ProtocolError(ErrorCode.ILLEGAL_GENERATION, "")
    return member.classic, current


def _check_static(known: str | None, member_id: str) -> None:
    if known is None:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "")
    if known != member_id:
        raise ProtocolError(ErrorCode.FENCED_INSTANCE_ID, "")


def _leaving(group: ConsumerGroup, leaver: Leaver) -> str:
    """The member that leaves. Raises `ProtocolError`."""
    member_id = leaver.member_id
    if leaver.group_instance_id is not None:
        known = group.static_member(leaver.group_instance_id)
        _check_static(known, member_id or known or "")
        member_id = known or ""
    if member_id not in group.subscriptions:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "")
    return member_id


def _has_step(group: ConsumerGroup, member_id: str, current: Current) -> bool:
    """Whether joining again would bring the member nearer to its target."""
    if current.epoch < group.group_epoch or current.state is MemberState.UNREVOKED:
        return True
    if current.state is not MemberState.UNRELEASED:
        return False
    owners = group.owners()
    missing = [each for each in group.target(member_id) if each not in current.assigned]
    return not any(each in owners for each in missing)
