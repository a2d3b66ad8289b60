"""What a member of a consumer group wants, shall have and has: the steps of every decision.

Members of both protocols take them: `consumer_heartbeats.py` has those of KIP-848, and
`classic_members.py` those of the classic protocol in the same group. A decision is a `Draft`: the
group as it will be, and the records that make it so, which are written as one batch. What is
watched (sessions, steps that members owe) changes when the batch is in the log (`took_effect`).

Metadata is looked at when it has changed since the group's last heartbeat: topics that came, went
or grew change the hash of the group's topics, and so begin a new group epoch. That is done with a
heartbeat, as in Kafka: a group without heartbeats has no member to notify.

A member that is silent for its session timeout, or that owes a step for its rebalance timeout, is
removed; one removal begins one group epoch. The step is to give partitions back, or of a classic
member to join or to ask for its assignment.

Left out: assignments are made at once: `group.consumer.assignment.interval.ms` has no effect.

Invariants
- SingleOwner (`consumer_group.py`).
- GroupEpochsRise: a group's epoch never falls while the group exists.

Source: KIP-848.
"""

from collections.abc import Collection, Sequence
from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.groups import events
from tidelog.groups.assignors import ASSIGNORS, Wanting
from tidelog.groups.consumer_draft import Draft, Look
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import (
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
from tidelog.groups.events import RebalanceReason, RemovalReason
from tidelog.groups.invariants import check_watched
from tidelog.groups.migration import Migration
from tidelog.groups.reconciliation import Goal, reconciled
from tidelog.groups.regexes import matching
from tidelog.limits import REGEX_REFRESH_MS
from tidelog.rsm.timers import Timers

_AGAIN_MS: Final = 1000
"""When a removal that could not be written is tried again."""

_UNSEEN: Final = -1
"""The version of the metadata before any."""

Key = tuple[str, str]
"""A group and its member."""


class ConsumerSteps:
    """The decisions about consumer groups of one coordinator, and who is watched."""

    __slots__ = ("_env", "_looks", "_migration", "next_steps", "sessions")

    def __init__(self, env: Env, migration: Migration) -> None:
        self._env = env
        self._migration = migration
        # When each member is taken for dead.
        self.sessions: Timers[Key] = Timers()
        # When a member must have taken the step that it owes.
        self.next_steps: Timers[Key] = Timers()
        # By group; groups without members aside.
        self._looks: dict[str, Look] = {}

    def advance(
        self,
        draft: Draft,
        member_id: str,
        wanted: Subscription,
        held: Sequence[IdPartition] | None,
        now: Instant,
    ) -> Current:
        """What the member has from now on, when it wants this and says that it uses `held`."""
        changed = self._subscribe(draft, member_id, wanted, now)
        draft.look = self._compare(draft, changed, now)
        self._assign(draft, now)
        return self._reconcile(draft, member_id, held, changed=changed)

    @staticmethod
    def replace(draft: Draft, former: str, member_id: str) -> Current:
        """The next process of a static member has what the former one had."""
        group = draft.group
        taken_over = Current(assigned=group.current(former).assigned)
        draft.write(
            (Kind.CURRENT, former, None),
            (Kind.TARGET, former, None),
            (Kind.SUBSCRIPTION, former, None),
            (Kind.SUBSCRIPTION, member_id, group.subscriptions[former]),
            (Kind.TARGET, member_id, group.target(former)),
            (Kind.CURRENT, member_id, taken_over),
        )
        return taken_over

    # What it wants ----------------------------------------------------------------------------

    def _subscribe(self, draft: Draft, member_id: str, wanted: Subscription, now: Instant) -> bool:
        """Writes what is new about the member; whether it wants other topics than before."""
        known = draft.group.subscriptions.get(member_id)
        before = known or Subscription()
        regex = wanted.regex or ""
        is_other = (before.regex or "") != regex
        if regex and regex not in draft.group.regexes:
            resolved = self._resolve(draft, regex, now)
            draft.write((Kind.REGEX, regex, resolved))
            # As in Kafka, one that matches nothing begins no epoch.
            is_other = is_other and bool(resolved.topics)
        if known != wanted:
            draft.write((Kind.SUBSCRIPTION, member_id, wanted))
            self._drop_unused(draft, before.regex or "")
        return is_other or before.topic_names != wanted.topic_names

    def _resolve(self, draft: Draft, regex: str, now: Instant) -> ResolvedRegex:
        """The topics that it matches and the member may describe, as in Apache Kafka: the others of
        the group that have the same expression get these too, and are refused when they fetch."""
        topics = self._env.topics
        assert draft.may_describe is not None, "no member asks for it"
        found = tuple(filter(draft.may_describe, matching(regex, topics.names)))
        return ResolvedRegex(found, topics.offset, self._env.wall_ms(now))

    @staticmethod
    def _drop_unused(draft: Draft, regex: str) -> None:
        """Forgets a regular expression that no member has any more."""
        group = draft.group
        is_used = any(each.regex == regex for each in group.subscriptions.values())
        if regex in group.regexes and not is_used:
            draft.write((Kind.REGEX, regex, None))

    def _compare(self, draft: Draft, changed: bool, now: Instant) -> Look:
        """Begins a new group epoch when subscriptions or topics have changed."""
        topics, look = self._env.topics, self._looks.get(draft.group_id)
        if look is not None and look.version == topics.version and not changed:
            return look
        regexes_at = now if look is None else look.regexes_at
        version = topics.version
        if draft.group.regexes and (look is None or look.version != topics.version):
            is_early = look is not None and now < look.regexes_at + REGEX_REFRESH_MS
            if is_early or draft.may_describe is None:
                version = _UNSEEN if look is None else look.version
            else:
                self._refresh_regexes(draft, now)
                regexes_at = now
        group = draft.group
        metadata_hash = topics.hash_of(group.topics())
        known_hash = 0 if group.epoch is None else group.epoch.metadata_hash
        is_other = known_hash != metadata_hash
        if changed or is_other:
            draft.write((Kind.EPOCH, "", GroupEpoch(group.group_epoch + 1, metadata_hash)))
        return Look(version, regexes_at)

    def _refresh_regexes(self, draft: Draft, now: Instant) -> None:
        for regex, known in draft.group.regexes.items():
            found = self._resolve(draft, regex, now)
            if found.topics != known.topics:
                draft.write((Kind.REGEX, regex, found))

    # Who shall have what ----------------------------------------------------------------------

    def _assign(self, draft: Draft, now: Instant) -> None:
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

    # What it has ------------------------------------------------------------------------------

    def _reconcile(
        self, draft: Draft, member_id: str, held: Sequence[IdPartition] | None, *, changed: bool
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
        after = reconciled(current, goal, held, unsubscribed=changed)
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
                self.begin_session(group_id, each, member_id, now)
                if image.consumer.current(member_id).state is MemberState.UNREVOKED:
                    deadline = Instant(now + max(each.rebalance_timeout_ms, 0))
                    self.next_steps.set((group_id, member_id), deadline)

    def stop(self) -> None:
        """Another node leads."""
        self.sessions, self.next_steps = Timers(), Timers()
        self._looks.clear()

    def wake(self, now: Instant) -> None:
        """Removes the members whose time is over."""
        while (key := self.sessions.take_due(now)) is not None:
            self._expire(*key, RemovalReason.SILENT, now)
        while (key := self.next_steps.take_due(now)) is not None:
            group = self._env.consumers(key[0])
            member = None if group is None else group.subscriptions.get(key[1])
            if group is None or member is None:
                continue
            if member.classic is not None:
                self._expire(*key, RemovalReason.NOT_JOINED, now)
            elif group.current(key[1]).state is MemberState.UNREVOKED:
                self._expire(*key, RemovalReason.NOT_REVOKED, now)

    def _expire(self, group_id: str, member_id: str, reason: RemovalReason, now: Instant) -> None:
        group = self._env.consumers(group_id)
        if group is None or member_id not in group.subscriptions:
            return
        draft = self.without(group_id, group, [member_id], reason, now)
        if self._env.append(draft.records) is ErrorCode.NONE:
            self.took_effect(draft, now)
        else:
            # Heartbeats go on with the session of a member that owes a step.
            timers = self.sessions if reason is RemovalReason.SILENT else self.next_steps
            timers.set((group_id, member_id), Instant(now + _AGAIN_MS))

    def without(
        self,
        group_id: str,
        group: ConsumerGroup,
        member_ids: Collection[str],
        reason: RemovalReason,
        now: Instant,
    ) -> Draft:
        """The group without these members: with a new epoch, or as a classic group when those that
        are left all speak that protocol. The next heartbeat deals out anew."""
        draft = Draft(group_id, group)
        becomes_classic = self._migration.may_downgrade(group, member_ids)
        for member_id in member_ids:
            regex = group.subscriptions[member_id].regex or ""
            draft.write(
                *((Kind.CURRENT, member_id, None),) * (member_id in group.currents),
                *((Kind.TARGET, member_id, None),) * (member_id in group.targets),
                (Kind.SUBSCRIPTION, member_id, None),
            )
            self._drop_unused(draft, regex)
            self._env.trace.event(
                events.MemberRemoved(group_id=group_id, reason=reason, member_id=member_id)
            )
        if becomes_classic:
            self._migration.downgrade(draft, group, RebalanceReason.DOWNGRADED, now)
        else:
            metadata_hash = self._env.topics.hash_of(draft.group.topics())
            draft.write((Kind.EPOCH, "", GroupEpoch(group.group_epoch + 1, metadata_hash)))
        return draft

    def took_effect(self, draft: Draft, now: Instant) -> None:
        """The records of a decision are in the log: its members are watched, and no others."""
        group_id = draft.group_id
        if draft.former is not None:
            self._migration.on_upgraded(draft.former)
            for member_id, each in draft.group.subscriptions.items():
                self.begin_session(group_id, each, member_id, now)
        if draft.look is not None:
            self._looks[group_id] = draft.look
        if draft.successor is not None:
            self._migration.on_downgraded(*draft.successor, now)
        for member_id in draft.gone:
            self.sessions.clear((group_id, member_id))
            self.next_steps.clear((group_id, member_id))
        if not draft.group.subscriptions:
            self._looks.pop(group_id, None)

    def watch(
        self, draft: Draft, member_id: str, before: Current, after: Current, now: Instant
    ) -> None:
        """After a heartbeat: the session begins anew, and so does the time to give back."""
        self.begin_session(draft.group_id, draft.group.subscriptions[member_id], member_id, now)
        key = (draft.group_id, member_id)
        if after.state is not MemberState.UNREVOKED:
            self.next_steps.clear(key)
        elif after != before:
            timeout_ms = draft.group.subscriptions[member_id].rebalance_timeout_ms
            self.next_steps.set(key, Instant(now + max(timeout_ms, 0)))

    def begin_session(
        self, group_id: str, member: Subscription, member_id: str, now: Instant
    ) -> None:
        """The member is alive, and is taken for dead when it is silent for its timeout."""
        deadline = Instant(now + self._timeout_ms(group_id, member))
        self.sessions.set((group_id, member_id), deadline)

    def on_disconnected(self, group_id: str, member_id: str, now: Instant) -> None:
        """The connection of a member has ended. Static members keep what they have meanwhile."""
        group = self._env.consumers(group_id)
        member = None if group is None else group.subscriptions.get(member_id)
        if member is not None and member.instance_id is None:
            timeout_ms = self._timeout_ms(group_id, member)
            self._env.hasten(self.sessions, (group_id, member_id), timeout_ms, now)

    def _timeout_ms(self, group_id: str, member: Subscription) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._env.session_timeout_ms(group_id)

    def expect_step(
        self, group_id: str, member: Subscription, member_id: str, now: Instant
    ) -> None:
        """The member owes a step, for which it has its rebalance timeout."""
        deadline = Instant(now + max(member.rebalance_timeout_ms, 0))
        self.next_steps.set((group_id, member_id), deadline)

    def check(self) -> None:
        """Asserts the invariants of the groups that have members here."""
        self.sessions.check()
        self.next_steps.check()
        for group_id in self._looks:
            group = self._env.consumers(group_id)
            assert group is not None, f"{group_id} was looked at and does not exist"
            group.check(group_id)
            check_watched(self.sessions, group_id, group.subscriptions)
