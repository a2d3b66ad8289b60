"""ConsumerGroupHeartbeat: members of consumer groups come, change, reconcile and go (KIP-848).

A heartbeat is decided in four steps (the last three are in `consumer_steps.py`), each of which may
write records; all of them are one batch:

| step | writes |
| --- | --- |
| who is it, and may it speak (`_admit`) | a static member's next process in place of the former |
| what does it want (`_subscribe`, `_compare`) | the member; a new group epoch |
| who shall have what (`_assign`) | the targets that change, and their epoch |
| what has it from now on (`_reconcile`) | its next step towards its target |

The answer leaves when the records are committed, and so is never about a state that another
coordinator does not know. A heartbeat that changes nothing writes nothing, and waits for what was
written before it.

The first member that speaks this protocol makes a group with classic members a consumer group
(`migration.py`).

Source: KIP-848; KIP-345 (static members).
"""

from collections.abc import Sequence
from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.groups.consumer_draft import Draft
from tidelog.groups.consumer_group import EMPTY, LEFT_FOR_A_WHILE, ConsumerGroup
from tidelog.groups.consumer_records import Current, IdPartition, Kind, MemberState, Subscription
from tidelog.groups.consumer_steps import ConsumerSteps
from tidelog.groups.env import Env
from tidelog.groups.events import RemovalReason
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResult
from tidelog.groups.migration import Migration
from tidelog.groups.records import GroupRecord
from tidelog.groups.refusals import (
    GroupWord,
    fenced,
    is_full,
    not_found,
    refuse_any,
    unknown_member,
)
from tidelog.model import uuid_to_text
from tidelog.rsm.coordinator import ReplyTo

JOIN: Final = 0
LEAVE: Final = -1
_WORD: Final = GroupWord.CONSUMER


class ConsumerHeartbeats:
    """Decides every ConsumerGroupHeartbeat of one coordinator."""

    __slots__ = ("_env", "_migration", "_steps")

    def __init__(self, env: Env, steps: ConsumerSteps, migration: Migration) -> None:
        self._env = env
        self._steps = steps
        self._migration = migration

    # Requests -----------------------------------------------------------------------------

    def heartbeat(self, request: ConsumerGroupHeartbeat, reply_to: ReplyTo, now: Instant) -> None:
        """Answers when what it writes is committed."""
        try:
            _check_request(request, self._env.config.consumer_assignors)
            if request.member_epoch in (LEAVE, LEFT_FOR_A_WHILE):
                self._leave(request, reply_to, now)
            else:
                self._beat(request, reply_to, now)
        except ProtocolError as error:
            self._env.answer(reply_to, ConsumerGroupHeartbeatResult(error.code, error.message))

    def _beat(self, request: ConsumerGroupHeartbeat, reply_to: ReplyTo, now: Instant) -> None:
        env = self._env
        draft = self._draft_for(request)
        member_id = request.member_id or uuid_to_text(env.prng.uuid())
        before = self._admit(draft, request, member_id)
        wanted = _wanted(draft.group.subscriptions.get(member_id), request)
        after = self._steps.advance(draft, member_id, wanted, request.held, now)
        wants_all = request.member_epoch == JOIN or request.is_full
        is_other = before.assigned.keys() != after.assigned.keys()
        result = ConsumerGroupHeartbeatResult(
            ErrorCode.NONE,
            None,
            member_id,
            after.epoch,
            env.heartbeat_interval_ms(draft.group_id),
            tuple(after.assigned) if wants_all or is_other else None,
        )
        if env.write(draft.records, result, reply_to) is ErrorCode.NONE:
            self._steps.took_effect(draft, now)
            self._steps.watch(draft, member_id, before, after, now)

    def _leave(self, request: ConsumerGroupHeartbeat, reply_to: ReplyTo, now: Instant) -> None:
        group = self._env.consumers(request.group_id)
        if group is None:
            raise not_found(_WORD, request.group_id)
        member_id = request.member_id
        if request.instance_id is not None:
            self._check_instance(group, request)
        elif member_id not in group.subscriptions:
            raise unknown_member(request.group_id, request.member_id)
        if request.member_epoch == LEFT_FOR_A_WHILE:
            draft = Draft(request.group_id, group)
            # What it had stays its own until its next process comes or its session ends.
            current = group.current(member_id)
            left = Current(LEFT_FOR_A_WHILE, current.epoch, MemberState.STABLE, current.assigned)
            draft.write((Kind.CURRENT, member_id, left))
        else:
            reason = RemovalReason.LEFT
            draft = self._steps.without(request.group_id, group, [member_id], reason, now)
        result = ConsumerGroupHeartbeatResult(ErrorCode.NONE, None, member_id, request.member_epoch)
        if self._env.write(draft.records, result, reply_to) is ErrorCode.NONE:
            self._steps.next_steps.clear((draft.group_id, member_id))
            self._steps.took_effect(draft, now)

    # Step 1: who ---------------------------------------------------------------------------

    def _draft_for(self, request: ConsumerGroupHeartbeat) -> Draft:
        """The group, which the first member makes; a classic one without members gives way."""
        group_id = request.group_id
        found = self._env.consumers(group_id)
        draft = Draft(group_id, found or EMPTY, request.may_describe)
        if found is None:
            if request.member_epoch != JOIN or self._env.shares(group_id) is not None:
                raise not_found(_WORD, group_id)
            classic = self._env.find(group_id)
            if classic is not None and classic.state is not GroupState.EMPTY:
                self._migration.upgrade(draft, classic)
            else:
                image = self._env.kernel.latest.get(group_id)
                if image is not None and image.value is not None:
                    draft.records.append(GroupRecord(group_id, None))
                if classic is not None:
                    self._env.forget(classic)
        members, limit = draft.group.subscriptions, self._env.config.consumer_max_size
        if len(members) >= limit and request.member_id not in members:
            raise is_full(_WORD, limit)
        return draft

    def _admit(self, draft: Draft, request: ConsumerGroupHeartbeat, member_id: str) -> Current:
        """What the member has so far. Raises `ProtocolError` when it may not speak."""
        group, joins = draft.group, request.member_epoch == JOIN
        if request.instance_id is not None:
            former = group.static_member(request.instance_id)
            if not joins:
                self._check_instance(group, request)
            elif former is not None:
                return self._replace(draft, former, member_id, request.instance_id)
        elif not joins and member_id not in group.subscriptions:
            raise unknown_member(request.group_id, request.member_id)
        current = group.current(member_id)
        if not joins:
            _check_epoch(request, current)
        return current

    @staticmethod
    def _check_instance(group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> None:
        """Whether the request is of the process that is the static member now."""
        known = group.static_member(request.instance_id or "")
        if known is None:
            text = f"Instance id {request.instance_id} is unknown."
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        if known != request.member_id:
            text = f"Static member {request.member_id} with instance id {request.instance_id} was "
            text += f"fenced by member {known}."
            raise ProtocolError(ErrorCode.FENCED_INSTANCE_ID, text)

    @staticmethod
    def _replace(draft: Draft, former: str, member_id: str, instance_id: str) -> Current:
        """The next process of a static member, which has left for a while or speaks the classic
        protocol."""
        group = draft.group
        current = group.current(former)
        is_free = current.epoch == LEFT_FOR_A_WHILE
        if not (is_free or group.subscriptions[former].classic is not None):
            text = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
            )
            text += f"because the instance id is owned by member {former}."
            raise ProtocolError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        return ConsumerSteps.replace(draft, former, member_id)


def _wanted(known: Subscription | None, request: ConsumerGroupHeartbeat) -> Subscription:
    """The member as it will be: what the request does not say stays."""
    before, names = known or Subscription(), request.topic_names
    return Subscription(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        before.topic_names if names is None else tuple(sorted(set(names))),
        before.regex if request.regex is None else request.regex,
        max(request.rebalance_timeout_ms, -1)
        if request.rebalance_timeout_ms != -1
        else before.rebalance_timeout_ms,
        before.assignor if request.assignor is None else request.assignor,
    )


def _check_epoch(request: ConsumerGroupHeartbeat, current: Current) -> None:
    """The member's epoch is the present one. The one before will do for a member that says it has
    no more than it should: the answer with the new one may have been lost."""
    said, known = request.member_epoch, current.epoch
    held: Sequence[IdPartition] | None = request.held
    missed_one = said == current.previous_epoch and held is not None
    if said == known or (
        said < known and missed_one and all(each in current.assigned for each in held or ())
    ):
        return
    raise fenced(_WORD, said, known)


def _check_request(request: ConsumerGroupHeartbeat, assignors: Sequence[str]) -> None:
    """Refuses what makes no sense, whatever the group."""
    joins = request.member_epoch == JOIN
    faults = (
        (not request.group_id, "GroupId can't be empty."),
        (
            not request.member_id
            # A static member that leaves for a while is known by its instance.
            and (request.must_name_itself or request.member_epoch not in (JOIN, LEFT_FOR_A_WHILE)),
            "MemberId can't be empty.",
        ),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (
            joins and request.rebalance_timeout_ms == -1,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (joins and request.held != (), "TopicPartitions must be empty when (re-)joining."),
        (
            joins and request.topic_names is None and request.regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        (
            request.member_epoch == LEFT_FOR_A_WHILE and request.instance_id is None,
            "InstanceId can't be null.",
        ),
        (
            request.member_epoch < LEFT_FOR_A_WHILE,
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to "
            f"{LEFT_FOR_A_WHILE}.",
        ),
    )
    refuse_any(faults)
    if request.assignor is not None and request.assignor not in assignors:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )
