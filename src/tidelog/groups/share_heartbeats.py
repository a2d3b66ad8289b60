"""ShareGroupHeartbeat: members of share groups come, change and go (KIP-932).

A heartbeat is decided in the steps of a consumer group's (`consumer_heartbeats.py`), and answered
when its records are committed. Two things are different. Partitions are shared, so a member has its
target at once. And a partition is assigned only when its state is initialised: a heartbeat that
finds subscribed partitions without a state notes them as initializing, and its result names them.
The broker (`broker/share_group_calls.py`) asks the share coordinators then, and reports with
`StatesInitialized`; the next heartbeat begins a group epoch and assigns them. States that are not
reported within `group.share.initialize.retry.interval.ms` are asked for again, by a new coordinator
at once.

A member that is silent for `group.share.session.timeout.ms`, or its group's own value, is removed.

Left out: `group.share.assignment.interval.ms` has no effect, because assignments are made at once.

Property
- InitialisedBeforeAssigned: a member has no partition whose state was not initialised when it was
  assigned.

Source: KIP-932; Kafka's group coordinator.
"""

from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.groups import events
from tidelog.groups.assignors import Wanting
from tidelog.groups.consumer_records import GroupEpoch, IdPartition, TargetEpoch
from tidelog.groups.env import Env
from tidelog.groups.events import RemovalReason
from tidelog.groups.invariants import check_watched
from tidelog.groups.messages import (
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
    StatesInitialized,
    StatesResult,
    WantedStates,
)
from tidelog.groups.refusals import (
    GroupWord,
    fenced,
    is_full,
    not_found,
    refuse_any,
    unknown_member,
)
from tidelog.groups.share_assignor import simple
from tidelog.groups.share_group import EMPTY, ShareGroup
from tidelog.groups.share_records import (
    ShareCurrent,
    ShareGroupRecord,
    ShareKind,
    ShareMember,
    ShareValue,
)
from tidelog.groups.share_states import initialized, initializing, uninitialized
from tidelog.model import NO_OFFSET, TopicId
from tidelog.rsm.coordinator import ReplyTo
from tidelog.rsm.timers import Timers

JOIN: Final = 0
LEAVE: Final = -1
ASSIGNOR: Final = "simple"
_WORD: Final = GroupWord.SHARE
_AGAIN_MS: Final = 1000
"""When a removal that could not be written is tried again."""
_MAX_MEMBER_ID: Final = 36


class _Draft:
    """A group as it will be when the records of this decision are written."""

    __slots__ = ("group", "group_id", "records")

    def __init__(self, group_id: str, group: ShareGroup) -> None:
        self.group_id = group_id
        self.group = group
        self.records: list[ShareGroupRecord] = []

    def write(self, kind: ShareKind, member_id: str, value: ShareValue | None) -> None:
        """This record too."""
        record = ShareGroupRecord(kind, self.group_id, member_id, value)
        self.records.append(record)
        self.group = self.group.after([record]) or EMPTY


class ShareHeartbeats:
    """Decides every ShareGroupHeartbeat of one coordinator, and whose session has ended."""

    __slots__ = ("_asked", "_env", "_looks", "sessions")

    def __init__(self, env: Env) -> None:
        self._env = env
        # When each member is taken for dead, by group and member.
        self.sessions: Timers[tuple[str, str]] = Timers()
        # The version of the metadata that each group was compared with.
        self._looks: dict[str, int] = {}
        # When the states of a group's topic may be asked for again.
        self._asked: dict[tuple[str, TopicId], Instant] = {}

    def heartbeat(self, request: ShareGroupHeartbeat, reply_to: ReplyTo, now: Instant) -> None:
        """Answers when what it writes is committed."""
        try:
            _check_request(request)
            if request.member_epoch == LEAVE:
                self._leave(request, reply_to)
            else:
                self._beat(request, reply_to, now)
        except ProtocolError as error:
            result = ShareGroupHeartbeatResult(error.code, error.message)
            self._env.answer(reply_to, result)

    def _beat(self, request: ShareGroupHeartbeat, reply_to: ReplyTo, now: Instant) -> None:
        env, member_id = self._env, request.member_id
        draft = self._draft_for(request)
        before = draft.group.current(member_id)
        changed = _subscribe(draft, request)
        version = self._compare(draft, changed)
        self._assign(draft, now)
        after = self._reconcile(draft, member_id, changed=changed)
        wanted = self._wanted(draft, now, changed=changed)
        is_full = request.member_epoch == JOIN or request.topic_names is not None
        result = ShareGroupHeartbeatResult(
            ErrorCode.NONE,
            None,
            member_id,
            after.epoch,
            env.share_heartbeat_interval_ms(draft.group_id),
            after.assigned if is_full or before.assigned != after.assigned else None,
            wanted,
        )
        if env.write(draft.records, result, reply_to) is ErrorCode.NONE:
            self._looks[draft.group_id] = version
            self._begin_session(draft.group_id, member_id, now)
            if wanted is not None:
                retry_at = Instant(now + env.config.share_initialize_retry_ms)
                for (topic_id, _), _ in wanted.partitions:
                    self._asked[draft.group_id, topic_id] = retry_at

    def _draft_for(self, request: ShareGroupHeartbeat) -> _Draft:
        """The group, which the first member makes. Raises `ProtocolError` for a member that may not
        speak."""
        group_id, member_id, joins = request.group_id, request.member_id, request.member_epoch == 0
        env = self._env
        found = env.shares(group_id)
        if found is None:
            is_other = env.find(group_id) is not None or env.consumers(group_id) is not None
            if is_other or not joins:
                why = f"Group {group_id} is not a share group."
                is_wrong_kind = ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, why)
                raise is_wrong_kind if is_other else not_found(_WORD, group_id)
        group = found or EMPTY
        limit = env.config.share_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise is_full(_WORD, limit)
        if member_id not in group.members and not joins:
            raise unknown_member(request.group_id, request.member_id)
        if not joins:
            _check_epoch(request, group.current(member_id))
        return _Draft(group_id, group)

    def _compare(self, draft: _Draft, changed: bool) -> int:
        """Begins a new group epoch when subscriptions, topics or states have changed; the version
        of the metadata that was looked at."""
        topics, group = self._env.topics, draft.group
        is_settled = group.assignment_epoch >= group.group_epoch
        must = changed or (is_settled and group.is_unassigned())
        if must or self._looks.get(draft.group_id) != topics.version:
            metadata_hash = topics.hash_of(group.topics())
            is_other = group.epoch is None or group.epoch.metadata_hash != metadata_hash
            if must or is_other:
                epoch = GroupEpoch(group.group_epoch + 1, metadata_hash)
                draft.write(ShareKind.EPOCH, "", epoch)
        return topics.version

    def _assign(self, draft: _Draft, now: Instant) -> None:
        group, topics = draft.group, self._env.topics
        if group.group_epoch <= group.assignment_epoch:
            return
        members = [
            Wanting(
                member_id, None, frozenset(topics.sizes(each.topic_names)), group.target(member_id)
            )
            for member_id, each in group.members.items()
        ]
        assignable = group.assignable()
        targets = simple(members, assignable)
        assert all(
            each.partition in assignable.get(each.topic_id, ())
            for target in targets.values()
            for each in target
        ), f"InitialisedBeforeAssigned: {draft.group_id} at {group.group_epoch}"
        changes = {
            member_id: target
            for member_id, target in targets.items()
            if target != group.targets.get(member_id)
        }
        for member_id, target in changes.items():
            draft.write(ShareKind.TARGET, member_id, target)
        epoch = TargetEpoch(group.group_epoch, self._env.wall_ms(now))
        draft.write(ShareKind.TARGET_EPOCH, "", epoch)
        self._env.trace.event(
            events.TargetAssigned(
                group_id=draft.group_id,
                epoch=group.group_epoch,
                assignor=ASSIGNOR,
                members=len(members),
                changed=len(changes),
            )
        )

    def _reconcile(self, draft: _Draft, member_id: str, *, changed: bool) -> ShareCurrent:
        group = draft.group
        current = group.current(member_id)
        if current.epoch == group.assignment_epoch and not changed and member_id in group.currents:
            return current
        topics = self._env.topics.sizes(group.members[member_id].topic_names)
        assigned = tuple(each for each in group.target(member_id) if each.topic_id in topics)
        is_next = current.epoch != group.assignment_epoch
        previous = current.epoch if is_next else current.previous_epoch
        after = ShareCurrent(group.assignment_epoch, previous, assigned)
        if after != group.currents.get(member_id):
            draft.write(ShareKind.CURRENT, member_id, after)
        return after

    def _wanted(self, draft: _Draft, now: Instant, *, changed: bool) -> WantedStates | None:
        """Notes which states must be initialised, and forgets those of deleted topics."""
        group_id, group = draft.group_id, draft.group
        is_known = self._looks.get(group_id) == self._env.topics.version
        if is_known and not changed and not group.known_states.initializing:
            return None
        busy = {
            topic_id
            for topic_id in group.known_states.initializing
            if now < self._asked.get((group_id, topic_id), now)
        }
        missing = uninitialized(group, self._env.topics, busy)
        after = initializing(group.known_states, missing, self._env.topics)
        if after != group.known_states:
            draft.write(ShareKind.STATES, "", after)
        partitions = tuple(
            (IdPartition(topic_id, number), NO_OFFSET)
            for topic_id, each in sorted(missing.items())
            for number in sorted(each.partitions)
        )
        return WantedStates(group_id, group.group_epoch, partitions) if partitions else None

    def note_states(self, request: StatesInitialized, reply_to: ReplyTo) -> None:
        """Notes what share coordinators have answered."""
        env, group_id = self._env, request.group_id
        group = env.shares(group_id)
        if group is None:
            env.answer(reply_to, StatesResult(ErrorCode.GROUP_ID_NOT_FOUND))
            return
        before, is_done = group.known_states, request.is_done
        after = initialized(before, request.partitions, env.topics, is_done=is_done)
        records = [ShareGroupRecord(ShareKind.STATES, group_id, "", after)]
        env.write(records if after != before else [], StatesResult(), reply_to)
        if not is_done:
            # The next heartbeat asks again.
            self._looks.pop(group_id, None)

    # Members that go ---------------------------------------------------------------------------

    def _leave(self, request: ShareGroupHeartbeat, reply_to: ReplyTo) -> None:
        group_id, member_id = request.group_id, request.member_id
        group = self._env.shares(group_id)
        if group is None:
            raise not_found(_WORD, group_id)
        if member_id not in group.members:
            raise unknown_member(request.group_id, request.member_id)
        draft = self._without(group_id, group, member_id, RemovalReason.LEFT)
        result = ShareGroupHeartbeatResult(ErrorCode.NONE, None, member_id, LEAVE)
        if self._env.write(draft.records, result, reply_to) is ErrorCode.NONE:
            self._forget(draft, member_id)

    def _without(
        self, group_id: str, group: ShareGroup, member_id: str, reason: RemovalReason
    ) -> _Draft:
        """Without the member there is a new group epoch; the next heartbeat deals out anew."""
        draft = _Draft(group_id, group)
        if member_id in group.currents:
            draft.write(ShareKind.CURRENT, member_id, None)
        if member_id in group.targets:
            draft.write(ShareKind.TARGET, member_id, None)
        draft.write(ShareKind.MEMBER, member_id, None)
        metadata_hash = self._env.topics.hash_of(draft.group.topics())
        draft.write(ShareKind.EPOCH, "", GroupEpoch(group.group_epoch + 1, metadata_hash))
        self._env.trace.event(
            events.MemberRemoved(group_id=group_id, reason=reason, member_id=member_id)
        )
        return draft

    def _forget(self, draft: _Draft, member_id: str) -> None:
        """A member is not watched any more."""
        self.sessions.clear((draft.group_id, member_id))
        if not draft.group.members:
            self._looks.pop(draft.group_id, None)
            for topic_id in draft.group.known_states.initializing:
                self._asked.pop((draft.group_id, topic_id), None)

    def _begin_session(self, group_id: str, member_id: str, now: Instant) -> None:
        deadline = Instant(now + self._env.share_session_timeout_ms(group_id))
        self.sessions.set((group_id, member_id), deadline)

    def on_disconnected(self, group_id: str, member_id: str, now: Instant) -> None:
        """The connection of a member has ended."""
        timeout_ms = self._env.share_session_timeout_ms(group_id)
        self._env.hasten(self.sessions, (group_id, member_id), timeout_ms, now)

    def start(self, now: Instant) -> None:
        """The members that the log knows have one session timeout to come."""
        for group_id, image in self._env.kernel.committed.groups.items():
            if image.shares is not None:
                for member_id in image.shares.members:
                    self._begin_session(group_id, member_id, now)

    def stop(self) -> None:
        """Another node leads."""
        self.sessions = Timers()
        self._looks.clear()
        self._asked.clear()

    def wake(self, now: Instant) -> None:
        """Removes the members that are silent."""
        while (key := self.sessions.take_due(now)) is not None:
            group_id, member_id = key
            group = self._env.shares(group_id)
            if group is None or member_id not in group.members:
                continue
            draft = self._without(group_id, group, member_id, RemovalReason.SILENT)
            if self._env.append(draft.records) is ErrorCode.NONE:
                self._forget(draft, member_id)
            else:
                self.sessions.set(key, Instant(now + _AGAIN_MS))

    def check(self) -> None:
        """Asserts the invariants of the groups that have members here."""
        self.sessions.check()
        for group_id in self._looks:
            group = self._env.shares(group_id)
            assert group is not None, f"{group_id} was looked at and does not exist"
            group.check(group_id)
            check_watched(self.sessions, group_id, group.members)


def _subscribe(draft: _Draft, request: ShareGroupHeartbeat) -> bool:
    """Writes what is new about the member; whether it wants other topics than before."""
    known = draft.group.members.get(request.member_id)
    before = known or ShareMember()
    names = request.topic_names
    after = ShareMember(
        before.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        before.topic_names if names is None else tuple(sorted(set(names))),
    )
    if known != after:
        draft.write(ShareKind.MEMBER, request.member_id, after)
    return before.topic_names != after.topic_names


def _check_epoch(request: ShareGroupHeartbeat, current: ShareCurrent) -> None:
    """The member's epoch is the present one, or the one before: the answer with the new one may
    have been lost."""
    said, known = request.member_epoch, current.epoch
    if said == known or (said < known and said == current.previous_epoch):
        return
    raise fenced(_WORD, said, known)


def _check_request(request: ShareGroupHeartbeat) -> None:
    """Refuses what makes no sense, whatever the group."""
    joins = request.member_epoch == JOIN
    faults = (
        (not request.member_id, "MemberId can't be empty."),
        (len(request.member_id) > _MAX_MEMBER_ID, "Invalid member id in the request."),
        (not request.group_id, "GroupId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (joins and not request.topic_names, "SubscribedTopicNames must be set in first request."),
        (request.member_epoch < LEAVE, "MemberEpoch is invalid."),
    )
    refuse_any(faults)
