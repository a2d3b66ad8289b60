"""ConsumerGroupHeartbeat: members of consumer groups come, change, reconcile and go (KIP-848).

A heartbeat is decided in four steps, each of which may write records; all of them are one batch:

| step | writes |
| --- | --- |
| who is it, and may it speak (`_admit`) | a static member's next process in place of the former |
| what does it want (`_subscribe`, `_compare`) | the member; a new group epoch |
| who shall have what (`_assign`) | the targets that change, and their epoch |
| what has it from now on (`_reconcile`) | its next step towards its target |

The answer leaves when the records are committed, and so is never about a state that another
coordinator does not know. A heartbeat that changes nothing writes nothing, and waits for what was
written before it.

Metadata is looked at when it has changed since the group's last heartbeat: topics that came, went
or grew change the hash of the group's topics, and so begin a new group epoch. That is done with a
heartbeat, as in Kafka: a group without heartbeats has no member to notify.

A member that is silent for `group.consumer.session.timeout.ms`, or that has not given partitions
back within its rebalance timeout, is removed; one removal begins one group epoch.

Left out: members of the classic protocol in a consumer group, so a group is upgraded and downgraded
while it is empty. Assignments are made at once: `group.consumer.assignment.interval.ms` has no
effect.

Invariants
- SingleOwner (`consumer_group.py`).
- GroupEpochsRise: a group's epoch never falls while the group exists.

Source: KIP-848; KIP-345 (static members).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.groups import events
from tidelog.groups.assignors import ASSIGNORS, Wanting
from tidelog.groups.consumer_group import EMPTY, LEFT_FOR_A_WHILE, ConsumerGroup, replayed
from tidelog.groups.consumer_records import (
    ConsumerRecord,
    Current,
    GroupEpoch,
    IdPartition,
    Kind,
    MemberState,
    ResolvedRegex,
    Subscription,
    TargetEpoch,
    Value,
)
from tidelog.groups.env import Env
from tidelog.groups.events import RemovalReason
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResult
from tidelog.groups.reconciliation import Goal, reconciled
from tidelog.groups.records import GroupRecord, GroupsRecord
from tidelog.groups.regexes import matching
from tidelog.limits import REGEX_REFRESH_MS
from tidelog.model import uuid_to_text
from tidelog.rsm.coordinator import ReplyTo
from tidelog.rsm.timers import Timers

JOIN: Final = 0
LEAVE: Final = -1
_AGAIN_MS: Final = 1000
"""When a removal that could not be written is tried again."""


_Key = tuple[str, str]
"""A group and its member."""


class _Look(NamedTuple):
    """A group's last look at the metadata."""

    version: int
    regexes_at: Instant


class _Draft:
    """A group as it will be when the records of this decision are written."""

    __slots__ = ("group", "group_id", "records")

    def __init__(self, group_id: str, group: ConsumerGroup) -> None:
        self.group_id = group_id
        self.group = group
        self.records: list[GroupsRecord] = []

    def write(self, *changes: tuple[Kind, str, Value | None]) -> None:
        """These records too."""
        records = [
            ConsumerRecord(kind, self.group_id, name, value) for kind, name, value in changes
        ]
        self.records += records
        self.group = replayed(self.group, records) or EMPTY


class ConsumerHeartbeats:
    """Decides every ConsumerGroupHeartbeat of one coordinator, and whose session has ended."""

    __slots__ = ("_env", "_looks", "revocations", "sessions")

    def __init__(self, env: Env) -> None:
        self._env = env
        # When each member is taken for dead.
        self.sessions: Timers[_Key] = Timers()
        # When a member must have given back what it was asked for.
        self.revocations: Timers[_Key] = Timers()
        # By group; groups without members aside.
        self._looks: dict[str, _Look] = {}

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
        changed = self._subscribe(draft, request, member_id, now)
        look = self._compare(draft, changed, now)
        self._assign(draft, now)
        after = self._reconcile(draft, request, member_id, changed=changed)
        wants_all = request.member_epoch == JOIN or request.is_full
        is_other = before.assigned.keys() != after.assigned.keys()
        result = ConsumerGroupHeartbeatResult(
            ErrorCode.NONE,
            None,
            member_id,
            after.epoch,
            env.config.consumer_heartbeat_interval_ms,
            tuple(after.assigned) if wants_all or is_other else None,
        )
        if env.write(draft.records, result, reply_to) is ErrorCode.NONE:
            self._looks[draft.group_id] = look
            self._watch(draft, member_id, before, after, now)

    def _leave(self, request: ConsumerGroupHeartbeat, reply_to: ReplyTo, now: Instant) -> None:
        group = self._env.consumers(request.group_id)
        if group is None:
            raise _not_found(request.group_id)
        member_id = request.member_id
        if request.instance_id is not None:
            self._check_instance(group, request)
        elif member_id not in group.subscriptions:
            raise _unknown(request)
        draft = _Draft(request.group_id, group)
        stays = request.member_epoch == LEFT_FOR_A_WHILE
        if stays:
            # What it had stays its own until its next process comes or its session ends.
            current = group.current(member_id)
            left = Current(LEFT_FOR_A_WHILE, current.epoch, MemberState.STABLE, current.assigned)
            draft.write((Kind.CURRENT, member_id, left))
        else:
            self._remove(draft, member_id, RemovalReason.LEFT)
        result = ConsumerGroupHeartbeatResult(ErrorCode.NONE, None, member_id, request.member_epoch)
        if self._env.write(draft.records, result, reply_to) is ErrorCode.NONE:
            self.revocations.clear((draft.group_id, member_id))
            if not stays:
                self._forget(draft, member_id)

    # Step 1: who ---------------------------------------------------------------------------

    def _draft_for(self, request: ConsumerGroupHeartbeat) -> _Draft:
        """The group, which the first member makes; a classic one without members gives way."""
        group_id = request.group_id
        found = self._env.consumers(group_id)
        draft = _Draft(group_id, found or EMPTY)
        if found is None:
            if request.member_epoch != JOIN:
                raise _not_found(group_id)
            classic = self._env.find(group_id)
            if classic is not None and classic.state is not GroupState.EMPTY:
                text = f"Group {group_id} is not a consumer group."
                raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, text)
            image = self._env.kernel.latest.get(group_id)
            if image is not None and image.value is not None:
                draft.records.append(GroupRecord(group_id, None))
            if classic is not None:
                self._env.forget(classic)
        members, limit = draft.group.subscriptions, self._env.config.consumer_max_size
        if len(members) >= limit and request.member_id not in members:
            text = f"The consumer group has reached its maximum capacity of {limit} members."
            raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        return draft

    def _admit(self, draft: _Draft, request: ConsumerGroupHeartbeat, member_id: str) -> Current:
        """What the member has so far. Raises `ProtocolError` when it may not speak."""
        group, joins = draft.group, request.member_epoch == JOIN
        if request.instance_id is not None:
            former = group.static_member(request.instance_id)
            if not joins:
                self._check_instance(group, request)
            elif former is not None and former != member_id:
                return self._replace(draft, former, member_id, request.instance_id)
        elif not joins and member_id not in group.subscriptions:
            raise _unknown(request)
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
    def _replace(draft: _Draft, former: str, member_id: str, instance_id: str) -> Current:
        """The next process of a static member that has left for a while."""
        group = draft.group
        current = group.current(former)
        if current.epoch != LEFT_FOR_A_WHILE:
            text = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
            )
            text += f"because the instance id is owned by member {former}."
            raise ProtocolError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        taken_over = Current(assigned=current.assigned)
        draft.write(
            (Kind.CURRENT, former, None),
            (Kind.TARGET, former, None),
            (Kind.SUBSCRIPTION, former, None),
            (Kind.SUBSCRIPTION, member_id, group.subscriptions[former]),
            (Kind.TARGET, member_id, group.target(former)),
            (Kind.CURRENT, member_id, taken_over),
        )
        return taken_over

    # Step 2: what it wants ------------------------------------------------------------------

    def _subscribe(
        self, draft: _Draft, request: ConsumerGroupHeartbeat, member_id: str, now: Instant
    ) -> bool:
        """Writes what is new about the member; whether it wants other topics than before."""
        known = draft.group.subscriptions.get(member_id)
        before = known or Subscription()
        names = request.topic_names
        after = Subscription(
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
        regex = after.regex or ""
        if regex and regex not in draft.group.regexes:
            draft.write((Kind.REGEX, regex, self._resolve(regex, now)))
        if known != after:
            draft.write((Kind.SUBSCRIPTION, member_id, after))
            self._drop_unused(draft, before.regex or "")
        return before.topic_names != after.topic_names or (before.regex or "") != regex

    def _resolve(self, regex: str, now: Instant) -> ResolvedRegex:
        topics = self._env.topics
        found = matching(regex, topics.names)
        return ResolvedRegex(found, topics.offset, self._env.wall_ms(now))

    @staticmethod
    def _drop_unused(draft: _Draft, regex: str) -> None:
        """Forgets a regular expression that no member has any more."""
        group = draft.group
        is_used = any(each.regex == regex for each in group.subscriptions.values())
        if regex in group.regexes and not is_used:
            draft.write((Kind.REGEX, regex, None))

    def _compare(self, draft: _Draft, changed: bool, now: Instant) -> _Look:
        """Begins a new group epoch when subscriptions or topics have changed."""
        topics, look = self._env.topics, self._looks.get(draft.group_id)
        if look is not None and look.version == topics.version and not changed:
            return look
        regexes_at = now if look is None else look.regexes_at
        version = topics.version
        if draft.group.regexes and (look is None or look.version != topics.version):
            if look is not None and now < look.regexes_at + REGEX_REFRESH_MS:
                version = look.version
            else:
                self._refresh_regexes(draft, now)
                regexes_at = now
        group = draft.group
        metadata_hash = topics.hash_of(group.topics())
        is_other = group.epoch is None or group.epoch.metadata_hash != metadata_hash
        if changed or is_other:
            draft.write((Kind.EPOCH, "", GroupEpoch(group.group_epoch + 1, metadata_hash)))
        return _Look(version, regexes_at)

    def _refresh_regexes(self, draft: _Draft, now: Instant) -> None:
        for regex, known in draft.group.regexes.items():
            found = self._resolve(regex, now)
            if found.topics != known.topics:
                draft.write((Kind.REGEX, regex, found))

    # Step 3: who shall have what ---------------------------------------------------------------

    def _assign(self, draft: _Draft, now: Instant) -> None:
        group, topics = draft.group, self._env.topics
        if group.group_epoch <= group.assignment_epoch:
            return
        members = [
            Wanting(
                member_id,
                each.instance_id,
                frozenset(topics.sizes(group.topics_of(each))),
                group.target(member_id),
            )
            for member_id, each in group.subscriptions.items()
        ]
        name = group.assignor(self._env.config.consumer_assignors[0])
        targets = ASSIGNORS[name](members, topics.sizes(group.topics()))
        changes: list[tuple[Kind, str, Value | None]] = [
            (Kind.TARGET, member_id, target)
            for member_id, target in targets.items()
            if target != group.targets.get(member_id)
        ]
        epoch = TargetEpoch(group.group_epoch, self._env.wall_ms(now))
        draft.write(*changes, (Kind.TARGET_EPOCH, "", epoch))
        self._env.trace.event(
            events.TargetAssigned(
                group_id=draft.group_id,
                epoch=group.group_epoch,
                assignor=name,
                members=len(members),
                changed=len(changes),
            )
        )

    # Step 4: what it has -----------------------------------------------------------------------

    def _reconcile(
        self, draft: _Draft, request: ConsumerGroupHeartbeat, member_id: str, *, changed: bool
    ) -> Current:
        group = draft.group
        current = group.current(member_id)
        is_there = current.state is MemberState.STABLE and current.epoch == group.assignment_epoch
        if is_there and not changed and member_id in group.currents:
            return current
        goal = Goal(
            group.assignment_epoch,
            group.target(member_id),
            self._env.topics.sizes(group.topics_of(group.subscriptions[member_id])),
            group.owners(),
        )
        after = reconciled(current, goal, request.held, unsubscribed=changed)
        if after != group.currents.get(member_id):
            draft.write((Kind.CURRENT, member_id, after))
        return after

    # Members that go ---------------------------------------------------------------------------

    def start(self, now: Instant) -> None:
        """The members that the log knows have one session timeout to come."""
        for group_id, image in self._env.kernel.committed.groups.items():
            if image.consumer is None:
                continue
            for member_id, each in image.consumer.subscriptions.items():
                self._begin_session(group_id, member_id, now)
                if image.consumer.current(member_id).state is MemberState.UNREVOKED:
                    deadline = Instant(now + max(each.rebalance_timeout_ms, 0))
                    self.revocations.set((group_id, member_id), deadline)

    def stop(self) -> None:
        """Another node leads."""
        self.sessions, self.revocations = Timers(), Timers()
        self._looks.clear()

    def wake(self, now: Instant) -> None:
        """Removes the members whose time is over."""
        while (key := self.sessions.take_due(now)) is not None:
            self._expire(*key, RemovalReason.SILENT, now)
        while (key := self.revocations.take_due(now)) is not None:
            group = self._env.consumers(key[0])
            if group is not None and group.current(key[1]).state is MemberState.UNREVOKED:
                self._expire(*key, RemovalReason.NOT_REVOKED, now)

    def _expire(self, group_id: str, member_id: str, reason: RemovalReason, now: Instant) -> None:
        group = self._env.consumers(group_id)
        if group is None or member_id not in group.subscriptions:
            return
        draft = _Draft(group_id, group)
        self._remove(draft, member_id, reason)
        if self._env.append(draft.records) is ErrorCode.NONE:
            self._forget(draft, member_id)
        else:
            self.sessions.set((group_id, member_id), Instant(now + _AGAIN_MS))

    def _remove(self, draft: _Draft, member_id: str, reason: RemovalReason) -> None:
        """Without the member there is a new group epoch; the next heartbeat deals out anew."""
        group = draft.group
        regex = group.subscriptions[member_id].regex or ""
        draft.write(
            *((Kind.CURRENT, member_id, None),) * (member_id in group.currents),
            *((Kind.TARGET, member_id, None),) * (member_id in group.targets),
            (Kind.SUBSCRIPTION, member_id, None),
        )
        self._drop_unused(draft, regex)
        metadata_hash = self._env.topics.hash_of(draft.group.topics())
        draft.write((Kind.EPOCH, "", GroupEpoch(group.group_epoch + 1, metadata_hash)))
        self._env.trace.event(
            events.MemberRemoved(group_id=draft.group_id, reason=reason, member_id=member_id)
        )

    def _forget(self, draft: _Draft, member_id: str) -> None:
        """A member is not watched any more."""
        self.sessions.clear((draft.group_id, member_id))
        self.revocations.clear((draft.group_id, member_id))
        if not draft.group.subscriptions:
            self._looks.pop(draft.group_id, None)

    def _watch(
        self, draft: _Draft, member_id: str, before: Current, after: Current, now: Instant
    ) -> None:
        """After a heartbeat: the session begins anew, and so does the time to give back."""
        self._begin_session(draft.group_id, member_id, now)
        key = (draft.group_id, member_id)
        if after.state is not MemberState.UNREVOKED:
            self.revocations.clear(key)
        elif after != before:
            timeout_ms = draft.group.subscriptions[member_id].rebalance_timeout_ms
            self.revocations.set(key, Instant(now + max(timeout_ms, 0)))

    def _begin_session(self, group_id: str, member_id: str, now: Instant) -> None:
        timeout_ms = self._env.config.consumer_session_timeout_ms
        self.sessions.set((group_id, member_id), Instant(now + timeout_ms))

    def check(self) -> None:
        """Asserts the invariants of the groups that have members here."""
        self.sessions.check()
        self.revocations.check()
        for group_id in self._looks:
            group = self._env.consumers(group_id)
            assert group is not None, f"{group_id} was looked at and does not exist"
            group.check(group_id)
            for member_id in group.subscriptions:
                assert self.sessions.has((group_id, member_id)), (
                    f"{member_id} of {group_id} is not watched"
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
    how = "greater" if said > known else "smaller"
    raise ProtocolError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({said}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def _check_request(request: ConsumerGroupHeartbeat, assignors: Sequence[str]) -> None:
    """Refuses what makes no sense, whatever the group."""
    joins = request.member_epoch == JOIN
    faults = (
        (not request.group_id, "GroupId can't be empty."),
        (
            not request.member_id and (request.must_name_itself or not joins),
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
    for is_wrong, text in faults:
        if is_wrong:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, text)
    if request.assignor is not None and request.assignor not in assignors:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _not_found(group_id: str) -> ProtocolError:
    return ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")


def _unknown(request: ConsumerGroupHeartbeat) -> ProtocolError:
    text = f"Member {request.member_id} is not a member of group {request.group_id}."
    return ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, text)
